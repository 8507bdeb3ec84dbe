#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "rossby/run/profile_state.hpp"

namespace rossby {
namespace {

/// The smallest errors so far of a curve up to so many steps: a complete training keeps its best state.
/// Errors that rise again, because the model overfits, then extrapolate to a flat end.
std::vector<CurvePoint> up_to(const std::vector<CurvePoint>& curve, Index steps) {
  std::vector<CurvePoint> best;
  for (const CurvePoint& point : curve) {
    if (point.steps > steps) break;
    best.push_back({point.steps, best.empty() ? point.error : std::min(point.error, best.back().error)});
  }
  return best;
}

/// The whole curve.
std::vector<CurvePoint> best_of(const std::vector<CurvePoint>& curve) {
  return up_to(curve, std::numeric_limits<Index>::max());
}

/// Shapes of curves by model: curves of the same model at other sizes tell more than those of other models.
using ShapesOfModels = std::map<std::string, CurveShapes>;

/// Shapes of all curves, as they were when candidates had trained for so many steps.
template <class StepsOf>
ShapesOfModels shapes_of(const ProfileState& state, const StepsOf& steps_of) {
  constexpr double of_other_models = 0.25;  // weight of a curve
  ShapesOfModels own, pooled;
  for (const ProfiledCandidate& candidate : state.candidates)
    for (const ProfiledFold& fold : candidate.folds)
      own[candidate.model].learn(up_to(fold.curve, steps_of(candidate)), candidate.cost.steps);
  for (const auto& [model, unused] : own)
    for (const auto& [other, shapes] : own) pooled[model].learn(shapes, model == other ? 1 : of_other_models);
  return pooled;
}

/// Adds checks of finished trainings: what a quarter and a half of each curve foretold of its end.
void check_finished(const ProfileState& state, std::vector<CurveCheck>& checks) {
  const ShapesOfModels all = shapes_of(state, [](const ProfiledCandidate& one) { return one.cost.steps; });
  for (const ProfiledCandidate& candidate : state.candidates)
    for (const ProfiledFold& fold : candidate.folds) {
      if (!fold.ended || !std::isfinite(fold.best)) continue;
      for (const Index part : {4, 2}) {
        const auto known = up_to(fold.curve, fold.steps / part);
        const Index complete = candidate.cost.steps;
        if (!known.empty())
          checks.push_back({known.back().steps, complete,
                            all.at(candidate.model).extrapolate(known, complete, complete), fold.best});
      }
    }
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
    const ShapesOfModels all = shapes_of(state, steps_of);
    for (const ProfiledCandidate& candidate : state.candidates)
      for (const ProfiledFold& fold : candidate.folds) {
        const CurveShapes& shapes = all.at(candidate.model);
        const Index from = steps_of(candidate), complete = candidate.cost.steps;
        const auto known = up_to(fold.curve, from);
        if (known.empty()) continue;
        if (k + 1 < state.rungs.size()) {
          const Index to = rung_steps(state.rungs[k + 1], candidate.cost, trial_steps);
          const auto later = up_to(fold.curve, to);
          if (later.back().steps == to && to > from && to < complete)
            checks.push_back({from, to, shapes.extrapolate(known, complete, to), later.back().error});
        }
        const bool last = k + 1 == state.rungs.size();
        if (last && fold.ended && from < fold.steps && std::isfinite(fold.best))
          ends.push_back({from, complete, shapes.extrapolate(known, complete, complete), fold.best});
      }
  }
  check_finished(state, checks);
  return learn_trust(checks, ends, prior);
}

/// Final errors of one candidate and several seeds scatter by half a per cent to a per cent on most data
/// sets.
constexpr double least_scatter = 0.01;

/// The scatter of the final error between seeds. On noisy data sets it is about half of the scatter of one
/// training's errors about their curve.
double scatter_of(const ProfiledFold& fold, Index complete, const CurveShapes& shapes) {
  constexpr std::size_t enough = 3;  // points
  const double noise = fold.curve.size() < enough ? 0 : shapes.noise(fold.curve, complete);
  return std::max(0.5 * noise, least_scatter);
}

/// Logs of a candidate's final errors on its folds; none for a fold without a point.
using FoldErrors = std::vector<std::optional<LogError>>;

FoldErrors fold_errors(const ProfiledCandidate& candidate, const CurveShapes& shapes,
                       const CurveTrust& trust) {
  const Index complete = candidate.cost.steps;
  FoldErrors errors;
  for (const ProfiledFold& fold : candidate.folds) {
    errors.emplace_back();
    if (fold.ended && std::isfinite(fold.best))
      errors.back() = {std::log(fold.best), 0};
    else if (!fold.curve.empty())
      errors.back() = with_trust(shapes.extrapolate(best_of(fold.curve), complete, complete),
                                 fold.curve.back().steps, complete, trust);
  }
  return errors;
}

/// The log of a fold's errors relative to those of the first fold; none if no candidate was trained on both.
std::vector<std::optional<LogError>> fold_shifts(const std::vector<FoldErrors>& errors) {
  constexpr double expected_sd = 0.5, prior = 2;  // of a shift, and its weight in candidates
  std::size_t folds = 0;
  for (const FoldErrors& of : errors) folds = std::max(folds, of.size());
  std::vector<std::optional<LogError>> shifts(folds);
  for (std::size_t f = 0; f < folds; ++f) {
    double count = 0, sum = 0, squares = 0;
    for (const FoldErrors& of : errors) {
      if (of.size() <= f || !of.front() || !of[f]) continue;
      const double shift = of[f]->mean - of.front()->mean;
      count += 1, sum += shift, squares += shift * shift;
    }
    if (count == 0) continue;
    const double spread = std::max(squares - sum * sum / count, 0.0);
    shifts[f] = {sum / count, std::sqrt((spread + prior * expected_sd * expected_sd) / (count + prior))};
  }
  return shifts;
}

/// The final error of a candidate, over its folds. A fold without a point gets the error of the first one and
/// the shift of other candidates. False: nothing is known of the candidate.
bool contend(const ProfiledCandidate& candidate, const FoldErrors& errors,
             const std::vector<std::optional<LogError>>& shifts, const CurveShapes& shapes,
             Contender& contender) {
  double sum = 0, variance = 0, best = 0, scatter = 0, folds = 0;
  if (errors.empty() || !errors.front()) return false;
  for (std::size_t f = 0; f < errors.size(); ++f) {
    const ProfiledFold& fold = candidate.folds[f];
    if (!errors[f] && !shifts[f]) continue;  // all candidates lack this fold
    LogError log;
    if (errors[f])
      log = *errors[f];
    else
      log = {errors.front()->mean + shifts[f]->mean, std::hypot(errors.front()->sd, shifts[f]->sd)};
    contender.ends_with_decay = contender.ends_with_decay || !fold.ended;
    sum += std::exp(log.mean);
    variance += log.sd * log.sd;
    best += fold.best;
    const double seeds = scatter_of(fold, candidate.cost.steps, shapes);
    scatter += seeds * seeds;
    folds += 1;
  }
  contender.error = {std::log(sum / folds), std::sqrt(variance) / folds};
  contender.best_so_far = best / folds;
  contender.seeds = std::sqrt(scatter) / folds;
  return true;
}

}  // namespace

Index ProfiledCandidate::steps() const {
  Index least = folds.empty() ? 0 : folds.front().steps;
  for (const ProfiledFold& fold : folds)
    if (!fold.ended && fold.steps > 0) least = std::min(least, fold.steps);
  return least;
}

bool ProfiledCandidate::ended() const {
  return !folds.empty() &&
         std::all_of(folds.begin(), folds.end(), [](const ProfiledFold& f) { return f.ended; });
}

void predict(ProfileState& state) {
  state.trust = trust_of(state);
  const ShapesOfModels shapes =
      shapes_of(state, [](const ProfiledCandidate& candidate) { return candidate.cost.steps; });
  state.choice = state.baseline = -1;
  state.regret = 0;
  std::vector<Contender> contenders;
  std::vector<double> expected;
  std::vector<Chances*> of;
  std::vector<Index> candidates;  // places of those that are contenders
  std::vector<FoldErrors> errors;
  for (const ProfiledCandidate& candidate : state.candidates) {
    const bool failed = candidate.status == ProfiledCandidate::Status::failed;
    errors.push_back(failed ? FoldErrors() : fold_errors(candidate, shapes.at(candidate.model), state.trust));
  }
  const std::vector<std::optional<LogError>> shifts = fold_shifts(errors);
  for (std::size_t k = 0; k < state.candidates.size(); ++k) {
    ProfiledCandidate& candidate = state.candidates[k];
    candidate.chances = {};
    Contender contender;
    if (!contend(candidate, errors[k], shifts, shapes.at(candidate.model), contender)) continue;
    contenders.push_back(contender);
    expected.push_back(std::log(candidate.expected));
    of.push_back(&candidate.chances);
    candidates.push_back(static_cast<Index>(k));
  }
  shrink(contenders, expected);
  const auto seed = static_cast<std::uint64_t>(state.seed);
  const std::vector<Chances> among = chances(contenders, state.trust, seed);
  for (ProfiledCandidate& candidate : state.candidates) candidate.likely = 0;
  for (std::size_t k = 0; k < among.size(); ++k)
    state.candidates[static_cast<std::size_t>(candidates[k])].likely = among[k].probability_best;
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

std::vector<Index> ranking(const ProfileState& state) {
  std::vector<Index> places;
  for (std::size_t k = 0; k < state.candidates.size(); ++k)
    if (state.candidates[k].in_search()) places.push_back(static_cast<Index>(k));
  std::stable_sort(places.begin(), places.end(), [&](Index a, Index b) {
    const ProfiledCandidate& one = state.candidates[static_cast<std::size_t>(a)];
    const ProfiledCandidate& other = state.candidates[static_cast<std::size_t>(b)];
    if (one.likely != other.likely) return one.likely > other.likely;
    return one.chances.predicted < other.chances.predicted;
  });
  return places;
}

}  // namespace rossby
