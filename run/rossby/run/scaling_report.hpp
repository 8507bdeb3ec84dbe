#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/run/scaling_runs.hpp"

namespace rossby {

/// What the steps' time is split into; the last is what remains.
inline constexpr std::array<const char*, 5> scaling_regions{"forward", "backward", "optimiser", "reduction",
                                                            "other"};

/// The runs of a study that differ by nothing but their seeds.
struct ScalingRow {
  Place place;
  int row_blocks = 1;
  int stages = 1;
  int time_groups = 1;
  Index nodes = 0;
  std::vector<const ScalingRun*> runs;  // by path
  double step = 0;                      // seconds: median over the runs, of each its epoch of median time
  double least = 0, most = 0;
  double speed_up = 1;              // over the baseline; weak: times the ratio of ranks
  double efficiency = 1;            // 0 to 1
  std::array<double, 5> shares{};   // of all runs' steps together, by region
  double waiting = 0;               // for other ranks: a share, too, and part of the regions
  double memory_bytes = 0;          // of the rank that needed most
  std::optional<double> predicted;  // seconds a step: median
  [[nodiscard]] double prediction_error() const { return *predicted / step - 1; }
};

struct ScalingStudy {
  std::string label;
  bool weak = false;
  std::vector<std::string> scaled;  // keys that differ between its rank counts on purpose
  std::vector<ScalingRow> rows;     // by ranks, hosts, stages, time groups
  /// Row of the fewest ranks, the fastest of them, that the others are compared with.
  std::size_t baseline = 0;
  /// Mean over the runs with a prediction of |predicted / measured − 1|.
  std::optional<double> prediction_error;
  /// What to bear in mind, a line each: runs of several machines or versions, what predictions lack.
  std::vector<std::string> notes;
};

struct ScalingReport {
  std::string folder;
  ScalingRuns runs;  // that the studies' rows point into
  std::vector<ScalingStudy> studies;
};

/// Tabulates the runs below a folder. Runs in one folder that compute the same step are a study; keys that a
/// weak study scales may differ. `kind` (strong, weak) is that of folders without study.json, which in a weak
/// study may scale every key. Throws UserError naming file and cause.
[[nodiscard]] ScalingReport make_scaling_report(const std::string& folder, const std::string& kind);

/// A Markdown table of all studies, and the runs that were left out.
[[nodiscard]] std::string markdown_of(const ScalingReport& report);
/// scaling.json (apps/schemas/scaling.schema.json).
[[nodiscard]] nlohmann::ordered_json json_of(const ScalingReport& report);

}  // namespace rossby
