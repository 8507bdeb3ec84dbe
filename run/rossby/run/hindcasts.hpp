#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/io/field_layout.hpp"
#include "rossby/mpi/field_file.hpp"
#include "rossby/train/config.hpp"
#include "rossby/train/verification.hpp"

namespace rossby {

/// The forecasts that are scored: from these origins (ascending), at horizons 1, 2, …, `horizons`.
struct ScoredForecasts {
  std::span<const Index> origins;
  Index horizons = 0;
};

/// How a file of results is written.
struct ResultFile {
  std::string path;
  std::string source;         // attribute: who made the forecasts
  int deflate = 0;            // level, 0 to 9
  std::string identity = {};  // of what hindcasts depend on (KeptFields)
};

/// Writes all scored forecasts to a NetCDF file, with observations, a baseline and the climatology.
/// apps/README.md describes the layout. Forecasts are written as they arrive, so memory does not grow with
/// their number. Forecasts that a killed process wrote are kept. Collective.
class Hindcasts {
 public:
  /// Throws UserError that names the file if it cannot be written.
  Hindcasts(const Communicator& comm, const Domain& domain, const ResultFile& file,
            const ScoredForecasts& scored, bool with_baseline);

  /// Number of origins, from the first on, whose forecasts are already in the file.
  [[nodiscard]] Index kept() const { return file_->kept(); }
  /// Calls visit(number of the origin, horizon, forecast) for kept forecasts.
  void visit_kept(const std::function<void(Index, Index, NodeView<const float>)>& visit) const;

  void add_forecast(const ScoredValues& values) { add(0, values); }
  void add_baseline(const ScoredValues& values) { add(2, values); }
  /// `series` and `climatology` hold all targets.
  void finish(const Series& series, const Series& climatology, const std::string& baseline,
              const std::string& climatology_name);

 private:
  void add(Index kind, const ScoredValues& values);
  void add_targets(Index kind, const Series& series);
  void put(Index kind, Index inner, Index outer, NodeView<const float> values);

  const Domain& domain_;
  std::vector<Index> origins_;
  Index horizons_;
  Index kinds_;  // fields per variable: forecast, observation, perhaps baseline, climatology
  bool with_baseline_;
  std::unique_ptr<FieldFile> file_;
  std::vector<float> values_;  // of the current columns, (rows, columns, features)
};

/// Returns what the forecasts of a state depend on: program, settings, state, data, origins. Files count by
/// name, size and time. Rank 0.
[[nodiscard]] std::string identity_of_forecasts(const Config& config, const std::string& state,
                                                const SeriesInfo& data, const ScoredForecasts& scored);

/// Writes maps of scores; apps/README.md describes the layout. `baseline` may be null. Collective.
void write_score_maps(const Communicator& comm, const Domain& domain, const ResultFile& file,
                      const ScoredForecasts& scored, const NodeMoments& model, const NodeMoments* baseline,
                      const std::string& baseline_name, const std::string& climatology_name);

}  // namespace rossby
