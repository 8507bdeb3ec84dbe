#include "apps/candidates.hpp"

#include <fmt/format.h>

#include "apps/console.hpp"
#include "rossby/base/error.hpp"

namespace rossby {
namespace {

double epoch_seconds(const Candidate& candidate) {
  const Prediction& p = candidate.plan->interpolated;
  return p.step() * static_cast<double>(p.epoch_steps);
}

void plan(const Communicator& comm, const MachineProfile& profile, const Config& config,
          Candidate& candidate) {
  try {
    candidate.plan = plan_training(comm, config, profile);
  } catch (const UserError& error) {
    candidate.refused = error.what();  // on all ranks alike
    return;
  }
  const double needed = candidate.plan->interpolated.memory_bytes * candidate.plan->place.ranks_on_host();
  if (profile.memory_bytes > 0 && needed > profile.memory_bytes)
    candidate.refused =
        fmt::format("needs {} of a host, which has {}", bytes_text(needed), bytes_text(profile.memory_bytes));
}

}  // namespace

std::vector<Candidate> plan_candidates(
    const Communicator& comm, const MachineProfile& profile,
    const std::function<Config(const std::vector<std::string>& settings)>& load) {
  const Config asked = load({});
  const bool windowed = asked.text("model.name") != "stnn";
  std::vector<std::string> recomputes{asked.text("train.recompute")};
  if (windowed && !asked.given("train.recompute")) recomputes = {"none", "cell", "step"};
  std::vector<Candidate> candidates;
  for (int groups = 1; groups <= comm.size(); ++groups) {
    if (comm.size() % groups != 0) continue;
    for (const std::string& recompute : recomputes) {
      Candidate& candidate = candidates.emplace_back();
      candidate.row_blocks = comm.size() / groups;
      candidate.time_groups = groups;
      candidate.recompute = recompute;
      candidate.settings = {fmt::format("parallel.time_groups={}", groups)};
      if (windowed) candidate.settings.push_back("train.recompute=" + recompute);
      plan(comm, profile, load(candidate.settings), candidate);
    }
  }
  return candidates;
}

const Candidate* fastest(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates)
    if (candidate.fits() && (!best || epoch_seconds(candidate) < epoch_seconds(*best))) best = &candidate;
  return best;
}

std::string text_of(const std::vector<Candidate>& candidates) {
  const Candidate* best = fastest(candidates);
  std::string text = fmt::format("  {:>10}{:>12}  {:<10}{:>12}{:>12}{:>12}{:>12}\n", "row blocks",
                                 "time groups", "recompute", "step ms", "steps", "epoch", "memory");
  for (const Candidate& c : candidates) {
    text += fmt::format("{} {:>10}{:>12}  {:<10}", &c == best ? '*' : ' ', c.row_blocks, c.time_groups,
                        c.recompute);
    if (c.plan) {
      const Prediction& p = c.plan->interpolated;
      text +=
          fmt::format("{:>12.3f}{:>12}{:>12}{:>12}", 1e3 * p.step(), p.epoch_steps,
                      seconds_text(epoch_seconds(c)), p.memory_bytes > 0 ? bytes_text(p.memory_bytes) : "-");
    }
    text += (c.refused.empty() ? "" : "  " + c.refused) + "\n";
  }
  if (best)
    text += fmt::format("fastest: --set {}\n", fmt::join(best->settings, " --set "));
  else
    text += "none of them fits\n";
  return text;
}

nlohmann::ordered_json json_of(const std::vector<Candidate>& candidates) {
  const Candidate* best = fastest(candidates);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Candidate& c : candidates) {
    nlohmann::ordered_json json;
    json["row_blocks"] = c.row_blocks;
    json["time_groups"] = c.time_groups;
    json["recompute"] = c.recompute;
    json["settings"] = c.settings;
    json["refused"] = c.refused;
    json["fastest"] = &c == best;
    if (c.plan) json["predicted"] = json_of(c.plan->interpolated);
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace rossby
