#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// The level of a mean or a standard deviation.
enum class ScaleBy { none, node, global };

/// The values of the keys data.center, data.spread, data.factor.
struct ScalerSpec {
  ScaleBy center = ScaleBy::none;
  ScaleBy spread = ScaleBy::none;
  double factor = 1;
};

/// Throws UserError with the key if a text is not none, node or global.
[[nodiscard]] ScaleBy scale_by(std::string_view key, std::string_view text);

[[nodiscard]] inline ScalerSpec scaler_spec(const DataSettings& data) {
  return {scale_by("data.center", data.center), scale_by("data.spread", data.spread), data.factor};
}

/// Scaling of inputs that are not forecast: always centered and divided by their standard deviation. Computed
/// per node if the target's is, otherwise over all nodes.
[[nodiscard]] inline ScalerSpec input_scaler_spec(const DataSettings& data) {
  const auto level = [](std::string_view key, const std::string& of_target) {
    return scale_by(key, of_target) == ScaleBy::node ? ScaleBy::node : ScaleBy::global;
  };
  return {level("data.center", data.center), level("data.spread", data.spread), 1};
}

/// Data of a scaler's fit: steps, and where their (rows, features) values are. On a process grid each group
/// passes its own steps, every step once, and `groups` sums over the ranks with these rows.
struct TrainingSteps {
  Index rows = 0;
  Index features = 0;
  std::span<const Index> steps;
  std::function<const float*(Index)> at;
  Reducer* groups = nullptr;
};

/// The affine map between original units and model units: scaled = (x − center) · factor / spread, with one
/// center and spread per owned row and feature. Const once built; NaN stays NaN.
class Scaler {
 public:
  Scaler() = default;

  /// Center 0, spread 1.
  Scaler(Index rows, Index features, double factor = 1);

  /// From stored values, (rows, features) each, as in a checkpoint.
  Scaler(Index rows, Index features, std::vector<double> center, std::vector<double> spread, double factor);

  /// Means and standard deviations (divided by the count) of the training steps, without missing values. The
  /// standard deviation is about the subtracted center; without a center, about the mean at the level of
  /// `spec.spread`. A row or feature gets spread 1 if its spread is 0 (constant) or too small for float
  /// arithmetic. One that is never observed in training gets the values of all nodes. Collective; global
  /// values are bitwise equal on every rank.
  static Scaler fit(const Series& series, const Split& split, const ScalerSpec& spec, Reducer& reducer);

  static Scaler fit(const TrainingSteps& training, const ScalerSpec& spec, Reducer& reducer);

  /// Scales in place, or restores original units in place.
  void apply(Series& series) const;
  void undo(Series& series) const;

  /// Converts scaled model output (rows, B, features) to original units, in place.
  void undo(NodeView<float> values) const;

  [[nodiscard]] double to_scaled(double value, Index row, Index feature) const {
    const std::size_t i = at(row, feature);
    return (value - center_[i]) * (factor_ / spread_[i]);
  }
  [[nodiscard]] double to_value(double scaled, Index row, Index feature) const {
    const std::size_t i = at(row, feature);
    return center_[i] + scaled * (spread_[i] / factor_);
  }
  /// One unit of scaled error, in original units.
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
  /// Memory of center and spread.
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

/// Values of nodes, (rows, channels), less the mean over all nodes and divided by their standard deviation; 0
/// if all nodes are equal. Collective.
[[nodiscard]] std::vector<float> scaled_over_nodes(std::span<const double> values, Index channels,
                                                   Reducer& reducer);

}  // namespace rossby
