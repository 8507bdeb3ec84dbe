#include <array>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/data/synthetic.hpp"

namespace rossby {
namespace {

std::vector<std::vector<float>> run(SyntheticField& field, Index steps) {
  std::vector<std::vector<float>> series(static_cast<std::size_t>(steps),
                                         std::vector<float>(static_cast<std::size_t>(field.cells())));
  for (auto& x : series) field.next(x);
  return series;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(HeatField, FollowsItsKnownRelations) {
  for (const auto& [n_lat, n_lon] : {std::pair<Index, Index>{1, 41}, {1, 1}, {7, 5}, {2, 1}}) {
    HeatField field({.n_lat = n_lat, .n_lon = n_lon, .sources = 2, .seed = 7});
    const auto edges = field.edges();
    const auto x = run(field, 12);
    for (std::size_t t = 0; t + 1 < x.size(); ++t) {
      std::vector<double> mixed(x[t].size()), sum(x[t].size());
      for (const Edge& e : edges) {
        mixed[static_cast<std::size_t>(e.destination)] += e.weight * x[t][static_cast<std::size_t>(e.source)];
        sum[static_cast<std::size_t>(e.destination)] += e.weight;
      }
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        const double expected = x.front().size() == 1 ? x[t][i] : 0.6 * x[t][i] + 0.4 * mixed[i];
        EXPECT_NEAR(x[t + 1][i], expected, 1e-6);
        EXPECT_NEAR(sum[i], x.front().size() > 1 ? 1 : 0, 1e-12);
      }
    }
  }
}

TEST(HeatField, ConservesHeatWeightedByNeighbours) {
  HeatField field({.n_lat = 6, .n_lon = 9, .sources = 3});
  std::vector<double> neighbours(54);
  for (const Edge& e : field.edges()) neighbours[static_cast<std::size_t>(e.destination)] += 1;
  const auto x = run(field, 100);
  const auto heat = [&](const std::vector<float>& values) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) sum += neighbours[i] * values[i];
    return sum;
  };
  EXPECT_GT(heat(x.front()), 1);
  EXPECT_NEAR(heat(x.back()) / heat(x.front()), 1, 1e-5);
  EXPECT_FALSE(same_bits(x.front(), x.back()));
}

TEST(SyntheticField, SameSeedSameBitsOtherSeedOtherField) {
  const auto heat = [](std::uint64_t seed) {
    HeatField field({.n_lat = 5, .n_lon = 8, .noise = 0.1, .sources = 2, .seed = seed});
    return run(field, 9).back();
  };
  const auto pacific = [](std::uint64_t seed) {
    PacificField field({.n_lat = 11, .n_lon = 23, .seed = seed});
    return run(field, 9).back();
  };
  EXPECT_TRUE(same_bits(heat(1), heat(1)));
  EXPECT_FALSE(same_bits(heat(1), heat(2)));
  EXPECT_TRUE(same_bits(pacific(1), pacific(1)));
  EXPECT_FALSE(same_bits(pacific(1), pacific(2)));
}

TEST(PacificField, LandIsNaNAndEveryOtherCellIsBounded) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    PacificField field({.seed = seed});
    const double share = 1 - static_cast<double>(field.sea_cells()) / static_cast<double>(field.cells());
    EXPECT_GT(share, 0.04) << seed;
    EXPECT_LT(share, 0.25) << seed;
    std::vector<float> x(static_cast<std::size_t>(field.cells()));
    for (int t = 0; t < 300; ++t) {
      field.next(x);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(std::isnan(x[i]), field.land()[i] == 1);
        ASSERT_TRUE(field.land()[i] == 1 || (x[i] > 10 && x[i] < 40)) << x[i];
      }
    }
    EXPECT_EQ(field.step(), 300);
  }
}

TEST(PacificField, AnomaliesHaveAboutTheirStandardDeviation) {
  PacificField field({.land = false, .mean = 0, .seasonal = 0, .oscillation = 0, .anomaly = 0.5, .noise = 0});
  PacificField flat({.land = false, .mean = 0, .seasonal = 0, .oscillation = 0, .anomaly = 0, .noise = 0});
  std::vector<float> x(static_cast<std::size_t>(field.cells())), base(x.size());
  double squares = 0;
  for (int t = 0; t < 400; ++t) {
    field.next(x);
    flat.next(base);
    for (std::size_t i = 0; i < x.size(); ++i) squares += std::pow(x[i] - base[i], 2);
  }
  RecordProperty("ratio_std", std::to_string(std::sqrt(squares / 400 / static_cast<double>(x.size()))));
  EXPECT_NEAR(std::sqrt(squares / 400 / static_cast<double>(x.size())), 0.5, 0.1);
}

TEST(PacificField, AnySize) {
  for (const auto& [n_lat, n_lon] : {std::pair<Index, Index>{1, 1}, {1, 7}, {13, 1}, {60, 168}}) {
    PacificField field({.n_lat = n_lat, .n_lon = n_lon});
    EXPECT_GE(field.sea_cells(), 1);
    const auto x = run(field, 3);
    Index observed = 0;
    for (const float value : x.back()) observed += !std::isnan(value);
    EXPECT_EQ(observed, field.sea_cells());
  }
  PacificField field({});
  EXPECT_DOUBLE_EQ(field.latitude(0), -29);
  EXPECT_DOUBLE_EQ(field.longitude(83), 290);
}

/// Solves the symmetric positive definite system A·w = b of a few unknowns by elimination.
template <std::size_t K>
std::array<double, K> solve(std::array<std::array<double, K>, K> a, std::array<double, K> b) {
  for (std::size_t k = 0; k < K; ++k) {
    a[k][k] += 1e-9;
    for (std::size_t r = k + 1; r < K; ++r) {
      const double factor = a[r][k] / a[k][k];
      for (std::size_t c = k; c < K; ++c) a[r][c] -= factor * a[k][c];
      b[r] -= factor * b[k];
    }
  }
  for (std::size_t k = K; k-- > 0;) {
    for (std::size_t c = k + 1; c < K; ++c) b[k] -= a[k][c] * b[c];
    b[k] /= a[k][k];
  }
  return b;
}

TEST(PacificField, LocalLinearModelBeatsPersistence) {
  // One least-squares fit for each cell and horizon: 300 steps, from the 3 × 3 surroundings at the last step.
  PacificField field({});
  const Index train = 300, steps = 500, n_lat = field.n_lat(), n_lon = field.n_lon();
  const auto x = run(field, steps);
  for (Index h = 1; h <= 5; ++h) {
    double model = 0, persistence = 0;
    for (Index row = 1; row + 1 < n_lat; row += 3)
      for (Index col = 1; col + 1 < n_lon; col += 3) {
        const Index cell = row * n_lon + col;
        if (field.land()[static_cast<std::size_t>(cell)]) continue;
        const auto inputs = [&](Index t) {
          std::array<double, 10> v{};
          for (Index k = 0; k < 9; ++k) {
            const auto j = static_cast<std::size_t>(cell + (k / 3 - 1) * n_lon + k % 3 - 1);
            if (!field.land()[j]) v[static_cast<std::size_t>(k)] = x[static_cast<std::size_t>(t)][j] - 26;
          }
          v[9] = 1;
          return v;
        };
        const auto target = [&](Index t) {
          return x[static_cast<std::size_t>(t)][static_cast<std::size_t>(cell)] - 26.0;
        };
        std::array<std::array<double, 10>, 10> gram{};
        std::array<double, 10> right{};
        for (Index t = 0; t + h < train; ++t) {
          const auto v = inputs(t);
          for (std::size_t a = 0; a < 10; ++a) {
            right[a] += v[a] * target(t + h);
            for (std::size_t b = 0; b < 10; ++b) gram[a][b] += v[a] * v[b];
          }
        }
        const auto weight = solve(gram, right);
        for (Index t = train; t + h < steps; ++t) {
          const auto v = inputs(t);
          double forecast = 0;
          for (std::size_t a = 0; a < 10; ++a) forecast += weight[a] * v[a];
          model += std::pow(forecast - target(t + h), 2);
          persistence += std::pow(target(t) - target(t + h), 2);
        }
      }
    const double ratio = std::sqrt(model / persistence);
    RecordProperty("ratio_" + std::to_string(h), std::to_string(ratio));
    EXPECT_LT(ratio, h == 1 ? 0.93 : 0.9) << "horizon " << h;
  }
}

TEST(SyntheticField, BadSettingsNameTheSetting) {
  EXPECT_THROW(HeatField({.n_lat = 0}), UserError);
  EXPECT_THROW(HeatField({.conductivity = 1.5}), UserError);
  EXPECT_THROW(PacificField({.current = 0.9}), UserError);
  EXPECT_THROW(PacificField({.noise = std::nan("")}), UserError);
}

}  // namespace
}  // namespace rossby
