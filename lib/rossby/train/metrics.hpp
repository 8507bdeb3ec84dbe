#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/autograd/tape.hpp"
#include "rossby/data/anomaly_map.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/data/series.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/tensor/view.hpp"
#include "rossby/train/paired_skill.hpp"

namespace rossby {

/// The name of what was trained, among its baselines.
inline constexpr std::string_view model_name = "model";

/// Errors of several forecasters at every horizon, pooled over origins, nodes and features, in original
/// units. What is not observed is left out, for all forecasters alike. A forecast that is not finite where
/// there is an observation makes its figures NaN: a diverged model does not hide behind a mask.
///
/// MAPE is the mean of |error| / |target|, in percent, over targets that are observed and not zero, as the
/// traffic literature masks them; a target of a scaled series counts as zero where it is zero but for what
/// float32 leaves of its center.
struct HorizonScores {
  std::vector<std::string> names;  // forecasters, the model under the name "model"
  Index horizons = 0;
  std::vector<double> rmse;          // (names, horizons): √(mean squared error)
  std::vector<double> mae;           // (names, horizons): mean absolute error
  std::vector<double> count;         // (names, horizons): observed targets; where 0, rmse and mae are NaN
  std::vector<double> mape_percent;  // (names, horizons): NaN where no observed target differs from 0
  std::vector<double> ratio_count;   // (names, horizons): observed targets that differ from 0
  // Of HorizonErrors empty: what a Verification adds. Empty measures are neither written nor printed.
  std::vector<double> bias = {};  // (names, horizons): mean of forecast − observation
  std::vector<double> acc = {};   // (names, horizons): anomaly correlation, centred

  /// Place of a name in `names`, −1 where it is not there.
  [[nodiscard]] Index find(std::string_view name) const;
  /// Mean over the horizons that have observed targets, of the MAPE over those that have some other than 0;
  /// of the RMSE this is the score.
  [[nodiscard]] double mean_rmse(Index forecaster) const;
  [[nodiscard]] double mean_mae(Index forecaster) const;
  [[nodiscard]] double mean_mape_percent(Index forecaster) const;
  [[nodiscard]] double mean_bias(Index forecaster) const;
  [[nodiscard]] double mean_acc(Index forecaster) const;
  /// Horizons at which a forecaster is scored: those that have observed targets.
  [[nodiscard]] Index scored_horizons(Index forecaster) const;
  /// Those of its MAPE: that have observed targets other than 0.
  [[nodiscard]] Index ratio_horizons(Index forecaster) const;
  /// The forecaster other than "model" with the smallest mean RMSE, −1 where there is none.
  [[nodiscard]] Index best_baseline() const;
  /// 1 − score of the model / score of the best baseline: above 0 the model is better. NaN where one of them
  /// is missing.
  [[nodiscard]] double skill() const;
};

/// What forecasts and truths are given in, if not in original units.
struct ScoredUnits {
  const Scaler* scaler = nullptr;  // null: they are not scaled
  /// Null: they are not anomalies.
  const AnomalyMap* anomalies = nullptr;
  std::span<const Index> steps = {};  // targets of the columns on the time axis; of anomalies
  std::span<const double> variance =
      {};  // of forecast anomalies, (rows, features); empty: their median counts
  std::span<const double> weights = {};  // (rows); empty: 1 each. HorizonErrors sets it
};

/// Forecasts and observations of some rows in original units (less the centers of the data), as their errors
/// are added up.
struct ScoredValues {
  Index forecaster = 0, horizon = 0;
  std::span<const Index> steps;  // targets of the columns on the time axis
  Index first_row = 0, rows = 0, features = 0;
  Index all_rows = 0;                // of this rank
  const double* forecast = nullptr;  // (rows, columns, features)
  const double* observed = nullptr;  // likewise, NaN where missing
};

/// Adds up errors on one rank; `reduce` makes scores of the sums of all ranks.
class HorizonErrors {
 public:
  /// `part_features`: features of each part that is scored on its own as well (variables), one after the
  /// other; empty: all are one part. Errors are added up by `threads`, to the same bits at every number.
  HorizonErrors(std::vector<std::string> names, Index horizons, std::vector<Index> part_features = {},
                int threads = 1);

  /// Keeps the squared errors of each of these origins (ascending) apart, too. ScoredUnits::steps are then
  /// needed.
  void keep_origins(std::span<const Index> origins);

  /// Weights of the rows, not negative: sums, and the counts of targets, are then weighted.
  void weigh(std::span<const double> weights);

  /// Shows all values whose errors are added to `sink`, some columns after the other and of these rows in
  /// ascending order; no rows once if there are none. The columns are the same on all ranks.
  /// ScoredUnits::steps are then needed.
  void watch(std::function<void(const ScoredValues&)> sink) { sink_ = std::move(sink); }

  /// Errors of one forecaster at one horizon (1, 2, …): forecast (rows, origins, features) against steps
  /// origin + horizon of `truth`. May be called several times, for shares of the origins. Both in original
  /// units, or both in `units`: errors are then brought back to original units. T is float or double.
  template <class T>
  void add(Index forecaster, Index horizon, NodeView<const T> forecast, const Series& truth,
           std::span<const Index> origins, ScoredUnits units = {});

  /// The same against targets (rows, features): truth(b) is that of column b.
  template <class T>
  void add(Index forecaster, Index horizon, NodeView<const T> forecast,
           const std::function<const float*(Index)>& truth, const ScoredUnits& units = {});

  /// Of all features together. One sum over all ranks. Collective.
  [[nodiscard]] HorizonScores reduce(Reducer& reducer) const;
  /// Of each part. Collective likewise.
  [[nodiscard]] std::vector<HorizonScores> reduce_parts(Reducer& reducer) const;
  /// Of one forecaster, by origin: after keep_origins. Collective likewise.
  [[nodiscard]] OriginErrors reduce_origins(Index forecaster, Reducer& reducer) const;

 private:
  template <class T>
  void add_columns(Index forecaster, Index horizon, NodeView<const T> forecast,
                   const std::function<const float*(Index)>& truth, ScoredUnits units);
  template <class T>
  void show(Index forecaster, Index horizon, NodeView<const T> forecast, const ScoredUnits& units) const;

  [[nodiscard]] HorizonScores scores_of(std::span<const double> sums) const;

  std::vector<std::string> names_;
  Index horizons_;
  std::vector<Index> part_features_;
  std::size_t parts_;
  int threads_;
  std::vector<double> weights_;
  std::function<void(const ScoredValues&)> sink_;
  std::vector<const float*> truths_;  // of the columns at hand
  std::vector<Index> steps_;          // likewise
  std::vector<Index> origins_;        // that are kept apart
  std::vector<double> at_origins_;    // (names, horizons, origins, {squares, count})
  std::vector<double> sums_;  // (parts, names, horizons, {squares, absolutes, count, ratios, ratio count})
};

/// Writes down, where the tape's steps are traced, that errors of a forecast (rows, origins, features) were
/// added up.
template <class T>
void note_scores(Tape<T>& tape, NodeView<const T> forecast);

}  // namespace rossby
