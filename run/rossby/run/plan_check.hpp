#pragma once

#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// Runs with predictions and measurements, and the faults of other runs.
struct CheckedRuns {
  std::vector<std::string> runs;
  std::vector<TrainingPlan> plans;
  std::vector<std::string> faults;
};

/// Error of a prediction in per cent; 0 if nothing was measured.
[[nodiscard]] double error_of(double predicted, double measured);
/// Their mean and the worst, over runs.
struct Errors {
  double sum = 0, worst = 0;
  int count = 0;
  void add(double error);
};

/// Reads plan.json of run directories. Not collective.
[[nodiscard]] CheckedRuns read_checked_runs(const std::vector<std::string>& runs);

/// Compares predictions with measurements: a line per run, then means and worst. Needs one run or more.
[[nodiscard]] std::string check_table(const CheckedRuns& all);
/// A line per run and region, which shows where the prediction of a step is wrong.
[[nodiscard]] std::string region_table(const CheckedRuns& checked);

}  // namespace rossby
