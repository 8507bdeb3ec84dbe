#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/stnn/forecaster.hpp"

namespace rossby {
namespace {

/// A small STNN with a self relation, on one rank.
struct Small {
  Index n, steps = 4, d, m;
  RowPartition partition;
  OneRankExchange exchange;
  OneRankReducer reducer;
  std::unique_ptr<Stnn<double>> model;
  Series series;

  Small(Index latent, Index features, Index nodes = 5)
      : n(nodes), d(latent), m(features), partition(RowPartition::blocks(n, 1)), exchange(n) {
    auto relations = std::make_unique<Relations<double>>(partition, 0);
    relations->add_self(0.5);
    relations->finish(exchange, reducer);
    StnnOptions options;
    options.steps = steps;
    options.features = m;
    options.latent = d;
    options.activation = LatentActivation::tanh;
    model = std::make_unique<Stnn<double>>(options, std::move(relations), partition.rows_of(0));
    model->start({.seed = 2});
    series = Series(12, n, m);
    const Random random(6, "x");
    for (Index q = 0; q < series.values.size(); ++q)
      series.values[q] = static_cast<float>(random.normal(static_cast<std::uint64_t>(q)));
  }

  std::vector<bool> learned() const {
    return {true, true, true, true, false, false, false, false, false, false, false, false};
  }

  /// Returns one step of the model on z (rows, d).
  [[nodiscard]] std::vector<double> advance(const std::vector<double>& z) {
    Tape<double> tape{Exec{}};
    tape.set_recording(false);
    std::vector<double> copy = z;
    const Var<double> next = model->advance(tape, Tape<double>::constant({copy.data(), n, 1, d}));
    return {next.value.data, next.value.data + next.value.size()};
  }

  std::vector<double> decode(const std::vector<double>& z) const {
    std::vector<double> x(static_cast<std::size_t>(n * m), 0.0);
    for (Index i = 0; i < n; ++i)
      for (Index f = 0; f < m; ++f)
        for (Index q = 0; q < d; ++q)
          x[static_cast<std::size_t>(i * m + f)] +=
              model->decoder()->value[f * d + q] * z[static_cast<std::size_t>(i * d + q)];
    return x;
  }

  /// Minimises |D z − x|² + λ |z − p|² by many gradient steps: slow, but independent of the closed form.
  void filter(std::vector<double>& z, Index step, double lambda) {
    const std::vector<double> p = advance(z);
    z = p;
    for (int iteration = 0; iteration < 20000; ++iteration)
      for (Index i = 0; i < n; ++i) {
        std::vector<double> gradient(static_cast<std::size_t>(d));
        for (Index q = 0; q < d; ++q)
          gradient[static_cast<std::size_t>(q)] =
              lambda * (z[static_cast<std::size_t>(i * d + q)] - p[static_cast<std::size_t>(i * d + q)]);
        for (Index f = 0; f < m; ++f) {
          if (std::isnan(series.at(step, i, f))) continue;
          double residual = -series.at(step, i, f);
          for (Index q = 0; q < d; ++q)
            residual += model->decoder()->value[f * d + q] * z[static_cast<std::size_t>(i * d + q)];
          for (Index q = 0; q < d; ++q)
            gradient[static_cast<std::size_t>(q)] += residual * model->decoder()->value[f * d + q];
        }
        for (Index q = 0; q < d; ++q)
          z[static_cast<std::size_t>(i * d + q)] -= 0.3 * gradient[static_cast<std::size_t>(q)];
      }
  }

  std::vector<double> learned_latents(Index step) const {
    const double* from = model->factors().value.data() + step * n * d;
    return {from, from + n * d};
  }
};

std::vector<std::vector<double>> forecast(Small& small, std::vector<Index> origins, Index horizons,
                                          double lambda, int threads = 1) {
  std::vector<std::vector<double>> all;  // by horizon: (rows, origins, m)
  Tape<double> tape{Exec{.threads = threads}};
  Forecaster<double> forecaster(tape, *small.model, small.series, small.learned(), lambda);
  forecaster.run(origins, horizons, [&](Index, Index, NodeView<const double> x) {
    all.emplace_back(x.data, x.data + x.size());
  });
  return all;
}

TEST(Forecaster, FiltersToTheMinimumWithMissingValues) {
  for (const auto& [d, m] : {std::pair<Index, Index>{2, 2}, {3, 1}, {2, 3}}) {
    Small small(d, m);
    small.series.at(4, 2, 0) = NAN;
    for (Index f = 0; f < m; ++f) small.series.at(5, 3, f) = NAN;
    const auto result = forecast(small, {6}, 1, 0.4);
    std::vector<double> z = small.learned_latents(3);
    for (Index t = 4; t <= 6; ++t) small.filter(z, t, 0.4);
    const auto expected = small.decode(small.advance(z));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(result[0][i], expected[i], 1e-7) << "d " << d << " m " << m;
  }
}

TEST(Forecaster, WithoutLambdaMeetsTheObservation) {
  Small small(3, 1);
  std::vector<double> z = small.learned_latents(3);
  const auto p = small.advance(z);
  const auto result = forecast(small, {4}, 1, 0);
  small.filter(z, 4, 1e-6);
  const auto x = small.decode(z);
  for (Index i = 0; i < small.n; ++i)
    EXPECT_NEAR(x[static_cast<std::size_t>(i)], small.series.at(4, i, 0), 1e-4);
  const auto expected = small.decode(small.advance(z));
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(result[0][i], expected[i], 1e-4);
}

TEST(Forecaster, NothingBehindAnOriginEntersItsForecast) {
  Small small(2, 2);
  const auto before = forecast(small, {3, 5, 7}, 3, 0.2);
  for (Index t = 6; t < 12; ++t)
    for (Index i = 0; i < small.n; ++i)
      for (Index f = 0; f < 2; ++f) small.series.at(t, i, f) += 100;
  const auto after = forecast(small, {3, 5, 7}, 3, 0.2);
  for (std::size_t h = 0; h < 3; ++h)
    for (Index i = 0; i < small.n; ++i)
      for (Index o = 0; o < 3; ++o)
        for (Index f = 0; f < 2; ++f) {
          const auto at = static_cast<std::size_t>((i * 3 + o) * 2 + f);
          EXPECT_EQ(before[h][at] == after[h][at], o < 2) << "origin " << o;
        }
}

TEST(Forecaster, OriginsTogetherEqualOriginsAlone) {
  Small small(2, 2);
  const auto together = forecast(small, {2, 5, 9}, 2, 0.1);
  Index o = 0;
  for (const Index origin : {2, 5, 9}) {
    const auto alone = forecast(small, {origin}, 2, 0.1);
    for (std::size_t h = 0; h < 2; ++h)
      for (Index i = 0; i < small.n; ++i)
        for (Index f = 0; f < 2; ++f)
          EXPECT_NEAR(together[h][static_cast<std::size_t>((i * 3 + o) * 2 + f)],
                      alone[h][static_cast<std::size_t>(i * 2 + f)], 1e-13);
    ++o;
  }
}

// More origins than one group, and a smaller last group. The latents of as many origins as fill a cache line
// are written to the columns together.
TEST(Forecaster, TakesEveryOriginOnceHoweverManyThereAre) {
  for (const Index d : {1, 2, 3, 4, 9}) {
    Small small(d, 2);
    std::vector<std::vector<std::vector<double>>> alone;
    std::vector<Index> origins;
    std::vector<std::size_t> expected;
    for (const auto& [origin, times] : {std::pair<Index, Index>{2, 41}, {5, 53}, {9, 37}}) {
      origins.insert(origins.end(), static_cast<std::size_t>(times), origin);
      expected.insert(expected.end(), static_cast<std::size_t>(times), alone.size());
      alone.push_back(forecast(small, {origin}, 2, 0.1));
    }
    std::vector<int> visits(2 * origins.size());
    Tape<double> tape{Exec{}};
    Forecaster<double> forecaster(tape, *small.model, small.series, small.learned(), 0.1);
    forecaster.run(origins, 2, [&](Index first, Index horizon, NodeView<const double> x) {
      ASSERT_LE(first + x.cols, std::ssize(origins));
      for (Index b = 0; b < x.cols; ++b) {
        const auto o = static_cast<std::size_t>(first + b), h = static_cast<std::size_t>(horizon - 1);
        ++visits[h * origins.size() + o];
        for (Index i = 0; i < small.n; ++i)
          for (Index f = 0; f < 2; ++f)
            EXPECT_NEAR(x.at(i, b)[f], alone[expected[o]][h][static_cast<std::size_t>(i * 2 + f)], 1e-13)
                << "d " << d << " origin " << o;
      }
    });
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1)) << d;
  }
}

TEST(Forecaster, ThreadsMakeTheSameBits) {
  Small small(3, 3, 20'000);
  for (Index i = 0; i < small.n; i += 7) small.series.at(5, i, i % 3) = NAN;
  const auto one = forecast(small, {3, 5, 7}, 2, 0.2), three = forecast(small, {3, 5, 7}, 2, 0.2, 3);
  for (std::size_t h = 0; h < 2; ++h) EXPECT_TRUE(one[h] == three[h]) << h;
}

}  // namespace
}  // namespace rossby
