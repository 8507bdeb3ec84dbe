#include "rossby/plan/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "rossby/base/error.hpp"
#include "rossby/plan/json_fields.hpp"
#include "rossby/plan/pipeline.hpp"
#include "rossby/plan/transfers.hpp"

namespace rossby {
namespace {

constexpr double shortest = 1e-9;      // s
constexpr double nine_of_ten = 1.645;  // standard deviations
// Standard deviations of logarithms: of a whole step, whatever is known of its calls; of messages; of times
// that are assumed to be 0, or like those of something else.
constexpr double least_doubt = 0.04, message_doubt = 0.2, unmeasured_doubt = 0.5;

/// Interpolates linearly between points (x ascending). Below the first point the value is constant; above the
/// last it continues the last line in proportion to x.
double between(const std::vector<std::pair<double, double>>& points, double x) {
  if (points.size() == 1 || x <= points.front().first) return points.front().second;
  auto above = std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.first >= x; });
  if (above == points.end()) --above;
  const auto below = std::prev(above);
  const double slope = (above->second - below->second) / (above->first - below->first);
  return std::max(below->second + slope * (x - below->first), 0.0);
}

/// Adds what was never measured, once.
void note(std::vector<std::string>& unmeasured, std::string what) {
  if (std::find(unmeasured.begin(), unmeasured.end(), what) == unmeasured.end())
    unmeasured.push_back(std::move(what));
}

/// Times of a rank's calls per step, by region.
struct RankTimes {
  Prediction parts;                      // of the step, without stragglers
  double far = 0;                        // seconds of far calls
  double rounds = 0;                     // of messages
  std::map<std::string, double> errors;  // by op: possible error in seconds, all in one direction
  /// Standard deviation of the logarithm of the step without waits for stages: errors of different ops
  /// average out.
  [[nodiscard]] double doubt(bool lacks) const {
    const double waiting = message_doubt * (parts.messages + parts.reduction + parts.transfer),
                 own = parts.step() - parts.pipeline;
    double squares = waiting * waiting;
    for (const auto& [op, error] : errors) squares += error * error;
    const double known = own > 0 ? std::sqrt(squares) / own : 0;
    return std::hypot(least_doubt, known, lacks ? unmeasured_doubt : 0);
  }
};

/// Resident memory of a rank on the host.
double resident_bytes(const MachineProfile& profile, const StepOps& rank) {
  return profile.process_bytes + (rank.cuts_graph ? profile.cut_bytes : 0) + rank.array_bytes +
         rank.list_bytes;
}

/// Returns the seconds that each rank waits for other stages.
std::vector<double> waits_for_stages(const std::vector<StepOps>& ranks, const MachineProfile& profile,
                                     const OpTimes& times, const Place& place) {
  const auto stages = static_cast<std::size_t>(place.stages);
  if (stages == 1 || ranks.size() % stages != 0) return std::vector<double>(ranks.size(), 0.0);
  std::vector<double> waits;
  for (std::size_t first = 0; first < ranks.size(); first += stages) {
    std::vector<Timeline> timelines;
    for (std::size_t s = 0; s < stages; ++s)
      timelines.push_back(timeline_of(ranks[first + s], profile, times, place));
    const auto of_these = pipeline_waits(timelines);
    waits.insert(waits.end(), of_these.begin(), of_these.end());
  }
  return waits;
}

/// True if stragglers were measured.
bool stragglers_of(const MachineProfile& profile, bool on_device) {
  return std::any_of(profile.stragglers.begin(), profile.stragglers.end(),
                     [&](const StragglerSample& s) { return s.on_device == on_device && s.ranks > 1; });
}

/// Names messages and stragglers that are extrapolated to more ranks or hosts than measured; empty if there
/// are none. Twice as many counts as near.
std::string beyond_measured(const MachineProfile& profile, const Place& place) {
  int ranks = 0, hosts = 0;
  for (const MessageSample& sample : profile.messages) {
    ranks = std::max(ranks, sample.ranks);
    hosts = std::max(hosts, sample.hosts);
  }
  const bool more_hosts = hosts > 1 && place.hosts > 2 * hosts;
  if (ranks == 0 || (place.ranks <= 2 * ranks && !more_hosts)) return "";
  return fmt::format("messages and stragglers of more than {} ranks on {} host{}", ranks, hosts,
                     hosts == 1 ? "" : "s");
}

/// Assumes that a host holds ranks like these.
TransferTimes transfers_of(const std::vector<StepOps>& ranks, const MachineProfile& profile,
                           const Place& place) {
  double streamed = 0, memory = 0;
  for (const StepOps& rank : ranks) {
    streamed = std::max(streamed, rank.streamed_bytes);
    memory = std::max(memory, resident_bytes(profile, rank));
  }
  const int on_host = place.ranks_on_host();
  return {profile,
          {on_host, place.threads, on_host * streamed, on_host * memory, place.on_device, place.transfer}};
}

}  // namespace

std::string message_round_of(const TracedOp& op) {
  const bool all_rows =
      op.name.find("_dense") != std::string::npos || op.name == "spread" || op.name == "adaptive_adjacency";
  // A spread value goes to the owners of all rows, and its gradient comes back from them.
  if (all_rows) return op.backward != (op.name == "spread") ? "reduce_scatter" : "allgather";
  return op.backward ? "scatter_add" : "gather";
}

double message_seconds(const MachineProfile& profile, const std::string& kind, const Place& place,
                       double messages, double bytes) {
  if (place.ranks <= 1) return 0;
  const auto is = [&](const MessageSample& s, const std::string& transport) {
    return s.kind == kind && s.transport == transport;
  };
  const bool measured = std::any_of(profile.messages.begin(), profile.messages.end(),
                                    [&](const MessageSample& s) { return is(s, place.transport); });
  const std::string transport = measured ? place.transport : "host";
  // Nearest in hosts, then in ranks, then in messages.
  const auto far = [&](const MessageSample& s) {
    const auto apart = [](double a, double b) {
      return std::abs(std::log2(std::max(a, 1.0) / std::max(b, 1.0)));
    };
    return std::tuple(apart(s.hosts, place.hosts), apart(s.ranks, place.ranks), apart(s.messages, messages));
  };
  const MessageSample* nearest = nullptr;
  for (const MessageSample& sample : profile.messages)
    if (is(sample, transport) && (!nearest || far(sample) < far(*nearest))) nearest = &sample;
  if (!nearest) return 0;
  std::vector<std::pair<double, double>> points;
  for (const MessageSample& sample : profile.messages)
    if (is(sample, transport) && far(sample) == far(*nearest))
      points.emplace_back(sample.bytes, sample.seconds);
  std::sort(points.begin(), points.end());
  const double seconds = between(points, bytes);
  if (nearest->ranks >= place.ranks || kind == "gather" || kind == "scatter_add") return seconds;
  // For more ranks than measured, collectives need log2(ranks) rounds with as many bytes each. An allreduce
  // halves the bytes twice (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations
  // in MPICH", IJHPCA 2005).
  const double start = std::min(points.front().second, seconds);
  const auto rounds = [](int ranks) { return std::ceil(std::log2(static_cast<double>(std::max(ranks, 2)))); };
  const auto share = [](int ranks) { return 1 - 1 / static_cast<double>(std::max(ranks, 2)); };
  const double more = kind == "allreduce" ? share(place.ranks) / share(nearest->ranks) : 1;
  return start * rounds(place.ranks) / rounds(nearest->ranks) + (seconds - start) * more;
}

double straggler_factor(const MachineProfile& profile, const Place& place, double seconds) {
  if (place.ranks <= 1) return 1;
  // Use stragglers of devices if measured, else of hosts; a single rank waits for nobody.
  const bool on_device = place.on_device && stragglers_of(profile, true);
  const auto counts = [&](const StragglerSample& s) { return s.on_device == on_device && s.ranks > 1; };
  const auto apart = [&](const StragglerSample& sample) { return std::abs(sample.ranks - place.ranks); };
  const StragglerSample* nearest = nullptr;
  for (const StragglerSample& sample : profile.stragglers)
    if (counts(sample) && (!nearest || apart(sample) < apart(*nearest))) nearest = &sample;
  if (!nearest) return 1;
  std::vector<std::pair<double, double>> points;  // by logarithm of time
  for (const StragglerSample& sample : profile.stragglers)
    if (counts(sample) && sample.ranks == nearest->ranks)
      points.emplace_back(std::log(std::max(sample.seconds, shortest)), sample.factor);
  std::sort(points.begin(), points.end());
  const double here = std::log(std::max(seconds, shortest));
  return here < points.back().first ? between(points, here) : points.back().second;
}

namespace {

/// Predicts a validation as a step of its own, without the calls of a pipeline.
void add_validation(const std::vector<StepOps>& ranks, const MachineProfile& profile, const OpTimes& times,
                    Place place, const OpTimes* launches, Prediction& prediction) {
  std::vector<StepOps> validations;
  bool any = false;
  for (const StepOps& rank : ranks) {
    StepOps& of = validations.emplace_back(rank);
    of.ops = std::exchange(of.validation, {});
    of.steps = 1;
    of.device_waits = rank.validation_waits;
    any = any || !of.ops.empty();
  }
  if (!any) return;
  place.stages = 1;
  const Prediction one = predict(validations, profile, times, place, false, launches);
  prediction.validation = one.step();
  prediction.validation_far_share = one.far_share;
  prediction.validation_doubt = one.doubt;
  for (const std::string& name : one.unmeasured) note(prediction.unmeasured, name);
  for (const std::string& name : one.left_out) note(prediction.left_out, name);
}

}  // namespace

Prediction predict(const std::vector<StepOps>& ranks, const MachineProfile& profile, const OpTimes& times,
                   const Place& place, bool all, const OpTimes* launches) {
  require(place.on_device == (launches != nullptr), "launches of a device's calls");
  Prediction prediction;
  Place on_host = place;
  on_host.transport = "host";
  double computing = 0, most_computing = 0;
  RankTimes slowest;
  const std::vector<double> waits = waits_for_stages(ranks, profile, times, place);
  const TransferTimes transfers = transfers_of(ranks, profile, place);
  const auto message = [&](const std::string& kind, const Place& where, double messages, double bytes) {
    const bool measured = std::any_of(profile.messages.begin(), profile.messages.end(),
                                      [&](const MessageSample& sample) { return sample.kind == kind; });
    if (!measured && where.ranks > 1) note(prediction.left_out, kind + " between ranks");
    return message_seconds(profile, kind, where, messages, bytes);
  };
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const StepOps& rank = ranks[r];
    RankTimes of;
    Prediction& parts = of.parts;
    parts.pipeline = waits[r];
    double enqueuing = 0;  // host seconds
    const double steps = static_cast<double>(std::max<Index>(rank.steps, 1));
    EpochTraffic sent{rank.steps, rank.sent};
    if (!rank.sent_epochs.empty()) sent = {};
    for (const EpochTraffic& epoch : rank.sent_epochs) {
      sent.steps += epoch.steps;
      sent.sent += epoch.sent;
    }
    const double sending = static_cast<double>(std::max<Index>(sent.steps, 1));
    prediction.sent_messages += static_cast<double>(sent.sent.messages) / sending;
    prediction.sent_bytes += static_cast<double>(sent.sent.bytes) / sending;
    ++prediction.sent_ranks;
    for (const TracedOp& op : rank.ops) {
      const double calls = static_cast<double>(op.calls) / steps;
      if (op.name == "group_reduction" || op.name == "stage_reduction" || op.name == "device_reduction") {
        of.rounds += calls;
        Place some = place;
        const bool of_groups = op.name != "device_reduction";
        if (of_groups) some.ranks = op.name == "stage_reduction" ? place.stages : place.time_groups;
        some.hosts = std::min(place.hosts, some.ranks);
        parts.reduction += calls * message("allreduce", some, 1, op.cost.message_bytes);
        if (of_groups) parts.summed_bytes += calls * 2 * op.cost.message_bytes;  // they are floats
        continue;
      }
      if (op.name == "vote") {  // for hosts that run ahead
        enqueuing += calls * message("allreduce", on_host, 1, op.cost.message_bytes);
        continue;
      }
      if (op.name == "reduction") {
        of.rounds += calls;
        parts.reduction += calls * message("allreduce", on_host, 1, op.cost.message_bytes);
        parts.summed_bytes += calls * op.cost.message_bytes;
        // The rank's own part of the call; on a device, the host's part while the device waits.
        const OpTimes::Answer own = times.seconds(op);
        parts.optimiser += calls * own.seconds;
        of.errors[op.name] += calls * own.seconds * own.doubt;
        if (launches) parts.reduction += calls * launches->seconds(op).seconds;
        continue;
      }
      if (launches) enqueuing += calls * launches->seconds(op).seconds;
      const OpTimes::Answer answer = times.seconds(op);
      const double seconds = calls * answer.seconds;
      of.errors[op.name] += seconds * answer.doubt;
      if (answer.distance > 1) of.far += seconds;
      const bool costs = op.cost.flops + op.cost.bytes > 0;
      if (costs && std::isinf(answer.distance))
        note(answer.known ? prediction.unmeasured : prediction.left_out, op.name);
      const bool backward = op.backward || op.name == "clear_gradients";
      (op.name == "optimiser" ? parts.optimiser : backward ? parts.backward : parts.forward) += seconds;
      if (!answer.moves) parts.transfer += calls * transfers.waiting(answer.seconds, op.moved);
      if (place.on_device && op.name.find("_updated_on_host") != std::string::npos)
        note(prediction.unmeasured, "updates of streamed relations on the host");
      if (!answer.moves && !transfers.measured()) note(prediction.unmeasured, "chunks of streamed relations");
      if (op.cost.messages > 0) of.rounds += calls;
      if (op.cost.messages > 0)
        parts.messages +=
            calls * message(message_round_of(op), place, op.cost.messages, op.cost.message_bytes);
    }
    if (launches)
      parts.launches =
          std::max(enqueuing - parts.computing(), 0.0) + rank.device_waits * profile.device.wait_seconds;
    most_computing = std::max(most_computing, parts.computing());
    computing += parts.computing() / static_cast<double>(ranks.size());
    if (parts.step() > slowest.parts.step()) slowest = std::move(of);
    prediction.epoch_steps = rank.epoch_steps;
    if (place.on_device)
      prediction.device_bytes = std::max(prediction.device_bytes, rank.device_bytes);
    else if (rank.array_bytes > 0)
      prediction.memory_bytes = std::max(prediction.memory_bytes, resident_bytes(profile, rank));
  }
  if (place.hosts > 1 &&
      std::none_of(profile.messages.begin(), profile.messages.end(), [&](const MessageSample& sample) {
        return sample.hosts > 1 && sample.transport == place.transport;
      }))
    note(prediction.unmeasured, "messages between hosts");
  if (all && computing > 0) prediction.imbalance = most_computing / computing;
  for (const auto& [name, part] : step_parts) prediction.*part = slowest.parts.*part;
  computing = prediction.computing();
  prediction.far_share = computing > 0 ? slowest.far / computing : 0;
  prediction.summed_bytes = slowest.parts.summed_bytes;
  // Ranks wait for each other in every message round, so the slowest rank between two rounds counts.
  const double between_rounds = computing / std::max(slowest.rounds, 1.0);
  prediction.straggler = (straggler_factor(profile, place, between_rounds) - 1) * computing;
  if (place.ranks > 1 && place.on_device && !stragglers_of(profile, true) && stragglers_of(profile, false))
    note(prediction.unmeasured, "differences in speed between ranks on devices");
  else if (place.ranks > 1 && !stragglers_of(profile, place.on_device))
    note(prediction.left_out, "differences in speed between ranks");
  if (const std::string beyond = beyond_measured(profile, place); !beyond.empty())
    note(prediction.unmeasured, beyond);
  prediction.doubt = slowest.doubt(!prediction.left_out.empty());
  add_validation(ranks, profile, times, place, launches, prediction);
  return prediction;
}

std::pair<double, double> interval_of(double seconds, double doubt) {
  const double factor = std::exp(nine_of_ten * doubt);
  return {seconds / factor, seconds * factor};
}

double doubt_of(double seconds, double upper) {
  return seconds > 0 && upper > seconds ? std::log(upper / seconds) / nine_of_ten : 0;
}

static void each_field(SameAs<Prediction> auto& p, const auto& field) {
  for (const auto& [name, part] : step_parts)
    if (part == &Prediction::launches)
      field(name, p.*part, 0);
    else
      field.newer(name, p.*part);
  field("imbalance", p.imbalance);
  field("epoch_steps", p.epoch_steps);
  field("memory_bytes", p.memory_bytes);
  field("device_bytes", p.device_bytes, 0);
  field.newer("validation_seconds", p.validation);
  field("far_share", p.far_share);
  field("validation_far_share", p.validation_far_share, 0);
  field("unmeasured", p.unmeasured);
  field("left_out", p.left_out, {});
}

nlohmann::ordered_json json_of(const Prediction& p) {
  nlohmann::ordered_json json = p;
  json["step_seconds"] = p.step();
  json["step_interval"] = interval_of(p.step(), p.doubt);
  json["epoch_seconds"] = p.step() * static_cast<double>(p.epoch_steps);
  if (p.validation > 0) json["validation_interval"] = interval_of(p.validation, p.validation_doubt);
  json["sent"] = {{"messages", p.sent_messages}, {"bytes", p.sent_bytes}, {"ranks", p.sent_ranks}};
  for (const EpochTraffic& epoch : p.sent_epochs)
    json["sent"]["epochs"].push_back({epoch.steps, epoch.sent.messages, epoch.sent.bytes});
  return json;
}

Prediction prediction_of(const nlohmann::ordered_json& json) {
  auto p = json.get<Prediction>();
  const auto doubt = [&](const char* interval, double seconds) {
    return json.contains(interval) ? doubt_of(seconds, json.at(interval).at(1)) : 0;
  };
  p.doubt = doubt("step_interval", json.at("step_seconds"));
  p.validation_doubt = doubt("validation_interval", p.validation);
  const nlohmann::ordered_json& sent = json.at("sent");
  p.sent_messages = sent.at("messages");
  p.sent_bytes = sent.at("bytes");
  p.sent_ranks = sent.at("ranks");
  for (const auto& epoch : sent.value("epochs", nlohmann::ordered_json::array()))
    p.sent_epochs.push_back({epoch.at(0), {epoch.at(1), epoch.at(2)}});
  return p;
}

}  // namespace rossby
