#include "rossby/run/asynchronous_check.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/plan/rates.hpp"
#include "rossby/run/console.hpp"

namespace rossby {
namespace {

/// Adds an epoch's counts [[value, times], …] to shares that are not divided by their sum yet. The index of a
/// value is value / `unit`.
void add_times(const nlohmann::ordered_json& times, double unit, Shares& shares) {
  for (const auto& entry : times) {
    const auto at = static_cast<std::size_t>(std::max(0L, std::lround(entry.at(0).get<double>() / unit)));
    if (shares.size() <= at) shares.resize(at + 1, 0);
    shares[at] += entry.at(1).get<double>();
  }
}

double divide(Shares& shares) {
  double sum = 0;
  for (const double share : shares) sum += share;
  if (sum > 0)
    for (double& share : shares) share /= sum;
  return sum;
}

}  // namespace

std::optional<AsynchronousPlan> measured_asynchronous(const std::string& metrics_file, double windows) {
  std::ifstream in(metrics_file);
  nlohmann::ordered_json place;
  std::vector<nlohmann::ordered_json> epochs;
  for (std::string line; std::getline(in, line);) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("updates") || !json.contains("sent")) continue;
    if (auto here = json.value("place", nlohmann::ordered_json()); here != place) {
      place = std::move(here);
      epochs.clear();
    }
    // Skips epochs of several starts: their time is that of the last start only.
    if (json.at("sent").value("whole", false)) epochs.push_back(std::move(json));
  }
  if (epochs.empty() || !(windows > 0)) return std::nullopt;
  if (epochs.size() > 1) epochs.erase(epochs.begin());
  AsynchronousPlan plan;
  std::vector<double> seconds;
  double weight = 0, trained = 0;
  for (const auto& epoch : epochs) {
    const auto& updates = epoch.at("updates");
    const double count = updates.at("count");
    seconds.push_back(epoch.at("epoch_seconds"));
    plan.worker_seconds += count * updates.at("worker_seconds").at("mean").get<double>();
    plan.update_seconds += count * updates.at("update_seconds").at("mean").get<double>();
    weight += count;
    for (const auto& entry : updates.at("windows").at("times"))
      trained += entry.at(0).get<double>() * entry.at(1).get<double>();
    add_times(updates.at("windows").at("times"), windows, plan.statistics.mini_batch);
    add_times(updates.at("staleness").at("times"), 1, plan.statistics.staleness);
  }
  if (weight == 0 || trained == 0) return std::nullopt;
  plan.worker_seconds /= weight;
  plan.update_seconds /= weight;
  plan.statistics.updates = divide(plan.statistics.mini_batch) / static_cast<double>(epochs.size());
  divide(plan.statistics.staleness);
  // The last sub-batch of an epoch may have fewer windows.
  plan.windows = trained / weight / mean_of(plan.statistics.mini_batch);
  plan.statistics.epoch_seconds = median_of(std::move(seconds));
  return plan;
}

std::string text_of(const AsynchronousPlan& plan) {
  return fmt::format(
      "{:.4g} ms a sub-batch, {:.4g} ms an update of {:.4g} windows, staleness {:.3g}; {} an epoch",
      1e3 * plan.worker_seconds, 1e3 * plan.update_seconds, plan.mini_batch(), plan.staleness(),
      short_seconds_text(plan.statistics.epoch_seconds));
}

std::string asynchronous_table(const CheckedRuns& all) {
  Errors epochs, batches, staleness;
  std::string table;
  for (std::size_t i = 0; i < all.runs.size(); ++i) {
    const auto& p = all.plans[i].asynchronous;
    const auto& m = all.plans[i].asynchronous_measured;
    if (!p || !m) continue;
    if (epochs.count == 0)
      table = fmt::format("{:<28}{:>6}{:>11}{:>11}{:>9}{:>12}{:>11}{:>9}{:>7}{:>11}{:>11}{:>9}{:>7}\n",
                          "asynchronous run", "ranks", "epoch s", "predicted", "error %", "mini-batch",
                          "predicted", "error %", "TV", "staleness", "predicted", "error %", "TV");
    const AsyncStatistics &ps = p->statistics, &ms = m->statistics;
    const double epoch = error_of(ps.epoch_seconds, ms.epoch_seconds);
    const double batch = error_of(p->mini_batch(), m->mini_batch());
    const double stale = error_of(p->staleness(), m->staleness());
    epochs.add(epoch);
    batches.add(batch);
    staleness.add(stale);
    table += fmt::format(
        "{:<28}{:>6}{:>11.4f}{:>11.4f}{:>9.1f}{:>12.3f}{:>11.3f}{:>9.1f}{:>7.2f}{:>11.3f}{:>11.3f}{:>9.1f}{:>"
        "7.2f}\n",
        all.runs[i], all.plans[i].place.ranks, ms.epoch_seconds, ps.epoch_seconds, epoch, m->mini_batch(),
        p->mini_batch(), batch, total_variation(ps.mini_batch, ms.mini_batch), m->staleness(), p->staleness(),
        stale, total_variation(ps.staleness, ms.staleness));
  }
  if (epochs.count == 0) return table;
  const auto text = [](const char* name, const Errors& of) {
    return fmt::format("{} {:.1f} % ({:.1f} %)", name, of.sum / of.count, of.worst);
  };
  return table + fmt::format("{} asynchronous run{}: mean error (worst) of the {}, {}, {}\n", epochs.count,
                             epochs.count == 1 ? "" : "s", text("epoch", epochs), text("mini-batch", batches),
                             text("staleness", staleness));
}

}  // namespace rossby
