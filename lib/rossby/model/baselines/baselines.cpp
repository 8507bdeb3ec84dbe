#include "rossby/model/baselines/baselines.hpp"

#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

/// Views node data of all origins, stored (origins, rows, features), in the sink's layout.
NodeView<const float> all_origins(const Buffer<float>& values, const Series& series, Index origins) {
  return {values.data(),   series.rows,     origins,
          series.features, series.features, series.rows * series.features};
}

/// Returns the state at the origins, (origins, rows, features). One pass over the series calls `update(x,
/// state)` for every step, row and feature.
template <class Update>
Buffer<float> state_at_origins(const Series& series, std::span<const Index> origins,
                               std::vector<double> state, Update update) {
  const Index width = series.rows * series.features;
  Buffer<float> result(static_cast<Index>(origins.size()) * width);
  std::size_t next = 0;
  for (Index t = 0; t < series.steps && next < origins.size(); ++t) {
    update(series.values.data() + t * width, state);
    for (; next < origins.size() && origins[next] == t; ++next)
      for (Index c = 0; c < width; ++c)
        result[static_cast<Index>(next) * width + c] = static_cast<float>(state[static_cast<std::size_t>(c)]);
  }
  require(next == origins.size(), "origins ascend and lie in the series");
  return result;
}

class Persistence final : public Baseline {
 public:
  [[nodiscard]] std::string_view name() const override { return "persistence"; }
  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    mean_ = training_means(series, split.training_steps(), reducer);
  }
  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer&,
                const HorizonSink& sink) const override {
    const Buffer<float> last =
        state_at_origins(series, origins, mean_, [](const float* x, std::vector<double>& state) {
          for (std::size_t c = 0; c < state.size(); ++c)
            if (!std::isnan(x[c])) state[c] = x[c];
        });
    for (Index h = 1; h <= horizons; ++h)
      sink(h, all_origins(last, series, static_cast<Index>(origins.size())));
  }

 private:
  std::vector<double> mean_;
};

class Climatology final : public Baseline {
 public:
  [[nodiscard]] std::string_view name() const override { return "climatology"; }
  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    const std::vector<double> mean = training_means(series, split.training_steps(), reducer);
    mean_ = Buffer<float>(static_cast<Index>(mean.size()));
    std::transform(mean.begin(), mean.end(), mean_.begin(), [](double x) { return static_cast<float>(x); });
  }
  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer&,
                const HorizonSink& sink) const override {
    // Column stride 0, because every origin has the same forecast.
    const NodeView<const float> forecast(mean_.data(), series.rows, static_cast<Index>(origins.size()),
                                         series.features, series.features, 0);
    for (Index h = 1; h <= horizons; ++h) sink(h, forecast);
  }

 private:
  Buffer<float> mean_;
};

class Ar1 final : public Baseline {
 public:
  [[nodiscard]] std::string_view name() const override { return "ar1"; }
  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    mean_ = training_means(series, split.training_steps(), reducer);
    coefficient_ = lag_one_coefficients(series, mean_, split.training_pairs());
  }
  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer&,
                const HorizonSink& sink) const override {
    const Buffer<float> anomaly = state_at_origins(
        series, origins, std::vector<double>(mean_.size()), [&](const float* x, std::vector<double>& state) {
          for (std::size_t c = 0; c < state.size(); ++c)
            state[c] = std::isnan(x[c]) ? coefficient_[c] * state[c] : static_cast<double>(x[c]) - mean_[c];
        });
    Buffer<float> values(anomaly.size());
    std::vector<double> power(mean_.size(), 1.0);
    const auto width = static_cast<Index>(mean_.size());
    for (Index h = 1; h <= horizons; ++h) {
      for (std::size_t c = 0; c < power.size(); ++c) power[c] *= coefficient_[c];
      for (Index o = 0; o < static_cast<Index>(origins.size()); ++o)
        for (Index c = 0; c < width; ++c)
          values[o * width + c] =
              static_cast<float>(mean_[static_cast<std::size_t>(c)] +
                                 power[static_cast<std::size_t>(c)] * anomaly[o * width + c]);
      sink(h, all_origins(values, series, static_cast<Index>(origins.size())));
    }
  }

 private:
  std::vector<double> mean_;
  std::vector<double> coefficient_;
};

}  // namespace

std::unique_ptr<Baseline> make_persistence() {
  return std::make_unique<Persistence>();
}
std::unique_ptr<Baseline> make_climatology() {
  return std::make_unique<Climatology>();
}
std::unique_ptr<Baseline> make_ar1() {
  return std::make_unique<Ar1>();
}

std::vector<std::unique_ptr<Baseline>> classical_baselines(const BaselineSettings& settings,
                                                           const TimeAxis* axis) {
  std::vector<std::unique_ptr<Baseline>> baselines;
  baselines.push_back(make_persistence());
  baselines.push_back(make_climatology());
  if (auto by_month = axis ? make_annual_cycle(*axis) : nullptr) baselines.push_back(std::move(by_month));
  if (auto by_time = axis ? make_time_of_week(*axis) : nullptr) baselines.push_back(std::move(by_time));
  baselines.push_back(make_ar1());
  baselines.push_back(make_linear_inverse_model(settings));
  baselines.push_back(make_ridge_var(settings));
  constexpr Index most_horizons = 60;  // each horizon has its own regressions
  if (axis && settings.horizons >= 1 && settings.horizons <= most_horizons) {
    for (auto& direct : make_direct_baselines(settings, *axis)) baselines.push_back(std::move(direct));
  }
  return baselines;
}

}  // namespace rossby
