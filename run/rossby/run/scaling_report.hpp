#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/run/scaling_runs.hpp"

namespace rossby {

/// Regions of the steps' time; the last is the rest.
inline constexpr std::array<const char*, 5> scaling_regions{"forward", "backward", "optimiser", "reduction",
                                                            "other"};

/// The runs of a study that differ by their seeds alone.
struct ScalingRow {
  Place place;
  int row_blocks = 1;
  int stages = 1;
  int time_groups = 1;
  Index nodes = 0;
  std::vector<const ScalingRun*> runs;  // by path
  double step = 0;                      // seconds: median over the runs of each run's median epoch
  double least = 0, most = 0;
  double speed_up = 1;              // over the baseline; weak: times the ratio of ranks
  double efficiency = 1;            // 0 to 1
  std::array<double, 5> shares{};   // by region, of all runs' steps together
  double waiting = 0;               // for other ranks: a share of the steps, within the regions
  double memory_bytes = 0;          // of the rank that needed most
  std::optional<double> predicted;  // seconds a step: median
  [[nodiscard]] double prediction_error() const { return *predicted / step - 1; }
};

struct ScalingStudy {
  std::string label;
  bool weak = false;
  std::vector<std::string> scaled;  // keys that are meant to differ between its rank counts
  std::vector<ScalingRow> rows;     // by ranks, hosts, stages, time groups
  /// Index of the row that the others are compared with: of those on the fewest ranks the fastest.
  std::size_t baseline = 0;
  /// Mean over the runs with a prediction of |predicted / measured − 1|.
  std::optional<double> prediction_error;
  /// Caveats, a line each: runs of several machines or versions, gaps of the predictions.
  std::vector<std::string> notes;
};

struct ScalingReport {
  std::string folder;
  ScalingRuns runs;  // to which the studies' rows point
  std::vector<ScalingStudy> studies;
};

/// Tabulates the runs below a folder. Runs in one folder that compute the same step are a study; keys that a
/// weak study scales may differ. `kind` (strong, weak) is that of folders without study.json; in such a
/// folder a weak study may scale every key. Throws UserError naming file and cause.
[[nodiscard]] ScalingReport make_scaling_report(const std::string& folder, const std::string& kind);

/// Returns a Markdown table of all studies, and the runs that were left out.
[[nodiscard]] std::string markdown_of(const ScalingReport& report);
/// Returns scaling.json (apps/schemas/scaling.schema.json).
[[nodiscard]] nlohmann::ordered_json json_of(const ScalingReport& report);

}  // namespace rossby
