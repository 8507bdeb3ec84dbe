#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

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

namespace rossby::hourly {

inline constexpr Index hours_a_day = 24, days = 10, steps = days * hours_a_day, nodes = 3;
inline constexpr Index training = 6 * hours_a_day, validation = 2 * hours_a_day;

inline constexpr const char* gru = R"(
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

/// Trainings on ten days of hourly values of three nodes, with a daily cycle and missing values. At four
/// ranks one rank has no node.
class HourlyRuns : public testing::Test {
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

}  // namespace rossby::hourly
