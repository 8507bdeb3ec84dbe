#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "rossby/mpi/environment.hpp"

namespace rossby {

/// A question about a planned training. The same on every rank.
struct PlanQuestion {
  std::string config;             // TOML file
  std::string machine;            // measurements of `rossby calibrate`
  bool measures = true;           // measure calls that the machine's file lacks, and add them to it
  std::string output;             // file for the answer, none of the input files; empty: none
  bool candidates = false;        // plan every grid of the ranks, not the configuration's
  std::string ranks;              // rank counts to plan for: 1,2,6 or 1..1024; empty: the ranks that ask
  int ranks_per_host = 0;         // of `ranks`; 0: the most that were measured
  std::vector<std::string> vary;  // key=a,b: candidates with each value
  double target_batch = 0;        // of candidates; 0: any
  double tolerance = 0.5;         // as a share of the target
  std::string updates;            // synchronous, asynchronous; empty: as configured
  double max_staleness = 0;       // of asynchronous candidates, mean; 0: any
  std::string what_if;            // network=2x,memory=2x,precision=bf16,gpu=FILE; empty: nothing
  std::vector<std::string> sets;  // key=value
};

/// The plan as text and JSON; on rank 0 only if the planned ranks do not exist.
struct PlanAnswer {
  std::string text;
  nlohmann::ordered_json json;
  double training = 0;  // seconds of the fastest; 0: none
};

/// Predicts the training, or its candidates, and then again for the machine of `what_if`. Throws UserError.
/// Collective.
[[nodiscard]] PlanAnswer answer(const Communicator& comm, const PlanQuestion& question);

}  // namespace rossby
