#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/base/random.hpp"
#include "rossby/io/series_writer.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/evaluate.hpp"
#include "rossby/run/forecast.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/train.hpp"
#include "tests/mpi/world.hpp"

// Runs on hourly series whose daily cycle is removed: ten days of three nodes, with missing values. At four
// ranks one rank has no node.

namespace rossby {
namespace {

constexpr Index hours_a_day = 24, days = 10, steps = days * hours_a_day, nodes = 3;
constexpr Index training = 6 * hours_a_day, validation = 2 * hours_a_day;

constexpr const char* gru = R"(
[split]
train = 144
validation = 48
[data]
center = "node"
spread = "global"
cycle = "time_of_day"
[relation]
graph = "edges"
[model]
name = "gru"
layers = 1
units = 3
precision = "double"
[window]
inputs = 4
outputs = 2
batch = 24
[train]
epochs = 2
keep = "last"
[parallel]
threads = 1
watchdog_seconds = 120
[evaluate]
baselines = false
horizons = 2
)";

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

class CycleRuns : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "rossby_cycle_XXXXXX").string();
    if (world_.rank() == 0 && !mkdtemp(name.data())) name.clear();
    folder_ = broadcast(world_, name);
    ASSERT_FALSE(folder_.empty());
    agree(world_, [&] {
      if (world_.rank() != 0) return;
      write("data.nc", steps, 0);
      write("test.nc", training + validation, 100);
      write("validation.nc", training, 100);
    });
  }
  void TearDown() override {
    world_.barrier();
    std::error_code code;
    if (world_.rank() == 0) std::filesystem::remove_all(folder_, code);
  }

  static float value(Index t, Index i) {
    const auto place = static_cast<std::uint64_t>(t * nodes + i);
    if (place % 29 == 7) return std::numeric_limits<float>::quiet_NaN();
    const double cycle = 8 * std::sin(2 * M_PI * static_cast<double>(t % 24) / 24 + static_cast<double>(i));
    return static_cast<float>(20 + cycle + Random(3, "cycle").normal(place));
  }

  /// Writes the series. Every second value from step `from` on is shifted by `shift`.
  void write(const std::string& name, Index from, float shift) const {
    SeriesLayout layout;
    layout.nodes = nodes;
    layout.time = TimeAxis::regular(steps, "hours since 2012-03-05", 0, 1);
    layout.variables.resize(1);
    layout.variables[0].name = "flow";
    layout.variables[0].units = "1";
    layout.variables[0].features = 1;
    layout.edges = {{0, 1, 1.0F}, {1, 2, 1.0F}, {2, 0, 0.5F}};
    layout.has_edges = true;
    std::vector<float> values;
    for (Index t = 0; t < steps; ++t)
      for (Index i = 0; i < nodes; ++i) values.push_back(value(t, i) + (t >= from && t % 2 == 0 ? shift : 0));
    SeriesWriter writer = SeriesWriter::create(folder_ + "/" + name, layout);
    writer.append(values);
    writer.finish();
  }

  [[nodiscard]] std::string run(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] Config config(const char* text, std::vector<std::string> sets = {},
                              const std::string& file = "data.nc") const {
    sets.insert(sets.begin(), "data.file=" + folder_ + "/" + file);
    return Config::parse(text, "test", sets);
  }
  [[nodiscard]] TrainOptions options(const std::string& name) const {
    TrainOptions options;
    options.run = run(name);
    options.prints = false;
    return options;
  }
  [[nodiscard]] std::map<std::string, std::uint64_t> state(const std::string& name) const {
    std::map<std::string, std::uint64_t> sums;
    for (const StoredArray& array : list_state(state_file_of(run(name))).arrays)
      sums[array.name] = array.checksum;
    return sums;
  }
  /// Returns one figure of every epoch.
  [[nodiscard]] std::vector<double> figures(const std::string& name, const char* figure) const {
    std::vector<double> all;
    std::ifstream file(run(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      all.push_back(nlohmann::json::parse(line).at(figure).get<double>());
    return all;
  }
  [[nodiscard]] HorizonScores scores(const Communicator& comm, const std::string& name,
                                     std::vector<std::string> sets = {}) const {
    EvaluateOptions scored;
    scored.prints = false;
    scored.sets = std::move(sets);
    scored.output = run(name) + "/scores.json";
    return evaluate(comm, run(name), scored).scores;
  }
  [[nodiscard]] static std::string message_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  }
  static void expect_near(const std::vector<double>& a, const std::vector<double>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-6 * std::abs(b[k])) << k;
  }

  /// Trains with all ranks, and on rank 0 alone. Losses, validation errors and scores must agree.
  void expect_same_alone(const char* text, const std::string& error, std::vector<std::string> sets = {},
                         std::vector<std::string> together = {}) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), together.begin(), together.end());
    train(world_, config(text, all), options("together"));
    const Communicator alone = world_.split(world_.rank());
    const std::string name = "alone" + std::to_string(world_.rank());
    train(alone, config(text, sets), options(name));
    expect_near(figures("together", "loss"), figures(name, "loss"));
    expect_near(figures("together", error.c_str()), figures(name, error.c_str()));
    const HorizonScores of_all = scores(world_, "together"), of_one = scores(alone, name);
    expect_near(of_all.rmse, of_one.rmse);
    expect_near(of_all.mae, of_one.mae);
    expect_near(of_all.mape_percent, of_one.mape_percent);
  }

  const Communicator& world_ = test::environment_world();
  std::string folder_;
};

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
  EXPECT_NE(message({"data.cycle=month"}).find("one year alone"), std::string::npos);
  EXPECT_NE(message({"split.train=20"}).find("one day alone"), std::string::npos);
  EXPECT_NE(message({"data.transform=log", "data.transform_offset=-15"}).find("data.transform_offset"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run("bad") + "/config.toml"));
}

}  // namespace
}  // namespace rossby
