#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <unistd.h>

#include "rossby/data/synthetic_series.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/evaluate.hpp"
#include "rossby/run/forecast.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/not_finite.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/train.hpp"
#include "tests/mpi/world.hpp"

// Two runs in one job, on the halves of its ranks. Neither changes or ends the other.

namespace rossby {
namespace {

constexpr const char* stnn = R"(
[split]
train = 30
[relation]
graph = "grid8"
[model]
latent = 2
[train]
epochs = 4
[parallel]
threads = 1
watchdog_seconds = 120
[evaluate]
baselines = false
horizons = 2
)";

constexpr const char* gru = R"(
[split]
train = 30
[model]
name = "gru"
layers = 1
units = 3
[window]
inputs = 3
outputs = 2
batch = 4
[train]
epochs = 3
[parallel]
threads = 1
watchdog_seconds = 120
[evaluate]
baselines = false
horizons = 2
)";

const std::vector<std::string> diverging = {"optimiser.name=sgd", "optimiser.lr=1e6", "optimiser.clip=0",
                                            "train.epochs=50"};

class Runs : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "rossby_runs_XXXXXX").string();
    if (world_.rank() == 0 && !mkdtemp(name.data())) name.clear();
    folder_ = broadcast(world_, name);
    ASSERT_FALSE(folder_.empty());
    write_series("data", 44);
  }
  void write_series(const std::string& name, Index steps) const {
    agree(world_, [&] {
      if (world_.rank() != 0) return;
      SyntheticSeries series;
      series.lat = 5;
      series.lon = 7;
      series.steps = steps;
      series.output = folder_ + "/" + name + ".nc";
      write_synthetic(series);
    });
  }
  void TearDown() override {
    world_.barrier();
    std::error_code code;
    if (world_.rank() == 0) std::filesystem::remove_all(folder_, code);
  }

  /// The half of this rank: 0 or 1.
  [[nodiscard]] int half() const { return 2 * world_.rank() / world_.size(); }
  [[nodiscard]] std::string run(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] Config config(const char* text, std::vector<std::string> sets = {}) const {
    sets.insert(sets.begin(), "data.file=" + folder_ + "/data.nc");
    return Config::parse(text, "test", sets);
  }
  [[nodiscard]] TrainOptions options(const std::string& name) const {
    TrainOptions options;
    options.run = run(name);
    return options;
  }
  /// The training of this half: an stnn on the first, a gru on the second.
  [[nodiscard]] Config own_config() const { return config(half() == 0 ? stnn : gru); }

  /// Checksums of the trained state, by array. Not collective.
  [[nodiscard]] std::map<std::string, std::uint64_t> state(const std::string& name) const {
    std::map<std::string, std::uint64_t> sums;
    for (const StoredArray& array : list_state(state_file_of(run(name))).arrays)
      sums[array.name] = array.checksum;
    return sums;
  }
  [[nodiscard]] std::vector<double> losses(const std::string& name) const {
    std::vector<double> all;
    std::ifstream file(run(name) + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      all.push_back(nlohmann::json::parse(line).at("loss").get<double>());
    return all;
  }
  /// Returns the message of the UserError of `work`, or "nothing".
  [[nodiscard]] static std::string message_of(const std::function<void()>& work) {
    try {
      work();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing";
  }

  const Communicator& world_ = test::environment_world();
  const Communicator half_ = world_.split(half());
  std::string folder_;
};

TEST_F(Runs, SideBySideTheyAreWhatEachIsAlone) {
  for (int alone = 0; alone < 2; ++alone) {
    if (half() == alone) train(half_, own_config(), options("alone" + std::to_string(alone)));
    world_.barrier();
  }
  const std::string beside = "beside" + std::to_string(half()), alone = "alone" + std::to_string(half());
  const Trained trained = train(half_, own_config(), options(beside));
  EXPECT_EQ(trained.result.reason, StopReason::epochs);
  EXPECT_EQ(trained.result.epochs, half() == 0 ? 4 : 3);
  EXPECT_FALSE(state(beside).empty());
  EXPECT_EQ(state(beside), state(alone));
  EXPECT_EQ(losses(beside), losses(alone));

  // The same for readers of a run: each half evaluates the run of the other one and forecasts from it.
  world_.barrier();
  const std::string other = "beside" + std::to_string(1 - half());
  EvaluateOptions scored;
  scored.output = run("scores" + std::to_string(half()) + ".json");
  const Evaluation found = evaluate(half_, run(other), scored);
  EXPECT_EQ(found.file, scored.output);
  ASSERT_EQ(found.scores.names, std::vector<std::string>{"model"});
  EXPECT_TRUE(std::isfinite(found.scores.mean_rmse(0)));
  ForecastOptions asked;
  asked.steps = 2;
  EXPECT_EQ(forecast(half_, run(other), asked), run(other) + "/forecast.nc");
  EXPECT_TRUE(std::filesystem::exists(run(other) + "/forecast.nc"));
}

TEST_F(Runs, APausedRunGoesOnAsIfItHadNot) {
  if (half() == 0) train(half_, config(stnn), options("whole"));
  if (half() == 1) train(half_, config(gru), options("other"));
  if (half() == 0) {
    TrainOptions parts = options("parts");
    int asked = 0;
    parts.pause = [&] { return half_.rank() == half_.size() - 1 && ++asked == 3; };  // one rank is enough
    const Trained paused = train(half_, config(stnn), parts);
    EXPECT_EQ(paused.result.reason, StopReason::paused);
    EXPECT_EQ(paused.result.steps, 3);
    EXPECT_TRUE(paused.checkpoint.starts_with(run("parts") + "/checkpoints/")) << paused.checkpoint;
    parts.pause = {};
    EXPECT_EQ(train(half_, config(stnn), parts).result.reason, StopReason::epochs);
    EXPECT_EQ(state("parts"), state("whole"));
    const Trained again = train(half_, config(stnn), parts);
    EXPECT_TRUE(again.had_ended);
    EXPECT_EQ(again.result.epochs, 4);
    parts.resume = "never";
    EXPECT_NE(message_of([&] { train(half_, config(stnn), parts); }).find("already contains a run"),
              std::string::npos);
  }
}

TEST_F(Runs, APauseAtAStepIsMadeOnceAndScored) {
  const std::vector<std::string> sets = {"split.validation=8"};
  const std::string whole = "whole" + std::to_string(half()), parts = "parts" + std::to_string(half());
  const Config settings = config(half() == 0 ? stnn : gru, sets);
  const Trained uninterrupted = train(half_, settings, options(whole));
  EXPECT_EQ(uninterrupted.all_steps, uninterrupted.result.steps);
  TrainOptions paused = options(parts);
  double first = 0;
  for (const Index step : {3, 3, 4}) {
    paused.pause_at = step;
    const Trained trained = train(half_, settings, paused);
    EXPECT_EQ(trained.result.reason, StopReason::paused);
    EXPECT_EQ(trained.result.steps, step);
    EXPECT_EQ(trained.all_steps, uninterrupted.all_steps);
    EXPECT_GT(trained.validation, 0);
    if (step == 3 && first > 0) {
      EXPECT_EQ(trained.validation, first);
    }
    first = trained.validation;
  }
  paused.pause_at = uninterrupted.all_steps;
  EXPECT_EQ(train(half_, settings, paused).result.reason, StopReason::epochs);
  EXPECT_EQ(state(parts), state(whole));
  EXPECT_EQ(losses(parts), losses(whole));
}

TEST_F(Runs, ACheckOfOpsChangesNoBit) {
  const std::string plain = "plain" + std::to_string(half()), checked = "checked" + std::to_string(half());
  train(half_, own_config(), options(plain));
  train(half_, config(half() == 0 ? stnn : gru, {"train.check=ops"}), options(checked));
  EXPECT_EQ(state(checked), state(plain));
  EXPECT_EQ(losses(checked), losses(plain));
}

TEST_F(Runs, ACheckOfOpsKnowsEveryOpOfEveryModel) {
  for (const ModelDescriptor& model : models()) {
    const std::string name(model.name);
    const std::string text = model.of_windows
                                 ? "[split]\ntrain = 30\n[window]\ninputs = 4\noutputs = 2\nbatch = 4\n"
                                   "[parallel]\nthreads = 1\n[model]\nname = \"" +
                                       name + "\"\n" + std::string(model.small)
                                 : stnn;
    std::vector<std::string> sets = {"train.check=ops", "train.epochs=1"};
    if (model.of_windows && name != "gru") sets.emplace_back("relation.graph=grid");
    EXPECT_EQ(message_of([&] { train(world_, config(text.c_str(), sets), options(name)); }), "nothing")
        << name;
  }
}

TEST_F(Runs, ACheckOfOpsNamesOpBlockRankAndRow) {
  std::vector<std::string> sets = diverging;
  sets.emplace_back("train.check=ops");
  const Config diverges = config(stnn, sets);
  const std::string message =
      message_of([&] { train(half_, diverges, options("diverges" + std::to_string(half()))); });
  // The instruction set decides which op overflows first: it may be one of a parameter that all rows share.
  const std::regex expected(
      "a computed value is not finite in step \\d+ .*: the (value|gradient) .* in block .* on rank \\d+ is "
      "not finite at (global row \\d+, column \\d+, channel \\d+|entry \\d+)");
  EXPECT_TRUE(std::regex_search(message, expected)) << message;
}

/// Each rank finds a number that is not finite in its last row, the last rank one op before the others.
TEST_F(Runs, WhatACheckFindsFirstIsNamedByItsGlobalRow) {
  const Config settings = config(stnn);
  const auto run = make_run<float>(world_, settings, Purpose::training);
  const Index rows = std::ssize(run->domain().rows);
  std::vector<float> values(static_cast<std::size_t>(rows * 2 * 3), 1);
  const NodeView<float> view(values.data(), rows, 2, 3);
  OpCheck<float> check(run->exec());
  EXPECT_EQ(describe_op(world_, *run, &check), "");
  EXPECT_EQ(describe_op<float>(world_, *run, nullptr), "");
  const int last = world_.size() - 1;
  check.enter("cell");
  for (const char* op : {"add", "relu", "tanh"}) {
    if (std::string(op) == (world_.rank() == last ? "relu" : "tanh")) view.at(rows - 1, 1)[2] = NAN;
    check.makes(view, {});
    check.computed(op, false);
  }
  EXPECT_EQ(
      describe_op(world_, *run, &check),
      fmt::format("the value of relu in block cell on rank {} is not finite at global row {}, column 1, "
                  "channel 2",
                  last, run->domain().partition.rows_of(last).back().value));
}

/// Limits this process to `more` additional bytes of address space during its lifetime.
class MemoryLimit {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr bool works = false;
#else
  static constexpr bool works = true;
#endif
  explicit MemoryLimit(std::size_t more) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit now = before_;
    now.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + more;
    setrlimit(RLIMIT_AS, &now);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
  ~MemoryLimit() {
    setrlimit(RLIMIT_AS, &before_);
  }

 private:
  rlimit before_{};
};

/// One half fails, catches the error and trains something else. The other half trains on.
class Failing : public Runs {
 protected:
  void fails(const std::function<void(TrainOptions&, std::vector<std::string>&)>& spoil,
             const std::string& expected) {
    if (half() == 1) {
      train(half_, config(gru), options("alone"));
      train(half_, config(gru), options("beside"));
      EXPECT_EQ(state("beside"), state("alone"));
    } else {
      TrainOptions spoilt = options("spoilt");
      std::vector<std::string> sets;
      spoil(spoilt, sets);
      const std::string message = message_of([&] { train(half_, config(stnn, sets), spoilt); });
      limit_.reset();
      EXPECT_NE(message.find(expected), std::string::npos) << message;
      EXPECT_EQ(train(half_, config(stnn), options("good")).result.epochs, 4);
    }
  }

  std::optional<MemoryLimit> limit_;  // until the spoilt run has failed
};

TEST_F(Failing, ARunThatDiverges) {
  fails([](TrainOptions&, auto& sets) { sets = diverging; }, "not finite");
}

TEST_F(Failing, ARunWithoutData) {
  fails([](TrainOptions&, auto& sets) { sets = {"data.file=nowhere.nc"}; }, "nowhere.nc");
}

TEST_F(Failing, ARunWithoutDataOnOneRank) {
  fails(
      [this](TrainOptions& spoilt, auto& sets) {
        sets = {"train.epochs=1"};
        if (half_.rank() == half_.size() - 1)
          spoilt.run = run("elsewhere");  // only the last rank sees another directory
        if (half_.size() == 1) sets = {"data.file=nowhere.nc"};
      },
      half_.size() == 1 ? "nowhere.nc" : "Put the run directory on a file system that all hosts share");
}

TEST_F(Failing, ARunThatIsRefusedItsMemory) {
  if (!MemoryLimit::works) GTEST_SKIP() << "sanitizers take all addresses: they cannot be limited";
  write_series("long", 400);
  fails(
      [this](TrainOptions&, auto& sets) {
        sets = {"data.file=" + folder_ + "/long.nc", "split.train=390", "model.latent=4096"};
        limit_.emplace(std::size_t{160} << 20);  // OpenBLAS gets its buffer
      },
      "out of memory");  // of the array that the message describes, or of something smaller
}

TEST_F(Failing, ARunWhoseMemoryEndsInAStep) {
  fails(
      [](TrainOptions& spoilt, auto&) {
        spoilt.pause = [asked = 0]() mutable -> bool {
          if (++asked == 3) throw std::bad_alloc();
          return false;
        };
      },
      "out of memory. Use more ranks or a smaller problem");
}

TEST_F(Runs, WaitsAreWatchedAsBeforeOnceARunHasEnded) {
  Watchdog* watchdog = world_.watchdog();
  ASSERT_NE(watchdog, nullptr);
  watch(world_, 200);
  double within = -1;
  std::vector<int> ranks;
  TrainOptions asked = options("watched" + std::to_string(half()));
  asked.pause = [&] {
    within = watchdog->limit();
    ranks = watchdog->options().ranks;
    return false;
  };
  train(half_, own_config(), asked);
  if (half_.size() > 1) {
    EXPECT_EQ(within, 120);
    EXPECT_EQ(ranks.size(), static_cast<std::size_t>(half_.size()));
    EXPECT_EQ(ranks.front(), half() == 0 ? 0 : world_.size() / 2) << "numbers in the job";
  }
  EXPECT_EQ(watchdog->limit(), 200);
  EXPECT_EQ(watchdog->options().ranks.size(), static_cast<std::size_t>(world_.size()));
  watch(world_, 0);
}

TEST(Communicators, KnowTheSameRanks) {
  const Communicator& world = test::environment_world();
  EXPECT_TRUE(world.same_ranks(world));
  EXPECT_TRUE(world.same_ranks(world.duplicate()));
  EXPECT_TRUE(world.same_ranks(world.for_run()));
  EXPECT_FALSE(world.same_ranks(Communicator::self()));
  EXPECT_FALSE(world.same_ranks(world.split(0, -world.rank()))) << "another order";
  EXPECT_NE(world.for_run().ending(), world.ending());
  EXPECT_EQ(world.for_run().split(0).ending() == nullptr, false);
}

}  // namespace
}  // namespace rossby
