#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// What is asked of a training that is not there yet. The same on every rank.
struct PlanQuestion {
  std::string config;             // TOML file
  std::string machine;            // measurements of `rossby calibrate`
  bool measures = true;           // calls of the training that the machine's file lacks, into that file
  std::string output;             // file that the answer is for: none of those that are read; empty: none
  bool candidates = false;        // every grid of the ranks, instead of the configuration's
  std::string ranks;              // of jobs that are not there: 1,2,6 or 1..1024; empty: the ranks that ask
  int ranks_per_host = 0;         // of those; 0: the most that were measured
  std::vector<std::string> vary;  // key=a,b: candidates with each of them
  double target_batch = 0;        // of candidates; 0: any
  double tolerance = 0.5;         // as a share of the target
  std::string updates;            // synchronous, asynchronous; empty: as configured
  double max_staleness = 0;       // of asynchronous candidates, on average; 0: any
  std::string what_if;            // network=2x,memory=2x,precision=bf16,gpu=FILE; empty: nothing
  std::vector<std::string> sets;  // key=value
};

/// The plan as text and JSON; on rank 0 only, if the ranks of the plan are not there.
struct PlanAnswer {
  std::string text;
  nlohmann::ordered_json json;
  double training = 0;  // seconds of the fastest; 0: none
};

/// Predicts the training, or its candidates, and once more on the machine of `what_if`. Throws UserError.
/// Collective.
[[nodiscard]] PlanAnswer answer(const Communicator& comm, const PlanQuestion& question);

}  // namespace rossby
