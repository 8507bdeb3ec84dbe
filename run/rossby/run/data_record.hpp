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

/// What a run keeps of its data, so that changed data can be held against those of its training: the file
/// <run>/checkpoints/data.h5. It holds scales, cycles and trends, too, which are of the training's values
/// whatever these have become.
struct DataRecord {
  std::string path;
  std::string training, frame;       // DataHash's
  std::vector<double> instants;      // of all steps in use (TimeAxis::instant)
  std::vector<Index> steps;          // that the model was trained on
  std::vector<std::uint64_t> step;   // of each of them what DataHash says
  std::vector<double> sum, count;    // likewise
  std::vector<double> centers = {};  // Domain::centers

  /// Whether data have the nodes, variables and edges of the training, and its steps at the same times.
  [[nodiscard]] bool goes_with(const DataHash& hash, const TimeAxis& time) const;
};

/// What a run fits to its training part: scales of the target, of past and of known inputs (without features:
/// none), and the map to anomalies.
struct FittedValues {
  std::vector<Scaler> scalers;
  Index phases = 0;  // of the cycle; 0: none
  bool trend = false;
  AnomalyMap::Fitted anomalies = {};  // of this rank's rows
};

/// How the training part of data differs from what a model was trained on.
struct DataChanges {
  Index changed = 0, gone = 0;  // steps
  std::string text = {};        // whole lines
};

/// Where a run keeps it.
[[nodiscard]] std::string data_record_of(const std::string& run);

/// Collective over the ranks that share the nodes of `domain`.
void write_record(const Communicator& comm, const std::string& path, const Domain& domain,
                  const DataHash& hash, const FittedValues& fitted);

/// Null if the run has none that goes with a state of this DataHash::training: it was written by an earlier
/// version. Collective.
[[nodiscard]] std::shared_ptr<const DataRecord> read_record(const Communicator& comm, const std::string& path,
                                                            const std::string& training_hash);

/// The fitted values of this rank's rows; `like` says which there are. Collective.
[[nodiscard]] FittedValues read_fitted(const Communicator& comm, const DataRecord& record,
                                       const Domain& domain, FittedValues like);

/// Has the series begin with the step that the training began with, its missing first steps as missing values
/// (DataSettings::earlier), wherever the file begins. Throws UserError if it begins behind the training part.
/// Collective.
void begin_as_trained(const Communicator& comm, Config& config, const DataRecord& record);

/// What changed of the training part: which steps, their mean, and how many are gone.
[[nodiscard]] DataChanges changes_of(const DataRecord& record, const DataHash& hash, const Config& config,
                                     const Domain& domain);

}  // namespace rossby
