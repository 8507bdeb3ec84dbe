#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/run/asynchronous_check.hpp"
#include "rossby/run/asynchronous_plan.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/planning.hpp"

// Plans as JSON and as text, and the measurements in a run's metrics.

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

Prediction prediction_of(const Json& json) {
  Prediction p;
  for (const auto& [name, part] : step_parts) p.*part = json.value(name, 0.0);
  p.device_bytes = json.value("device_bytes", 0.0);
  p.imbalance = json.at("imbalance");
  p.epoch_steps = json.at("epoch_steps");
  p.validation = json.value("validation_seconds", 0.0);
  const auto doubt = [&](const char* interval, double seconds) {
    return json.contains(interval) ? doubt_of(seconds, json.at(interval).at(1)) : 0;
  };
  p.doubt = doubt("step_interval", json.at("step_seconds"));
  p.validation_doubt = doubt("validation_interval", p.validation);
  p.memory_bytes = json.at("memory_bytes");
  p.sent_messages = json.at("sent").at("messages");
  p.sent_bytes = json.at("sent").at("bytes");
  p.sent_ranks = json.at("sent").at("ranks");
  for (const Json& epoch : json.at("sent").value("epochs", Json::array()))
    p.sent_epochs.push_back({epoch.at(0), {epoch.at(1), epoch.at(2)}});
  p.far_share = json.at("far_share");
  p.validation_far_share = json.value("validation_far_share", 0.0);
  p.unmeasured = json.at("unmeasured").get<std::vector<std::string>>();
  p.left_out = json.value("left_out", std::vector<std::string>());
  return p;
}

constexpr std::pair<const char*, double TrainingPlan::Measured::*> measured_parts[] = {
    {"step_seconds", &TrainingPlan::Measured::step},
    {"forward", &TrainingPlan::Measured::forward},
    {"backward", &TrainingPlan::Measured::backward},
    {"reduction", &TrainingPlan::Measured::reduction},
    {"optimiser", &TrainingPlan::Measured::optimiser},
    {"waiting", &TrainingPlan::Measured::waiting},
    {"memory_bytes", &TrainingPlan::Measured::memory_bytes},
    {"sent_messages", &TrainingPlan::Measured::sent_messages},
    {"sent_bytes", &TrainingPlan::Measured::sent_bytes},
    {"transfer", &TrainingPlan::Measured::transfer}};

}  // namespace

Json json_of(const TrainingPlan& plan) {
  Json json;
  json["format"] = 1;
  json["model"] = plan.model;
  json["nodes"] = plan.nodes;
  json["ranks"] = plan.place.ranks;
  json["hosts"] = plan.place.hosts;
  json["threads"] = plan.place.threads;
  json["time_groups"] = plan.place.time_groups;
  json["stages"] = plan.place.stages;
  if (!plan.device.empty()) json["device"] = plan.device;
  if (!plan.refused.empty()) json["refused"] = plan.refused;
  json["epochs"] = plan.epochs;
  json["validations"] = plan.validations;
  json["training_seconds"] = plan.training_seconds();
  if (plan.training_seconds() > 0) {
    const auto [low, high] = plan.training_interval();
    json["training_interval"] = {low, high};
  }
  json["predicted"] = json_of(plan.interpolated);
  Json ops = Json::array();
  for (const TracedOp& op : plan.ops) {
    const double calls = static_cast<double>(op.calls) / static_cast<double>(plan.traced_steps);
    ops.push_back({{"op", op.name},
                   {"backward", op.backward},
                   {"calls", calls},
                   {"flops", op.cost.flops},
                   {"bytes", op.cost.bytes},
                   {"messages", op.cost.messages},
                   {"message_bytes", op.cost.message_bytes},
                   {"brought_bytes", op.moved.brought},
                   {"home_bytes", op.moved.home},
                   {"rows", op.made.rows},
                   {"columns", op.made.cols},
                   {"channels", op.made.channels}});
  }
  json["ops"] = std::move(ops);
  json["footprint_bytes"] = plan.footprint;
  for (const TrainingPlan::Measured& m : plan.measured) {
    json["measured"]["steps"] = m.steps;
    for (const auto& [name, part] : measured_parts) json["measured"][name] = m.*part;
    if (m.device_bytes > 0) json["measured"]["device_bytes"] = m.device_bytes;
    if (m.validation > 0) json["measured"]["validation_seconds"] = m.validation;
    for (const auto& [epoch, sent] : m.sent_epochs)
      json["measured"]["sent_epochs"].push_back({epoch, sent.messages, sent.bytes});
  }
  if (plan.asynchronous) json["asynchronous"]["predicted"] = json_of(*plan.asynchronous);
  if (plan.asynchronous_measured) json["asynchronous"]["measured"] = json_of(*plan.asynchronous_measured);
  return json;
}

TrainingPlan plan_of(const Json& json, const std::string& origin) {
  try {
    TrainingPlan plan;
    if (const Json& format = json.at("format"); format != 1)
      user_error("{}: format {}, this program reads 1", origin, format.dump());
    plan.model = json.at("model");
    plan.nodes = json.at("nodes");
    plan.device = json.value("device", "");
    plan.refused = json.value("refused", "");
    plan.epochs = json.value("epochs", Index{0});
    plan.validations = json.value("validations", Index{0});
    plan.place = {json.at("ranks"), json.at("hosts"), json.at("threads"), json.at("time_groups"),
                  json.value("stages", 1)};
    plan.interpolated = prediction_of(json.at("predicted"));
    if (json.contains("asynchronous")) {
      const Json& asynchronous = json.at("asynchronous");
      plan.asynchronous = asynchronous_plan_of(asynchronous.at("predicted"));
      if (asynchronous.contains("measured"))
        plan.asynchronous_measured = asynchronous_plan_of(asynchronous.at("measured"));
    }
    if (json.contains("measured")) {
      const Json& m = json.at("measured");
      TrainingPlan::Measured& of = plan.measured.emplace_back();
      for (const auto& [name, part] : measured_parts)  // earlier versions did not wait for chunks
        of.*part = part == &TrainingPlan::Measured::transfer ? m.value(name, 0.0) : m.at(name).get<double>();
      of.steps = m.at("steps");
      of.device_bytes = m.value("device_bytes", 0.0);
      of.validation = m.value("validation_seconds", 0.0);
      if (!(of.step > 0)) user_error("{}: a measured step of {} s", origin, of.step);
      for (const Json& epoch : m.value("sent_epochs", Json::array()))
        of.sent_epochs.push_back({epoch.at(0), {epoch.at(1), epoch.at(2)}});
    }
    return plan;
  } catch (const Json::exception& error) {
    user_error("{}: not a plan as 'rossby train --machine' writes it: {}", origin, error.what());
  }
}

std::string between_text(const std::pair<double, double>& interval) {
  return fmt::format("({} to {})", short_seconds_text(interval.first), short_seconds_text(interval.second));
}

std::string duration_text(const TrainingPlan& plan) {
  const Prediction& p = plan.interpolated;
  const double epoch = p.step() * static_cast<double>(p.epoch_steps);
  std::string text =
      fmt::format("{} {} an epoch of {} step{}", short_seconds_text(epoch),
                  between_text(interval_of(epoch, p.doubt)), p.epoch_steps, p.epoch_steps == 1 ? "" : "s");
  if (p.validation > 0)
    text += fmt::format(", {} {} a validation", short_seconds_text(p.validation),
                        between_text(interval_of(p.validation, p.validation_doubt)));
  if (plan.epochs > 0)
    text += fmt::format(", {} {} the training of {} epoch{}", short_seconds_text(plan.training_seconds()),
                        between_text(plan.training_interval()), plan.epochs, plan.epochs == 1 ? "" : "s");
  return text;
}

std::string text_of(const TrainingPlan& plan) {
  const Prediction& p = plan.interpolated;
  std::string text = fmt::format(
      "{}: {} nodes, {} ranks on {} host{}, {} thread{} each, {} time group{}{}\n", plan.model, plan.nodes,
      plan.place.ranks, plan.place.hosts, plan.place.hosts == 1 ? "" : "s", plan.place.threads,
      plan.place.threads == 1 ? "" : "s", plan.place.time_groups, plan.place.time_groups == 1 ? "" : "s",
      plan.place.stages > 1 ? fmt::format(", {} stages", plan.place.stages) : "");
  if (!plan.device.empty()) text += fmt::format("each rank on a device: {}\n", plan.device);
  const auto line = [&](const char* name, double seconds) {
    text += fmt::format("  {:<22}{:>12.4f} ms{:>8.1f} %\n", name, 1e3 * seconds,
                        p.step() > 0 ? 100 * seconds / p.step() : 0);
  };
  line("forward", p.forward);
  line("backward", p.backward);
  line("optimiser", p.optimiser);
  line("messages", p.messages);
  line("sum over ranks", p.reduction);
  if (plan.place.stages > 1) line("waits for stages", p.pipeline);
  if (p.transfer > 0) line("waits for chunks", p.transfer);
  if (!plan.device.empty()) line("launches, waits for it", p.launches);
  line("slowest rank", p.straggler);
  line("step", p.step());
  text += fmt::format("  nine steps of ten between {:.4f} and {:.4f} ms\n  {}\n",
                      1e3 * interval_of(p.step(), p.doubt).first, 1e3 * interval_of(p.step(), p.doubt).second,
                      duration_text(plan));
  if (p.memory_bytes > 0) text += fmt::format("  memory of a rank: {}\n", bytes_text(p.memory_bytes));
  if (p.device_bytes > 0) text += fmt::format("  memory of a device: {}\n", bytes_text(p.device_bytes));
  text += caveats(p);
  if (!plan.refused.empty()) text += "  does not fit: " + plan.refused + "\n";
  return text;
}

std::vector<std::string> caveat_lines(const Prediction& p) {
  std::vector<std::string> lines;
  const auto far = [&](double share, const char* what) {
    if (share > far_share_told)
      lines.push_back(fmt::format(
          "{:.0f} % of {} are calls far from all that were measured. Plan it on the ranks that it "
          "will have, which measures them",
          100 * share, what));
  };
  far(p.far_share, "it");
  far(p.validation_far_share, "a validation");
  if (!p.unmeasured.empty())
    lines.push_back(fmt::format(
        "never measured, taken from what is nearest (bandwidth and flops, messages within a host): {}",
        fmt::join(p.unmeasured, ", ")));
  if (!p.left_out.empty())
    lines.push_back(
        fmt::format("never measured, taken to take no time: {}. Run all of 'rossby calibrate', on two ranks "
                    "or more for several",
                    fmt::join(p.left_out, ", ")));
  return lines;
}

std::string caveats(const Prediction& p) {
  std::string text;
  for (const std::string& line : caveat_lines(p)) text += "  " + line + "\n";
  return text;
}

// The first epoch's steps allocate arrays and touch memory for the first time; so does an epoch after a
// restart. The median of the other whole epochs counts. It ignores passing disturbances, and parts of several
// epochs do not mix.
std::vector<TrainingPlan::Measured> measured_in(const std::string& metrics_file) {
  std::vector<TrainingPlan::Measured> first, whole, cut;
  std::vector<std::pair<Index, Traffic>> sent;
  std::ifstream in(metrics_file);
  Json place;
  Index before = 0;
  bool first_whole = false;
  double memory = 0, device = 0;
  std::vector<double> validations;
  for (std::string line; std::getline(in, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step_seconds") || !json.contains("sent")) continue;
    const Index steps = json.at("steps").get<Index>() - before;
    before += steps;
    // The plan is for the ranks of the last start.
    if (Json here = json.value("place", Json()); here != place) {
      place = std::move(here);
      for (auto* epochs : {&first, &whole, &cut}) epochs->clear();
      sent.clear();
      validations.clear();
    }
    if (const double seconds = json.value("validation_seconds", 0.0); seconds > 0)
      validations.push_back(seconds);
    memory = json.at("peak_rss_bytes");
    device = json.value("peak_device_bytes", 0.0);
    if (steps <= 0) continue;
    const bool by_one_start = json.at("sent").value("whole", false);
    if (by_one_start)
      sent.push_back({json.at("epoch"), {json.at("sent").at("messages"), json.at("sent").at("bytes")}});
    const auto a_step = [&](const Json& seconds) {
      return seconds.get<double>() / static_cast<double>(steps);
    };
    const Json& seconds = json.at("step_seconds");
    if (first.empty()) first_whole = by_one_start;
    auto& epochs = first.empty() ? first : by_one_start ? whole : cut;
    epochs.push_back({a_step(json.at("epoch_seconds")),
                      a_step(seconds.at("forward")),
                      a_step(seconds.at("backward")),
                      a_step(seconds.at("reduction")),
                      a_step(seconds.at("optimiser")),
                      a_step(seconds.at("waiting")),
                      0,
                      a_step(json.at("sent").at("messages")),
                      a_step(json.at("sent").at("bytes")),
                      steps,
                      {},
                      a_step(seconds.value("transfer", Json(0.0)))});
  }
  if (first.empty()) return {};
  const bool only_first = whole.empty() && (first_whole || cut.empty());
  auto& epochs = only_first ? first : whole.empty() ? cut : whole;
  // A shortened epoch lacks some batches, and batches differ.
  const auto fewer = [](const auto& a, const auto& b) { return a.steps < b.steps; };
  const Index most = std::max_element(epochs.begin(), epochs.end(), fewer)->steps;
  std::erase_if(epochs, [&](const auto& epoch) { return epoch.steps < most; });
  // For an even number, take the faster of the middle two: a whole, undisturbed epoch.
  const auto median = epochs.begin() + static_cast<std::ptrdiff_t>((epochs.size() - 1) / 2);
  std::nth_element(epochs.begin(), median, epochs.end(),
                   [](const auto& a, const auto& b) { return a.step < b.step; });
  median->memory_bytes = memory;
  median->device_bytes = device;
  median->sent_epochs = std::move(sent);
  median->first_epoch = only_first;
  if (!validations.empty()) {
    const auto middle = validations.begin() + static_cast<std::ptrdiff_t>((validations.size() - 1) / 2);
    std::nth_element(validations.begin(), middle, validations.end());
    median->validation = *middle;
  }
  return {*median};
}

std::string plan_file_of(const std::string& run) {
  return run + "/plan.json";
}

}  // namespace rossby
