#include "rossby/run/profile_units.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/stop_request.hpp"
#include "rossby/run/train.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

/// Reads the validation errors of the epochs that a training has completed.
void read_epochs(const std::string& metrics, ProfiledFold& fold) {
  if (!std::filesystem::exists(metrics)) return;
  const std::string text = read_text(metrics);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const Json line = Json::parse(text.substr(begin, end - begin), nullptr, false);
    begin = end + 1;
    if (!line.is_object() || !line.contains("validation_rmse") || !line["validation_rmse"].is_number())
      continue;
    const auto error = line["validation_rmse"].get<double>();
    if (!(error > 0) || !std::isfinite(error)) continue;
    fold.curve.push_back({line.at("steps").get<Index>(), error});
    fold.best = std::min(fold.best, error);
  }
}

Json json_of(const UnitResult& result) {
  Json json{{"error", result.error},
            {"paused", result.paused},
            {"steps", result.fold.steps},
            {"ended", result.fold.ended},
            {"best", std::isfinite(result.fold.best) ? result.fold.best : 0},
            {"reached", {result.reached.steps, result.reached.error}},
            {"complete", result.complete_steps},
            {"seconds",
             {result.step_seconds, result.validation_seconds, result.start_seconds, result.train_seconds,
              result.wall_seconds, result.first_seconds}},
            {"curve", Json::array()}};
  for (const CurvePoint& point : result.fold.curve) json["curve"].push_back({point.steps, point.error});
  return json;
}

UnitResult result_of(const Json& json) {
  UnitResult result;
  result.error = json.at("error").get<std::string>();
  result.paused = json.at("paused").get<bool>();
  result.fold.steps = json.at("steps").get<Index>();
  result.fold.ended = json.at("ended").get<bool>();
  if (const auto best = json.at("best").get<double>(); best > 0) result.fold.best = best;
  result.reached = {json.at("reached")[0].get<Index>(), json.at("reached")[1].get<double>()};
  result.complete_steps = json.at("complete").get<Index>();
  const auto seconds = json.at("seconds").get<std::vector<double>>();
  result.step_seconds = seconds.at(0);
  result.validation_seconds = seconds.at(1);
  result.start_seconds = seconds.at(2);
  result.train_seconds = seconds.at(3);
  result.wall_seconds = seconds.at(4);
  result.first_seconds = seconds.at(5);
  for (const Json& point : json.at("curve"))
    result.fold.curve.push_back({point[0].get<Index>(), point[1].get<double>()});
  return result;
}

}  // namespace

std::string run_of(const ProfileQuestion& question, const std::string& directory,
                   const ProfiledCandidate& candidate, Index fold) {
  const std::string name =
      question.folds > 0 ? fmt::format("{}/fold{}", candidate.name, fold) : candidate.name;
  return candidate_folder_of(directory, name);
}

ProfileUnits::ProfileUnits(const Communicator& comm, const ProfileQuestion& question,
                           const std::string& directory, std::function<void(const std::string&)> tell)
    : comm_(comm),
      question_(question),
      directory_(directory),
      tell_(std::move(tell)),
      alone_(Communicator::self(rank_on_host(comm), ranks_on_host(comm))) {}

std::vector<int> ProfileUnits::owners(const std::vector<ProfileUnit>& units,
                                      const ProfileState& state) const {
  std::vector<double> cost;
  for (const ProfileUnit& unit : units) {
    const ProfiledCandidate& candidate = state.candidates[unit.candidate];
    const Index at = candidate.folds[static_cast<std::size_t>(unit.fold)].steps;
    cost.push_back(candidate.cost.step > 0 ? candidate.cost.part(at, unit.target) : 1);
  }
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return cost[a] > cost[b]; });
  std::vector<int> owner(units.size(), 0);
  std::vector<double> busy(static_cast<std::size_t>(comm_.size()));
  for (const std::size_t k : order) {
    const auto idle = std::min_element(busy.begin(), busy.end());
    owner[k] = static_cast<int>(idle - busy.begin());
    *idle += cost[k];
  }
  return owner;
}

UnitResult ProfileUnits::train_one(const Communicator& comm, const ProfileUnit& unit,
                                   const ProfiledCandidate& candidate, bool anew) const {
  const std::string run = run_of(question_, directory_, candidate, unit.fold);
  UnitResult result;
  if (comm.size() == 1 && StopSignals::received() != 0) {  // starting may take long
    result.fold = candidate.folds[static_cast<std::size_t>(unit.fold)];
    result.paused = true;
    return result;
  }
  TrainOptions options;
  options.run = run;
  options.pause_at = unit.target;
  std::vector<double> begins;
  const Stopwatch begin;
  options.pause = [&] {
    begins.push_back(begin.seconds());
    return StopSignals::received() != 0;
  };
  try {
    if (anew)
      agree(comm, [&] {
        std::error_code code;
        if (comm.rank() == 0) std::filesystem::remove_all(run, code);
      });
    const Config config = agree(comm, [&] { return question_.config_of(candidate, unit.fold); });
    const Trained trained = rossby::train(comm, config, options);
    result.complete_steps = trained.all_steps;
    result.fold.steps = trained.result.steps;
    result.fold.ended = trained.result.reason != StopReason::paused;
    result.paused = !result.fold.ended && result.fold.steps < unit.target;
    result.validation_seconds = trained.validation_seconds;
    result.step_seconds = undisturbed_step(begins, trained.result.seconds);
    if (begins.size() > 1) result.first_seconds = std::max(begins[1] - begins[0] - result.step_seconds, 0.0);
    // Excludes reading data and writing checkpoints.
    if (!begins.empty())
      result.train_seconds = begins.back() - begins.front() + result.step_seconds + result.validation_seconds;
    if (!result.fold.ended && !result.paused) {
      if (!(trained.validation > 0) || !std::isfinite(trained.validation))
        user_error("its validation error after {} steps is {}", result.fold.steps, trained.validation);
      result.reached = {result.fold.steps, trained.validation};
    }
    agree(comm, [&] { read_epochs(run + "/metrics.jsonl", result.fold); });
    if (result.fold.ended && !std::isfinite(result.fold.best))
      user_error("its training ended without a validation error");
  } catch (const UserError& error) {  // on all its ranks: this candidate ends alone
    result.error = error.what();
  }
  result.wall_seconds = begin.seconds();
  const double steps = result.step_seconds * static_cast<double>(begins.size());
  result.start_seconds =
      std::max(result.wall_seconds - steps - result.first_seconds - result.validation_seconds, 0.0);
  return result;
}

UnitResult ProfileUnits::shared(const Communicator& comm, const UnitResult& result, int root) const {
  return result_of(Json::parse(broadcast(comm, comm.rank() == root ? json_of(result).dump() : "", root)));
}

void ProfileUnits::report(const ProfiledCandidate& candidate, const ProfileUnit& unit,
                          const UnitResult& result) {
  const std::string name =
      question_.folds > 0 ? fmt::format("{} fold {}", candidate.name, unit.fold) : candidate.name;
  if (!result.error.empty()) return tell_(fmt::format("{}: failed: {}", name, result.error));
  if (result.paused) return tell_(fmt::format("{}: left at step {}", name, result.fold.steps));
  const double error = result.reached.error > 0 ? result.reached.error : result.fold.best;
  tell_(fmt::format("{}: step {} of {}, validation rmse {:.5g}{}", name, result.fold.steps,
                    result.complete_steps, error, result.fold.ended ? " (ended)" : ""));
}

std::vector<UnitResult> ProfileUnits::train(const std::vector<ProfileUnit>& units, const ProfileState& state,
                                            bool anew) {
  std::vector<UnitResult> results(units.size());
  std::vector<ProfileUnit> side_by_side;
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < units.size(); ++k) {
    const ProfiledCandidate& candidate = state.candidates[units[k].candidate];
    if (!candidate.all_ranks) {
      side_by_side.push_back(units[k]);
      places.push_back(k);
      continue;
    }
    results[k] = shared(comm_, train_one(comm_, units[k], candidate, anew), 0);
    report(candidate, units[k], results[k]);
  }
  const std::vector<int> owner = owners(side_by_side, state);
  std::vector<UnitResult> mine(side_by_side.size());
  for (std::size_t k = 0; k < side_by_side.size(); ++k) {
    if (owner[k] != comm_.rank()) continue;
    const ProfiledCandidate& candidate = state.candidates[side_by_side[k].candidate];
    mine[k] = train_one(alone_, side_by_side[k], candidate, anew);
    if (comm_.rank() == 0) report(candidate, side_by_side[k], mine[k]);
  }
  for (std::size_t k = 0; k < side_by_side.size(); ++k) {
    results[places[k]] = shared(comm_, mine[k], owner[k]);
    if (owner[k] != 0)
      report(state.candidates[side_by_side[k].candidate], side_by_side[k], results[places[k]]);
  }
  return results;
}

}  // namespace rossby
