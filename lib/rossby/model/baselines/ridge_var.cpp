#include <cmath>

#include <cblas.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/gram_steps.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

class RidgeVar final : public Baseline {
 public:
  explicit RidgeVar(const BaselineSettings& settings) : settings_(settings) {}
  [[nodiscard]] std::string_view name() const override { return "ridge_var"; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    mean_ = training_means(series, split.training_steps(), reducer);
    coefficient_ = lag_one_coefficients(series, mean_, split.training_pairs());
    steps_ = gram_steps(split, settings_.gram_steps);
    middle_ = steps_with_neighbours(steps_, split);
    factor_.clear();
    for (Index f = 0; f < series.features; ++f)
      factor_.push_back(factorise(gram_matrix(series, mean_, steps_, f, reducer)));
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    const auto count = static_cast<Index>(origins.size());
    const Index width = series.rows * series.features;
    require(static_cast<Index>(mean_.size()) == width, "the ridge VAR is fitted on this series");
    Buffer<float> anomaly(count * width), values(count * width);
    for (Index o = 0; o < count; ++o)
      for (Index c = 0; c < width; ++c) {
        const float x = series.values[origins[as_size(o)] * width + c];
        anomaly[o * width + c] = std::isnan(x) ? 0.0f : static_cast<float>(x - mean_[as_size(c)]);
      }
    std::vector<std::vector<double>> before;  // of each feature: products of the field one step earlier
    for (Index f = 0; f < series.features; ++f)
      before.push_back(earlier_products(series, origins, f, reducer));
    for (Index h = 1; h <= horizons; ++h) {
      for (Index f = 0; f < series.features; ++f) {
        std::vector<double> now = products(series, anomaly, count, f, reducer);
        step(series, dual_weights(now, before[as_size(f)], count, f), count, f, anomaly, values);
        before[as_size(f)] = std::move(now);
      }
      sink(h, {values.data(), series.rows, count, series.features, series.features, width});
    }
  }

 private:
  /// Cholesky factor of ΦΦᵀ + λI; ΦΦᵀ[p, q] = G[t_p, t_q] + G[t_p − 1, t_q − 1].
  [[nodiscard]] std::vector<double> factorise(const std::vector<double>& gram) const {
    const auto n = static_cast<Index>(steps_.size());
    const auto pairs = static_cast<Index>(middle_.size());
    std::vector<double> matrix(as_size(pairs * pairs));
    double trace = 0;
    for (Index p = 0; p < pairs; ++p)
      for (Index q = 0; q < pairs; ++q) {
        const Index a = middle_[as_size(p)];
        const Index b = middle_[as_size(q)];
        matrix[as_size(p * pairs + q)] = gram[as_size(a * n + b)] + gram[as_size((a - 1) * n + b - 1)];
        if (p == q) trace += matrix[as_size(p * pairs + q)];
      }
    // If a field has no anomalies, any positive diagonal gives weights of 0.
    const double ridge = trace > 0 ? settings_.ridge * trace / static_cast<double>(pairs) : 1;
    for (Index p = 0; p < pairs; ++p) matrix[as_size(p * pairs + p)] += ridge;
    if (!cholesky(matrix, pairs))
      user_error(
          "evaluate.ridge = {}: the Gram matrix of {} training steps is singular. Raise evaluate.ridge",
          settings_.ridge, pairs);
    return matrix;
  }

  /// Returns scalar products of blocks of fields (origins, ·) with the anomalies at steps_, over all ranks:
  /// (origins, steps).
  template <class Fill>
  std::vector<double> products_with(const Series& series, Index origins, Index f, Reducer& reducer,
                                    Fill fill) const {
    const auto n = static_cast<Index>(steps_.size());
    std::vector<double> result(as_size(origins * n)), fields, block;
    for_row_blocks(origins > 0 ? series.rows : 0, [&](Index first, Index count) {
      fields.resize(as_size(origins * count));
      block.resize(as_size(n * count));
      fill(first, count, std::span<double>(fields));
      pack_anomalies(series, mean_, steps_, f, first, count, block);
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(origins), static_cast<int>(n),
                  static_cast<int>(count), 1.0, fields.data(), static_cast<int>(count), block.data(),
                  static_cast<int>(count), 1.0, result.data(), static_cast<int>(n));
    });
    reducer.sum(std::span<double>(result));
    return result;
  }

  std::vector<double> earlier_products(const Series& series, std::span<const Index> origins, Index f,
                                       Reducer& reducer) const {
    std::vector<Index> earlier(origins.begin(), origins.end());
    for (Index& o : earlier) --o;  // before the first step: a field of zeros
    return products_with(series, static_cast<Index>(origins.size()), f, reducer,
                         [&](Index first, Index count, std::span<double> out) {
                           pack_anomalies(series, mean_, earlier, f, first, count, out);
                         });
  }

  std::vector<double> products(const Series& series, const Buffer<float>& anomaly, Index origins, Index f,
                               Reducer& reducer) const {
    return products_with(series, origins, f, reducer, [&](Index first, Index count, std::span<double> out) {
      for (Index o = 0; o < origins; ++o)
        for (Index i = 0; i < count; ++i)
          out[as_size(o * count + i)] = anomaly[(o * series.rows + first + i) * series.features + f];
    });
  }

  /// Returns φΦᵀ·(ΦΦᵀ + λI)⁻¹ of every origin, (origins, pairs).
  std::vector<double> dual_weights(const std::vector<double>& now, const std::vector<double>& before,
                                   Index origins, Index f) const {
    const auto n = static_cast<Index>(steps_.size());
    const auto pairs = static_cast<Index>(middle_.size());
    std::vector<double> weights(as_size(origins * pairs));
    for (Index o = 0; o < origins; ++o)
      for (Index p = 0; p < pairs; ++p) {
        const Index t = middle_[as_size(p)];
        weights[as_size(o * pairs + p)] = now[as_size(o * n + t)] + before[as_size(o * n + t - 1)];
      }
    cholesky_solve(factor_[as_size(f)], pairs, weights, origins);
    return weights;
  }

  /// x' ← a∘x' + weights·Y with Y[p] = x'(t_p + 1) − a∘x'(t_p); values = mean + x'.
  void step(const Series& series, std::span<const double> weights, Index origins, Index f,
            Buffer<float>& anomaly, Buffer<float>& values) const {
    const auto n = static_cast<Index>(steps_.size());
    const auto pairs = static_cast<Index>(middle_.size());
    const Index m = series.features;
    std::vector<double> block, targets, sum;
    for_row_blocks(origins > 0 ? series.rows : 0, [&](Index first, Index count) {
      block.resize(as_size(n * count));
      targets.resize(as_size(pairs * count));
      sum.assign(as_size(origins * count), 0);
      pack_anomalies(series, mean_, steps_, f, first, count, block);
      const double* a = coefficient_.data() + first * m + f;
      for (Index p = 0; p < pairs; ++p) {
        const double* x = block.data() + middle_[as_size(p)] * count;
        for (Index i = 0; i < count; ++i) targets[as_size(p * count + i)] = x[count + i] - a[i * m] * x[i];
      }
      if (pairs > 0)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(origins),
                    static_cast<int>(count), static_cast<int>(pairs), 1.0, weights.data(),
                    static_cast<int>(pairs), targets.data(), static_cast<int>(count), 0.0, sum.data(),
                    static_cast<int>(count));
      for (Index o = 0; o < origins; ++o)
        for (Index i = 0; i < count; ++i) {
          const Index column = (first + i) * m + f;
          const Index place = o * series.rows * m + column;
          const double next = a[i * m] * anomaly[place] + sum[as_size(o * count + i)];
          anomaly[place] = static_cast<float>(next);
          values[place] = static_cast<float>(mean_[as_size(column)] + next);
        }
    });
  }

  BaselineSettings settings_;
  std::vector<double> mean_;                 // (rows, features)
  std::vector<double> coefficient_;          // AR(1), (rows, features)
  std::vector<Index> steps_;                 // training steps of the Gram matrix
  std::vector<Index> middle_;                // indices j into steps_ with consecutive steps j−1, j, j+1
  std::vector<std::vector<double>> factor_;  // of each feature, (pairs, pairs)
};

}  // namespace

std::unique_ptr<Baseline> make_dual_ridge_var(const BaselineSettings& settings) {
  return std::make_unique<RidgeVar>(settings);
}

}  // namespace rossby
