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
/// With data.cycle = "auto" of the kind `decided`.
[[nodiscard]] AnomalySpec anomaly_spec(const DataSettings& data, CycleKind decided);

/// The map between original units and anomalies, before any scaling:
///
///     anomaly(t) = f(x(t) + offset) − base(t),   base(t) = trend(t) + cycle(phase of t)
///
/// Trend and cycle are each row's and feature's own, fitted on training steps alone (CycleFitter), the trend
/// by least squares within the phases of the cycle's coarsest level, shrunk towards that of all nodes. Const
/// once built; NaN stays NaN.
class AnomalyMap {
 public:
  /// The identity.
  AnomalyMap() = default;

  /// What the map is fitted on: on a process grid each group gives steps of its own, every step once, and
  /// `groups` sums over the ranks with these rows.
  struct Training {
    Index rows = 0;
    Index features = 0;
    std::span<const Index> steps;           // of all groups, ascending
    std::span<const Index> own;             // of this group, ascending
    std::function<const float*(Index)> at;  // values (rows, features) of an own step
    Reducer* groups = nullptr;
    std::span<const double> centers;  // were subtracted from the values: (rows, features), or empty
    int threads = 1;
  };
  /// Values (rows, features) of a step that become anomalies in place.
  struct View {
    Index step = 0;
    float* values = nullptr;
  };

  /// Fits the map and turns views into anomalies: those in `training` (training steps) about a cycle without
  /// the values of their own day or year, so that it fits them no better than it fits other steps; those in
  /// `others` about that of all training steps. Throws UserError naming the key if the axis has no such
  /// cycle, the training part has less than two periods of it, or a value cannot be transformed. `reducer`
  /// sums over the ranks that share the nodes. Collective; on all ranks with the same rows the same bits.
  static AnomalyMap fit(const Training& data, const TimeAxis& axis, const AnomalySpec& spec,
                        std::span<const View> training, std::span<const View> others, Reducer& reducer);

  /// What a fit has found: (phases, rows, features) and (rows, features); empty: no cycle, no trend.
  struct Fitted {
    std::vector<float> cycle;
    std::vector<double> slope;
  };
  [[nodiscard]] Fitted fitted() const { return {cycle_, slope_}; }
  /// The map that an earlier fit of the same training steps has found, whose values may be others by now; all
  /// views become anomalies as steps behind the training part do. Throws UserError as fit does. Collective.
  static AnomalyMap restore(Fitted fitted, const Training& data, const TimeAxis& axis,
                            const AnomalySpec& spec, std::span<const View> views, Reducer& reducer);

  /// Goes on over so many steps behind the end of the axis that it was fitted with. Throws UserError where
  /// the axis does not know its step.
  void extend(const TimeAxis& axis, Index beyond);

  /// Whether it is another map than the identity.
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
  /// The anomaly of a value that was read, and the way back; with a variance of the anomaly the mean of what
  /// it may be (Transform::mean).
  [[nodiscard]] float to_anomaly(float x, Index step, Index column) const {
    return static_cast<float>(transform_.forward(static_cast<double>(x) + center(column)) -
                              base(step, column));
  }
  [[nodiscard]] double to_value(double anomaly, Index step, Index column, double variance = 0) const {
    return transform_.mean(anomaly + base(step, column), variance) - center(column);
  }
  /// The value of an observation, in which a zero is zero and not what rounding to float32 has left of it.
  [[nodiscard]] double to_observation(double anomaly, Index step, Index column) const;

  /// Memory of the tables that a fit makes for so many columns. Throws UserError as fit does.
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
  std::vector<double> time_;         // (T): as slopes have it, −½ … ½ over the training part
  double middle_ = 0, range_ = 1;    // of that part, in the axis's units
};

/// What models see, for the log: "square root, less a linear trend, less the cycle time_of_week"; empty:
/// values as they are.
[[nodiscard]] std::string text_of(const AnomalySpec& spec);

}  // namespace rossby
