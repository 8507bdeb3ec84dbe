#include "rossby/run/default_settings.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/domain.hpp"

namespace rossby {
namespace {

/// Steps that a window reads and forecasts.
struct Reach {
  Index inputs = 12, outputs = 6;
};

/// Forecasts an hour of finer steps, half a day of hours, a week of days, a month of weeks, half a year of
/// months.
Reach reach_of(const TimeAxis& time) {
  constexpr double hour = 3600e3, day = 24 * hour;
  if (time.spacing() == TimeAxis::Spacing::months) return {12, 6};
  if (time.spacing() != TimeAxis::Spacing::duration) return {};
  const auto step = static_cast<double>(time.step_milliseconds());
  const auto steps = [&](double span, double least, double most) {
    return static_cast<Index>(std::clamp(std::round(span / step), least, most));
  };
  if (step < hour) return {12, steps(hour, 3, 12)};
  if (step < day) return {12, steps(day / 2, 3, 12)};
  if (step < 5 * day) return {14, steps(7 * day, 3, 7)};
  if (step < 25 * day) return {8, 4};
  return {12, 6};
}

}  // namespace

bool names_series(const std::string& argument) {
  const std::filesystem::path path(argument);
  static constexpr const char* endings[] = {".nc", ".nc4", ".cdf", ".h5", ".hdf5", ".zarr", ".txt"};
  if (argument.find_first_of("*?[") != std::string::npos) return path.extension() != ".toml";
  return std::find(std::begin(endings), std::end(endings), path.extension()) != std::end(endings) ||
         std::filesystem::is_directory(path);
}

std::vector<std::string> default_settings(const SeriesInfo& info) {
  const TimeAxis& time = info.time;
  Reach reach = reach_of(time);
  const bool has_cycle = time.dated() && time.regular();
  // From 40 steps on, the validation part (a tenth of them) is twice as long as a window's targets.
  const Index shortest = 40;
  if (info.steps < shortest)
    user_error(
        "{}: {} steps are too few to train and test a forecaster. Training without a configuration needs at "
        "least {}. Give a longer series, or a configuration",
        info.path, info.steps, shortest);
  reach.outputs = std::min(reach.outputs, std::max<Index>(1, info.steps / 20));
  reach.inputs = std::min(reach.inputs, std::max<Index>(2, info.steps / 10));
  std::vector<std::string> sets = {"split.train=0.7",
                                   "split.validation=0.1",
                                   "split.test=rest",
                                   "relation.graph=none",
                                   "model.name=stid",
                                   fmt::format("window.inputs={}", reach.inputs),
                                   fmt::format("window.outputs={}", reach.outputs),
                                   fmt::format("evaluate.horizons={}", reach.outputs),
                                   "window.batch=32",
                                   "data.center=node",
                                   "data.spread=node",
                                   "optimiser.lr=0.002",
                                   "optimiser.decay=1e-4",
                                   "schedule.name=cosine",
                                   "train.loss=mse",
                                   "validation.metric=rmse",
                                   "train.epochs=50",
                                   "train.early_stop=10"};
  if (has_cycle) sets.emplace_back("data.cycle=auto");
  return sets;
}

std::vector<std::string> settings_suiting(const Communicator& comm, const std::vector<std::string>& sets,
                                          bool checks_length) {
  std::vector<std::string> of_data = sets;
  std::erase_if(of_data, [](const std::string& set) { return !set.starts_with("data."); });
  const Config bare = agree(comm, [&] { return Config::load("", of_data); });
  const SeriesFile series = open_series(comm, bare);
  return agree(comm, [&] {
    SeriesInfo info = series.info();
    if (!checks_length) info.steps = std::max<Index>(info.steps, 1000);
    return default_settings(info);
  });
}

}  // namespace rossby
