#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/io/cf_time.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/train/evaluation.hpp"
#include "rossby/train/paired_skill.hpp"

namespace rossby {

struct CompareOptions {
  std::vector<std::string> forecasters;  // directories of runs and averages, baselines, files of forecasts
  std::vector<std::string> sets;         // key=value for all runs; keys that leave the models as they are
  std::string device;                    // as for evaluate
};

/// Scores of forecasters on the same origins, in the order in which they were named.
struct Comparison {
  std::vector<std::string> names;
  std::string units;
  std::string first_origin, last_origin;
  Index origins = 0;
  HorizonScores scores;
  std::vector<Lead> leads;
  /// [forecaster]: skill over the first at all horizons together, then at each; empty for the first.
  std::vector<std::vector<PairedSkill>> skill;
  std::string remarks;  // lines

  [[nodiscard]] std::string text() const;             // tables for people
  [[nodiscard]] nlohmann::ordered_json json() const;  // apps/schemas/compare.schema.json
};

/// Scores forecasters of the same data on the origins that the test parts of all runs have in common. The
/// parts of the runs may differ. Baselines are fitted with the first run's settings. Throws UserError if
/// data, nodes or units differ, if fewer than two are named, or if no run is among them. Collective.
[[nodiscard]] Comparison compare(const Communicator& comm, const CompareOptions& options);

}  // namespace rossby
