#include <algorithm>
#include <cmath>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/direct_ar.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr double pull = 10;  // targets that the pooled coefficients count as

/// With 0 lags the cycle alone.
class CycleAr final : public Baseline {
 public:
  CycleAr(const TimeAxis& axis, CycleBaselineSettings settings)
      : axis_(axis), settings_(std::move(settings)) {}

  [[nodiscard]] std::string_view name() const override { return settings_.lags > 0 ? "cycle_ar" : "cycle"; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    require(series.first == 0 && series.steps == axis_.size(), "the time axis is that of the series");
    split_ = &split;
    training_ = copy_of(series);
    const std::vector<Index> steps = split.training_steps();
    AnomalyMap::Training data;
    data.rows = series.rows;
    data.features = series.features;
    data.steps = data.own = steps;
    data.at = [&](Index t) { return series.at(t); };
    data.centers = settings_.centers;
    data.threads = settings_.threads;
    Series full = copy_of(series);
    std::vector<AnomalyMap::View> without, others;
    const Index width = series.rows * series.features;
    for (Index t = 0; t < series.steps; ++t) {
      if (split.is_training(t)) without.push_back({t, training_.values.data() + t * width});
      others.push_back({t, full.values.data() + t * width});
    }
    map_ = AnomalyMap::fit(data, axis_, settings_.anomalies, without, others, reducer);
    anomalies_ = std::move(full);
    // A cycle's anomalies have a mean of 0 but for what shrinking and smoothing leave.
    mean_ = training_means(training_, steps, reducer);
    subtract_mean(training_);
    subtract_mean(anomalies_);
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    const Index width = series.rows * series.features;
    Buffer<float> values(std::ssize(origins) * width);
    std::vector<double> anomaly(static_cast<std::size_t>(width)), variance;
    for (Index h = 1; h <= horizons; ++h) {
      const DirectAr model = DirectAr::fit(training_, *split_, h, settings_.lags, pull, reducer);
      variance = variance_of(model, h);
      float* to = values.data();
      for (const Index origin : origins) {
        model.forecast(anomalies_, origin, anomaly);
        for (Index c = 0; c < width; ++c) {
          const auto k = static_cast<std::size_t>(c);
          *to++ = static_cast<float>(
              map_.to_value(anomaly[k] + mean_[k], origin + h, c, variance.empty() ? 0 : variance[k]));
        }
      }
      sink(h, {values.data(), series.rows, std::ssize(origins), series.features, series.features, width});
    }
  }

 private:
  static Series copy_of(const Series& series) {
    Series copy(series.steps, series.rows, series.features);
    std::copy(series.values.begin(), series.values.end(), copy.values.begin());
    return copy;
  }

  void subtract_mean(Series& series) const {
    const auto width = static_cast<Index>(mean_.size());
    for (Index t = 0; t < series.steps; ++t)
      for (Index c = 0; c < width; ++c)
        series.values[t * width + c] -= static_cast<float>(mean_[static_cast<std::size_t>(c)]);
  }

  /// Of what the model leaves of training anomalies, (rows, features); empty: medians are asked for.
  [[nodiscard]] std::vector<double> variance_of(const DirectAr& model, Index horizon) const {
    if (!settings_.anomalies.transform.on() || settings_.median) return {};
    std::vector<double> squares(mean_.size()), number(mean_.size()), anomaly(mean_.size());
    for (const Index target : split_->training_pairs(horizon)) {
      model.forecast(training_, target - horizon, anomaly);
      for (std::size_t c = 0; c < mean_.size(); ++c) {
        const double left = static_cast<double>(training_.at(target)[c]) - anomaly[c];
        if (std::isnan(left)) continue;
        squares[c] += left * left;
        number[c] += 1;
      }
    }
    for (std::size_t c = 0; c < mean_.size(); ++c) squares[c] = number[c] > 0 ? squares[c] / number[c] : 0;
    return squares;
  }

  TimeAxis axis_;
  CycleBaselineSettings settings_;
  const Split* split_ = nullptr;
  AnomalyMap map_;
  Series training_, anomalies_;  // about the cycle without the own period, and about that of all of training
  std::vector<double> mean_;     // of training anomalies
};

}  // namespace

std::unique_ptr<Baseline> make_cycle(const TimeAxis& axis, CycleBaselineSettings settings) {
  settings.lags = 0;
  return std::make_unique<CycleAr>(axis, std::move(settings));
}

std::unique_ptr<Baseline> make_cycle_ar(const TimeAxis& axis, CycleBaselineSettings settings) {
  return std::make_unique<CycleAr>(axis, std::move(settings));
}

}  // namespace rossby
