#include "rossby/train/training_state.hpp"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no infinity: it becomes null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

const Json& member(const Json& json, const char* name) {
  if (!json.is_object() || !json.contains(name)) user_error("its training state has no '{}'", name);
  return json.at(name);
}

[[noreturn]] void wrong(const char* name, const char* right) {
  user_error("its training state is damaged: '{}' is not {}", name, right);
}

Index count(const Json& json, const char* name, Index least = 0) {
  const Json& value = member(json, name);
  if (!value.is_number_integer() || value.get<Index>() < least) wrong(name, "a count");
  return value.get<Index>();
}

double real(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_number()) wrong(name, "a number");
  return value.get<double>();
}

bool flag(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_boolean()) wrong(name, "true or false");
  return value.get<bool>();
}

std::string text(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_string()) wrong(name, "a text");
  return value.get<std::string>();
}

const Json& list(const Json& json, const char* name) {
  const Json& value = member(json, name);
  if (!value.is_array()) wrong(name, "a list");
  return value;
}

/// Members of StepSeconds in the order of their declaration.
constexpr const char* regions[] = {"forward", "backward", "reduction", "optimiser", "waiting", "transfer"};

Json seconds_json(const StepSeconds& s) {
  return {{regions[0], s.forward},   {regions[1], s.backward}, {regions[2], s.reduction},
          {regions[3], s.optimiser}, {regions[4], s.waiting},  {regions[5], s.transfer}};
}

/// Reads step times; checkpoints of earlier versions have none.
StepSeconds step_seconds(const Json& json) {
  if (!json.contains("step_seconds")) return {};
  const Json& s = json.at("step_seconds");
  return {real(s, regions[0]), real(s, regions[1]), real(s, regions[2]),
          real(s, regions[3]), real(s, regions[4]), real(s, regions[5])};
}

std::vector<UpdateConstants> constants(const Json& json, const char* name) {
  std::vector<UpdateConstants> all;
  for (const Json& item : list(json, name)) {
    UpdateConstants& one = all.emplace_back();
    if (!item.is_array() || item.size() != one.size()) wrong(name, "a list of updates");
    for (std::size_t i = 0; i < one.size(); ++i) {
      if (!item[i].is_number()) wrong(name, "a list of updates");
      one[i] = item[i].get<double>();
    }
  }
  return all;
}

Json parameter_json(const ParameterBooks& books) {
  Json json;
  json["name"] = books.name;
  json["live"] = books.live;
  json["count"] = books.count;
  json["beta2"] = books.overdue.beta2;
  json["missed"] = books.overdue.missed;
  json["overdue"] = books.overdue.steps;
  if (!books.by_rows) return json;
  json["table"] = {{"closed", books.table.closed},   {"beta2", books.table.beta2},
                   {"count", books.table.count},     {"settled", books.table.settled},
                   {"history", books.table.history}, {"done", books.table.done}};
  return json;
}

ParameterBooks parameter_books(const Json& json) {
  ParameterBooks books;
  books.name = text(json, "name");
  books.live = flag(json, "live");
  books.count = count(json, "count");
  books.overdue = {real(json, "beta2"), count(json, "missed"), constants(json, "overdue")};
  books.by_rows = json.contains("table");
  if (!books.by_rows) return books;
  const Json& table = json.at("table");
  books.table.closed = flag(table, "closed");
  books.table.beta2 = real(table, "beta2");
  books.table.count = count(table, "count");
  books.table.settled = count(table, "settled");
  books.table.history = constants(table, "history");
  for (const Json& run : list(table, "done")) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_number_integer() || !run[1].is_number_integer())
      wrong("done", "a list of pairs");
    books.table.done.emplace_back(run[0].get<Index>(), run[1].get<Index>());
  }
  return books;
}

Json moments_json(const Moments& m) {
  return {m.count, m.sum, m.squares, number(m.least), number(m.most)};
}

Moments moments(const Json& json, const char* name) {
  const Json& values = list(json, name);
  if (values.size() != 5 || !values[0].is_number_integer()) wrong(name, "moments");
  const auto at = [&](std::size_t i, double none) {
    if (values[i].is_null()) return none;
    if (!values[i].is_number()) wrong(name, "moments");
    return values[i].get<double>();
  };
  const Moments none;
  return {values[0].get<Index>(), at(1, 0), at(2, 0), at(3, none.least), at(4, none.most)};
}

/// [[value, times], …]
Json counts_json(const Counts& counts) {
  Json json = Json::array();
  for (const auto& [value, times] : counts) json.push_back({value, times});
  return json;
}

Counts counts(const Json& json, const char* name) {
  Counts all;
  for (const Json& item : list(json, name)) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_number_integer() || !item[1].is_number_integer())
      wrong(name, "a list of pairs");
    all[item[0].get<Index>()] += item[1].get<Index>();
  }
  return all;
}

/// Adds asynchronous updates; synchronous states have none.
void add_updates(Json& json, const TrainingState& state) {
  if (state.group_batches.empty()) return;
  const UpdateCounts& u = state.updates;
  json["group_batches"] = state.group_batches;
  json["updates"] = {{"windows", counts_json(u.windows)},
                     {"staleness", counts_json(u.staleness)},
                     {"targets", moments_json(u.targets)},
                     {"dropped", u.dropped},
                     {"update_seconds", moments_json(u.update_seconds)},
                     {"worker_seconds", moments_json(u.worker_seconds)},
                     {"join_seconds", moments_json(u.join_seconds)},
                     {"sum_seconds", moments_json(u.sum_seconds)}};
}

void read_updates(const Json& json, TrainingState& state) {
  if (!json.contains("group_batches")) return;
  for (const Json& done : list(json, "group_batches")) {
    if (!done.is_number_integer() || done.get<Index>() < 0) wrong("group_batches", "a list of counts");
    state.group_batches.push_back(done.get<Index>());
  }
  const Json& u = member(json, "updates");
  // Checkpoints of earlier versions do not split the time of updates.
  const auto part = [&](const char* name) { return u.contains(name) ? moments(u, name) : Moments{}; };
  state.updates = {counts(u, "windows"), counts(u, "staleness"),       moments(u, "targets"),
                   count(u, "dropped"),  moments(u, "update_seconds"), moments(u, "worker_seconds"),
                   part("join_seconds"), part("sum_seconds")};
}

}  // namespace

double Moments::deviation() const {
  const double m = mean();
  return count > 0 ? std::sqrt(std::max(0.0, squares / static_cast<double>(count) - m * m)) : 0;
}

Moments moments_of(const Counts& counts) {
  Moments m;
  for (const auto& [value, times] : counts) {
    const auto v = static_cast<double>(value), n = static_cast<double>(times);
    m += {times, n * v, n * v * v, v, v};
  }
  return m;
}

UpdateCounts& UpdateCounts::operator+=(const UpdateCounts& other) {
  for (const auto& [value, times] : other.windows) windows[value] += times;
  for (const auto& [value, times] : other.staleness) staleness[value] += times;
  targets += other.targets;
  dropped += other.dropped;
  update_seconds += other.update_seconds;
  worker_seconds += other.worker_seconds;
  join_seconds += other.join_seconds;
  sum_seconds += other.sum_seconds;
  return *this;
}

Json to_json(const TrainingState& state) {
  Json json;
  json["epoch"] = state.epoch;
  json["batch"] = state.batch;
  json["steps"] = state.steps;
  json["best_epoch"] = state.best_epoch;
  json["has_best"] = state.has_best;
  json["rollbacks"] = state.rollbacks;
  json["seconds"] = state.seconds;
  json["epoch_seconds"] = state.epoch_seconds;
  json["step_seconds"] = seconds_json(state.step_seconds);
  json["node_steps"] = state.node_steps;
  json["fused_scale"] = state.fused_scale;
  json["terms"] = Json::array();
  for (const TermSum& term : state.terms)
    json["terms"].push_back({{"name", term.name}, {"value", term.value}, {"weight", term.weight}});
  json["schedule"] = {{"falls", state.schedule.falls},
                      {"best", number(state.schedule.best)},
                      {"since_best", state.schedule.since_best},
                      {"bad", state.schedule.bad}};
  json["parameters"] = Json::array();
  for (const ParameterBooks& books : state.parameters) json["parameters"].push_back(parameter_json(books));
  add_updates(json, state);
  return json;
}

TrainingState training_state(const Json& json) {
  TrainingState state;
  state.epoch = count(json, "epoch");
  state.batch = count(json, "batch");
  state.steps = count(json, "steps");
  state.best_epoch = count(json, "best_epoch", -1);
  state.has_best = flag(json, "has_best");
  state.rollbacks = count(json, "rollbacks");
  state.seconds = real(json, "seconds");
  state.epoch_seconds = real(json, "epoch_seconds");
  state.step_seconds = step_seconds(json);
  state.node_steps = real(json, "node_steps");
  state.fused_scale = real(json, "fused_scale");
  for (const Json& term : list(json, "terms"))
    state.terms.push_back({text(term, "name"), real(term, "value"), real(term, "weight")});
  const Json& schedule = member(json, "schedule");
  state.schedule.falls = count(schedule, "falls");
  if (!member(schedule, "best").is_null()) state.schedule.best = real(schedule, "best");
  state.schedule.since_best = count(schedule, "since_best");
  state.schedule.bad = count(schedule, "bad");
  for (const Json& books : list(json, "parameters")) state.parameters.push_back(parameter_books(books));
  read_updates(json, state);
  return state;
}

}  // namespace rossby
