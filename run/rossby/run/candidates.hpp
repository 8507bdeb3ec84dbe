#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// A way to run a training.
struct Candidate {
  int ranks = 1;
  int row_blocks = 1;
  int stages = 1;
  int time_groups = 1;
  Index batch = 0;                    // windows, pairs or steps of a slab, over all time groups
  std::vector<std::string> settings;  // key=value, after the user's settings
  std::string varied;                 // settings other than the process grid, for tables
  std::optional<TrainingPlan> plan;   // empty: refused
  std::string refused;                // reason; also if planned but too large
  [[nodiscard]] bool fits() const { return plan && refused.empty(); }
  [[nodiscard]] double epoch_seconds() const;     // time of its steps
  [[nodiscard]] double compared_seconds() const;  // TrainingPlan::compared_seconds
};

/// The candidates to try.
struct CandidateSpace {
  std::vector<int> ranks;  // rank counts to plan for; empty: the ranks that ask
  int on_host = 0;         // their ranks on a host; 0: the most that were measured
  std::vector<std::pair<std::string, std::vector<std::string>>> vary;  // keys and values, all combinations
  double target_batch = 0;                                             // 0: any
  double tolerance = 0.5;         // largest relative difference of a batch from the target
  OnDemand* on_demand = nullptr;  // measures on ranks that exist; null: no measuring
};

/// Returns key and values of "key=a,b,c". Throws UserError if the text has another form.
[[nodiscard]] std::pair<std::string, std::vector<std::string>> varied_key(const std::string& text);
/// "1,2,6": these; "1..1024": powers of two from the first to the last, and the last. Throws UserError.
[[nodiscard]] std::vector<int> rank_counts(const std::string& text);

/// Makes a configuration with further settings, key=value, on one rank. Throws UserError.
using LoadConfig = std::function<Config(const std::vector<std::string>& settings)>;

/// Plans every process grid of the ranks with all variations of the space. Models with layers are also
/// planned in stages of equal predicted time, window models with every train.recompute. If the ranks do not
/// exist, rank 0 alone plans and has the result. Collective.
[[nodiscard]] std::vector<Candidate> plan_candidates(const Communicator& comm, MeasuredMachine& machine,
                                                     const LoadConfig& load, const CandidateSpace& space);

/// Returns the candidate that fits and has the shortest training; null if none fits.
[[nodiscard]] const Candidate* fastest(const std::vector<Candidate>& candidates);

/// A table for the console; the fastest is marked.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates);

}  // namespace rossby
