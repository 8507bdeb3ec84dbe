#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

/// A run's record of its data, so that changed data can be compared with those of its training: the file
/// <run>/checkpoints/data.h5. The file also holds scales, cycles and trends of the training's values,
/// whatever these values are now.
struct DataRecord {
  std::string path;
  std::string training, frame;       // of DataHash
  std::vector<double> instants;      // of all steps in use (TimeAxis::instant)
  std::vector<Index> steps;          // steps that the model was trained on
  std::vector<std::uint64_t> step;   // of each of `steps`, by DataHash
  std::vector<double> sum, count;    // of each of `steps`, by DataHash
  std::vector<double> centers = {};  // Domain::centers

  /// True if data have the nodes, variables and edges of the training, and its steps at the same times.
  [[nodiscard]] bool goes_with(const DataHash& hash, const TimeAxis& time) const;
};

/// Values that a run fits to its training part: the map to anomalies, and scales of the target, of past and
/// of known inputs. A scale has no features if there are no such inputs.
struct FittedValues {
  std::vector<Scaler> scalers;
  Index phases = 0;  // of the cycle; 0: none
  bool trend = false;
  AnomalyMap::Fitted anomalies = {};  // of this rank's rows
};

/// How the training part differs from the data that the model was trained on.
struct DataChanges {
  Index changed = 0, gone = 0;  // numbers of steps
  std::string text = {};        // whole lines
};

/// Returns the path of a run's data record.
[[nodiscard]] std::string data_record_of(const std::string& run);

/// Writes the record. Collective over the ranks that share the nodes of `domain`.
void write_record(const Communicator& comm, const std::string& path, const Domain& domain,
                  const DataHash& hash, const FittedValues& fitted);

/// Reads the record. Null if no record belongs to a state with this DataHash::training, as for a state of an
/// earlier version. Collective.
[[nodiscard]] std::shared_ptr<const DataRecord> read_record(const Communicator& comm, const std::string& path,
                                                            const std::string& training_hash);

/// Returns the fitted values of this rank's rows. `like` says which values there are. Collective.
[[nodiscard]] FittedValues read_fitted(const Communicator& comm, const DataRecord& record,
                                       const Domain& domain, FittedValues like);

/// Makes the series begin with the training's first step, wherever the file begins. Steps before the file
/// become missing values (DataSettings::earlier). Throws UserError if the file has no step of the training
/// part. Collective.
void begin_as_trained(const Communicator& comm, Config& config, const DataRecord& record);

/// Throws UserError if the file begins after the first step that the model was trained on, so that its
/// training part cannot be that of the training. Collective.
void require_training_part(const Communicator& comm, const Config& config, const DataRecord& record);

/// Returns which steps of the training part changed, how their mean changed, and how many are gone.
[[nodiscard]] DataChanges changes_of(const DataRecord& record, const DataHash& hash, const Config& config,
                                     const Domain& domain);

}  // namespace rossby
