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

/// The name of the trained model among its baselines.
inline constexpr std::string_view model_name = "model";

/// Errors of several forecasters at every horizon, pooled over origins, nodes and features, in original
/// units. A target that is not observed is left out for all forecasters. If a forecast is not finite at an
/// observed target, its scores become NaN, so that a mask does not hide a diverged model.
///
/// MAPE is the mean of |error| / |target|, in percent, over observed targets other than zero, as the traffic
/// literature masks them. A target of a scaled series counts as zero if only the float32 rounding of its
/// center is left.
struct HorizonScores {
  std::vector<std::string> names;  // forecasters, the model under the name "model"
  Index horizons = 0;
  std::vector<double> rmse;          // (names, horizons): √(mean squared error)
  std::vector<double> mae;           // (names, horizons): mean absolute error
  std::vector<double> count;         // (names, horizons): observed targets; if 0, rmse and mae are NaN
  std::vector<double> mape_percent;  // (names, horizons): NaN if no observed target differs from 0
  std::vector<double> ratio_count;   // (names, horizons): observed targets that differ from 0
  // HorizonErrors leaves these empty; a Verification adds them. Empty measures are neither written nor
  // printed.
  std::vector<double> bias = {};  // (names, horizons): mean of forecast − observation
  std::vector<double> acc = {};   // (names, horizons): anomaly correlation, centred

  /// Returns the index of a name in `names`; −1 if it is missing.
  [[nodiscard]] Index find(std::string_view name) const;
  /// Returns the mean over the horizons that have observed targets; for MAPE, over those with a target other
  /// than 0. The mean RMSE is the score.
  [[nodiscard]] double mean_rmse(Index forecaster) const;
  [[nodiscard]] double mean_mae(Index forecaster) const;
  [[nodiscard]] double mean_mape_percent(Index forecaster) const;
  [[nodiscard]] double mean_bias(Index forecaster) const;
  [[nodiscard]] double mean_acc(Index forecaster) const;
  /// Returns the number of horizons with observed targets.
  [[nodiscard]] Index scored_horizons(Index forecaster) const;
  /// Returns the number of horizons with observed targets other than 0, on which MAPE is defined.
  [[nodiscard]] Index ratio_horizons(Index forecaster) const;
  /// Returns the forecaster other than "model" with the smallest mean RMSE; −1 if there is none.
  [[nodiscard]] Index best_baseline() const;
  /// Returns 1 − score of the model / score of the best baseline: above 0, the model is better. NaN if one of
  /// them is missing.
  [[nodiscard]] double skill() const;
};

/// Units of forecasts and truths if they are not in original units.
struct ScoredUnits {
  const Scaler* scaler = nullptr;  // null: values are not scaled
  /// Null: values are not anomalies.
  const AnomalyMap* anomalies = nullptr;
  std::span<const Index> steps = {};  // targets of the columns on the time axis; for anomalies
  std::span<const double> variance =
      {};  // of forecast anomalies, (rows, features); empty: scores use the median
  std::span<const double> weights = {};  // (rows); empty: 1 each. Set by HorizonErrors
};

/// Forecasts and observations of some rows whose errors are being added, in original units (less the centers
/// of the data).
struct ScoredValues {
  Index forecaster = 0, horizon = 0;
  std::span<const Index> steps;  // targets of the columns on the time axis
  Index first_row = 0, rows = 0, features = 0;
  Index all_rows = 0;                // rows of this rank
  const double* forecast = nullptr;  // (rows, columns, features)
  const double* observed = nullptr;  // the same shape, NaN where missing
};

/// Accumulates errors on one rank; `reduce` computes scores from the sums of all ranks.
class HorizonErrors {
 public:
  /// `part_features`: number of features of each part (variable) that is also scored on its own. Empty: there
  /// is one part. The sums have the same bits at every number of `threads`.
  HorizonErrors(std::vector<std::string> names, Index horizons, std::vector<Index> part_features = {},
                int threads = 1);

  /// Also keeps the squared errors of each of these origins (ascending). ScoredUnits::steps are then
  /// required.
  void keep_origins(std::span<const Index> origins);

  /// Sets weights of the rows, not negative. Sums and counts of targets are then weighted.
  void weigh(std::span<const double> weights);

  /// Shows `sink` all values whose errors are added, in pieces of some columns and of these rows in ascending
  /// order. Without rows, `sink` is called once per piece of columns. The pieces of columns are the same on
  /// all ranks. ScoredUnits::steps are then required.
  void watch(std::function<void(const ScoredValues&)> sink) { sink_ = std::move(sink); }

  /// Adds errors of one forecaster at one horizon (1, 2, …): forecast (rows, origins, features) against steps
  /// origin + horizon of `truth`. May be called several times, for shares of the origins. Both are in
  /// original units or in `units`; errors are converted back to original units. T is float or double.
  template <class T>
  void add(Index forecaster, Index horizon, NodeView<const T> forecast, const Series& truth,
           std::span<const Index> origins, ScoredUnits units = {});

  /// The same against targets (rows, features): truth(b) returns the targets of column b.
  template <class T>
  void add(Index forecaster, Index horizon, NodeView<const T> forecast,
           const std::function<const float*(Index)>& truth, const ScoredUnits& units = {});

  /// Returns scores over all features. Sums once over all ranks. Collective.
  [[nodiscard]] HorizonScores reduce(Reducer& reducer) const;
  /// Returns scores of each part. Sums once over all ranks. Collective.
  [[nodiscard]] std::vector<HorizonScores> reduce_parts(Reducer& reducer) const;
  /// Returns errors of one forecaster by origin; requires keep_origins. Sums once over all ranks. Collective.
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
  std::vector<const float*> truths_;  // of the current columns
  std::vector<Index> steps_;          // of the current columns
  std::vector<Index> origins_;        // origins that are kept apart
  std::vector<double> at_origins_;    // (names, horizons, origins, {squares, count})
  std::vector<double> sums_;  // (parts, names, horizons, {squares, absolutes, count, ratios, ratio count})
};

/// If the tape traces steps, records the cost of adding up errors of a forecast (rows, origins, features).
template <class T>
void note_scores(Tape<T>& tape, NodeView<const T> forecast);

}  // namespace rossby
