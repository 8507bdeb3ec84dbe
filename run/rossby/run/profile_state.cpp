#include "rossby/run/profile_state.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "rossby/base/plain_text.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;
using Status = ProfiledCandidate::Status;

/// JSON has no infinity: unknown errors become null.
Json finite(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double real_or(const Json& json, const char* key, double otherwise) {
  return json.at(key).is_null() ? otherwise : json.at(key).get<double>();
}

Json json_of_chances(const Chances& chances) {
  const bool known = chances.predicted > 0;
  const auto figure = [&](double x) { return known ? finite(x) : Json(nullptr); };
  return {{"error", figure(chances.predicted)},
          {"low", figure(chances.low)},
          {"high", figure(chances.high)},
          {"probability_best", figure(chances.probability_best)},
          {"regret", figure(chances.regret)}};
}

Chances chances_of_json(const Json& json) {
  return {real_or(json, "error", 0), real_or(json, "low", 0), real_or(json, "high", 0),
          real_or(json, "probability_best", 0), real_or(json, "regret", 0)};
}

Json json_of_fold(const ProfiledFold& fold) {
  Json curve = Json::array();
  for (const CurvePoint& point : fold.curve)
    curve.push_back({{"steps", point.steps}, {"error", point.error}});
  return {{"steps", fold.steps}, {"ended", fold.ended}, {"best", finite(fold.best)}, {"curve", curve}};
}

ProfiledFold fold_of_json(const Json& json) {
  ProfiledFold fold;
  fold.steps = json.at("steps").get<Index>();
  fold.ended = json.at("ended").get<bool>();
  fold.best = real_or(json, "best", fold.best);
  for (const Json& point : json.at("curve"))
    fold.curve.push_back({point.at("steps").get<Index>(), point.at("error").get<double>()});
  return fold;
}

Json json_of_candidate(const ProfiledCandidate& one) {
  Json json{{"name", one.name},
            {"model", one.model},
            {"settings", one.settings},
            {"all_ranks", one.all_ranks},
            {"expected", one.expected},
            {"status", std::string(to_string(one.status))},
            {"reason", one.reason},
            {"predicted", json_of_chances(one.chances)},
            {"complete_steps", one.cost.steps},
            {"epoch_steps", one.epoch_steps},
            {"step_seconds", one.cost.step},
            {"rung_seconds", one.cost.rung},
            {"start_seconds", one.cost.start},
            {"pace", one.cost.pace},
            {"train_seconds", one.train_seconds},
            {"wall_seconds", one.wall_seconds},
            {"folds", Json::array()}};
  for (const ProfiledFold& fold : one.folds) json["folds"].push_back(json_of_fold(fold));
  return json;
}

Status status_named(const std::string& name) {
  for (const Status status : {Status::waiting, Status::running, Status::dropped, Status::failed})
    if (name == to_string(status)) return status;
  user_error("status \"{}\" is unknown", name);
}

ProfiledCandidate candidate_of_json(const Json& json) {
  ProfiledCandidate one;
  one.name = json.at("name").get<std::string>();
  one.model = json.at("model").get<std::string>();
  one.settings = json.at("settings").get<std::vector<std::string>>();
  one.all_ranks = json.at("all_ranks").get<bool>();
  one.expected = json.value("expected", 1.0);
  one.status = status_named(json.at("status").get<std::string>());
  one.reason = json.at("reason").get<std::string>();
  one.chances = chances_of_json(json.at("predicted"));
  one.cost = {json.at("complete_steps").get<Index>(), json.at("step_seconds").get<double>(),
              json.at("start_seconds").get<double>(), json.at("rung_seconds").get<double>(),
              json.value("pace", 1.0)};
  one.epoch_steps = json.at("epoch_steps").get<Index>();
  one.train_seconds = json.at("train_seconds").get<double>();
  one.wall_seconds = json.at("wall_seconds").get<double>();
  for (const Json& fold : json.at("folds")) one.folds.push_back(fold_of_json(fold));
  return one;
}

ProfileState state_of_json(const Json& json) {
  ProfileState state;
  state.question = json.at("question").get<std::string>();
  state.data = json.at("data").get<std::string>();
  state.units = json.at("units").get<std::string>();
  state.horizons = json.at("horizons").get<Index>();
  state.folds = json.at("cross_validation_folds").get<Index>();
  state.seed = json.at("seed").get<Index>();
  state.ranks = json.at("ranks").get<int>();
  state.decays = json.at("rate_decays").get<bool>();
  const Json& cost = json.at("cost");
  state.budget = cost.at("budget").get<std::string>();
  state.timed = cost.at("counts_starts").get<bool>();
  state.complete = cost.at("complete_rank_seconds").get<double>();
  state.allowed = cost.at("budget_rank_seconds").get<double>();
  state.planned = cost.at("planned_rank_seconds").get<double>();
  state.measured = cost.at("measured_rank_seconds").get<double>();
  for (const Json& one : json.at("baselines"))
    state.baselines.push_back({one.at("name").get<std::string>(), real_or(one, "validation_error", NAN),
                               chances_of_json(one.at("predicted"))});
  for (const Json& one : json.at("candidates")) state.candidates.push_back(candidate_of_json(one));
  for (const Json& one : json.at("rungs"))
    state.rungs.push_back({one.at("share").get<double>(), one.at("candidates").get<Index>(),
                           one.value("folds", std::max<Index>(state.folds, 1))});
  state.rung = json.at("next_rung").get<Index>();
  state.ended = json.at("ended").get<std::string>();
  return state;
}

}  // namespace

std::string_view to_string(Status status) {
  switch (status) {
    case Status::waiting:
      return "waiting";
    case Status::running:
      return "running";
    case Status::dropped:
      return "dropped";
    case Status::failed:
      return "failed";
  }
  return "";
}

Json to_json(const ProfileState& state) {
  const auto name_of = [](const auto& all, Index place) {
    return place < 0 ? Json(nullptr) : Json(all[static_cast<std::size_t>(place)].name);
  };
  Json json{{"format", 1},
            {"rossby", version_short()},
            {"choice",
             {{"candidate", name_of(state.candidates, state.choice)},
              {"better_baseline", name_of(state.baselines, state.baseline)}}},
            {"data", state.data},
            {"units", state.units},
            {"horizons", state.horizons},
            {"cross_validation_folds", state.folds},
            {"seed", state.seed},
            {"ranks", state.ranks},
            {"rate_decays", state.decays},
            {"cost",
             {{"budget", state.budget},
              {"counts_starts", state.timed},
              {"complete_rank_seconds", state.complete},
              {"budget_rank_seconds", state.allowed},
              {"planned_rank_seconds", state.planned},
              {"measured_rank_seconds", state.measured}}},
            {"rungs", Json::array()},
            {"next_rung", state.rung},
            {"ended", state.ended},
            {"trust",
             {{"spread", state.trust.spread}, {"gain", state.trust.gain}, {"gain_sd", state.trust.gain_sd}}},
            {"baselines", Json::array()},
            {"candidates", Json::array()},
            {"question", state.question}};
  for (const Rung& rung : state.rungs)
    json["rungs"].push_back({{"share", rung.share}, {"candidates", rung.candidates}, {"folds", rung.folds}});
  for (const ProfiledBaseline& one : state.baselines)
    json["baselines"].push_back({{"name", one.name},
                                 {"validation_error", finite(one.error)},
                                 {"predicted", json_of_chances(one.chances)}});
  for (const ProfiledCandidate& one : state.candidates) json["candidates"].push_back(json_of_candidate(one));
  return json;
}

ProfileState profile_from_text(const std::string& text, const std::string& origin) {
  try {
    ProfileState state = state_of_json(Json::parse(text));
    predict(state);
    return state;
  } catch (const Json::exception& error) {
    user_error(
        "{}: not what 'rossby profile' writes ({}). Remove this file, or profile into another "
        "directory with -o",
        origin, plain_text(error));
  } catch (const UserError& error) {
    user_error("{}: {}. Remove this file, or profile into another directory with -o", origin, error.what());
  }
}

}  // namespace rossby
