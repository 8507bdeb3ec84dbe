#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "rossby/base/stopwatch.hpp"

namespace rossby {

/// The choice between two ways of computing, made by a trial at the start of training, with the seconds each
/// way took (0: not tried). Next to the enumeration of the ways stand their names (to_string) and the share
/// of time that the second must save (must_save). Two runs may choose differently if both ways are close: fix
/// the choice if runs must be bit-equal.
template <class Way>
struct Choice {
  Way way = Way{0};
  std::array<double, 2> seconds{};
};

/// Chooses the second way if it saves enough time.
template <class Way>
void choose(Choice<Way>& choice) {
  choice.way = choice.seconds[1] < (1 - must_save(Way{})) * choice.seconds[0] ? Way{1} : Way{0};
}

[[nodiscard]] std::string choice_in_words(std::string_view chosen, std::string_view first,
                                          std::string_view second, const std::array<double, 2>& seconds);

/// One line, e.g. "own (own 2.100 ms, blas 3.000 ms)".
template <class Way>
[[nodiscard]] std::string to_string(const Choice<Way>& choice) {
  return choice_in_words(to_string(choice.way), to_string(Way{0}), to_string(Way{1}), choice.seconds);
}

/// Returns the least seconds of `repeats` runs after one warm-up: the value that run() returns, or else its
/// time on the host's clock.
template <class Run>
double least_seconds(int repeats, const Run& run) {
  double least = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat <= repeats; ++repeat) {
    double seconds = 0;
    if constexpr (std::is_void_v<decltype(run())>) {
      const Stopwatch begin;
      run();
      seconds = begin.seconds();
    } else {
      seconds = run();
    }
    if (repeat > 0) least = std::min(least, seconds);
  }
  return least;
}

}  // namespace rossby
