#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/data/correlation.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;

/// Nodes that share a signal to different degrees; some values missing, node 2 constant, node 3 never
/// observed.
std::vector<float> field(Index steps, Index nodes, double missing, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  std::vector<float> x(static_cast<std::size_t>(steps * nodes));
  for (Index t = 0; t < steps; ++t) {
    const double signal = normal(random);
    for (Index i = 0; i < nodes; ++i) {
      const double share = std::sin(static_cast<double>(i));
      double value = 300 + 5 * (share * signal + 0.5 * normal(random));
      if (i == 2) value = 0.1;
      x[static_cast<std::size_t>(t * nodes + i)] =
          i == 3 || uniform(random) < missing ? nan : static_cast<float>(value);
    }
  }
  return x;
}

/// Pearson's r by definition; 0 if it is undefined.
double pearson(const std::vector<float>& x, Index steps, Index nodes, Index i, Index j, Index overlap) {
  std::vector<std::pair<double, double>> both;
  for (Index t = 0; t < steps; ++t) {
    const double a = x[static_cast<std::size_t>(t * nodes + i)],
                 b = x[static_cast<std::size_t>(t * nodes + j)];
    if (!std::isnan(a) && !std::isnan(b)) both.emplace_back(a, b);
  }
  if (static_cast<Index>(both.size()) < overlap) return 0;
  double a = 0, b = 0, aa = 0, bb = 0, ab = 0;
  for (const auto& [p, q] : both) {
    a += p / static_cast<double>(both.size());
    b += q / static_cast<double>(both.size());
  }
  for (const auto& [p, q] : both) {
    aa += (p - a) * (p - a);
    bb += (q - b) * (q - b);
    ab += (p - a) * (q - b);
  }
  return aa < 1e-9 || bb < 1e-9 ? 0 : ab / std::sqrt(aa * bb);
}

TEST(Correlation, EqualsItsDefinition) {
  for (const auto& [steps, nodes, missing] : {std::tuple<Index, Index, double>{40, 7, 0.0},
                                              {40, 7, 0.4},
                                              {97, 263, 0.3},  // more than a block
                                              {50, 5, 1.0},
                                              {2, 6, 0.0}}) {
    const auto x = field(steps, nodes, missing, 5);
    const CorrelationRule rule{0, 0.2, 5};
    std::map<std::pair<Index, Index>, double> found;
    for (const Edge& e : correlation_graph(x, steps, nodes, rule)) {
      EXPECT_TRUE(found.emplace(std::pair(e.source, e.destination), e.weight).second);
      EXPECT_EQ(e.relation, 0);
    }
    std::size_t expected = 0;
    for (Index i = 0; i < nodes; ++i)
      for (Index j = 0; j < nodes; ++j) {
        const double r = i == j ? 0 : pearson(x, steps, nodes, i, j, rule.overlap);
        if (r < rule.threshold) continue;
        ++expected;
        ASSERT_TRUE(found.contains({i, j})) << i << " " << j << " " << r;
        EXPECT_NEAR((found[{i, j}]), r, 1e-9);
      }
    EXPECT_EQ(found.size(), expected);
    if (missing < 1 && steps > 5) {
      EXPECT_GT(expected, 0u);
    }
  }
}

TEST(Correlation, StrongestNeighbours) {
  const Index steps = 60, nodes = 290;
  const auto x = field(steps, nodes, 0.1, 9);
  std::vector<std::vector<double>> incoming(nodes);
  for (const Edge& e : correlation_graph(x, steps, nodes, {3, 0, 5}))
    incoming[e.destination].push_back(e.weight);
  for (Index i = 0; i < nodes; ++i) {
    std::vector<double> all;
    for (Index j = 0; j < nodes; ++j)
      if (i != j)
        if (const double r = pearson(x, steps, nodes, i, j, 5); r > 0) all.push_back(r);
    std::sort(all.rbegin(), all.rend());
    all.resize(std::min<std::size_t>(3, all.size()));
    std::sort(incoming[i].rbegin(), incoming[i].rend());
    ASSERT_EQ(incoming[i].size(), all.size()) << i;
    for (std::size_t k = 0; k < all.size(); ++k) EXPECT_NEAR(incoming[i][k], all[k], 1e-9);
  }
}

TEST(Correlation, ConstantNodesAreCorrelatedWithNone) {
  std::vector<float> x;
  for (Index t = 0; t < 50; ++t) x.insert(x.end(), {0.1F, 0.3F, 1e6F, 100000 + static_cast<float>(t % 2)});
  EXPECT_TRUE(correlation_graph(x, 50, 4, {0, 0.01, 2}).empty());
  EXPECT_TRUE(correlation_graph({}, 0, 4, {}).empty());
  EXPECT_TRUE(correlation_graph({}, 10, 0, {}).empty());
  // Constant on the common steps only.
  std::vector<float> y;
  for (Index t = 0; t < 40; ++t)
    y.insert(y.end(), {t < 20 ? 5.3F : static_cast<float>(t), t < 20 ? static_cast<float>(t) : nan});
  EXPECT_TRUE(correlation_graph(y, 40, 2, {0, 0.01, 2}).empty());
}

}  // namespace
}  // namespace rossby
