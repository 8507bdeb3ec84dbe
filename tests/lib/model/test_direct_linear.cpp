// Direct regressions of anomalies: their skill, the values they must not use, and several ranks.
#include <cmath>
#include <numbers>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/exchange/spd_solver.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/model/baselines/cross_regression.hpp"
#include "rossby/model/baselines/deciding_splits.hpp"
#include "rossby/model/baselines/own_regression.hpp"
#include "tests/lib/model/series_rows.hpp"
#include "tests/lib/model/thread_ranks.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using test::nan;
using test::rows_of;
constexpr Index steps = 600, nodes = 7, horizons = 3;

/// Hourly.
TimeAxis axis() {
  return TimeAxis::regular(steps, "hours since 2001-01-01", 0, 1);
}

/// A daily cycle of each node, and AR(2) anomalies with noise of variance 1. Node 5 follows node 1 two steps
/// later, node 6 is never observed, and some values are missing.
Series waves(Index features = 1) {
  Series series(steps, nodes, features);
  const Random random(9, "waves");
  std::vector<double> now(nodes * 2), before(nodes * 2);
  std::vector<std::vector<double>> past;
  for (Index t = 0; t < steps; ++t) {
    const Random draw = random.at(static_cast<std::uint64_t>(t));
    std::vector<double> next(now.size());
    for (std::size_t c = 0; c < next.size(); ++c) next[c] = 1.1 * now[c] - 0.4 * before[c] + draw.normal(c);
    before = std::exchange(now, next);
    past.push_back(now);
    for (Index i = 0; i < nodes; ++i)
      for (Index f = 0; f < features; ++f) {
        const auto c = static_cast<std::size_t>(i * 2 + f);
        const double anomaly = i == 5 && t >= 2
                                   ? past[static_cast<std::size_t>(t - 2)][static_cast<std::size_t>(2 + f)]
                                   : now[c];
        const double hour = 2 * std::numbers::pi * static_cast<double>(t % 24) / 24;
        const bool seen = i != 6 && draw.uniform(100 + c) > 0.05;
        series.at(t, i, f) = seen ? static_cast<float>(static_cast<double>(20 * f + 5 + i) +
                                                       8 * std::sin(hour + static_cast<double>(i)) + anomaly)
                                  : nan;
      }
  }
  return series;
}

Split parts() {
  return make_split(steps, {.train = "400", .validation = "80"});
}

BaselineSettings settings(const SpdSolver* solver = nullptr) {
  BaselineSettings all;
  all.horizons = horizons;
  all.solver = solver;
  return all;
}

std::vector<float> run(Baseline& baseline, const Series& series, const Split& split,
                       std::span<const Index> origins, Reducer& reducer) {
  baseline.fit(series, split, reducer);
  std::vector<float> all;
  baseline.forecast(series, origins, horizons, reducer, [&](Index, NodeView<const float> x) {
    for (Index o = 0; o < x.cols; ++o)
      for (Index i = 0; i < x.rows; ++i) all.insert(all.end(), x.at(i, o), x.at(i, o) + x.channels);
  });
  return all;
}

/// RMSE of one node at one horizon.
double error(const std::vector<float>& forecasts, const Series& series, std::span<const Index> origins,
             Index node, Index horizon) {
  double squares = 0, number = 0;
  for (std::size_t o = 0; o < origins.size(); ++o) {
    const float target = series.at(origins[o] + horizon, node, 0);
    const auto place = (static_cast<std::size_t>(horizon - 1) * origins.size() + o) *
                           static_cast<std::size_t>(series.rows * series.features) +
                       static_cast<std::size_t>(node * series.features);
    if (std::isnan(target)) continue;
    squares += std::pow(static_cast<double>(forecasts[place]) - static_cast<double>(target), 2);
    number += 1;
  }
  return std::sqrt(squares / number);
}

TEST(DirectLinear, FindsCyclesLagsAndOtherNodes) {
  const Series series = waves();
  const TimeAxis time = axis();
  const std::vector<Index> origins = parts().test_origins(horizons);
  OneRankReducer reducer;
  const auto ar = make_direct_ar(settings(), time), ridge = make_direct_ridge(settings(), time),
             cycle = make_cycle(settings(), time), ar1 = make_ar1();
  const std::vector<float> of_ar = run(*ar, series, parts(), origins, reducer),
                           of_ridge = run(*ridge, series, parts(), origins, reducer),
                           of_cycle = run(*cycle, series, parts(), origins, reducer),
                           of_ar1 = run(*ar1, series, parts(), origins, reducer);
  EXPECT_NE(ar->remark().find("anomalies from the cycle time_of_day"), std::string::npos) << ar->remark();
  // Innovations have a standard deviation of 1, anomalies of about 2.3.
  for (const Index node : {0, 1, 2, 3, 4}) {
    EXPECT_LT(error(of_ar, series, origins, node, 1), 1.35) << node;
    EXPECT_LT(error(of_ar, series, origins, node, 1), 0.7 * error(of_ar1, series, origins, node, 1)) << node;
    EXPECT_LT(error(of_cycle, series, origins, node, 1), 3) << node;
  }
  // Node 1 shows the value two steps before: only noise from missing values is left.
  EXPECT_GT(error(of_ar, series, origins, 5, 2), 1.2);
  EXPECT_LT(error(of_ridge, series, origins, 5, 2), 0.75);
  for (const auto& forecasts : {of_ar, of_ridge, of_cycle})
    for (const float x : forecasts) ASSERT_TRUE(std::isfinite(x));
}

TEST(DirectLinear, SeesNoValueBehindAnOriginAndNoneOfTheTestPart) {
  const Series series = waves(2);
  const TimeAxis time = axis();
  Series spoilt = rows_of(series, 0, nodes);
  const std::vector<Index> origins = {500, 510};
  for (Index t = 511; t < steps; ++t)
    for (Index i = 0; i < nodes; ++i) spoilt.at(t, i, 0) = spoilt.at(t, i, 1) = 1e6F;
  OneRankReducer reducer;
  for (const auto make : {make_cycle, make_direct_ar, make_direct_ridge}) {
    const auto clean = make(settings(), time), other = make(settings(), time);
    EXPECT_EQ(run(*clean, series, parts(), origins, reducer), run(*other, spoilt, parts(), origins, reducer))
        << clean->name();
  }
}

/// Knows its rank, and solves nothing.
class Places final : public SpdSolver {
 public:
  Places(Index before, Index ranks) : before_(before), ranks_(ranks) {}
  [[nodiscard]] Index rows_before(Index) const override { return before_; }
  [[nodiscard]] Index ranks() const override { return ranks_; }
  Index solve(const Apply&, std::span<const double>, std::span<double>, double) const override { return 0; }

 private:
  Index before_, ranks_;
};

TEST(DirectLinear, SameForecastsAtAnyNumberOfRanks) {
  const Series series = waves(2);
  const TimeAxis time = axis();
  const Split folds = make_split(steps, {.train = "480", .folds = 4, .fold = 1}),
              lent = make_split(steps, {.train = "480"});
  const std::vector<Index> origins = parts().test_origins(horizons),
                           begin = {0, 3, 3, nodes};  // rank 1 owns nothing
  for (const Split& split : {parts(), folds, lent})
    for (const auto make : {make_cycle, make_direct_ar, make_direct_ridge}) {
      OneRankReducer one;
      const auto whole = make(settings(), time);
      const std::vector<float> expected = run(*whole, series, split, origins, one);
      std::vector<std::vector<float>> found(3);
      ThreadRanks ranks(3);
      ranks.run([&](int rank, Reducer& reducer) {
        const auto r = static_cast<std::size_t>(rank);
        const Places places(begin[r], 3);
        const auto part = make(settings(&places), time);
        found[r] = run(*part, rows_of(series, begin[r], begin[r + 1]), split, origins, reducer);
        EXPECT_EQ(part->remark(), whole->remark());
      });
      const std::size_t images = origins.size() * horizons, width = 2 * nodes;
      for (std::size_t k = 0; k < images; ++k)
        for (std::size_t c = 0; c < width; ++c)
          ASSERT_NEAR(expected[k * width + c], c < 6 ? found[0][k * 6 + c] : found[2][k * 8 + c - 6], 1e-3)
              << whole->name();
    }
}

TEST(DirectLinear, OneSearchServesBothUntilTheSeriesChanges) {
  const Series series = waves();
  const TimeAxis time = axis();
  const std::vector<Index> origins = parts().test_origins(horizons);
  OneRankReducer reducer;
  const auto alone = make_direct_ridge(settings(), time);
  const std::vector<float> expected = run(*alone, series, parts(), origins, reducer);
  const auto all = make_direct_baselines(settings(), time);
  Baseline &ar = *all[1], &ridge = *all[2];
  run(ar, series, parts(), origins, reducer);
  EXPECT_EQ(run(ridge, series, parts(), origins, reducer), expected);
  EXPECT_EQ(ridge.chosen(), alone->chosen());
  // A search for another split or for other values is not taken over.
  const Split shorter = make_split(steps, {.train = "300", .validation = "80"});
  Series changed = rows_of(series, 0, nodes);
  changed.at(420, 3, 0) += 40;  // in the validation part
  const std::vector<std::pair<const Series*, Split>> others{{&series, shorter}, {&changed, parts()}};
  for (const auto& [values, split] : others) {
    run(ar, series, parts(), origins, reducer);
    run(ridge, *values, split, origins, reducer);
    const auto again = make_direct_ridge(settings(), time);
    run(*again, *values, split, origins, reducer);
    EXPECT_EQ(ridge.remark(), again->remark());
    EXPECT_EQ(ridge.chosen(), again->chosen());
    EXPECT_NE(ridge.remark(), alone->remark());
  }
}

TEST(DirectLinear, BothFormsOfTheCrossRegressionAgree) {
  const Series series = waves();
  const TimeAxis time = axis();
  const Split split = parts();
  const std::vector<Index> origins = {420, 500}, begin = {0, 3, nodes};
  std::vector<Index> training;
  for (Index t = 2; t < 300; ++t) training.push_back(t);
  // Target: the node's next anomaly. Returns (origins, rows) by a ridge relative to the trace.
  const auto forecasts = [&](const AnomalySeries& anomalies, Reducer& reducer) {
    const CrossRegression cross(anomalies, training, 0, 2, false, nullptr, reducer);
    const Index rows = anomalies.full.rows;
    std::vector<double> targets;
    for (const Index t : training)
      for (Index i = 0; i < rows; ++i) {
        const float x = anomalies.training.at(t + 1, i, 0);
        targets.push_back(std::isnan(x) ? 0 : static_cast<double>(x));
      }
    const std::vector<double> weights =
        cross.weights(1e-3 * static_cast<double>(cross.size()), cross.products(origins, reducer));
    const std::vector<double> right =
        cross.right_hand_sides(targets, rows, cross.training_regressors(reducer));
    std::vector<double> all;
    for (std::size_t o = 0; o < origins.size(); ++o)
      for (Index i = 0; i < rows; ++i) {
        double sum = 0;
        for (Index k = 0; k < cross.size(); ++k)
          sum += weights[o * static_cast<std::size_t>(cross.size()) + static_cast<std::size_t>(k)] *
                 right[static_cast<std::size_t>(i * cross.size() + k)];
        all.push_back(sum);
      }
    return std::pair(all, cross.size());
  };
  OneRankReducer one;
  const auto [primal, regressors] = forecasts(AnomalySeries::of(series, {}, split, time, {}, one), one);
  EXPECT_EQ(regressors, 2 * nodes);
  ThreadRanks ranks(2);
  std::vector<std::vector<double>> dual(2);
  ranks.run([&](int rank, Reducer& reducer) {
    const auto r = static_cast<std::size_t>(rank);
    const Series part = rows_of(series, begin[r], begin[r + 1]);
    const auto [found, steps_used] =
        forecasts(AnomalySeries::of(part, {}, split, time, {}, reducer), reducer);
    EXPECT_EQ(steps_used, std::ssize(training)) << "without a solver several ranks take the dual form";
    dual[r] = found;
  });
  for (std::size_t o = 0; o < origins.size(); ++o)
    for (std::size_t i = 0; i < nodes; ++i)
      EXPECT_NEAR(primal[o * nodes + i], i < 3 ? dual[0][o * 3 + i] : dual[1][o * 4 + i - 3], 1e-6)
          << o << " " << i;
  EXPECT_GT(std::abs(primal[0]), 1e-3);
}

/// Two patterns of all nodes with noise of deviation 0.2. Half of the values are missing; node 6 is never
/// observed.
Series patterns(bool complete) {
  Series series(steps, nodes, 2);
  const Random random(3, "patterns");
  for (Index t = 0; t < steps; ++t) {
    const Random draw = random.at(static_cast<std::uint64_t>(t));
    for (Index i = 0; i < nodes; ++i)
      for (Index f = 0; f < 2; ++f) {
        const auto c = static_cast<std::uint64_t>(2 * i + f);
        const double x = draw.normal(50) + (i % 2 == 0 ? 1 : -1) * draw.normal(51) + 0.2 * draw.normal(c);
        const bool seen = complete || (i != 6 && draw.uniform(100 + c) > 0.5);
        series.at(t, i, f) = seen ? static_cast<float>(x * static_cast<double>(i + 1)) : nan;
      }
  }
  return series;
}

TEST(DirectLinear, FillsMissingAnomaliesFromOtherNodes) {
  const Series truth = patterns(true), series = patterns(false);
  OneRankReducer one;
  const AnomalySeries whole = AnomalySeries::of(series, {}, parts(), axis(), {}, one);
  double left = 0, all = 0;
  for (Index t = 0; t < steps; ++t)
    for (Index i = 0; i < 6; ++i) {
      const float x = series.at(t, i, 0), filled = whole.filled_full.at(t, i, 0);
      ASSERT_TRUE(std::isfinite(filled));
      if (!std::isnan(x)) {
        EXPECT_EQ(filled, whole.full.at(t, i, 0));
        continue;
      }
      const double scale = static_cast<double>(i + 1),
                   expected = static_cast<double>(truth.at(t, i, 0)) / scale;
      left += std::pow(static_cast<double>(filled) / scale - expected, 2);
      all += expected * expected;
    }
  // Three other nodes are observed on average, often enough for both patterns.
  EXPECT_LT(left, 0.35 * all);
  for (Index t = 0; t < steps; ++t) EXPECT_EQ(whole.filled_full.at(t, 6, 0), 0) << "never seen";

  const std::vector<Index> begin = {0, 3, 3, nodes};
  ThreadRanks ranks(3);
  ranks.run([&](int rank, Reducer& reducer) {
    const Index first = begin[static_cast<std::size_t>(rank)],
                last = begin[static_cast<std::size_t>(rank) + 1];
    const AnomalySeries part =
        AnomalySeries::of(rows_of(series, first, last), {}, parts(), axis(), {}, reducer);
    for (Index t = 0; t < steps; ++t)
      for (Index i = first; i < last; ++i)
        for (Index f = 0; f < 2; ++f)
          EXPECT_NEAR(part.filled_full.at(t, i - first, f), whole.filled_full.at(t, i, f), 1e-4);
  });
  const AnomalySeries complete = AnomalySeries::of(truth, {}, parts(), axis(), {}, one);
  EXPECT_EQ(complete.filled_full.steps, 0) << "nothing to fill: no copies";
}

TEST(DirectLinear, FindsATrendBehindTheTrainingPartAlone) {
  constexpr Index days = 1300;
  const TimeAxis time = TimeAxis::regular(days, "days since 2001-01-01", 0, 1);
  const Random random(5, "warming");
  Series series(days, 3, 1);
  for (Index t = 0; t < days; ++t)
    for (Index i = 0; i < 3; ++i) {
      const double year = static_cast<double>(t) / 365.25;
      series.at(t, i, 0) =
          static_cast<float>(4 * std::cos(2 * std::numbers::pi * year) + 2 * year +
                             random.at(static_cast<std::uint64_t>(t)).normal(static_cast<std::uint64_t>(i)));
    }
  OneRankReducer reducer;
  const auto remark = [&](const Split& split) {
    const auto baseline = make_direct_ar(settings(), time);
    baseline->fit(series, split, reducer);
    return baseline->remark();
  };
  const std::string behind = remark(make_split(days, {.train = "900", .validation = "200"})),
                    held_out = remark(make_split(days, {.train = "1100", .folds = 4, .fold = 1}));
  EXPECT_NE(behind.find("harmonics) and a linear trend; RMSE"), std::string::npos) << behind;
  EXPECT_EQ(held_out.find("trend"), std::string::npos) << held_out;
}

TEST(DirectLinear, FoldsDecideWithoutAValidationPart) {
  const Split whole = make_split(steps, {.train = "401"});
  std::vector<int> held_out(steps);
  for (const Split& fold : deciding_splits(whole, 5)) {
    EXPECT_GE(fold.validation.size(), 80);
    for (Index t = 0; t < steps; ++t) {
      EXPECT_EQ(whole.is_training(t), fold.is_training(t) || fold.validation.contains(t)) << t;
      EXPECT_FALSE(fold.is_training(t) && fold.validation.contains(t)) << t;
      held_out[static_cast<std::size_t>(t)] += fold.validation.contains(t) ? 1 : 0;
    }
  }
  for (Index t = 0; t < steps; ++t) EXPECT_EQ(held_out[static_cast<std::size_t>(t)], t < 401 ? 1 : 0) << t;
  EXPECT_EQ(deciding_splits(parts(), 5).size(), 1U);
  const Split one = make_split(steps, {.train = "2"});
  for (const Split& fold : deciding_splits(one, 5)) EXPECT_EQ(fold.validation.size(), 1);
}

TEST(DirectLinear, LagsDoNotReachOverGaps) {
  Series series = waves();
  std::vector<double> hours;
  for (Index t = 0; t < steps; ++t) hours.push_back(static_cast<double>(t < 300 ? t : t + 24 * 30));
  const TimeAxis time = TimeAxis::parse(hours, "hours since 2001-01-01", "standard", "test");
  const Split split = parts();
  OneRankReducer reducer;
  AnomalySpec spec;
  const AnomalySeries anomalies = AnomalySeries::of(series, {}, split, time, spec, reducer);
  const OwnRegression own(anomalies, split, time, CycleKind::none, horizons, 1, reducer);
  for (Index lead = 1; lead <= horizons; ++lead)
    for (const Index t : own.training_origins(lead)) EXPECT_FALSE(t < 300 && t + lead >= 300);
  // Step 300 has no past of its own: values before the gap must not change its forecast by lags.
  const std::vector<OwnChoice> lags(horizons, OwnChoice{6, false, false, 10});
  const std::vector<Index> origin = {300};
  std::vector<float> before(horizons), after(horizons);
  own.forecasts(0, 1, lags, origin, before, {});
  AnomalySeries changed = AnomalySeries::of(series, {}, split, time, spec, reducer);
  for (Index t = 290; t < 300; ++t) changed.full.at(t, 0, 0) += 100, changed.filled_full.at(t, 0, 0) += 100;
  const OwnRegression same(changed, split, time, CycleKind::none, horizons, 1, reducer);
  same.forecasts(0, 1, lags, origin, after, {});
  EXPECT_EQ(before, after);
}

TEST(DirectLinear, ShortSeriesHaveForecasts) {
  OneRankReducer reducer;
  const TimeAxis time = TimeAxis::regular(12, "days since 2001-01-01", 0, 1);
  Series series(12, 2, 1);
  for (Index t = 0; t < 12; ++t) series.at(t, 0, 0) = static_cast<float>(t % 3), series.at(t, 1, 0) = nan;
  const std::vector<Index> origins = {8};
  for (const char* train : {"2", "5", "9"})
    for (const auto make : {make_cycle, make_direct_ar, make_direct_ridge}) {
      const auto baseline = make(settings(), time);
      for (const float x : run(*baseline, series, make_split(12, {.train = train}), origins, reducer))
        EXPECT_TRUE(std::isfinite(x)) << baseline->name() << " " << train;
    }
}

}  // namespace
}  // namespace rossby
