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
  double spread = 0.02;  // standard deviation beside that of the fits, for each √(factor e of further steps)
  double gain = -0.02;   // what the decay of the learning rate at the end adds to every curve,
  double gain_sd = 0.02;  // and its standard deviation, shared by all candidates
};

/// A normal distribution of the log of an error.
struct LogError {
  double mean = 0;
  double sd = 0;
};

/// Extrapolates validation curves by a power law with offset (Hestness et al., "Deep learning scaling is
/// predictable, empirically", 2017): after a share t of the complete training
///
///     E(t) = E(1) · (1 + h·(t^(−c) − 1) / (0.01^(−c) − 1)),
///
/// so that h says how far errors fall from 1 % of the training on.
/// Every height h, exponent c and noise of a grid is fitted to the points, and the fits are weighted by their
/// likelihood. Earlier points count less, as if the fit were made over several windows of the curve. Curves
/// of one data set have similar shapes: the weights of those that were learned from are the prior of the
/// others, so that a curve of a single point is extrapolated like its peers.
class CurveShapes {
 public:
  /// All shapes of the grid, those that fall little more than those that fall far.
  CurveShapes();

  /// Takes in a curve of a training of `complete` steps, if it has three points or more.
  void learn(std::span<const CurvePoint> points, Index complete);

  /// The error after `steps` of `complete` steps, without CurveTrust. `points` ascend by steps, at least one,
  /// with errors above 0; throws BugError otherwise.
  [[nodiscard]] LogError extrapolate(std::span<const CurvePoint> points, Index complete, Index steps) const;

 private:
  std::vector<double> prior_;    // of each shape; their sum is 1
  std::vector<double> learned_;  // sums of weights that curves have given them
};

/// An extrapolation with the spread of `trust` for the way from `from` to `to` steps, and no gain.
[[nodiscard]] LogError with_trust(const LogError& extrapolated, Index from, Index to,
                                  const CurveTrust& trust);

/// A curve was extrapolated from the points up to `from` steps to `to` steps, where it came out.
struct CurveCheck {
  Index from = 0, to = 0;
  LogError extrapolated;
  double error = 0;
};

/// Learns the spread from extrapolations that came true, as `checks` of curves that went on under the
/// schedule; `prior` counts as four of them. Finished trainings (`ends`: what the last point before the end
/// was extrapolated to) say what the end gains.
[[nodiscard]] CurveTrust learn_trust(std::span<const CurveCheck> checks, std::span<const CurveCheck> ends,
                                     const CurveTrust& prior);

}  // namespace rossby
