#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/data/leading_patterns.hpp"
#include "rossby/data/series.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "tests/lib/model/thread_ranks.hpp"

// Leading patterns by subspace iteration against EOFs by the method of snapshots, on one rank and on several.

namespace rossby {
namespace {

constexpr Index nodes = 9, steps = 40;

/// Three patterns of amplitude 5, 2 and 1, with noise.
double value(Index t, Index i, double noise) {
  const Random random(3, "fields");
  double sum = noise * random.normal(static_cast<std::uint64_t>(t * nodes + i));
  const double amplitude[] = {5, 2, 1};
  for (int k = 0; k < 3; ++k)
    sum += amplitude[k] * std::cos((k + 1) * static_cast<double>(i) + k) *
           random.at(1).normal(static_cast<std::uint64_t>(t * 3 + k));
  return sum;
}

std::vector<Index> steps_from(Index first, Index stride) {
  std::vector<Index> list;
  for (Index t = first; t < steps; t += stride) list.push_back(t);
  return list;
}

LeadingPatterns patterns(std::span<const GlobalRow> rows, std::span<const Index> which, Index modes,
                         double noise, Reducer& space, Reducer& groups) {
  PatternFields fields;
  fields.rows = rows;
  fields.steps = which;
  fields.read = [&](Index t, std::span<double> field) {
    for (std::size_t i = 0; i < field.size(); ++i) field[i] = value(t, rows[i].value, noise);
  };
  return leading_patterns(fields, modes, space, groups);
}

std::vector<GlobalRow> rows_from(Index first, Index stride) {
  std::vector<GlobalRow> rows;
  for (Index i = first; i < nodes; i += stride) rows.push_back(GlobalRow{i});
  return rows;
}

TEST(LeadingPatterns, AreTheEofs) {
  OneRankReducer alone;
  const std::vector<Index> all = steps_from(0, 1);
  const LeadingPatterns found = patterns(rows_from(0, 1), all, 3, 0.1, alone, alone);
  Series series(steps, nodes, 1);
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < nodes; ++i) series.values[t * nodes + i] = static_cast<float>(value(t, i, 0.1));
  const std::vector<double> mean(nodes, 0.0);
  const Eofs eofs = leading_eofs(series, mean, all, 0, 3, alone);
  for (Index k = 0; k < 3; ++k) {
    double product = 0;
    for (Index i = 0; i < nodes; ++i)
      product += found.pattern[static_cast<std::size_t>(i * 3 + k)] *
                 eofs.pattern[static_cast<std::size_t>(i * 3 + k)];
    EXPECT_NEAR(std::abs(product), 1, 1e-4) << "pattern " << k;
    const double spread = std::sqrt(eofs.eigenvalue[static_cast<std::size_t>(k)] / steps);
    EXPECT_NEAR(found.spread[static_cast<std::size_t>(k)], spread, 1e-3 * spread);
  }
}

TEST(LeadingPatterns, LeaveColumnsBeyondTheRankAtZero) {
  OneRankReducer alone;
  const LeadingPatterns found = patterns(rows_from(0, 1), steps_from(0, 1), 5, 0, alone, alone);
  for (Index k = 0; k < 5; ++k) {
    double square = 0;
    for (Index i = 0; i < nodes; ++i)
      square += std::pow(found.pattern[static_cast<std::size_t>(i * 5 + k)], 2);
    EXPECT_NEAR(square, k < 3 ? 1 : 0, 1e-12);
    EXPECT_EQ(found.spread[static_cast<std::size_t>(k)] > 0, k < 3);
  }
}

TEST(LeadingPatterns, DoNotDependOnTheGrid) {
  OneRankReducer alone;
  const LeadingPatterns one = patterns(rows_from(0, 1), steps_from(0, 1), 4, 0.1, alone, alone);
  for (const bool blocks : {true, false}) {
    ThreadRanks ranks(3);
    std::mutex mutex;
    ranks.run([&](int rank, Reducer& reducer) {
      const std::vector<GlobalRow> rows = blocks ? rows_from(rank, 3) : rows_from(0, 1);
      const std::vector<Index> which = blocks ? steps_from(0, 1) : steps_from(rank, 3);
      OneRankReducer nobody;
      const LeadingPatterns some =
          patterns(rows, which, 4, 0.1, blocks ? reducer : nobody, blocks ? nobody : reducer);
      const std::scoped_lock lock(mutex);
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (std::size_t k = 0; k < 4; ++k)
          EXPECT_NEAR(some.pattern[i * 4 + k], one.pattern[static_cast<std::size_t>(rows[i].value) * 4 + k],
                      1e-9);
      for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(some.spread[k], one.spread[k], 1e-9);
    });
  }
}

TEST(Cholesky, SolvesSystemsOfAnySize) {  // small ones without LAPACK
  const Random random(4, "cholesky");
  for (const Index n : {0, 1, 2, 7, 15, 16, 17, 40}) {
    const auto at = [n](Index i, Index j) { return static_cast<std::size_t>(i * n + j); };
    std::vector<double> root(static_cast<std::size_t>(n * n)), matrix(root.size()),
        x(3 * static_cast<std::size_t>(n)), right(x.size());
    for (std::size_t k = 0; k < root.size(); ++k) root[k] = random.normal(k);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = random.normal(10'000 + k);
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j) {
        matrix[at(i, j)] = i == j ? 1 : 0;
        for (Index k = 0; k < n; ++k) matrix[at(i, j)] += root[at(i, k)] * root[at(j, k)];
      }
    for (Index r = 0; r < 3; ++r)
      for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j)
          right[static_cast<std::size_t>(r * n + i)] +=
              matrix[at(i, j)] * x[static_cast<std::size_t>(r * n + j)];
    std::vector<double> factor = matrix;
    ASSERT_TRUE(cholesky(factor, n)) << n;
    cholesky_solve(factor, n, right, 3);
    for (std::size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(right[k], x[k], 1e-9) << n;
    if (n == 0) continue;
    for (const double bad : {-1.0, 0.0, std::numeric_limits<double>::quiet_NaN()}) {
      factor = matrix;
      factor[at(n - 1, n - 1)] = bad;
      EXPECT_FALSE(cholesky(factor, n)) << n << ' ' << bad;
    }
  }
}

}  // namespace
}  // namespace rossby
