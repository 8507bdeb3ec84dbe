#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/run/candidates.hpp"
#include "rossby/run/console.hpp"

// Shows candidates as a table and as JSON.

namespace rossby {
namespace {

/// Returns the reference for gains: of those on the fewest ranks the fastest that fits; null if none fits.
const Candidate* baseline(const std::vector<Candidate>& candidates) {
  const Candidate* base = nullptr;
  for (const Candidate& c : candidates)
    if (c.fits() && (!base || std::pair(c.ranks, c.compared_seconds()) <
                                  std::pair(base->ranks, base->compared_seconds())))
      base = &c;
  return base;
}

/// Speed-up of a candidate's training over the baseline's, and speed-up over the ratio of their ranks. Both
/// are 0 if unknown, or if the candidate does not fit.
struct Gain {
  double speed_up = 0, efficiency = 0;
  Gain(const Candidate* base, const Candidate& candidate) {
    if (!base || !candidate.fits() || candidate.compared_seconds() <= 0) return;
    speed_up = base->compared_seconds() / candidate.compared_seconds();
    efficiency = speed_up * base->ranks / candidate.ranks;
  }
};

/// Lists how many candidates that fit rely on operations that were not measured.
std::string caveats_of(const std::vector<Candidate>& candidates, const Candidate* best) {
  std::vector<const Candidate*> fit;
  for (const Candidate& c : candidates)
    if (c.fits()) fit.push_back(&c);
  using Having = std::pair<std::size_t, bool>;  // how many candidates, and whether the fastest is one of them
  const auto having = [&](const auto& has) {
    return Having(std::ranges::count_if(fit, [&](const Candidate* c) { return has(c->plan->interpolated); }),
                  has(best->plan->interpolated));
  };
  std::string text;
  const auto tell = [&](const Having& of, const Prediction& together) {
    for (const std::string& line : caveat_lines(together))
      text += fmt::format(
          "  {} of the {} candidates that fit{}: {}{}\n", of.first, fit.size(),
          of.second ? ", the fastest among them" : "",
          of.first > 1 && together.far_share + together.validation_far_share > 0 ? "up to " : "", line);
  };
  for (double Prediction::*share : {&Prediction::far_share, &Prediction::validation_far_share}) {
    Prediction far;
    for (const Candidate* c : fit) far.*share = std::max(far.*share, c->plan->interpolated.*share);
    tell(having([&](const Prediction& p) { return p.*share > far_share_told; }), far);
  }
  // Groups names that the same number of candidates have, largest number first.
  std::set<std::string> names;
  for (const Candidate* c : fit)
    names.insert(c->plan->interpolated.unmeasured.begin(), c->plan->interpolated.unmeasured.end());
  std::map<Having, Prediction, std::greater<>> by_number;
  for (const std::string& name : names)
    by_number[having([&](const Prediction& p) {
      return std::ranges::find(p.unmeasured, name) != p.unmeasured.end();
    })].unmeasured.push_back(name);
  for (const auto& [of, together] : by_number) tell(of, together);
  return text;
}

}  // namespace

std::string text_of(const std::vector<Candidate>& candidates) {
  const Candidate *best = fastest(candidates), *base = baseline(candidates);
  std::size_t width = 0;
  for (const Candidate& c : candidates) width = std::max(width, c.varied.size());
  std::string text = fmt::format(
      "  {:>6}{:>12}{:>8}{:>13}  {:<{}}{:>8}{:>12}{:>7}{:>8}{:>12}{:>12}{:>12}{:>11}{:>10}{:>14}\n", "ranks",
      "row blocks", "stages", "time groups", width > 0 ? "settings" : "", std::max<std::size_t>(width, 8),
      "batch", "step ms", "+- %", "steps", "epoch", "training", "memory", "messages %", "speed-up",
      "efficiency %");
  for (const Candidate& c : candidates) {
    text +=
        fmt::format("{} {:>6}{:>12}{:>8}{:>13}  {:<{}}{:>8}", &c == best ? '*' : ' ', c.ranks, c.row_blocks,
                    c.stages, c.time_groups, c.varied, std::max<std::size_t>(width, 8), c.batch);
    if (c.plan) {
      const Prediction& p = c.plan->interpolated;
      const Gain gain(base, c);
      text +=
          fmt::format("{:>12.3f}{:>7.0f}{:>8}{:>12}{:>12}{:>12}{:>11.1f}{:>10}{:>14}", 1e3 * p.step(),
                      100 * (interval_of(1, p.doubt).second - 1), p.epoch_steps,
                      short_seconds_text(c.epoch_seconds()), short_seconds_text(c.plan->training_seconds()),
                      p.memory_bytes + p.device_bytes > 0 ? bytes_text(p.memory_bytes + p.device_bytes) : "-",
                      p.step() > 0 ? 100 * (p.messages + p.reduction) / p.step() : 0,
                      gain.speed_up > 0 ? fmt::format("{:.2f}", gain.speed_up) : "-",
                      gain.speed_up > 0 ? fmt::format("{:.1f}", 100 * gain.efficiency) : "-");
    }
    text += (c.refused.empty() ? "" : "  " + c.refused) + "\n";
  }
  if (best) {
    text += fmt::format("fastest: {} rank{} --set {}\n", best->ranks, best->ranks == 1 ? "" : "s",
                        fmt::join(best->settings, " --set "));
    const Place& place = best->plan->place;
    if (place.hosts > 1)
      text +=
          fmt::format("  on {} hosts of {} ranks (--ranks-per-host)\n", place.hosts, place.ranks_on_host());
    text += fmt::format("  {}\n", duration_text(*best->plan));
    if (candidates.size() > 1)
      text += fmt::format("  speed-up and efficiency: over the fastest candidate of the fewest ranks, {}\n",
                          base->ranks);
    text += caveats_of(candidates, best);
  } else
    text += "no candidate fits: the last column has the reasons\n";
  return text;
}

nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates) {
  const Candidate *best = fastest(candidates), *base = baseline(candidates);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Candidate& c : candidates) {
    nlohmann::ordered_json json;
    json["ranks"] = c.ranks;
    json["row_blocks"] = c.row_blocks;
    json["stages"] = c.stages;
    json["time_groups"] = c.time_groups;
    json["batch"] = c.batch;
    json["settings"] = c.settings;
    json["refused"] = c.refused;
    json["fastest"] = &c == best;
    if (c.plan) {
      const Gain gain(base, c);
      json["speed_up"] = gain.speed_up;
      json["efficiency"] = gain.efficiency;
      json["epochs"] = c.plan->epochs;
      json["validations"] = c.plan->validations;
      json["training_seconds"] = c.plan->training_seconds();
      json["predicted"] = json_of(c.plan->interpolated);
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace rossby
