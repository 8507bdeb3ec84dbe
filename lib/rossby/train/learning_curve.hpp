#pragma once

#include <limits>
#include <span>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A validation error after some optimiser steps.
struct CurvePoint {
  Index steps = 0;
  double error = 0;
};

/// Reliability of extrapolated curves, common to all candidates of a search. All values refer to log errors.
struct CurveTrust {
  double spread = 0.02;   // standard deviation beyond the fits', for each √(factor e of further steps)
  double gain = -0.02;    // change of every curve by the final decay of the learning rate,
  double gain_sd = 0.02;  // and its standard deviation, shared by all candidates
};

/// A normal distribution of the log of an error.
struct LogError {
  double mean = 0;
  double sd = 0;
};

/// Extrapolates validation curves by a power law with offset (Hestness et al., "Deep learning scaling is
/// predictable, empirically", 2017). After a share t of the complete training
///
///     E(t) = E(1) · (1 + h·(t^(−c) − 1) / (0.01^(−c) − 1)),
///
/// where h says how far errors fall after the first 1 % of the training. Every height h, exponent c and noise
/// of a grid is fitted to the points, and the fits are weighted by their likelihood. Earlier points count
/// less, as if the fit were made over several windows of the curve. Curves of one data set have similar
/// shapes. The weights of learned curves are therefore the prior of the others, so that a curve of a single
/// point is extrapolated like its peers. Heights reach far, because errors of smooth data fall by orders of
/// magnitude.
class CurveShapes {
 public:
  /// All shapes of the grid. Heights above 0.5 have a smaller prior the larger they are.
  CurveShapes();

  /// Learns from a curve of a training of `complete` steps if it has at least three points.
  void learn(std::span<const CurvePoint> points, Index complete);

  /// Adds what others have learned, with a weight.
  void learn(const CurveShapes& others, double weight);

  /// Returns the error after `steps` of `complete` steps, without CurveTrust. `points` ascend by steps.
  /// Throws BugError if there is no point or an error is not above 0.
  [[nodiscard]] LogError extrapolate(std::span<const CurvePoint> points, Index complete, Index steps) const;

  /// Standard deviation of the log errors of a curve about its fit. Throws BugError as extrapolate.
  [[nodiscard]] double noise(std::span<const CurvePoint> points, Index complete) const;

 private:
  std::vector<double> prior_;    // of each shape; the sum is 1
  std::vector<double> learned_;  // sums of weights that curves have given to each shape
};

/// Widens an extrapolation by the spread of `trust` from `from` to `to` steps. Adds no gain.
[[nodiscard]] LogError with_trust(const LogError& extrapolated, Index from, Index to,
                                  const CurveTrust& trust);

/// An extrapolation from the points up to `from` steps to `to` steps, and the actual error there.
struct CurveCheck {
  Index from = 0, to = 0;
  LogError extrapolated;
  double error = 0;
};

/// Learns the spread from `checks`: extrapolations of curves that went on under the schedule. `prior` counts
/// as four checks. The gain is learned from `ends`: extrapolations from the last point before the end of
/// finished trainings.
[[nodiscard]] CurveTrust learn_trust(std::span<const CurveCheck> checks, std::span<const CurveCheck> ends,
                                     const CurveTrust& prior);

}  // namespace rossby
