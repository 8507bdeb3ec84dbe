#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/data/series.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/run/data_record.hpp"
#include "rossby/train/conformal.hpp"
#include "rossby/train/evaluation.hpp"
#include "rossby/train/quantile_errors.hpp"
#include "rossby/train/verification.hpp"

namespace rossby {

/// The origins and horizons of the test part that are scored.
struct TestForecasts {
  std::vector<Index> origins;
  Index horizons = 0;
  std::string remark = {};  // a line, if files of forecasts lack some of the origins
};

/// A part that is scored on its own: one of several variables, or one feature of the only variable.
struct ScoredPart {
  const SeriesVariable* variable;
  Index features;
  std::string feature = {};  // of one feature, its name: coordinate or number

  [[nodiscard]] std::string units() const { return variable->units.empty() ? "1" : variable->units; }
};
[[nodiscard]] std::vector<ScoredPart> scored_parts(const Domain& domain);

/// Returns for each part, or for all if there are none, whether relative errors mean something. They do if no
/// observation at the targets is negative and at most 1 % of the others, except zeros, are below 5 % of their
/// mean. Collective.
[[nodiscard]] std::vector<bool> has_relative_errors(const Series& series, const TestForecasts& test,
                                                    std::span<const Index> part_features, Reducer& reducer);

/// Adds bias and anomaly correlation of one part, or of all parts together if `part` is negative.
void add_moments(HorizonScores& scores, const Verification& verification, Index slice, Index part,
                 Index parts);

/// The results of an evaluation, for file and console.
struct EvaluationReport {
  const Domain& domain;
  const TestForecasts& test;
  const Slices& slices;
  const Verification& verification;
  std::vector<ScoredPart> parts;
  HorizonScores scores;
  std::vector<HorizonScores> of_parts;
  std::vector<Lead> leads;
  Index chosen = -1;            // the baseline with the smallest mean RMSE in the validation part; -1: none
  PairedSkill paired = {};      // skill against `chosen`
  Index against = -1;           // the baseline of --against
  PairedSkill against_it = {};  // skill against `against`
  // Intervals by horizon, of the model's RMSE, in its units, and of its skill against `chosen`; may be empty.
  std::vector<std::pair<double, double>> rmse_intervals = {};
  std::vector<PairedSkill> paired_at = {};
  Index epochs = -1;                           // of the run's state; -1: unknown
  std::string weights = {};                    // of the nodes; empty: none
  std::string climatology = {};                // baseline that anomalies are from
  std::vector<IntervalScores> intervals = {};  // by horizon; empty: none
  Index residual_origins = 0;                  // origins of the validation part behind `intervals`
  std::vector<Coverage> left_out = {};         // of these origins, by horizon; empty: not computed
  std::vector<double> spread = {};             // of an average's members, by horizon; empty: none
  std::vector<IntervalScores> dressed = {};    // by horizon, of the dressed members (DressedErrors)
  std::vector<double> levels = {};             // of the quantiles that the model forecasts
  std::vector<QuantileScores> quantiles = {};  // by horizon; empty: none
  DataChanges changes = {};                    // of the training part, if accepted
  std::string relative = {};                   // a line, if relative errors are left out

  /// Adds the intervals by horizon. `baseline`: errors of the chosen one; null if there is none.
  void add_lead_intervals(const OriginErrors& model, const OriginErrors* baseline);
  [[nodiscard]] nlohmann::ordered_json json() const;
  /// Prints tables and their subjects. `path`: the file that json() was written to.
  void print(std::span<const Index> report, const std::string& path) const;

 private:
  [[nodiscard]] bool seen() const;
  void put_lead_intervals(nlohmann::ordered_json& all) const;
  [[nodiscard]] HorizonScores of_slice(Index slice, Index part) const;
  [[nodiscard]] nlohmann::ordered_json slices_json(Index part, const std::string& units) const;
  [[nodiscard]] std::string slices_table() const;
  [[nodiscard]] nlohmann::ordered_json intervals_json() const;
  [[nodiscard]] nlohmann::ordered_json dressed_json() const;
  [[nodiscard]] std::string dressed_line() const;
  [[nodiscard]] nlohmann::ordered_json quantiles_json() const;
  [[nodiscard]] std::string quantiles_line() const;
  [[nodiscard]] std::string intervals_line() const;
  [[nodiscard]] nlohmann::ordered_json spread_json() const;
  [[nodiscard]] std::string spread_line() const;
};

/// Leaves relative errors out for parts that has_relative_errors rejects, and adds a line that says so.
void keep_relative(EvaluationReport& found, const std::vector<bool>& meant);

}  // namespace rossby
