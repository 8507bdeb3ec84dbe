#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rossby/train/learning_curve.hpp"

namespace rossby {

/// A forecaster that may be chosen, with what is known of its final validation error.
struct Contender {
  LogError error;  // of the final error; sd 0: it is known
  /// A complete training keeps its best state, so that it ends with this error at most; infinity: none.
  double best_so_far = std::numeric_limits<double>::infinity();
  bool ends_with_decay = false;  // CurveTrust::gain is still to come
};

/// What the choice of a contender is worth.
struct Chances {
  double predicted = 0;         // median of its final error
  double low = 0, high = 0;     // 90 % interval
  double probability_best = 0;  // of having the smallest final error of all
  double regret = 0;            // expected (error / smallest error of all − 1)
};

/// By 8000 draws of all final errors, whose gains at the end are one number a draw. A function of the seed
/// and the contenders alone. Empty if there are none.
[[nodiscard]] std::vector<Chances> chances(std::span<const Contender> contenders, const CurveTrust& trust,
                                           std::uint64_t seed);

/// The place of the smallest expected regret, the first of equal ones; −1: there are none.
[[nodiscard]] Index least_regret(std::span<const Chances> chances);

}  // namespace rossby
