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

/// What is scored: origins and horizons of the test part.
struct TestForecasts {
  std::vector<Index> origins;
  Index horizons = 0;
  std::string remark = {};  // a line, if files of forecasts lack some of the origins
};

/// What is scored on its own: each of several variables, or each of the features that the one has.
struct ScoredPart {
  const SeriesVariable* variable;
  Index features;
  std::string feature = {};  // of one, what it is called: its coordinate, or its number

  [[nodiscard]] std::string units() const { return variable->units.empty() ? "1" : variable->units; }
};
[[nodiscard]] std::vector<ScoredPart> scored_parts(const Domain& domain);

/// Whether relative errors mean something, of each part (of all, if there are none): observations at the
/// targets are not negative, and those that are not 0 are not near it, which is below 5 % of their mean, but
/// for 1 % of them. Collective.
[[nodiscard]] std::vector<bool> has_relative_errors(const Series& series, const TestForecasts& test,
                                                    std::span<const Index> part_features, Reducer& reducer);

/// Fills in bias and anomaly correlation of all parts together, or of one.
void add_moments(HorizonScores& scores, const Verification& verification, Index slice, Index part,
                 Index parts);

/// What was found, on its way to file and console.
struct EvaluationReport {
  const Domain& domain;
  const TestForecasts& test;
  const Slices& slices;
  const Verification& verification;
  std::vector<ScoredPart> parts;
  HorizonScores scores;
  std::vector<HorizonScores> of_parts;
  std::vector<Lead> leads;
  Index chosen = -1;  // the baseline with the smallest mean RMSE of the validation part; -1: there is none
  PairedSkill paired = {};      // against that
  Index against = -1;           // the baseline that is asked for
  PairedSkill against_it = {};  // against that
  // By horizon: intervals of the model's RMSE, in its units, and of its skill against `chosen`; may be empty.
  std::vector<std::pair<double, double>> rmse_intervals = {};
  std::vector<PairedSkill> paired_at = {};
  Index epochs = -1;                           // of the run's state; -1: it does not say
  std::string weights = {};                    // of the nodes; empty: none
  std::string climatology = {};                // baseline that anomalies are from
  std::vector<IntervalScores> intervals = {};  // by horizon; empty: there are none
  Index residual_origins = 0;                  // of the validation part, that these are from
  std::vector<double> spread = {};             // of an average's members, by horizon; empty: there are none
  std::vector<IntervalScores> dressed = {};    // likewise, of what these predict (DressedErrors)
  std::vector<double> levels = {};             // of the quantiles that the model forecasts
  std::vector<QuantileScores> quantiles = {};  // by horizon; empty: it forecasts none
  DataChanges changes = {};                    // of the training part, if they were accepted
  std::string relative = {};                   // a line, if relative errors are left out

  /// Fills in the intervals by horizon. `baseline`: errors of the chosen one; null: there is none.
  void add_lead_intervals(const OriginErrors& model, const OriginErrors* baseline);
  [[nodiscard]] nlohmann::ordered_json json() const;
  /// Tables and what they are of, for people. `path`: what json() was written to.
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

/// Leaves relative errors out, with a line that says so, of parts for which has_relative_errors says no.
void keep_relative(EvaluationReport& found, const std::vector<bool>& meant);

}  // namespace rossby
