#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// Over what a mean or a standard deviation is taken.
enum class ScaleBy { none, node, global };

/// The values of the keys data.center, data.spread, data.factor.
struct ScalerSpec {
  ScaleBy center = ScaleBy::none;
  ScaleBy spread = ScaleBy::none;
  double factor = 1;
};

/// Throws UserError naming the key where a text is not none, node or global.
[[nodiscard]] ScaleBy scale_by(std::string_view key, std::string_view text);

[[nodiscard]] inline ScalerSpec scaler_spec(const DataSettings& data) {
  return {scale_by("data.center", data.center), scale_by("data.spread", data.spread), data.factor};
}

/// That of inputs, which are not forecast: always centered and divided by their standard deviation, of every
/// node where the target is, else of all nodes together.
[[nodiscard]] inline ScalerSpec input_scaler_spec(const DataSettings& data) {
  const auto level = [](std::string_view key, const std::string& of_target) {
    return scale_by(key, of_target) == ScaleBy::node ? ScaleBy::node : ScaleBy::global;
  };
  return {level("data.center", data.center), level("data.spread", data.spread), 1};
}

/// What a scaler is fitted on: steps and where their (rows, features) values lie. On a process grid each
/// group gives steps of its own, every step once, and `groups` sums over the ranks with these rows.
struct TrainingSteps {
  Index rows = 0;
  Index features = 0;
  std::span<const Index> steps;
  std::function<const float*(Index)> at;
  Reducer* groups = nullptr;
};

/// The affine map between original units and what a model sees: scaled = (x − center) · factor / spread, one
/// center and spread for each owned row and feature. Const once built; NaN stays NaN.
class Scaler {
 public:
  Scaler() = default;

  /// Center 0, spread 1.
  Scaler(Index rows, Index features, double factor = 1);

  /// From stored values, (rows, features) each: what a checkpoint holds.
  Scaler(Index rows, Index features, std::vector<double> center, std::vector<double> spread, double factor);

  /// Means and standard deviations (divided by the count) of the training steps, missing values left out. The
  /// standard deviation is taken about the center that is subtracted, or, where none is, about the mean at
  /// the level of `spec.spread`. A row or feature with spread 0 (constant) or too small for float arithmetic
  /// gets 1; one that is never observed in training gets those of all nodes. Collective; global values have
  /// the same bits on every rank.
  static Scaler fit(const Series& series, const Split& split, const ScalerSpec& spec, Reducer& reducer);

  static Scaler fit(const TrainingSteps& training, const ScalerSpec& spec, Reducer& reducer);

  /// Scales in place / back to original units in place.
  void apply(Series& series) const;
  void undo(Series& series) const;

  /// Scaled model output (rows, B, features) back to original units, in place.
  void undo(NodeView<float> values) const;

  [[nodiscard]] double to_scaled(double value, Index row, Index feature) const {
    const std::size_t i = at(row, feature);
    return (value - center_[i]) * (factor_ / spread_[i]);
  }
  [[nodiscard]] double to_value(double scaled, Index row, Index feature) const {
    const std::size_t i = at(row, feature);
    return center_[i] + scaled * (spread_[i] / factor_);
  }
  /// What one unit of scaled error is in original units.
  [[nodiscard]] double error_factor(Index row, Index feature) const {
    return spread_[at(row, feature)] / factor_;
  }

  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index features() const { return features_; }
  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] std::span<const double> center() const { return center_; }  // (rows, features)
  [[nodiscard]] std::span<const double> spread() const { return spread_; }  // (rows, features)
  /// Rows of this rank with a feature that is never observed in training.
  [[nodiscard]] Index unseen() const { return unseen_; }
  /// Memory of both.
  [[nodiscard]] std::size_t bytes() const { return (center_.size() + spread_.size()) * sizeof(double); }

 private:
  [[nodiscard]] std::size_t at(Index row, Index feature) const {
    return static_cast<std::size_t>(row * features_ + feature);
  }
  Index rows_ = 0;
  Index features_ = 0;
  double factor_ = 1;
  Index unseen_ = 0;
  std::vector<double> center_;
  std::vector<double> spread_;
};

/// Values of nodes, (rows, channels), less the mean over all nodes and divided by their standard deviation;
/// 0 where all nodes have the same. Collective.
[[nodiscard]] std::vector<float> scaled_over_nodes(std::span<const double> values, Index channels,
                                                   Reducer& reducer);

}  // namespace rossby
