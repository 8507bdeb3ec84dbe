#include "rossby/data/scaler.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Sums over the training steps for every (row, feature): the count of observed values, and values or squared
/// deviations.
struct Sums {
  std::vector<double> count;
  std::vector<double> sum;
};

/// Σ (x − center)^power over the observed training values of all groups.
Sums column_sums(const TrainingSteps& training, std::span<const double> center, int power) {
  const Index width = training.rows * training.features;
  Sums sums{std::vector<double>(static_cast<std::size_t>(width)),
            std::vector<double>(static_cast<std::size_t>(width))};
  for (const Index t : training.steps) {
    const float* x = training.at(t);
    for (std::size_t c = 0; c < sums.sum.size(); ++c) {
      if (std::isnan(x[c])) continue;
      const double deviation = static_cast<double>(x[c]) - center[c];
      sums.count[c] += 1;
      sums.sum[c] += power == 2 ? deviation * deviation : deviation;
    }
  }
  if (training.groups) {
    training.groups->sum(sums.count);
    training.groups->sum(sums.sum);
  }
  return sums;
}

/// sum / count at the given level. A node without training values gets the average of all nodes; `fallback`
/// if nothing is observed.
std::vector<double> averages(const Sums& sums, ScaleBy level, Index features, double fallback,
                             Reducer& reducer) {
  std::vector<double> result(sums.sum.size(), fallback);
  const auto m = static_cast<std::size_t>(features);
  std::vector<double> total(2 * m);  // sums, then counts
  for (std::size_t c = 0; c < result.size(); ++c) {
    total[c % m] += sums.sum[c];
    total[m + c % m] += sums.count[c];
  }
  reducer.ordered_sum(total);
  for (std::size_t c = 0; c < result.size(); ++c)
    if (level == ScaleBy::node && sums.count[c] > 0)
      result[c] = sums.sum[c] / sums.count[c];
    else if (total[m + c % m] > 0)
      result[c] = total[c % m] / total[m + c % m];
  return result;
}

}  // namespace

ScaleBy scale_by(std::string_view key, std::string_view text) {
  if (text == "none") return ScaleBy::none;
  if (text == "node") return ScaleBy::node;
  if (text == "global") return ScaleBy::global;
  user_error("{} = \"{}\" is unknown. Set none, node or global", key, text);
}

Scaler::Scaler(Index rows, Index features, double factor)
    : Scaler(rows, features, std::vector<double>(static_cast<std::size_t>(rows * features), 0.0),
             std::vector<double>(static_cast<std::size_t>(rows * features), 1.0), factor) {}

Scaler::Scaler(Index rows, Index features, std::vector<double> center, std::vector<double> spread,
               double factor)
    : rows_(rows),
      features_(features),
      factor_(factor),
      center_(std::move(center)),
      spread_(std::move(spread)) {
  const auto size = static_cast<std::size_t>(rows * features);
  require(center_.size() == size && spread_.size() == size,
          "a scaler has one center and spread a row and feature");
  require(std::isfinite(factor) && factor != 0, "a scaler's factor is finite and not zero");
}

Scaler Scaler::fit(const Series& series, const Split& split, const ScalerSpec& spec, Reducer& reducer) {
  require(series.steps == split.steps, "series and split have the same number of steps");
  const Index width = series.rows * series.features;
  const std::vector<Index> steps = split.training_steps();
  return fit({series.rows, series.features, steps, [&](Index t) { return series.values.data() + t * width; }},
             spec, reducer);
}

Scaler Scaler::fit(const TrainingSteps& training, const ScalerSpec& spec, Reducer& reducer) {
  Scaler scaler(training.rows, training.features, spec.factor);
  const ScaleBy mean_level = spec.center != ScaleBy::none ? spec.center : spec.spread;
  if (mean_level == ScaleBy::none) return scaler;
  const std::vector<double> zero(scaler.center_.size(), 0.0);
  const Sums first = column_sums(training, zero, 1);
  std::vector<double> mean = averages(first, mean_level, training.features, 0, reducer);
  for (Index i = 0; i < training.rows; ++i) {
    const auto counts = first.count.begin() + i * training.features;
    scaler.unseen_ +=
        std::find(counts, counts + training.features, 0.0) != counts + training.features ? 1 : 0;
  }
  if (spec.spread != ScaleBy::none) {
    const std::vector<double> variance =
        averages(column_sums(training, mean, 2), spec.spread, training.features, 1, reducer);
    for (std::size_t c = 0; c < variance.size(); ++c) {
      const double deviation = std::sqrt(variance[c]);
      // Rounding of float data leaves a spread of about 1e-7 of the mean in a constant series.
      const bool constant = deviation <= 1e-6 * std::abs(mean[c]) || deviation < 1e-30;
      scaler.spread_[c] = constant ? 1.0 : deviation;
    }
  }
  if (spec.center != ScaleBy::none) scaler.center_ = std::move(mean);
  return scaler;
}

std::vector<float> scaled_over_nodes(std::span<const double> values, Index channels, Reducer& reducer) {
  const auto m = static_cast<std::size_t>(channels);
  std::vector<double> sums(m + 1), squares(m);  // the count last
  sums[m] = static_cast<double>(values.size() / m);
  for (std::size_t k = 0; k < values.size(); ++k) sums[k % m] += values[k];
  reducer.ordered_sum(sums);
  const auto mean = [&](std::size_t f) { return sums[f] / sums[m]; };
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double off = values[k] - mean(k % m);
    squares[k % m] += off * off;
  }
  reducer.ordered_sum(squares);
  std::vector<float> scaled(values.size());
  for (std::size_t k = 0; k < values.size(); ++k) {
    const double deviation = std::sqrt(squares[k % m] / sums[m]);
    const bool constant = deviation <= 1e-12 * std::abs(mean(k % m)) || deviation < 1e-30;
    scaled[k] = constant ? 0.0F : static_cast<float>((values[k] - mean(k % m)) / deviation);
  }
  return scaled;
}

void Scaler::apply(Series& series) const {
  require(series.rows == rows_ && series.features == features_,
          "scaler and series have the same rows and features");
  const Index width = rows_ * features_;
  for (Index t = 0; t < series.steps; ++t) {
    float* x = series.values.data() + t * width;
    for (std::size_t c = 0; c < center_.size(); ++c)
      x[c] = static_cast<float>((static_cast<double>(x[c]) - center_[c]) * (factor_ / spread_[c]));
  }
}

void Scaler::undo(Series& series) const {
  undo(NodeView<float>{series.values.data(), series.rows, series.steps, series.features, series.features,
                       series.rows * series.features});
}

void Scaler::undo(NodeView<float> values) const {
  require(values.rows == rows_ && values.channels == features_,
          "scaler and values have the same rows and features");
  for (Index i = 0; i < values.rows; ++i)
    for (Index b = 0; b < values.cols; ++b) {
      float* x = values.at(i, b);
      for (Index f = 0; f < features_; ++f) x[f] = static_cast<float>(to_value(x[f], i, f));
    }
}

}  // namespace rossby
