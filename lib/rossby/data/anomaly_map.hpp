#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rossby/data/cycle.hpp"
#include "rossby/data/transform.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// The values of data.transform, data.trend and data.cycle.
struct AnomalySpec {
  Transform transform;
  bool trend = false;
  CycleSpec cycle;
  [[nodiscard]] bool on() const { return transform.on() || trend || cycle.kind != CycleKind::none; }
};
/// Settings with data.cycle; "auto" becomes the kind `decided`.
[[nodiscard]] AnomalySpec anomaly_spec(const DataSettings& data, CycleKind decided);

/// The map between original units and anomalies, before any scaling:
///
///     anomaly(t) = f(x(t) + offset) − base(t),   base(t) = trend(t) + cycle(phase of t)
///
/// Every row and feature has its own trend and cycle, fitted on training steps only (CycleFitter). The trend
/// is a least-squares fit within the phases of the cycle's coarsest level, shrunk towards the trend of all
/// nodes. Const once built; NaN stays NaN.
class AnomalyMap {
 public:
  /// The identity.
  AnomalyMap() = default;

  /// Data of a fit. On a process grid each group passes its own steps, every step once, and `groups` sums
  /// over the ranks with these rows.
  struct Training {
    Index rows = 0;
    Index features = 0;
    std::span<const Index> steps;           // of all groups, ascending
    std::span<const Index> own;             // of this group, ascending
    std::function<const float*(Index)> at;  // values (rows, features) of one of `own`
    Reducer* groups = nullptr;
    std::span<const double> centers;  // already subtracted from the values: (rows, features), or empty
    int threads = 1;
  };
  /// Values (rows, features) of a step, converted to anomalies in place.
  struct View {
    Index step = 0;
    float* values = nullptr;
  };

  /// Fits the map and converts views to anomalies. Views in `training` (training steps) use a cycle without
  /// the values of their own day or year, so that it fits them no better than other steps. Views in `others`
  /// use the cycle of all training steps. Throws UserError with the key if the axis has no such cycle, the
  /// training part has less than two periods of it, or a value cannot be transformed. `reducer` sums over the
  /// ranks that share the nodes. Collective; bitwise equal on all ranks with the same rows.
  static AnomalyMap fit(const Training& data, const TimeAxis& axis, const AnomalySpec& spec,
                        std::span<const View> training, std::span<const View> others, Reducer& reducer);

  /// Result of a fit: (phases, rows, features) and (rows, features); empty: no cycle, no trend.
  struct Fitted {
    std::vector<float> cycle;
    std::vector<double> slope;
  };
  [[nodiscard]] Fitted fitted() const { return {cycle_, slope_}; }
  /// Restores the map of an earlier fit on the same training steps, whose values may have changed. Converts
  /// all views to anomalies as for steps after the training part. Throws UserError as fit does. Collective.
  static AnomalyMap restore(Fitted fitted, const Training& data, const TimeAxis& axis,
                            const AnomalySpec& spec, std::span<const View> views, Reducer& reducer);

  /// Continues the map for `beyond` steps after the end of the axis of the fit. Throws UserError if the step
  /// of the axis is unknown.
  void extend(const TimeAxis& axis, Index beyond);

  /// True if the map is not the identity.
  [[nodiscard]] bool on() const { return transform_.on() || !phase_.empty() || !slope_.empty(); }
  [[nodiscard]] const Transform& transform() const { return transform_; }

  /// base(t) of column (row·features + feature), in transformed units.
  [[nodiscard]] double base(Index step, Index column) const {
    const auto c = static_cast<std::size_t>(column);
    double value = 0;
    if (!phase_.empty())
      value = static_cast<double>(
          cycle_[static_cast<std::size_t>(phase_[static_cast<std::size_t>(step)]) * width_ + c]);
    if (!slope_.empty()) value += slope_[c] * time_[static_cast<std::size_t>(step)];
    return value;
  }
  /// The anomaly of an input value, and the inverse. With the variance of the anomaly, the inverse returns
  /// the mean of the possible values (Transform::mean).
  [[nodiscard]] float to_anomaly(float x, Index step, Index column) const {
    return static_cast<float>(transform_.forward(static_cast<double>(x) + center(column)) -
                              base(step, column));
  }
  [[nodiscard]] double to_value(double anomaly, Index step, Index column, double variance = 0) const {
    return transform_.mean(anomaly + base(step, column), variance) - center(column);
  }
  /// The value of an observation. A zero is restored exactly, without the rounding of float32.
  [[nodiscard]] double to_observation(double anomaly, Index step, Index column) const;

  /// Memory of a fit's tables for this many columns. Throws UserError as fit does.
  static std::size_t bytes_of(const TimeAxis& axis, const AnomalySpec& spec, Index columns);

 private:
  class Fit;

  [[nodiscard]] double center(Index column) const {
    return centers_.empty() ? 0 : centers_[static_cast<std::size_t>(column)];
  }

  [[nodiscard]] static AnomalyMap unfitted(const Training& data, const AnomalySpec& spec);
  void expect_values(const Training& data, std::initializer_list<std::span<const View>> views,
                     Reducer& reducer) const;
  void apply(std::span<const View> views) const;
  void set_training_time(const TimeAxis& axis, std::span<const Index> steps);
  void place_in_time(const TimeAxis& axis);

  Transform transform_;
  CycleSpec cycle_spec_;
  std::size_t width_ = 0;
  std::vector<double> centers_;
  std::vector<std::int32_t> phase_;  // (T); empty: no cycle
  std::vector<float> cycle_;         // (phases, rows, features)
  std::vector<double> slope_;        // (rows, features); empty: no trend
  std::vector<double> time_;         // (T): time in units of slopes, −½ … ½ over training
  double middle_ = 0, range_ = 1;    // of the training part, in units of the axis
};

/// Text for the log on the data that models see: "square root, less a linear trend, less the cycle
/// time_of_week". Empty: unchanged values.
[[nodiscard]] std::string text_of(const AnomalySpec& spec);

}  // namespace rossby
