#pragma once

#include <limits>
#include <span>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A validation error after so many optimiser steps.
struct CurvePoint {
  Index steps = 0;
  double error = 0;
};

/// How far extrapolated curves can be trusted: what candidates of one search have in common. All of log
/// errors.
struct CurveTrust {
  double drift = 0;       // mean of (true − extrapolated), for each factor e of further steps
  double spread = 0.03;   // standard deviation likewise, for each √ of it
  double gain = -0.02;    // what the decay of the learning rate at the end adds to every curve,
  double gain_sd = 0.02;  // and its standard deviation, shared by all candidates
};

/// A normal distribution of the log of an error.
struct LogError {
  double mean = 0;
  double sd = 0;
};

/// Extrapolates a validation curve to `steps` by E(s) = a + b·s^(−c) (the power law with offset of Hestness
/// et al., "Deep learning scaling is predictable, empirically", 2017). Every offset and exponent of a grid is
/// fitted to the points, and the fits are weighted by their likelihood under noise that is unknown itself;
/// earlier points count less, as if the fit were made over several windows of the curve. A curve of a single
/// point has the distribution of the grid. Neither `CurveTrust::gain` nor drift and spread are in it.
/// `points` ascend by steps, at least one, with errors above 0; throws BugError otherwise.
[[nodiscard]] LogError extrapolate(std::span<const CurvePoint> points, Index steps);

/// The same with drift and spread of `trust` for the way from the last point to `steps`, and no gain.
[[nodiscard]] LogError extrapolate(std::span<const CurvePoint> points, Index steps, const CurveTrust& trust);

/// A curve was extrapolated from the points up to `from` steps to `to` steps, where it came out.
struct CurveCheck {
  Index from = 0, to = 0;
  LogError extrapolated;
  double error = 0;
};

/// Learns drift and spread from extrapolations that came true; `prior` counts as four of them. Those of a
/// complete training say what the end gains. Pass the checks of curves that went on under the schedule, and
/// `ends` those of finished trainings: what the last point before the end was extrapolated to.
[[nodiscard]] CurveTrust learn_trust(std::span<const CurveCheck> checks, std::span<const CurveCheck> ends,
                                     const CurveTrust& prior);

}  // namespace rossby
