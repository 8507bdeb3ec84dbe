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
  Index batch = 0;                    // windows, pairs or steps of a slab, of all groups together
  std::vector<std::string> settings;  // key=value, behind those of the user
  std::string varied;                 // those of them that are no process grid, for tables
  std::optional<TrainingPlan> plan;   // none: refused
  std::string refused;                // why; also where it is planned but does not fit
  [[nodiscard]] bool fits() const { return plan && refused.empty(); }
  [[nodiscard]] double epoch_seconds() const;     // of its steps
  [[nodiscard]] double compared_seconds() const;  // TrainingPlan::compared_seconds
};

/// What is tried.
struct CandidateSpace {
  std::vector<int> ranks;  // of jobs that are not there; empty: the ranks that ask
  int on_host = 0;         // their ranks to a host; 0: the most that were measured
  std::vector<std::pair<std::string, std::vector<std::string>>> vary;  // keys and values, all combinations
  double target_batch = 0;                                             // 0: any
  double tolerance = 0.5;         // how far a batch may be from the target, as a share of it
  OnDemand* on_demand = nullptr;  // of ranks that are there; null: nothing is measured
};

/// Values of "key=a,b,c". Throws UserError where it is none.
[[nodiscard]] std::pair<std::string, std::vector<std::string>> varied_key(const std::string& text);
/// "1,2,6": these; "1..1024": powers of two from the first to the last, and the last. Throws UserError.
[[nodiscard]] std::vector<int> rank_counts(const std::string& text);

/// Makes a configuration of further settings, key=value, on one rank. Throws UserError.
using LoadConfig = std::function<Config(const std::vector<std::string>& settings)>;

/// Every process grid of the ranks, for models of layers in stages of equal predicted time, too, for
/// forecasters of windows every train.recompute, and all that the space varies, planned. Where its ranks are
/// not there, rank 0 alone plans, and has the answer alone. Collective.
[[nodiscard]] std::vector<Candidate> plan_candidates(const Communicator& comm, MeasuredMachine& machine,
                                                     const LoadConfig& load, const CandidateSpace& space);

/// The fastest of those that fit, by the time that the training takes; null: none fits.
[[nodiscard]] const Candidate* fastest(const std::vector<Candidate>& candidates);

/// A table for the console; the fastest is marked.
[[nodiscard]] std::string text_of(const std::vector<Candidate>& candidates);
[[nodiscard]] nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates);

}  // namespace rossby
