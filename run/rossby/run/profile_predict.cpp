#include <algorithm>
#include <cmath>
#include <numeric>

#include "rossby/run/profile_state.hpp"

namespace rossby {
namespace {

/// The points of a curve up to so many steps.
std::span<const CurvePoint> up_to(const std::vector<CurvePoint>& curve, Index steps) {
  const auto end =
      std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& point) { return point.steps > steps; });
  return {curve.begin(), end};
}

const CurvePoint* at_steps(const std::vector<CurvePoint>& curve, Index steps) {
  const auto found =
      std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& point) { return point.steps == steps; });
  return found == curve.end() ? nullptr : &*found;
}

/// Shapes of all curves, as they were when candidates had trained for so many steps.
template <class StepsOf>
CurveShapes shapes_of(const ProfileState& state, const StepsOf& steps_of) {
  CurveShapes shapes;
  for (const ProfiledCandidate& candidate : state.candidates)
    for (const ProfiledFold& fold : candidate.folds)
      shapes.learn(up_to(fold.curve, steps_of(candidate)), candidate.cost.steps);
  return shapes;
}

/// How well the curves of earlier rungs foretold the later ones.
CurveTrust trust_of(const ProfileState& state) {
  CurveTrust prior;
  if (!state.decays) prior.gain = 0, prior.gain_sd = 0.005;
  std::vector<CurveCheck> checks, ends;
  for (std::size_t k = 0; k < state.rungs.size(); ++k) {
    const auto steps_of = [&](const ProfiledCandidate& candidate) {
      return rung_steps(state.rungs[k], candidate.cost, trial_steps);
    };
    const CurveShapes shapes = shapes_of(state, steps_of);
    for (const ProfiledCandidate& candidate : state.candidates)
      for (const ProfiledFold& fold : candidate.folds) {
        const Index from = steps_of(candidate), complete = candidate.cost.steps;
        const auto known = up_to(fold.curve, from);
        if (known.empty()) continue;
        if (k + 1 < state.rungs.size()) {
          const Index to = rung_steps(state.rungs[k + 1], candidate.cost, trial_steps);
          const CurvePoint* point = at_steps(fold.curve, to);
          if (point && to > from && to < complete)
            checks.push_back({from, to, shapes.extrapolate(known, complete, to), point->error});
        }
        const bool last = k + 1 == state.rungs.size();
        if (last && fold.ended && from < fold.steps && std::isfinite(fold.best))
          ends.push_back({from, complete, shapes.extrapolate(known, complete, complete), fold.best});
      }
  }
  return learn_trust(checks, ends, prior);
}

/// Final errors of one candidate and several seeds scatter by half a per cent to a per cent on most data
/// sets.
constexpr double least_scatter = 0.01;

/// The scatter of the final error between seeds: no less than that of one training's errors about their
/// curve.
double scatter_of(const ProfiledFold& fold, Index complete, const CurveShapes& shapes) {
  constexpr std::size_t enough = 3;  // points
  const double noise = fold.curve.size() < enough ? 0 : shapes.noise(fold.curve, complete);
  return std::max(noise, least_scatter);
}

/// The final error of a candidate, over its folds; false: nothing is known of it.
bool contend(const ProfiledCandidate& candidate, const CurveShapes& shapes, const CurveTrust& trust,
             Contender& contender) {
  double sum = 0, variance = 0, best = 0, scatter = 0;
  contender.ends_with_decay = false;
  for (const ProfiledFold& fold : candidate.folds) {
    LogError log;
    if (fold.ended && std::isfinite(fold.best)) {
      log.mean = std::log(fold.best);
    } else if (!fold.curve.empty()) {
      const Index complete = candidate.cost.steps;
      log = with_trust(shapes.extrapolate(fold.curve, complete, complete), fold.curve.back().steps, complete,
                       trust);
      contender.ends_with_decay = true;
    } else {
      return false;
    }
    sum += std::exp(log.mean);
    variance += log.sd * log.sd;
    best += fold.best;
    const double seeds = scatter_of(fold, candidate.cost.steps, shapes);
    scatter += seeds * seeds;
  }
  const auto folds = static_cast<double>(candidate.folds.size());
  contender.error = {std::log(sum / folds), std::sqrt(variance) / folds};
  contender.best_so_far = best / folds;
  contender.seeds = std::sqrt(scatter) / folds;
  return folds > 0;
}

}  // namespace

Index ProfiledCandidate::steps() const {
  Index least = folds.empty() ? 0 : folds.front().steps;
  for (const ProfiledFold& fold : folds)
    if (!fold.ended) least = std::min(least, fold.steps);
  return least;
}

bool ProfiledCandidate::ended() const {
  return !folds.empty() &&
         std::all_of(folds.begin(), folds.end(), [](const ProfiledFold& f) { return f.ended; });
}

void predict(ProfileState& state) {
  state.trust = trust_of(state);
  const CurveShapes shapes =
      shapes_of(state, [](const ProfiledCandidate& candidate) { return candidate.cost.steps; });
  state.choice = state.baseline = -1;
  state.regret = 0;
  std::vector<Contender> contenders;
  std::vector<Chances*> of;
  std::vector<Index> candidates;  // places of those that are contenders
  for (std::size_t k = 0; k < state.candidates.size(); ++k) {
    ProfiledCandidate& candidate = state.candidates[k];
    candidate.chances = {};
    Contender contender;
    if (candidate.status == ProfiledCandidate::Status::failed ||
        !contend(candidate, shapes, state.trust, contender))
      continue;
    contenders.push_back(contender);
    of.push_back(&candidate.chances);
    candidates.push_back(static_cast<Index>(k));
  }
  const auto seed = static_cast<std::uint64_t>(state.seed);
  const std::vector<Chances> among = chances(contenders, state.trust, seed);
  if (const Index least = least_regret(among); least >= 0) {
    state.choice = candidates[static_cast<std::size_t>(least)];
    state.regret = among[static_cast<std::size_t>(least)].regret;
  }
  std::vector<Index> baselines;
  for (std::size_t k = 0; k < state.baselines.size(); ++k) {
    ProfiledBaseline& baseline = state.baselines[k];
    baseline.chances = {};
    if (!(baseline.error > 0) || !std::isfinite(baseline.error)) continue;
    contenders.push_back({.error = {std::log(baseline.error), 0}});
    of.push_back(&baseline.chances);
    baselines.push_back(static_cast<Index>(k));
  }
  const std::vector<Chances> all = chances(contenders, state.trust, seed);
  for (std::size_t k = 0; k < all.size(); ++k) *of[k] = all[k];
  if (const Index least = least_regret(all); least >= std::ssize(candidates))
    state.baseline = baselines[static_cast<std::size_t>(least - std::ssize(candidates))];
}

CandidateCost ProfileState::counted(const ProfiledCandidate& candidate) const {
  CandidateCost cost = candidate.cost;
  const auto times = static_cast<double>(std::max<std::size_t>(candidate.folds.size(), 1));
  cost.step *= times;
  cost.rung *= times;
  cost.start *= timed ? times : 0;
  return cost;
}

std::vector<Index> ranking(const ProfileState& state) {
  std::vector<Index> places;
  for (std::size_t k = 0; k < state.candidates.size(); ++k)
    if (state.candidates[k].in_search()) places.push_back(static_cast<Index>(k));
  std::stable_sort(places.begin(), places.end(), [&](Index a, Index b) {
    return state.candidates[static_cast<std::size_t>(a)].chances.predicted <
           state.candidates[static_cast<std::size_t>(b)].chances.predicted;
  });
  return places;
}

}  // namespace rossby
