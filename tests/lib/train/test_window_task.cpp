#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/window_task.hpp"

// Forecasts, errors and validation of windows that do not fill the last batch, compared with sums over single
// windows; how often truth is fed.

namespace rossby {
namespace {

constexpr Index all_steps = 60, nodes = 3, parts_of_a_value = 2;
constexpr WindowShape shape{4, 3};

std::vector<Index> range(Index first, Index last) {
  std::vector<Index> values(static_cast<std::size_t>(last - first));
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// A scaled forecast from the last and the first known step of its window, and its horizon.
double rule(double last, double first, Index horizon) {
  return 0.5 * last + 0.25 * first + 0.1 * static_cast<double>(horizon);
}

/// Forecasts by `rule` and records which steps fed truth.
class Rule final : public WindowModel<double> {
 public:
  [[nodiscard]] std::string_view name() const override { return "rule"; }
  [[nodiscard]] std::span<Parameter<double>* const> parameters() const override { return {}; }
  void start(std::uint64_t) override {}
  using WindowModel<double>::predict;
  void predict(Tape<double>& tape, std::span<const WindowSource<double>* const> sources,
               std::span<Var<double>> outputs) override {
    if (computes) computes();
    const std::size_t horizons = outputs.size() / sources.size();
    for (std::size_t k = 0; k < sources.size(); ++k) {
      const WindowSource<double>& source = *sources[k];
      batches.push_back(source.windows());
      const Var<double> first = source.input(tape, 0), last = source.input(tape, shape.inputs - 1);
      std::vector<bool> fed;
      for (std::size_t h = 0; h < horizons; ++h) {
        fed.push_back(source.feeds_truth(static_cast<Index>(h)));
        Var<double>& y = outputs[k * horizons + h];
        y = tape.make(source.rows(), source.windows(), source.features(), false);
        for (Index i = 0; i < source.rows(); ++i)
          for (Index b = 0; b < source.windows(); ++b)
            for (Index f = 0; f < source.features(); ++f)
              y.value.at(i, b)[f] =
                  rule(last.value.at(i, b)[f], first.value.at(i, b)[f], static_cast<Index>(h) + 1);
      }
      feeds.push_back(std::move(fed));
    }
  }

  std::vector<Index> batches;
  std::vector<std::vector<bool>> feeds;
  std::function<void()> computes;  // called by predict
};

/// One of several groups, without transfers between them.
class GroupAlone final : public StepExchange {
 public:
  GroupAlone(int groups, int group) : groups_(groups), group_(group) {}
  [[nodiscard]] int groups() const override { return groups_; }
  [[nodiscard]] int group() const override { return group_; }
  void begin(Index, std::span<const std::vector<const float*>>, std::span<const std::span<float>>) override {
    bug("nothing moves");
  }
  void end() override {}
  [[nodiscard]] Traffic sent() const override { return {}; }

 private:
  int groups_, group_;
};

/// One of two groups; records which transfers are under way. The values that arrive have no meaning.
class NotedExchange final : public StepExchange {
 public:
  explicit NotedExchange(int group) : group_(group) {}
  [[nodiscard]] int groups() const override { return 2; }
  [[nodiscard]] int group() const override { return group_; }
  void begin(Index width, std::span<const std::vector<const float*>> outgoing,
             std::span<const std::span<float>> incoming) override {
    require(!under_way, "one transfer at a time");
    under_way = true;
    const auto other = static_cast<std::size_t>(1 - group_);
    leaving = std::ssize(outgoing[other]);
    coming = std::ssize(incoming[other]) / width;
    std::fill(incoming[other].begin(), incoming[other].end(), 1.0F);
  }
  void end() override { under_way = false; }
  [[nodiscard]] Traffic sent() const override { return {}; }

  bool under_way = false;
  Index leaving = 0, coming = 0;  // steps of the last transfer

 private:
  int group_;
};

/// Sums of ranks that run one after the other; the last one gets the total.
class RanksInTurn final : public Reducer {
 public:
  void sum(std::span<double> values) override {
    before_.resize(values.size());
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = before_[k] += values[k];
  }
  void sum(std::span<float>) override {}
  void max(std::span<double>) override {}
  void ordered_sum(std::span<double>) override {}
  [[nodiscard]] Traffic sent() const override { return {}; }

 private:
  std::vector<double> before_;
};

struct Data {
  Series series{all_steps, nodes, parts_of_a_value};
  Scaler scaler{nodes, parts_of_a_value, {5, 4, 3, 2, 1, 0}, {1, 2, 3, 4, 5, 6}, 2.0};
  TimeFeatures times;

  Data() {
    const Random random(11, "window task");
    for (Index k = 0; k < series.values.size(); ++k) {
      const auto at = static_cast<std::uint64_t>(k);
      series.values[k] = random.at(1).uniform(at) < 0.2 ? std::numeric_limits<float>::quiet_NaN()
                                                        : static_cast<float>(3 + 4 * random.normal(at));
    }
  }
  [[nodiscard]] double scaled(Index step, Index i, Index f) const {
    const float x = series.at(step, i, f);
    return std::isnan(x) ? 0 : scaler.to_scaled(x, i, f);
  }
  [[nodiscard]] double forecast(Index origin, Index horizon, Index i, Index f) const {
    return scaler.to_value(rule(scaled(origin, i, f), scaled(origin + 1 - shape.inputs, i, f), horizon), i,
                           f);
  }
};

struct Sums {
  double count = 0, absolutes = 0, squares = 0;
};

/// Returns errors of all origins, added one by one.
Sums sums_of(const Data& data, const std::vector<Index>& origins, Index horizon) {
  Sums sums;
  for (const Index origin : origins)
    for (Index i = 0; i < nodes; ++i)
      for (Index f = 0; f < parts_of_a_value; ++f) {
        const float truth = data.series.at(origin + horizon, i, f);
        if (std::isnan(truth)) continue;
        const double error = data.forecast(origin, horizon, i, f) - static_cast<double>(truth);
        sums.count += 1;
        sums.absolutes += std::abs(error);
        sums.squares += error * error;
      }
  return sums;
}

/// A rank of a grid of groups and stages, with all rows.
struct Rank {
  GroupAlone between;
  StepStore store;
  SeriesReader<double> reader;
  Rule model;
  WindowTask<double> task;

  Rank(const Data& data, Reducer& reducer, WindowTaskOptions options, std::vector<std::vector<Index>> origins,
       int group = 0)
      : between(static_cast<int>(std::ssize(origins)), group),
        store(all_steps, nodes, parts_of_a_value, StepLists(origins.size(), range(0, all_steps)), between),
        reader(store, data.scaler, data.times, Fill::mean),
        task(options, plan(static_cast<int>(std::ssize(origins))), model, reader, store, origins, reducer) {
    std::copy(data.series.values.begin(), data.series.values.end(), store.values().begin());
  }

  static WindowPlan plan(int groups) {
    WindowPlan plan({.shape = shape, .batch = 4 * groups, .groups = groups}, range(0, 20), all_steps);
    plan.set_observed(std::vector<double>(static_cast<std::size_t>(all_steps), nodes * parts_of_a_value));
    return plan;
  }
};

class WindowScores : public testing::TestWithParam<std::tuple<Index, Index>> {
 protected:
  [[nodiscard]] Index batch() const { return std::get<0>(GetParam()); }
  /// Returns this many origins, with a gap, up to the last one with targets.
  [[nodiscard]] std::vector<Index> origins() const {
    const Index count = std::get<1>(GetParam());
    std::vector<Index> origins = range(all_steps - shape.outputs - count, all_steps - shape.outputs);
    if (count > 2) origins.front() = 7;
    return origins;
  }
};

TEST_P(WindowScores, ForecastsAreOfEveryOriginOnce) {
  const Data data;
  OneRankReducer reducer;
  Rank rank(data, reducer, {.score_batch = batch()}, {{}});
  for (const Index horizons : {1, 3}) {
    const std::vector<Index> wanted = origins();
    std::vector<int> visits(wanted.size() * static_cast<std::size_t>(horizons));
    rank.model.batches.clear();
    Tape<double> tape{Exec{}};
    rank.task.forecast(tape, wanted, horizons, [&](Index first, Index horizon, NodeView<const double> x) {
      ASSERT_LE(first + x.cols, std::ssize(wanted));
      for (Index b = 0; b < x.cols; ++b) {
        const auto o = static_cast<std::size_t>(first + b);
        ++visits[o * static_cast<std::size_t>(horizons) + static_cast<std::size_t>(horizon - 1)];
        for (Index i = 0; i < nodes; ++i)
          for (Index f = 0; f < parts_of_a_value; ++f)
            EXPECT_NEAR(x.at(i, b)[f], data.forecast(wanted[o], horizon, i, f), 1e-12);
      }
    });
    EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
    for (const Index windows : rank.model.batches) EXPECT_LE(windows, batch());
  }
}

TEST_P(WindowScores, ErrorsAreThoseOfAllWindows) {
  const Data data;
  OneRankReducer reducer;
  Rank rank(data, reducer, {.score_batch = batch()}, {{}});
  HorizonErrors errors({"model"}, shape.outputs);
  Tape<double> tape{Exec{}};
  rank.task.add_errors(tape, errors, origins(), shape.outputs);
  const HorizonScores scores = errors.reduce(reducer);
  for (Index horizon = 1; horizon <= shape.outputs; ++horizon) {
    const auto h = static_cast<std::size_t>(horizon - 1);
    const Sums expected = sums_of(data, origins(), horizon);
    EXPECT_GT(expected.count, 0);
    EXPECT_EQ(scores.count[h], expected.count);
    EXPECT_NEAR(scores.mae[h], expected.absolutes / expected.count, 1e-12);
    EXPECT_NEAR(scores.rmse[h], std::sqrt(expected.squares / expected.count), 1e-12);
  }
}

TEST_P(WindowScores, ValidationIsOfAllWindowsOnAnyGrid) {
  const Data data;
  const std::vector<Index> all = origins();
  double expected = 0;
  for (Index horizon = 1; horizon <= shape.outputs; ++horizon) {
    const Sums sums = sums_of(data, all, horizon);
    expected += sums.absolutes / sums.count / static_cast<double>(shape.outputs);
  }
  for (const int groups : {1, 2, 3})
    for (const int stages : {1, 2, 5}) {
      std::vector<std::vector<Index>> shares;
      for (Index g = 0; g < groups; ++g)
        shares.emplace_back(all.begin() + std::ssize(all) * g / groups,
                            all.begin() + std::ssize(all) * (g + 1) / groups);
      RanksInTurn reducer;
      double last = 0;
      for (int group = 0; group < groups; ++group)
        for (int stage = 0; stage < stages; ++stage) {
          Rank rank(data, reducer, {.score_batch = batch(), .stage = stage, .stages = stages}, shares, group);
          Tape<double> tape{Exec{}};
          last = rank.task.validate(tape);
        }
      EXPECT_NEAR(last, expected, 1e-12) << groups << " groups, " << stages << " stages";
    }
}

TEST_P(WindowScores, ValidationGoesByTheErrorThatIsAskedFor) {
  const Data data;
  const std::vector<Index> all = origins();
  const MaskedError pinball{MaskedError::pinball, 0.9};
  double rmse = 0, loss = 0, count = 0;
  for (Index horizon = 1; horizon <= shape.outputs; ++horizon) {
    const Sums sums = sums_of(data, all, horizon);
    rmse += std::sqrt(sums.squares / sums.count) / static_cast<double>(shape.outputs);
    count += sums.count;
    for (const Index origin : all)
      for (Index i = 0; i < nodes; ++i)
        for (Index f = 0; f < parts_of_a_value; ++f) {
          const auto truth = static_cast<double>(data.series.at(origin + horizon, i, f));
          if (!std::isnan(truth)) loss += pinball.value(data.forecast(origin, horizon, i, f) - truth);
        }
  }
  OneRankReducer reducer;
  const auto validate = [&](const char* metric) {
    Rank rank(data, reducer, {.score_batch = batch(), .loss = pinball, .validation = metric}, {all});
    Tape<double> tape{Exec{}};
    EXPECT_EQ(rank.task.validation_name(), metric);
    return rank.task.validate(tape);
  };
  EXPECT_NEAR(validate("rmse"), rmse, 1e-12);
  EXPECT_NEAR(validate("loss"), loss / count, 1e-12);
}

TEST_P(WindowScores, CallsOfAValidationAreTold) {
  const Data data;
  OneRankReducer reducer;
  Rank rank(data, reducer, {.score_batch = batch()}, {origins()}, 0);
  Tape<double> tape{Exec{}};
  using Kind = std::tuple<std::string, Index, Index, double>;
  std::map<Kind, Index> made, told;
  const auto count = [](const BlockTrace& calls, Index times, std::map<Kind, Index>& kinds) {
    for (const TracedOp& op : calls.ops())
      if (!op.beside) kinds[{op.name, op.made.rows, op.made.cols, op.cost.bytes}] += times * op.calls;
  };
  Cost scored;
  BlockTrace calls;
  tape.set_trace(&calls);
  (void)rank.task.validate(tape);
  count(calls, 1, made);
  for (const TracedOp& op : calls.ops())
    if (op.name == "scores") scored = {op.cost.flops * static_cast<double>(op.calls), 0};
  EXPECT_EQ(scored.flops,
            12.0 * static_cast<double>(std::ssize(origins()) * shape.outputs * nodes * parts_of_a_value));
  double said = 0;
  BlockTrace one(BlockTrace::Of::times_of_ops);
  tape.set_trace(&one);
  rank.task.trace_validation(tape, [&](Index times) {
    count(one, times, told);
    for (const TracedOp& op : one.ops())
      if (op.name == "scores") said += op.cost.flops * static_cast<double>(times * op.calls);
    one.forget_ops();
  });
  EXPECT_FALSE(made.empty());
  EXPECT_EQ(told, made);
  EXPECT_EQ(said, scored.flops);
}

INSTANTIATE_TEST_SUITE_P(Batches, WindowScores,
                         testing::Combine(testing::Values(1, 3, 4, 64), testing::Values(2, 11, 13)));

// Known inputs are those of the forecast step, not of the step before it.
TEST(SeriesWindows, KnowAheadOfTheStepThatIsForecast) {
  GroupAlone between(1, 0);
  StepStore store(all_steps, nodes, 1, {range(0, all_steps)}, between, false, 2);
  for (Index t = 0; t < all_steps; ++t)  // a target, a past input and a known input of every node
    for (Index k = 0; k < store.width(); ++k)
      store.values()[static_cast<std::size_t>(t * store.width() + k)] = static_cast<float>(100 * t + k);
  const Scaler scaler(nodes, 1), half(nodes, 1, 0.5);
  TimeFeatures times;
  times.channels = 1;
  for (Index t = 0; t < all_steps; ++t) times.values.push_back(static_cast<float>(-t));
  const SeriesReader<double> reader(store, scaler, times, Fill::mean, {&scaler, &half, true, 0, {}});
  SeriesWindows<double> source(reader, shape);
  const std::vector<Index> starts{5, 11};
  source.set(starts, {});
  ASSERT_EQ(source.known_channels(), 2);
  Tape<double> tape{Exec{}};
  for (Index h = 0; h < shape.outputs; ++h) {
    const Var<double> known = source.known(tape, h);
    EXPECT_FALSE(known.tracked());
    for (Index i = 0; i < nodes; ++i)
      for (Index b = 0; b < 2; ++b) {
        const Index step = starts[static_cast<std::size_t>(b)] + shape.inputs + h;
        EXPECT_EQ(known.value.at(i, b)[0], 0.5 * static_cast<double>(100 * step + 2 * nodes + i));
        EXPECT_EQ(known.value.at(i, b)[1], static_cast<double>(-step));
      }
  }
  const Var<double> input = source.input(tape, 2);
  ASSERT_EQ(input.channels(), 4);
  EXPECT_EQ(input.value.at(1, 1)[2], 100 * 13 + nodes + 1) << "the past input";
  EXPECT_EQ(input.value.at(1, 1)[3], 0.5 * (100 * 13 + 2 * nodes + 1)) << "what is known ahead";
}

// Windows of all groups: the steps of the next batch travel while this one is computed, and have arrived at
// its turn.
TEST(WindowTask, StepsOfTheNextBatchTravelWhileOneIsComputed) {
  const Data data;
  OneRankReducer reducer;
  WindowPlan plan({.shape = shape, .batch = 6, .sampling = WindowSampling::global, .groups = 2}, range(0, 40),
                  all_steps);
  plan.set_observed(std::vector<double>(static_cast<std::size_t>(all_steps), nodes * parts_of_a_value));
  NotedExchange between(0);
  StepStore store(all_steps, nodes, parts_of_a_value, plan.steps_of_groups(), between);
  const SeriesReader<double> reader(store, data.scaler, data.times, Fill::mean);
  Rule model;
  WindowTask<double> task({}, plan, model, reader, store, {{}, {}}, reducer);
  const auto wanted = [&](Index index, int group) {
    std::vector<Index> starts;
    plan.starts_of(index, group, starts);
    Index missing = 0;
    for (const Index step : plan.steps_of(starts))
      missing += !std::ranges::binary_search(plan.steps_of_groups()[static_cast<std::size_t>(group)], step);
    return missing;
  };
  for (const Index epoch : {0, 1}) {
    task.start_epoch(epoch);
    plan.start_epoch(epoch);
    const Index batches = plan.batches();
    ASSERT_GE(batches, 3);
    Index computed = 0;
    for (Index batch = 0; batch < batches; ++batch) {
      model.computes = [&] {
        ++computed;
        EXPECT_EQ(between.under_way, batch + 1 < batches) << "batch " << batch;
        if (batch + 1 == batches) return;
        EXPECT_EQ(between.coming, wanted(batch + 1, 0));
        EXPECT_EQ(between.leaving, wanted(batch + 1, 1));
      };
      Tape<double> tape{Exec{}};
      Losses losses;
      task.record(tape, batch, 0, losses);
    }
    EXPECT_EQ(computed, batches);
  }
}

TEST(WindowTask, DrawsWhatItSaysOrWhatItIsTold) {
  const Data data;
  OneRankReducer reducer;
  Rank rank(data, reducer, {.sampling_decay = 5, .seed = 4}, {{}});
  Tape<double> tape{Exec{}};
  const auto fed = [&](Index step) {
    tape.reset();
    Losses losses;
    rank.model.feeds.clear();
    rank.task.record(tape, 0, step, losses);
    return rank.model.feeds.at(0);
  };
  for (Index step = 0; step < 30; ++step) EXPECT_EQ(fed(step), rank.task.drawn(step));
  rank.task.fix_drawn({false, true, false});
  for (Index step = 0; step < 3; ++step) EXPECT_EQ(fed(step), (std::vector<bool>{false, true, false}));
}

TEST(GradientFactor, BringsGradientsToOrdinarySize) {
  const MaskedError mae = MaskedError::absolute, mse = MaskedError::squared, huber(MaskedError::huber, 2);
  for (const double unit : {0.002, 1.0, 20.0, 1e5}) EXPECT_EQ(gradient_factor(mae, unit), 1);
  for (const double unit : {0.05, 1.0, 20.0, 1e4}) EXPECT_EQ(gradient_factor(mse, unit), 1);
  for (const double unit : {1e-15, 3e-6, 5e-4, 2e9, 1e15}) {
    const double factor = gradient_factor(mae, unit);
    EXPECT_EQ(std::exp2(std::round(std::log2(factor))), factor) << "a power of two";
    EXPECT_TRUE(factor * unit >= 1 && factor * unit < 2);
    EXPECT_EQ(gradient_factor({MaskedError::pinball, 0.1}, unit), factor);
  }
  EXPECT_EQ(gradient_factor(mse, 0x1p-20), 0x1p40);
  EXPECT_EQ(gradient_factor(huber, 0x1p-20), 0x1p40);  // quadratic below 2
  EXPECT_EQ(gradient_factor(huber, 0x1p40), 0x1p-41);  // linear above
  EXPECT_EQ(gradient_factor(mae, 0), 1);
}

TEST(WindowTask, FeedsTruthAsOftenAsItsProbabilitySays) {
  const Data data;
  OneRankReducer reducer;
  for (const double decay : {0.0, 50.0}) {
    Rank rank(data, reducer, {.sampling_decay = decay, .seed = 4}, {{}});
    Tape<double> tape{Exec{}};
    double fed = 0, mean = 0, variance = 0;
    Index mixed = 0;
    for (Index step = 0; step < 400; ++step) {
      tape.reset();
      Losses losses;
      rank.model.feeds.clear();
      rank.task.record(tape, step % rank.task.batches(), step, losses);
      ASSERT_EQ(rank.model.feeds.size(), 1U);
      const std::vector<bool>& feeds = rank.model.feeds.front();
      ASSERT_EQ(std::ssize(feeds), shape.outputs);
      const double probability = truth_probability(decay, step), steps = shape.outputs;
      fed += static_cast<double>(std::count(feeds.begin(), feeds.end(), true));
      mean += steps * probability;
      variance += steps * probability * (1 - probability);
      mixed += std::adjacent_find(feeds.begin(), feeds.end(), std::not_equal_to<>()) != feeds.end();
    }
    EXPECT_NEAR(fed, mean, 3 * std::sqrt(variance)) << "decay " << decay;
    EXPECT_EQ(mixed > 0, decay > 0) << "every step of a window has its own draw";
  }
}

}  // namespace
}  // namespace rossby
