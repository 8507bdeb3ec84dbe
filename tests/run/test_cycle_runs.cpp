#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/run/hourly_runs.hpp"

// Runs on hourly series whose daily cycle is removed.

namespace rossby {
namespace {

using namespace hourly;
using CycleRuns = HourlyRuns;

constexpr const char* stnn = R"(
[split]
train = 144
validation = 48
[data]
center = "node"
cycle = "time_of_day"
[relation]
graph = "edges"
[model]
latent = 2
precision = "double"
[train]
slab_steps = 24
sampling = "slabs"
lanes = 2
epochs = 2
keep = "last"
[parallel]
threads = 1
watchdog_seconds = 120
[evaluate]
baselines = false
horizons = 2
)";

TEST_F(CycleRuns, AreTheSameAtEveryNumberOfRanks) {
  expect_same_alone(gru, "validation_mae", {"data.trend=linear", "data.transform=sqrt"});
}

TEST_F(CycleRuns, AreTheSameAtEveryNumberOfRanksWithLatents) {
  expect_same_alone(stnn, "validation_rmse", {"data.transform=log", "data.cycle=day_type"});
}

TEST_F(CycleRuns, AreTheSameOnEveryGrid) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(gru, "validation_mae", {"window.sampling=global", "data.trend=linear"},
                    {"parallel.time_groups=2"});
}

TEST_F(CycleRuns, AreTheSameOnEveryGridInBlocks) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(gru, "validation_mae", {"window.sampling=blocked", "window.lanes=2", "window.blocks=2"},
                    {"parallel.time_groups=2"});
}

TEST_F(CycleRuns, AreTheSameOnEveryGridWithLatents) {
  if (world_.size() % 2 != 0) return;
  expect_same_alone(stnn, "validation_rmse",
                    {"relation.discover=low_rank", "relation.rank=2", "relation.low_rank_start=eof"},
                    {"parallel.time_groups=2"});
}

TEST_F(CycleRuns, GoOnAsIfTheyHadNotPaused) {
  train(world_, config(gru), options("whole"));
  TrainOptions parts = options("parts");
  int asked = 0;
  parts.pause = [&] { return ++asked == 3; };
  EXPECT_EQ(train(world_, config(gru), parts).result.reason, StopReason::paused);
  parts.pause = {};
  EXPECT_EQ(train(world_, config(gru), parts).result.reason, StopReason::epochs);
  EXPECT_EQ(state("parts"), state("whole"));
}

TEST_F(CycleRuns, SeeNothingOfTheFuture) {
  for (const char* text : {gru, stnn}) {
    const std::string kind = text == gru ? "gru" : "stnn";
    const char* error = text == gru ? "validation_mae" : "validation_rmse";
    train(world_, config(text), options(kind));
    train(world_, config(text, {}, "test.nc"), options(kind + "_test"));
    EXPECT_EQ(state(kind + "_test"), state(kind));
    EXPECT_EQ(figures(kind + "_test", "loss"), figures(kind, "loss"));
    EXPECT_EQ(figures(kind + "_test", error), figures(kind, error));
    train(world_, config(text, {}, "validation.nc"), options(kind + "_validation"));
    EXPECT_EQ(state(kind + "_validation"), state(kind));
    EXPECT_EQ(figures(kind + "_validation", "loss"), figures(kind, "loss"));
    EXPECT_NE(figures(kind + "_validation", error), figures(kind, error));
    // Forecasts of the test part use the values before it.
    EXPECT_NE(scores(world_, kind, {"data.file=" + run("test.nc")}).rmse, scores(world_, kind).rmse);
  }
}

TEST_F(CycleRuns, TrainingValuesHaveACycleWithoutTheirOwnDay) {
  // With two days, an anomaly is the difference of two noises of variance 1, not half of it.
  const std::vector<std::string> two_days = {
      "split.train=48",     "split.validation=0",  "data.center=none",   "data.spread=none",
      "optimiser.lr=1e-12", "data.cycle_smooth=0", "data.cycle_shrink=0"};
  train(world_, config(gru, two_days), options("days"));
  const double loss = figures("days", "loss").front();
  EXPECT_GT(loss, 0.9);
  EXPECT_LT(loss, 1.6);
}

TEST_F(CycleRuns, FoldsHaveCyclesOfTheirOwn) {
  // A held-out block of the training part does not enter the cycle of the others.
  const std::vector<std::string> fold = {"split.train=192", "split.validation=0", "split.folds=4",
                                         "split.fold=3"};
  train(world_, config(gru, fold), options("fold"));
  train(world_, config(gru, fold, "validation.nc"), options("fold_validation"));
  EXPECT_EQ(state("fold_validation"), state("fold"));
}

TEST_F(CycleRuns, EvaluationSeesWhatValidationSaw) {
  for (const char* text : {gru, stnn}) {
    const std::string kind = text == gru ? "gru" : "stnn";
    train(world_, config(text, {"data.spread=node", "data.trend=linear"}), options(kind));
    const HorizonScores again = scores(world_, kind,
                                       {fmt::format("evaluate.first_origin={}", training - 1),
                                        fmt::format("evaluate.last_origin={}", training + validation - 3)});
    const double last = figures(kind, text == gru ? "validation_mae" : "validation_rmse").back();
    EXPECT_NEAR(text == gru ? again.mean_mae(0) : again.mean_rmse(0), last, 1e-9 * last) << kind;
  }
}

/// Errors are the differences between the forecast file and the data, both in and after training.
TEST_F(CycleRuns, ScoresAreThoseOfWhatIsForecast) {
  for (const char* text : {gru, stnn}) {
    const std::string kind = text == gru ? "gru" : "stnn";
    train(world_, config(text, {"data.transform=sqrt", "data.trend=linear"}), options(kind));
    for (const Index origin : {Index{82}, Index{200}}) {
      const HorizonScores found = scores(
          world_, kind,
          {fmt::format("evaluate.first_origin={}", origin), fmt::format("evaluate.last_origin={}", origin)});
      ForecastOptions asked;
      asked.steps = 2;
      asked.origin = TimeAxis::regular(steps, "hours since 2012-03-05", 0, 1).text(origin);
      const SeriesFile file = SeriesFile::open(forecast(world_, run(kind), asked), {}, 0, -1, std::nullopt);
      std::vector<float> forecasts(2 * nodes);
      const std::vector<Index> every{0, 1, 2};
      file.read(every, forecasts.data());
      for (Index h = 1; h <= 2; ++h) {
        double squares = 0, count = 0;
        for (Index i = 0; i < nodes; ++i) {
          const float error = forecasts[static_cast<std::size_t>((h - 1) * nodes + i)] - value(origin + h, i);
          if (!std::isnan(error))
            squares += static_cast<double>(error) * static_cast<double>(error), count += 1;
        }
        EXPECT_NEAR(found.rmse[static_cast<std::size_t>(h - 1)], std::sqrt(squares / count), 1e-4)
            << kind << " from " << origin;
      }
    }
  }
}

TEST_F(CycleRuns, DecideOnceAndKeepIt) {
  train(world_, config(gru, {"data.cycle=auto"}), options("auto"));
  train(world_, config(gru), options("fixed"));
  EXPECT_EQ(state("auto"), state("fixed"));
  const auto metadata = nlohmann::json::parse(read_state_metadata(state_file_of(run("auto"))));
  EXPECT_EQ(metadata.at("cycle"), "time_of_day");
  TrainOptions parts = options("parts");
  int asked = 0;
  parts.pause = [&] { return ++asked == 2; };
  EXPECT_EQ(train(world_, config(gru, {"data.cycle=auto"}), parts).result.reason, StopReason::paused);
  parts.pause = {};
  train(world_, config(gru, {"data.cycle=auto"}), parts);
  EXPECT_EQ(state("parts"), state("fixed"));
  // Another validation part would lead to another choice: the choice of the training stays.
  const std::string other = "data.file=" + run("validation.nc");
  EXPECT_EQ(scores(world_, "auto", {other}).rmse, scores(world_, "fixed", {other}).rmse);
}

TEST_F(CycleRuns, ForecastMeansOrMediansBehindTheEnd) {
  train(world_, config(gru, {"data.transform=sqrt"}), options("run"));
  const HorizonScores mean = scores(world_, "run"), median = scores(world_, "run", {"data.point=median"});
  EXPECT_NE(mean.rmse, median.rmse);
  const HorizonScores beside = scores(world_, "run", {"evaluate.baselines=true"});
  for (const char* name : {"cycle", "direct_ar"}) {
    ASSERT_GE(beside.find(name), 0);
    EXPECT_LT(beside.mean_rmse(beside.find(name)), 0.5 * beside.mean_rmse(beside.find("climatology")));
  }
  for (Index h = 0; h < 2; ++h) {
    EXPECT_LT(mean.rmse[static_cast<std::size_t>(h)], 6) << "errors in original units";
    EXPECT_NEAR(mean.rmse[static_cast<std::size_t>(h)], median.rmse[static_cast<std::size_t>(h)], 0.5);
  }
  ForecastOptions asked;
  asked.steps = 2;
  asked.prints = false;
  const std::string file = forecast(world_, run("run"), asked);
  const SeriesFile written = SeriesFile::open(file, {}, 0, -1, std::nullopt);
  EXPECT_EQ(written.info().time.text(0), "2012-03-15T00:00");
}

TEST_F(CycleRuns, BadSettingsHaveAClearLine) {
  const auto message = [&](std::vector<std::string> sets) {
    return message_of([&] { train(world_, config(gru, std::move(sets)), options("bad")); });
  };
  EXPECT_NE(message({"window.fill=zero"}).find("window.fill"), std::string::npos);
  EXPECT_NE(message({"data.cycle=month"}).find("only one year"), std::string::npos);
  EXPECT_NE(message({"split.train=20"}).find("only one day"), std::string::npos);
  EXPECT_NE(message({"data.transform=log", "data.transform_offset=-15"}).find("data.transform_offset"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run("bad") + "/config.toml"));
}

}  // namespace
}  // namespace rossby
