#include "rossby/run/profile_search.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/run/console.hpp"

namespace rossby {
namespace {

/// More budget is not worth it if the expected regret of the choice is smaller.
constexpr double certain = 0.0005;

ProfiledCandidate& at(ProfileState& state, Index place) {
  return state.candidates[static_cast<std::size_t>(place)];
}

/// Returns the cost of a candidate's training on a fold, as the budget counts it.
CandidateCost counted(const ProfileState& state, const ProfiledCandidate& one) {
  CandidateCost cost = one.cost;
  if (!state.timed) cost.start = 0;
  return cost;
}

/// Returns the cost of the rungs after the next one, if the best stay the best.
double reserve(const ProfileState& state, const std::vector<Index>& best) {
  double sum = 0;
  for (std::size_t k = 0; k < best.size(); ++k) {
    const ProfiledCandidate& one = state.candidates[static_cast<std::size_t>(best[k])];
    const CandidateCost cost = counted(state, one);
    std::vector<Index> reached(one.folds.size(), 0);
    for (std::size_t r = static_cast<std::size_t>(state.rung); r < state.rungs.size(); ++r) {
      const Rung& rung = state.rungs[r];
      if (static_cast<Index>(k) >= rung.candidates) break;
      if (static_cast<Index>(r) > state.rung) sum += rung_cost(rung, cost, trial_steps, reached);
      std::fill_n(reached.begin(), rung.folds, rung_steps(rung, cost, trial_steps));
    }
  }
  return sum;
}

/// True if the last rung trains on more folds than the one that was trained.
bool lacks_folds(const ProfileState& state) {
  return state.rung > 0 &&
         state.rungs[static_cast<std::size_t>(state.rung - 1)].folds < state.rungs.back().folds;
}

void promote_best(ProfileState& state, const std::vector<Index>& best) {
  const Rung& rung = state.rungs[static_cast<std::size_t>(state.rung)];
  std::vector<double> costs;
  for (const ProfiledCandidate& one : state.candidates) {
    std::vector<Index> reached;
    for (const ProfiledFold& fold : one.folds) reached.push_back(fold.ended ? one.cost.steps : fold.steps);
    costs.push_back(rung_cost(rung, counted(state, one), trial_steps, reached));
  }
  const double left = state.allowed - state.planned;
  std::vector<Index> too_dear;
  const std::vector<Index> promoted =
      promote(best, costs, rung.candidates, left, left - reserve(state, best), too_dear);
  const auto holds = [](const std::vector<Index>& all, Index one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  for (std::size_t place = 0; place < best.size(); ++place) {
    if (holds(promoted, best[place])) continue;
    const auto k = static_cast<std::size_t>(best[place]);
    ProfiledCandidate& one = state.candidates[k];
    one.status = ProfiledCandidate::Status::dropped;
    one.reason = fmt::format("place {} of {} on rung {}", place + 1, best.size(), state.rung);
    if (holds(too_dear, best[place]))
      one.reason = fmt::format("{}; the next rung would take {}, which is more than the rest of the budget",
                               one.reason, seconds_text(costs[k]));
  }
}

}  // namespace

std::vector<Index> searched(const ProfileState& state) {
  std::vector<Index> all;
  for (std::size_t k = 0; k < state.candidates.size(); ++k)
    if (state.candidates[k].in_search()) all.push_back(static_cast<Index>(k));
  return all;
}

void expect_any_candidate(const ProfileState& state) {
  if (searched(state).empty())
    user_error(
        "no candidate can be trained. The first candidate, {}, failed: {}. Choose other candidates "
        "with --candidates",
        state.candidates.front().name, state.candidates.front().reason);
}

double unit_cost(const ProfileState& state, const ProfiledCandidate& one, Index from, Index to) {
  return counted(state, one).part(from, std::min(to, one.cost.steps));
}

Index next_target(const ProfileState& state, const ProfiledCandidate& one) {
  return rung_steps(state.rungs[static_cast<std::size_t>(state.rung)], one.cost, trial_steps);
}

void plan_search(ProfileState& state, const ProfileBudget& budget) {
  expect_any_candidate(state);
  const std::vector<Index> all = searched(state);
  const Index folds = std::ssize(at(state, all.front()).folds);
  std::vector<CandidateCost> costs;
  for (const Index k : all) costs.push_back(counted(state, at(state, k)));
  set_paces(costs);
  double tried = 0, beside = 0;
  state.complete = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    CandidateCost& cost = at(state, all[k]).cost;
    cost.pace = costs[k].pace;
    state.complete += static_cast<double>(folds) * costs[k].complete();
    const Index steps = std::min(trial_steps, cost.steps);
    const double trial = costs[k].part(0, steps);
    tried += trial;
    beside += trial - cost.step * static_cast<double>(steps);
  }
  state.allowed = budget.share > 0 ? budget.share * state.complete : budget.seconds * state.ranks;
  if (const double least = tried + beside; least > state.allowed)
    user_error(
        "--budget {} is too small for {} steps of each of {} candidates. Give at least {}, or name fewer "
        "candidates with --candidates",
        state.budget, trial_steps, costs.size(),
        state.timed ? seconds_text(std::ceil(least / state.ranks))
                    : fmt::format("{:g}%", std::ceil(1000 * least / state.complete) / 10));
  state.planned = tried;
  state.rungs = budget.share == 1 ? std::vector<Rung>{{1, std::ssize(costs), folds}}  // whatever the costs
                                  : plan_rungs(costs, folds, state.allowed - beside, trial_steps);
}

void decide(ProfileState& state) {
  const std::vector<Index> best = ranking(state);
  const bool certain_now = best.size() == 1 || state.regret < certain;
  if (std::all_of(best.begin(), best.end(), [&](Index k) { return at(state, k).ended(); }))
    state.ended = "all candidates that are left are trained to their end";
  else if (state.rung == std::ssize(state.rungs))
    state.ended = "the budget is used";
  else if (certain_now && lacks_folds(state))
    state.rung = std::ssize(state.rungs) - 1;  // other folds may change the choice
  else if (best.size() == 1)
    state.ended = "one candidate is left";
  else if (certain_now)
    state.ended = "more budget would not change the choice";
  if (!state.ended.empty()) return;
  promote_best(state, best);
  if (searched(state).empty()) state.ended = "the budget does not reach for another rung";
}

}  // namespace rossby
