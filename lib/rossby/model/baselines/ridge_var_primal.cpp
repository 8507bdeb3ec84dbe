// The primal form of the ridge VAR, for series with more steps than nodes, and the choice between the forms.
#include <algorithm>
#include <cmath>

#include <cblas.h>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/gram_steps.hpp"
#include "rossby/model/baselines/ridge_regression.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr Index most_dense = 8192;        // rows of a matrix that every rank factorises: 512 MiB
constexpr double most_operations = 2e14;  // per rank: about an hour of a core
constexpr double usual_iterations = 60;   // with evaluate.ridge = 3

class PrimalRidgeVar final : public Baseline {
 public:
  PrimalRidgeVar(const BaselineSettings& settings, Index first_row, Index all_rows, bool iterative)
      : settings_(settings), first_row_(first_row), all_rows_(all_rows), iterative_(iterative) {}
  [[nodiscard]] std::string_view name() const override { return "ridge_var"; }
  [[nodiscard]] Index iterations() const { return iterations_; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    const std::vector<Index> steps = split.training_steps();
    mean_ = training_means(series, steps, reducer);
    coefficient_ = lag_one_coefficients(series, mean_, split.training_pairs());
    const std::vector<Index> middle = steps_with_neighbours(steps, split);
    weights_.clear();
    iterations_ = 0;
    for (Index f = 0; f < series.features; ++f) {
      const RidgeProblem problem{&series, mean_,           coefficient_, steps,    middle,
                                 f,       settings_.ridge, first_row_,   all_rows_};
      weights_.push_back(iterative_ ? ridge_iterative(problem, reducer, *settings_.solver, iterations_)
                                    : ridge_dense(problem, reducer));
    }
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    const auto count = static_cast<Index>(origins.size());
    const Index width = series.rows * series.features;
    require(static_cast<Index>(mean_.size()) == width, "the ridge VAR is fitted on this series");
    Buffer<float> now(count * width), before(count * width), values(count * width);
    for (Index o = 0; o < count; ++o)
      for (Index c = 0; c < width; ++c) {
        const auto anomaly = [&](Index t) {
          const float x = t < 0 ? NAN : series.values[t * width + c];
          return std::isnan(x) ? 0.0F : static_cast<float>(x - mean_[as_size(c)]);
        };
        now[o * width + c] = anomaly(origins[as_size(o)]);
        before[o * width + c] = anomaly(origins[as_size(o)] - 1);
      }
    const Index block = std::clamp<Index>((Index{1} << 22) / std::max<Index>(2 * all_rows_, 1), 1, 1024);
    for (Index h = 1; h <= horizons; ++h) {
      for (Index f = 0; f < series.features; ++f)
        for (Index first = 0; first < count; first += block)
          step(series, f, first, std::min(block, count - first), reducer, now, before, values);
      sink(h, {values.data(), series.rows, count, series.features, series.features, width});
    }
  }

 private:
  /// Computes x'(t+1) = a∘x'(t) + B·[x'(t), x'(t−1)] for some origins.
  void step(const Series& series, Index f, Index first, Index count, Reducer& reducer, Buffer<float>& now,
            Buffer<float>& before, Buffer<float>& values) const {
    const Index rows = series.rows, m = series.features, width = 2 * all_rows_;
    std::vector<double> fields(as_size(count * width)), sum(as_size(count * rows));
    for (Index o = 0; o < count; ++o)
      for (Index i = 0; i < rows; ++i) {
        const Index place = ((first + o) * rows + i) * m + f;
        fields[as_size(o * width + first_row_ + i)] = now[place];
        fields[as_size(o * width + all_rows_ + first_row_ + i)] = before[place];
      }
    reducer.sum(std::span<double>(fields));
    if (rows > 0)
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(count), static_cast<int>(rows),
                  static_cast<int>(width), 1.0, fields.data(), static_cast<int>(width),
                  weights_[as_size(f)].data(), static_cast<int>(width), 0.0, sum.data(),
                  static_cast<int>(rows));
    for (Index o = 0; o < count; ++o)
      for (Index i = 0; i < rows; ++i) {
        const Index column = i * m + f, place = (first + o) * rows * m + column;
        const double next = coefficient_[as_size(column)] * now[place] + sum[as_size(o * rows + i)];
        before[place] = now[place];
        now[place] = static_cast<float>(next);
        values[place] = static_cast<float>(mean_[as_size(column)] + next);
      }
  }

  BaselineSettings settings_;
  Index first_row_, all_rows_;
  bool iterative_;
  Index iterations_ = 0;
  std::vector<double> mean_, coefficient_;    // (rows, features)
  std::vector<std::vector<double>> weights_;  // B of each feature, (rows, 2n)
};

/// Chooses one of the forms when the sizes are known.
class RidgeVarBySize final : public Baseline {
 public:
  explicit RidgeVarBySize(const BaselineSettings& settings) : settings_(settings) {}
  [[nodiscard]] std::string_view name() const override { return "ridge_var"; }
  [[nodiscard]] std::string remark() const override { return remark_; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    const auto steps = static_cast<Index>(split.training_steps().size());
    auto rows = static_cast<double>(series.rows);
    reducer.sum(std::span<double>(&rows, 1));
    const auto nodes = static_cast<Index>(rows);
    const Index first_row = settings_.solver ? settings_.solver->rows_before(series.rows) : 0;
    const bool placed =
        settings_.solver != nullptr || nodes == series.rows;  // otherwise, the rank's columns are unknown
    const bool dual = steps <= 2 * nodes || !placed;
    const bool dense = (dual ? steps : 2 * nodes) <= most_dense;
    if (settings_.var_solver == "dense" && !dense)
      user_error(
          "evaluate.var_solver = \"dense\": {} training steps and {} coefficients per node are both more "
          "than {}. Set evaluate.var_solver = \"iterative\" or \"auto\"",
          steps, 2 * nodes, most_dense);
    const bool wanted = settings_.var_solver == "iterative";
    if (!wanted && dense && dual) return fit_dual(series, split, reducer, steps, steps);
    if (!wanted && dense) {
      form_ = std::make_unique<PrimalRidgeVar>(settings_, first_row, nodes, false);
      remark_ = fmt::format("ridge_var: Cholesky of {} coefficients, {} training steps", 2 * nodes, steps);
      return form_->fit(series, split, reducer);
    }
    if (const std::string why = against_iterations(steps, nodes); !why.empty()) {
      if (wanted)
        user_error(
            "evaluate.var_solver = \"iterative\": {}. Set evaluate.var_solver = \"auto\" to use another "
            "solver",
            why);
      fit_dual(series, split, reducer, settings_.gram_steps, steps);
      remark_ += ", because " + why;
      return;
    }
    auto form = std::make_unique<PrimalRidgeVar>(settings_, first_row, nodes, true);
    form->fit(series, split, reducer);
    remark_ = fmt::format(
        "ridge_var: conjugate gradients, {} coefficients a node, {} training steps, {} iterations", 2 * nodes,
        steps, form->iterations());
    form_ = std::move(form);
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer& reducer,
                const HorizonSink& sink) const override {
    require(form_ != nullptr, "the ridge VAR is fitted");
    form_->forecast(series, origins, horizons, reducer, sink);
  }

 private:
  void fit_dual(const Series& series, const Split& split, Reducer& reducer, Index most, Index all) {
    BaselineSettings settings = settings_;
    settings.gram_steps = most;
    form_ = make_dual_ridge_var(settings);
    const Index used = std::min(settings.gram_steps, all);
    remark_ = used < all ? fmt::format("ridge_var: Cholesky of the last {} of {} training steps", used, all)
                         : fmt::format("ridge_var: Cholesky of {} training steps", used);
    form_->fit(series, split, reducer);
  }

  /// Returns why conjugate gradients cannot be used; empty if they can.
  [[nodiscard]] std::string against_iterations(Index steps, Index nodes) const {
    if (settings_.solver == nullptr) return "this build has no iterative solver";
    if (!(settings_.ridge > 0)) return "conjugate gradients need evaluate.ridge above 0";
    const double operations = usual_iterations * 8 * static_cast<double>(steps) * static_cast<double>(nodes) *
                              static_cast<double>(nodes) / static_cast<double>(settings_.solver->ranks());
    if (operations <= most_operations) return "";
    return fmt::format(
        "conjugate gradients need about {:.1e} operations per rank, more than the limit of {:.0e}. Use more "
        "ranks",
        operations, most_operations);
  }

  BaselineSettings settings_;
  std::unique_ptr<Baseline> form_;
  std::string remark_;
};

}  // namespace

std::unique_ptr<Baseline> make_ridge_var(const BaselineSettings& settings) {
  return std::make_unique<RidgeVarBySize>(settings);
}

}  // namespace rossby
