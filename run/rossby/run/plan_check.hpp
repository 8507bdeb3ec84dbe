#pragma once

#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// Runs with what was predicted and measured of them, and what is wrong with others.
struct CheckedRuns {
  std::vector<std::string> runs;
  std::vector<TrainingPlan> plans;
  std::vector<std::string> faults;
};

/// Reads plan.json of run directories. Not collective.
[[nodiscard]] CheckedRuns read_checked_runs(const std::vector<std::string>& runs);

/// How predictions compare with what was measured: a line a run, then means and worst. Of one run or more.
[[nodiscard]] std::string check_table(const CheckedRuns& all);
/// A line a run and region of its step: what a step misses, it misses there.
[[nodiscard]] std::string region_table(const CheckedRuns& checked);

}  // namespace rossby
