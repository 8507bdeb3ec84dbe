#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/plain_text.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/plan/json_fields.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/run/asynchronous_plan.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/planning.hpp"

// Plans as JSON and as text, and the measurements in a run's metrics.

namespace rossby {

using Json = nlohmann::ordered_json;

static void each_field(SameAs<TrainingPlan> auto& plan, const auto& field) {
  field("model", plan.model);
  field("nodes", plan.nodes);
  field("ranks", plan.place.ranks);
  field("hosts", plan.place.hosts);
  field("threads", plan.place.threads);
  field("time_groups", plan.place.time_groups);
  field.newer("stages", plan.place.stages);
  field("device", plan.device, "");
  field("refused", plan.refused, "");
  field.newer("epochs", plan.epochs);
  field.newer("validations", plan.validations);
}
static void each_field(SameAs<TrainingPlan::Measured> auto& m, const auto& field) {
  field("steps", m.steps);
  field("step_seconds", m.step);
  field("forward", m.forward);
  field("backward", m.backward);
  field("reduction", m.reduction);
  field("optimiser", m.optimiser);
  field("waiting", m.waiting);
  field("memory_bytes", m.memory_bytes);
  field("sent_messages", m.sent_messages);
  field("sent_bytes", m.sent_bytes);
  field.newer("transfer", m.transfer);
  field("device_bytes", m.device_bytes, 0);
  field("validation_seconds", m.validation, 0);
}
static void each_field(SameAs<TracedOp> auto& op, const auto& field) {
  field("op", op.name);
  field("backward", op.backward);
  field("flops", op.cost.flops);
  field("bytes", op.cost.bytes);
  field("messages", op.cost.messages);
  field("message_bytes", op.cost.message_bytes);
  field("brought_bytes", op.moved.brought);
  field("home_bytes", op.moved.home);
  field("rows", op.made.rows);
  field("columns", op.made.cols);
  field("channels", op.made.channels);
}

Json json_of(const TrainingPlan& plan) {
  Json json{{"format", 1}};
  each_field(plan, FieldWriter{json});
  json["training_seconds"] = plan.training_seconds();
  if (plan.training_seconds() > 0) json["training_interval"] = plan.training_interval();
  json["predicted"] = json_of(plan.interpolated);
  json["ops"] = plan.ops;
  for (std::size_t k = 0; k < plan.ops.size(); ++k)
    json["ops"][k]["calls"] = static_cast<double>(plan.ops[k].calls) / static_cast<double>(plan.traced_steps);
  json["footprint_bytes"] = plan.footprint;
  for (const TrainingPlan::Measured& m : plan.measured) {
    json["measured"] = m;
    for (const auto& [epoch, sent] : m.sent_epochs)
      json["measured"]["sent_epochs"].push_back({epoch, sent.messages, sent.bytes});
  }
  if (plan.asynchronous) json["asynchronous"]["predicted"] = json_of(*plan.asynchronous);
  if (plan.asynchronous_measured) json["asynchronous"]["measured"] = json_of(*plan.asynchronous_measured);
  return json;
}

TrainingPlan plan_of(const Json& json, const std::string& origin) {
  try {
    if (const Json& format = json.at("format"); format != 1)
      user_error(
          "{}: the file has format {}, but this version of Rossby reads format 1. Repeat the "
          "training with this version",
          origin, format.dump());
    auto plan = json.get<TrainingPlan>();
    plan.interpolated = prediction_of(json.at("predicted"));
    if (json.contains("asynchronous")) {
      const Json& asynchronous = json.at("asynchronous");
      plan.asynchronous = asynchronous_plan_of(asynchronous.at("predicted"));
      if (asynchronous.contains("measured"))
        plan.asynchronous_measured = asynchronous_plan_of(asynchronous.at("measured"));
    }
    if (json.contains("measured")) {
      const Json& m = json.at("measured");
      auto& of = plan.measured.emplace_back(m.get<TrainingPlan::Measured>());
      if (!(of.step > 0))
        user_error("{}: the file is damaged: a measured step takes {} s. Repeat the training with --machine",
                   origin, of.step);
      for (const Json& epoch : m.value("sent_epochs", Json::array()))
        of.sent_epochs.push_back({epoch.at(0), {epoch.at(1), epoch.at(2)}});
    }
    return plan;
  } catch (const Json::exception& error) {
    user_error("{}: not a plan of 'rossby train --machine': {}. Repeat the training with --machine", origin,
               plain_text(error));
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
  if (!plan.device.empty()) line("launches and waits", p.launches);
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
          "{:.0f} % of {} are calls far from all measured ones. Start 'rossby plan' on the ranks of the "
          "training to measure these calls",
          100 * share, what));
  };
  far(p.far_share, "the step time");
  far(p.validation_far_share, "the validation time");
  if (!p.unmeasured.empty())
    lines.push_back(fmt::format(
        "never measured, predicted from the nearest measurements (bandwidth and flops, messages within a "
        "host): {}",
        fmt::join(p.unmeasured, ", ")));
  if (!p.left_out.empty())
    lines.push_back(
        fmt::format("never measured, counted as no time: {}. Run 'rossby calibrate' without --only, on at "
                    "least two ranks",
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
  if (!validations.empty()) median->validation = median_of(std::move(validations));
  return {*median};
}

std::string plan_file_of(const std::string& run) {
  return run + "/plan.json";
}

}  // namespace rossby
