#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/gram_steps.hpp"
#include "rossby/model/baselines/ridge_regression.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/relation/row_partition.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;

/// Autocorrelated noise with a common part; sizes differ much between nodes, and some values are missing.
Series noisy(Index steps, Index rows, Index features) {
  Series series(steps, rows, features);
  const Random random(7, "ridge");
  std::vector<double> state(static_cast<std::size_t>(rows * features));
  for (Index t = 0; t < steps; ++t) {
    const Random now = random.at(static_cast<std::uint64_t>(t));
    for (Index i = 0; i < rows; ++i)
      for (Index f = 0; f < features; ++f) {
        const auto c = static_cast<std::size_t>(i * features + f);
        state[c] = 0.8 * state[c] + 0.5 * now.normal(c) + now.normal(1000 + static_cast<std::uint64_t>(f));
        const bool seen = now.uniform(2000 + c) > 0.1;
        series.at(t, i, f) = seen ? static_cast<float>(std::pow(10, i % 3) * state[c] + 50) : nan;
      }
  }
  return series;
}

Series rows_of(const Series& series, Index first, Index last) {
  Series part(series.steps, last - first, series.features);
  for (Index t = 0; t < series.steps; ++t)
    for (Index i = first; i < last; ++i)
      for (Index f = 0; f < series.features; ++f) part.at(t, i - first, f) = series.at(t, i, f);
  return part;
}

Communicator world() {
  return Communicator::world();
}

struct Fitted {
  Series series;
  std::vector<double> mean, coefficient;
  std::vector<Index> steps, middle;
  RidgeProblem problem;
};

/// Rows [first, last) of a series of `all` rows, fitted and ready to solve; a pointer, because the problem
/// points into the data.
std::unique_ptr<Fitted> fitted(const Series& whole, const Split& split, Index first, Index last,
                               Index feature, Reducer& reducer) {
  auto f = std::make_unique<Fitted>();
  f->series = rows_of(whole, first, last);
  f->steps = split.training_steps();
  f->middle = steps_with_neighbours(f->steps, split);
  f->mean = training_means(f->series, f->steps, reducer);
  f->coefficient = lag_one_coefficients(f->series, f->mean, split.training_pairs());
  f->problem = {&f->series, f->mean, f->coefficient, f->steps, f->middle, feature, 3, first, whole.rows};
  return f;
}

double largest(const std::vector<double>& values) {
  double worst = 0;
  for (const double v : values) worst = std::max(worst, std::abs(v));
  return worst;
}

/// Rows of this rank: blocks; the last rank has none if there are more ranks than rows.
std::pair<Index, Index> share(Index rows) {
  const RowPartition blocks = RowPartition::blocks(rows, world().size());
  const Index first = blocks.begin(world().rank());
  return {first, first + blocks.size(world().rank())};
}

TEST(RidgeVar, IterativeEqualsDenseOnAnyNumberOfRanks) {
  const Communicator comm = world();
  MpiReducer reducer(comm);
  const KspSolver solver(comm);
  OneRankReducer one;
  for (const auto& [steps, rows, features, folds] : {std::tuple<Index, Index, Index, Index>{120, 13, 2, 0},
                                                     {90, 1, 1, 0},
                                                     {150, 29, 1, 3},
                                                     {12, 11, 1, 0}}) {
    const Series whole = noisy(steps, rows, features);
    SplitSettings spec;
    spec.folds = folds;
    spec.fold = folds > 0 ? 1 : 0;
    const Split split = make_split(steps, spec);
    const auto [first, last] = share(rows);
    EXPECT_EQ(solver.rows_before(last - first), first);
    for (Index f = 0; f < features; ++f) {
      const auto all = fitted(whole, split, 0, rows, f, one);
      const std::vector<double> truth = ridge_dense(all->problem, one);
      const auto mine = fitted(whole, split, first, last, f, reducer);
      const std::vector<double> dense = ridge_dense(mine->problem, reducer);
      Index iterations = 0;
      const std::vector<double> iterative = ridge_iterative(mine->problem, reducer, solver, iterations);
      EXPECT_GT(iterations, 1);
      ASSERT_EQ(dense.size(), static_cast<std::size_t>((last - first) * 2 * rows));
      ASSERT_EQ(iterative.size(), dense.size());
      for (Index i = first; i < last; ++i) {
        const auto row = [&](const std::vector<double>& b, Index place) {
          return std::vector<double>(b.begin() + place * 2 * rows, b.begin() + (place + 1) * 2 * rows);
        };
        const auto expected = row(truth, i), a = row(dense, i - first), b = row(iterative, i - first);
        const double scale = largest(expected);
        EXPECT_GT(scale, 0);
        for (std::size_t k = 0; k < expected.size(); ++k) {
          EXPECT_NEAR(a[k], expected[k], 1e-10 * scale) << i << " " << k;
          EXPECT_NEAR(b[k], expected[k], 1e-8 * scale) << i << " " << k;
        }
      }
    }
  }
}

std::vector<float> forecasts(Baseline& baseline, const Series& series, const Split& split, Reducer& reducer) {
  baseline.fit(series, split, reducer);
  std::vector<float> result;
  baseline.forecast(series, split.test_origins(4), 4, reducer, [&](Index, NodeView<const float> x) {
    for (Index o = 0; o < x.cols; ++o)
      for (Index i = 0; i < x.rows; ++i) result.insert(result.end(), x.at(i, o), x.at(i, o) + x.channels);
  });
  return result;
}

TEST(RidgeVar, AllFormsForecastTheSame) {
  const Communicator comm = world();
  MpiReducer reducer(comm);
  const KspSolver solver(comm);
  const Series whole = noisy(140, 17, 2);
  const Split split = make_split(140, {});
  const auto [first, last] = share(17);
  const Series mine = rows_of(whole, first, last);
  BaselineSettings settings;
  settings.solver = &solver;
  const auto dual = make_dual_ridge_var(settings);
  const auto expected = forecasts(*dual, mine, split, reducer);
  const auto primal = make_ridge_var(settings);
  const auto dense = forecasts(*primal, mine, split, reducer);
  EXPECT_EQ(primal->remark(), "ridge_var: Cholesky of 34 coefficients, 98 training steps");
  settings.var_solver = "iterative";
  const auto gradients = make_ridge_var(settings);
  const auto iterative = forecasts(*gradients, mine, split, reducer);
  EXPECT_TRUE(gradients->remark().starts_with("ridge_var: conjugate gradients, 34 coefficients a node"));
  ASSERT_EQ(dense.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    const double scale = std::abs(expected[k]) + 50;  // the mean: anomalies are rounded relative to it
    EXPECT_NEAR(dense[k], expected[k], 1e-6 * scale);
    EXPECT_NEAR(iterative[k], dense[k], 1e-6 * scale);
  }
}

TEST(RidgeVar, FewStepsTakeTheDualForm) {
  const Communicator comm = world();
  MpiReducer reducer(comm);
  const KspSolver solver(comm);
  const auto [first, last] = share(17);
  BaselineSettings settings;
  settings.solver = &solver;
  const auto var = make_ridge_var(settings);
  var->fit(rows_of(noisy(40, 17, 1), first, last), make_split(40, {}), reducer);
  EXPECT_EQ(var->remark(), "ridge_var: Cholesky of 28 training steps");
}

/// Behaves like sizes far beyond this test's.
class ManyRanks final : public SpdSolver {
 public:
  [[nodiscard]] Index rows_before(Index) const override { return 0; }
  [[nodiscard]] Index ranks() const override { return 1; }
  Index solve(const Apply&, std::span<const double>, std::span<double>, double) const override {
    ADD_FAILURE() << "too large a system is not begun";
    return 0;
  }
};

TEST(RidgeVar, TooMuchForAllFormsTakesTheLastSteps) {
  if (world().size() > 1) GTEST_SKIP() << "a test of one rank";
  OneRankReducer reducer;
  const ManyRanks solver;
  const Series wide = noisy(13000, 7, 1);
  Series many(wide.steps, 8200, 1);
  for (Index t = 0; t < wide.steps; ++t)
    for (Index i = 0; i < many.rows; ++i) many.at(t, i, 0) = i < 7 ? wide.at(t, i, 0) : 1;
  const Split split = make_split(wide.steps, {});
  BaselineSettings settings;
  settings.solver = &solver;
  settings.gram_steps = 50;
  const auto var = make_ridge_var(settings);
  var->fit(many, split, reducer);
  EXPECT_TRUE(var->remark().starts_with(
      "ridge_var: Cholesky of the last 50 of 9100 training steps, because conjugate gradients need about"))
      << var->remark();
  for (const char* wanted : {"dense", "iterative"}) {
    settings.var_solver = wanted;
    EXPECT_THROW(make_ridge_var(settings)->fit(many, split, reducer), UserError) << wanted;
  }
}

TEST(RidgeVar, RefusesWhatCannotBe) {
  const Communicator comm = world();
  MpiReducer reducer(comm);
  const KspSolver solver(comm);
  const auto [first, last] = share(5);
  const Series mine = rows_of(noisy(60, 5, 1), first, last);
  const Split split = make_split(60, {});
  BaselineSettings settings;
  settings.solver = &solver;
  settings.var_solver = "iterative";
  settings.ridge = 0;
  EXPECT_THROW(make_ridge_var(settings)->fit(mine, split, reducer), UserError);
  settings.ridge = 1;
  settings.solver = nullptr;
  EXPECT_THROW(make_ridge_var(settings)->fit(mine, split, reducer), UserError);
  // There is nothing to regress on.
  Series flat(60, last - first, 1);
  settings.solver = &solver;
  for (const char* form : {"dense", "iterative"}) {
    settings.var_solver = form;
    for (const float x : forecasts(*make_ridge_var(settings), flat, split, reducer)) EXPECT_EQ(x, 0);
  }
}

TEST(KspSolver, FailuresAreUserErrorsOnAllRanks) {
  const KspSolver solver(world());
  std::vector<double> b(3, 1), x(3);
  // Singular: conjugate gradients must stop.
  EXPECT_THROW(solver.solve([](auto, auto out) { std::fill(out.begin(), out.end(), 0.0); }, b, x, 1e-12),
               UserError);
  EXPECT_THROW(solver.solve([](auto, auto) { user_error("a product failed"); }, b, x, 1e-12), UserError);
  const std::vector<double> none;
  std::vector<double> nothing;
  const bool mine = world().rank() == 0;  // other ranks own nothing
  EXPECT_EQ(solver.solve(
                [](auto in, auto out) {
                  for (std::size_t k = 0; k < in.size(); ++k) out[k] = 2 * in[k];
                },
                mine ? b : none, mine ? std::span(x) : std::span(nothing), 1e-12),
            1);
  if (mine) {
    EXPECT_DOUBLE_EQ(x[2], 0.5);
  }
}

}  // namespace
}  // namespace rossby
