#include <cmath>

#include <cblas.h>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/gram_steps.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

/// c (rows, cols) = alpha·a (rows, inner)·op(b) + beta·c, row-major and packed.
void multiply(Index rows, Index cols, Index inner, double alpha, const double* a, const double* b,
              bool transpose_b, double beta, double* c) {
  if (rows == 0 || cols == 0) return;
  cblas_dgemm(CblasRowMajor, CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, static_cast<int>(rows),
              static_cast<int>(cols), static_cast<int>(inner), alpha, a, std::max(1, static_cast<int>(inner)),
              b, std::max(1, static_cast<int>(transpose_b ? inner : cols)), beta, c, static_cast<int>(cols));
}

class LinearInverseModel final : public Baseline {
 public:
  explicit LinearInverseModel(const BaselineSettings& settings) : settings_(settings) {}
  [[nodiscard]] std::string_view name() const override { return "lim"; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    mean_ = training_means(series, split.training_steps(), reducer);
    const std::vector<Index> steps = gram_steps(split, settings_.gram_steps);
    residual_coefficient_.assign(mean_.size(), 0);
    features_.clear();
    for (Index f = 0; f < series.features; ++f) {
      Feature feature{leading_eofs(series, mean_, steps, f, settings_.lim_modes, reducer), {}};
      feature.propagator = propagator(feature.eofs, steps, split);
      fit_residual(series, feature.eofs, steps, split, f);
      features_.push_back(std::move(feature));
    }
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    const auto count = static_cast<Index>(origins.size());
    const Index width = series.rows * series.features;
    require(static_cast<Index>(mean_.size()) == width, "the linear inverse model is fitted on this series");
    Buffer<float> residual(count * width), values(count * width);
    std::vector<std::vector<double>> amplitude;  // of each feature, (origins, modes)
    for (Index f = 0; f < series.features; ++f)
      amplitude.push_back(analyse(series, origins, f, reducer, residual));
    for (Index h = 1; h <= horizons; ++h) {
      for (Index f = 0; f < series.features; ++f) {
        const Feature& feature = features_[as_size(f)];
        const Index modes = feature.eofs.modes;
        auto& p = amplitude[as_size(f)];
        std::vector<double> next(p.size());
        multiply(count, modes, modes, 1, p.data(), feature.propagator.data(), true, 0, next.data());
        p = std::move(next);
        synthesise(series, f, p, count, residual, values);
      }
      sink(h, {values.data(), series.rows, count, series.features, series.features, width});
    }
  }

 private:
  struct Feature {
    Eofs eofs;
    std::vector<double> propagator;  // (modes, modes): p(t+1) = A·p(t)
  };

  /// Returns A = C₁·C₀⁻¹ with C₁ = Σ p(t+1)p(t)ᵀ, C₀ = Σ p(t)p(t)ᵀ over neighbouring training steps.
  static std::vector<double> propagator(const Eofs& eofs, std::span<const Index> steps, const Split& split) {
    const Index k = eofs.modes;
    std::vector<double> c0(as_size(k * k)), c1(as_size(k * k));
    for (std::size_t j = 0; j + 1 < steps.size(); ++j) {
      if (steps[j + 1] != steps[j] + 1 || !split.follows(steps[j + 1])) continue;
      const double* now = eofs.amplitude.data() + static_cast<Index>(j) * k;
      const double* next = now + k;
      for (Index a = 0; a < k; ++a)
        for (Index b = 0; b < k; ++b) {
          c0[as_size(a * k + b)] += now[a] * now[b];
          c1[as_size(a * k + b)] += next[a] * now[b];
        }
    }
    // If there are as many modes as pairs, C₀ is singular. This ridge is far below the last mode's variance.
    for (Index a = 0; a < k; ++a) c0[as_size(a * k + a)] += 1e-10 * eofs.eigenvalue.front();
    require(cholesky(c0, k), "covariance of amplitudes is positive definite");
    cholesky_solve(c0, k, c1, k);  // row a of A solves C₀·x = (row a of C₁)ᵀ
    return c1;
  }

  /// Fits an AR(1) per node to r = x' − E·p, over neighbouring training steps with both values observed.
  void fit_residual(const Series& series, const Eofs& eofs, std::span<const Index> steps, const Split& split,
                    Index f) {
    const auto n = static_cast<Index>(steps.size());
    const Index m = series.features;
    // If the EOFs explain everything, the rest is rounding and determines no coefficient.
    constexpr double nothing = 1e-16;
    std::vector<double> block, product, square, whole;
    for_row_blocks(series.rows, [&](Index first, Index count) {
      block.resize(as_size(n * count));
      pack_anomalies(series, mean_, steps, f, first, count, block);
      whole.assign(as_size(count), 0);
      for (Index j = 0; j < n; ++j)
        for (Index i = 0; i < count; ++i)
          whole[as_size(i)] += block[as_size(j * count + i)] * block[as_size(j * count + i)];
      multiply(n, count, eofs.modes, -1, eofs.amplitude.data(), eofs.pattern.data() + first * eofs.modes,
               true, 1, block.data());
      product.assign(as_size(count), 0);
      square.assign(as_size(count), 0);
      for (Index j = 0; j + 1 < n; ++j) {
        const Index t = steps[as_size(j)];
        if (steps[as_size(j + 1)] != t + 1 || !split.follows(t + 1)) continue;
        for (Index i = 0; i < count; ++i) {
          if (std::isnan(series.at(t, first + i, f)) || std::isnan(series.at(t + 1, first + i, f))) continue;
          const double r = block[as_size(j * count + i)];
          product[as_size(i)] += r * block[as_size((j + 1) * count + i)];
          square[as_size(i)] += r * r;
        }
      }
      for (Index i = 0; i < count; ++i)
        residual_coefficient_[as_size((first + i) * m + f)] =
            square[as_size(i)] > nothing * whole[as_size(i)] ? product[as_size(i)] / square[as_size(i)] : 0;
    });
  }

  /// Returns amplitudes at the origins, (origins, modes), and puts the rest into `residual` (0 if missing).
  std::vector<double> analyse(const Series& series, std::span<const Index> origins, Index f, Reducer& reducer,
                              Buffer<float>& residual) const {
    const Eofs& eofs = features_[as_size(f)].eofs;
    const auto n = static_cast<Index>(origins.size());
    std::vector<double> amplitude(as_size(n * eofs.modes)), block;
    for_row_blocks(series.rows, [&](Index first, Index count) {
      block.resize(as_size(n * count));
      pack_anomalies(series, mean_, origins, f, first, count, block);
      multiply(n, eofs.modes, count, 1, block.data(), eofs.pattern.data() + first * eofs.modes, false, 1,
               amplitude.data());
    });
    reducer.sum(std::span<double>(amplitude));
    for_row_blocks(series.rows, [&](Index first, Index count) {
      block.resize(as_size(n * count));
      pack_anomalies(series, mean_, origins, f, first, count, block);
      multiply(n, count, eofs.modes, -1, amplitude.data(), eofs.pattern.data() + first * eofs.modes, true, 1,
               block.data());
      for (Index o = 0; o < n; ++o)
        for (Index i = 0; i < count; ++i) {
          const bool missing = std::isnan(series.at(origins[as_size(o)], first + i, f));
          residual[(o * series.rows + first + i) * series.features + f] =
              missing ? 0.0f : static_cast<float>(block[as_size(o * count + i)]);
        }
    });
    return amplitude;
  }

  /// Sets r ← a∘r, then values = mean + E·p + r.
  void synthesise(const Series& series, Index f, std::span<const double> amplitude, Index origins,
                  Buffer<float>& residual, Buffer<float>& values) const {
    const Eofs& eofs = features_[as_size(f)].eofs;
    std::vector<double> block;
    for_row_blocks(series.rows, [&](Index first, Index count) {
      block.assign(as_size(origins * count), 0);
      multiply(origins, count, eofs.modes, 1, amplitude.data(), eofs.pattern.data() + first * eofs.modes,
               true, 0, block.data());
      for (Index o = 0; o < origins; ++o)
        for (Index i = 0; i < count; ++i) {
          const Index column = (first + i) * series.features + f;
          const Index place = o * series.rows * series.features + column;
          const double r = residual_coefficient_[as_size(column)] * residual[place];
          residual[place] = static_cast<float>(r);
          values[place] = static_cast<float>(mean_[as_size(column)] + block[as_size(o * count + i)] + r);
        }
    });
  }

  BaselineSettings settings_;
  std::vector<double> mean_;
  std::vector<double> residual_coefficient_;  // (rows, features)
  std::vector<Feature> features_;
};

}  // namespace

std::unique_ptr<Baseline> make_linear_inverse_model(const BaselineSettings& settings) {
  return std::make_unique<LinearInverseModel>(settings);
}

}  // namespace rossby
