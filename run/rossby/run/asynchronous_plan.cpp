#include "rossby/run/asynchronous_plan.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/plan/json_fields.hpp"
#include "rossby/plan/prediction.hpp"
#include "rossby/run/asynchronous_run.hpp"
#include "rossby/run/console.hpp"
#include "rossby/train/update_round.hpp"

namespace rossby {
namespace {

constexpr const char* not_of_devices =
    "asynchronous updates are predicted only for the host. Set parallel.device = \"cpu\"";

/// Bytes of the sums of counts, votes and flags.
constexpr double header_bytes = 8 * 64;

/// Returns equally likely times with this mean, normal with this coefficient of variation.
std::vector<double> spread(double mean, double variation) {
  constexpr int count = 63;
  std::vector<double> values;
  for (int k = 0; k < count; ++k) {
    // The quantile of the logistic distribution, scaled to the normal one's deviation, is close enough.
    const double p = (k + 0.5) / count, quantile = std::sqrt(3.0) / 3.14159265358979 * std::log(p / (1 - p));
    values.push_back(mean * std::max(0.2, 1 + variation * quantile));
  }
  return values;
}

/// Returns the coefficient of variation cv of times, from the excess of the slowest of P equal ranks over
/// their mean. For normal times the excess is cv · sqrt(2 ln P), somewhat less for few ranks.
double variation(const MachineProfile& profile, const Place& place, double seconds) {
  constexpr double least = 0.02;
  if (place.ranks < 2) return least;
  const double longer = straggler_factor(profile, place, seconds) - 1;
  const double largest = 0.7 * std::sqrt(2 * std::log(static_cast<double>(place.ranks)));
  return std::clamp(longer / largest, least, 1.0);
}

/// Returns the seconds of a sum that update threads poll. Machine files of earlier versions lack it.
double looked_at_sum(const MachineProfile& profile, const Place& place, double bytes) {
  const double seconds = message_seconds(profile, "looked_at_sum", place, 1, bytes);
  return seconds > 0 ? seconds : message_seconds(profile, "allreduce", place, 1, bytes);
}

/// Adds the sleep of the group before each sub-batch to the times.
std::vector<double> with_sleep(std::vector<double> seconds, const GroupSleep& sleep) {
  const std::size_t count = seconds.size();
  for (std::size_t k = 0; k < count; ++k)  // 26 and 63 are coprime: each pair once
    seconds[k] += sleep.at((static_cast<double>(k * 26 % count) + 0.5) / static_cast<double>(count));
  return seconds;
}

AsynchronousCandidate asynchronous(const Candidate& candidate, const MachineProfile& profile,
                                   const Config& config, const PlanQuestion& limits) {
  AsynchronousCandidate found;
  found.refused = candidate.refused;
  if (!candidate.plan || !found.refused.empty()) return found;
  found.refused =
      candidate.plan->place.on_device ? not_of_devices : why_not_asynchronous(config, candidate.stages);
  if (!found.refused.empty()) return found;
  static_cast<AsynchronousPlan&>(found) = plan_asynchronous(*candidate.plan, profile, config);
  const double batch = found.mini_batch();
  if (limits.target_batch > 0 &&
      std::abs(batch - limits.target_batch) > limits.tolerance * limits.target_batch)
    found.refused = fmt::format("the mini-batch has {:.3g} windows, far from --target-batch {:g}", batch,
                                limits.target_batch);
  if (limits.max_staleness > 0 && found.staleness() > limits.max_staleness)
    found.refused = fmt::format("the mean staleness is {:.3g}, above --max-staleness {:g}", found.staleness(),
                                limits.max_staleness);
  return found;
}

}  // namespace

AsynchronousPlan plan_asynchronous(const TrainingPlan& plan, const MachineProfile& profile,
                                   const Config& config) {
  AsynchronousPlan found;
  const Prediction& p = plan.interpolated;
  const Place& place = plan.place;
  if (place.on_device) user_error("{}, or leave --machine out", not_of_devices);
  found.windows = static_cast<double>(plan.batch) / place.time_groups;
  const double header = looked_at_sum(profile, place, header_bytes);
  found.update_seconds = header + looked_at_sum(profile, place, p.summed_bytes) + p.optimiser;
  found.worker_seconds = p.forward + p.backward + p.messages;
  double sleep = 0;
  for (int group = 0; group < place.time_groups; ++group)
    sleep += sleep_of(group).at(0.5) / place.time_groups;
  // Without a core of its own, an update takes compute time from the worker, unless the worker sleeps. Every
  // rank makes all updates: as many as there are gradients, or as fit into the time.
  if (place.ranks_on_host() * place.threads >= profile.cores) {
    const double busy = found.worker_seconds, all = busy + sleep;
    found.worker_seconds +=
        p.optimiser * std::min<double>(place.time_groups, all / found.update_seconds) * busy / all;
  }
  const double varies = variation(profile, place, found.worker_seconds);
  AsyncQuestion question;
  question.repeats = config.train.uneven == "repeat";
  for (int group = 0; group < place.time_groups; ++group) {
    std::vector<double> seconds = with_sleep(spread(found.worker_seconds, varies), sleep_of(group));
    if (!question.workers.empty() && question.workers.back().seconds == seconds)
      ++question.workers.back().count;
    else
      question.workers.push_back({1, std::move(seconds), p.epoch_steps});
  }
  found.worker_seconds += sleep;
  question.update_seconds = spread(found.update_seconds, varies);
  if (place.ranks > 1) {
    question.shortest_rest = shortest_rest;
    question.longest_rest = longest_rest;
    question.empty_seconds = header;
  }
  constexpr Index most = 200'000, enough = 20'000;
  const Index batches = place.time_groups * std::max<Index>(1, p.epoch_steps);
  found.statistics = batches > most ? asynchronous_law(question)
                                    : simulate_epochs(question, std::clamp<Index>(enough / batches, 1, 32));
  return found;
}

std::vector<AsynchronousCandidate> asynchronous_candidates(const std::vector<Candidate>& candidates,
                                                           const MachineProfile& profile,
                                                           const LoadConfig& load,
                                                           const PlanQuestion& limits) {
  std::vector<AsynchronousCandidate> all;
  for (const Candidate& candidate : candidates)
    all.push_back(asynchronous(candidate, profile, load(candidate.settings), limits));
  return all;
}

int fastest(const std::vector<AsynchronousCandidate>& candidates) {
  int best = -1;
  for (int k = 0; k < std::ssize(candidates); ++k) {
    const AsynchronousCandidate& c = candidates[static_cast<std::size_t>(k)];
    if (!c.refused.empty()) continue;
    if (best < 0 ||
        c.statistics.epoch_seconds < candidates[static_cast<std::size_t>(best)].statistics.epoch_seconds)
      best = k;
  }
  return best;
}

std::string text_of(const std::vector<Candidate>& candidates,
                    const std::vector<AsynchronousCandidate>& asynchronous) {
  const int best = fastest(asynchronous);
  std::size_t width = 8;
  for (const Candidate& c : candidates) width = std::max(width, c.varied.size());
  std::string text = fmt::format("  {:>6}{:>12}{:>13}  {:<{}}{:>11}{:>11}{:>11}{:>12}{:>11}{:>12}\n", "ranks",
                                 "row blocks", "time groups", "settings", width, "sub-batch", "worker ms",
                                 "update ms", "mini-batch", "staleness", "epoch");
  for (std::size_t k = 0; k < candidates.size(); ++k) {
    const Candidate& c = candidates[k];
    const AsynchronousCandidate& a = asynchronous[k];
    text += fmt::format("{} {:>6}{:>12}{:>13}  {:<{}}", static_cast<int>(k) == best ? '*' : ' ', c.ranks,
                        c.row_blocks, c.time_groups, c.varied, width);
    if (a.worker_seconds > 0)
      text += fmt::format("{:>11.4g}{:>11.3f}{:>11.3f}{:>12.4g}{:>11.3f}{:>12}", a.windows,
                          1e3 * a.worker_seconds, 1e3 * a.update_seconds, a.mini_batch(), a.staleness(),
                          fmt::format("{:.3g} s", a.statistics.epoch_seconds));
    text += (a.refused.empty() ? "" : "  " + a.refused) + "\n";
  }
  if (best < 0) return text + "no candidate fits: the last column has the reasons\n";
  const Candidate& c = candidates[static_cast<std::size_t>(best)];
  return text + fmt::format("fastest: {} rank{} --set {} --set train.updates=asynchronous\n", c.ranks,
                            c.ranks == 1 ? "" : "s", fmt::join(c.settings, " --set "));
}

static void each_field(SameAs<AsynchronousPlan> auto& plan, const auto& field) {
  field("sub_batch", plan.windows);
  field("worker_seconds", plan.worker_seconds);
  field("update_seconds", plan.update_seconds);
  field("epoch_seconds", plan.statistics.epoch_seconds);
  field("updates", plan.statistics.updates);
  field("mini_batch_shares", plan.statistics.mini_batch);
  field("staleness_shares", plan.statistics.staleness);
}

nlohmann::ordered_json json_of(const AsynchronousPlan& plan) {
  nlohmann::ordered_json json = plan;
  json["mini_batch"] = plan.mini_batch();
  json["staleness"] = plan.staleness();
  return json;
}

AsynchronousPlan asynchronous_plan_of(const nlohmann::ordered_json& json) {
  return json.get<AsynchronousPlan>();
}

nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates,
                               const std::vector<AsynchronousCandidate>& asynchronous) {
  nlohmann::ordered_json list = json_of(candidates);
  const int best = fastest(asynchronous);
  for (std::size_t k = 0; k < asynchronous.size(); ++k) {
    const AsynchronousCandidate& a = asynchronous[k];
    list[k]["refused"] = a.refused;
    list[k]["fastest"] = static_cast<int>(k) == best;
    if (a.worker_seconds <= 0) continue;
    list[k]["asynchronous"] = json_of(static_cast<const AsynchronousPlan&>(a));
  }
  return list;
}

}  // namespace rossby
