#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rossby/train/learning_curve.hpp"

namespace rossby {

/// A forecaster that may be chosen, and the knowledge about its final validation error.
struct Contender {
  LogError error;  // of the final error; sd 0: the error is known
  /// Upper bound of the final error, because a complete training keeps its best state; infinity: none.
  double best_so_far = std::numeric_limits<double>::infinity();
  bool ends_with_decay = false;  // CurveTrust::gain is still to come
  double seeds = 0;              // standard deviation of log errors between trainings with other seeds
};

/// Shrinks errors that are predicted from short curves towards what is expected. The log error of contender k
/// is level + expected[k] + a deviation. The level and the spread of the deviations are estimated from all
/// contenders (empirical Bayes; Efron and Morris, JASA 1973). Known errors stay as they are.
void shrink(std::span<Contender> contenders, std::span<const double> expected);

/// Predicted result of choosing a contender.
struct Chances {
  double predicted = 0;         // median of its final error
  double low = 0, high = 0;     // 90 % interval
  double probability_best = 0;  // that its final error is the smallest of all
  double regret = 0;            // expected (error / smallest error of all − 1)
};

/// By 8000 draws of all final errors. The gain at the end is one number a draw. Intervals hold for trainings
/// with another seed; probabilities and regrets do not count this scatter, which is the same for a choice and
/// its rivals. A function of the seed and the contenders alone. Empty if there are none.
[[nodiscard]] std::vector<Chances> chances(std::span<const Contender> contenders, const CurveTrust& trust,
                                           std::uint64_t seed);

/// Returns the index of the smallest expected regret, the first of equal ones; −1 if there are none.
[[nodiscard]] Index least_regret(std::span<const Chances> chances);

}  // namespace rossby
