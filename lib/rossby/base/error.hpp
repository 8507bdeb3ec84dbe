#pragma once

#include <algorithm>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rossby {

/// Returns `text` with a blank for every control character. Names and texts from files go into messages, and
/// may contain line ends or terminal sequences.
std::string one_line(std::string text);

/// An error that the user can correct: a wrong key, file or size. The message is one line: what is wrong,
/// where, what to do.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(one_line(message)) {}
};

/// A broken contract inside Rossby (wrong shape, bad call order). Never the user's fault.
class BugError : public std::logic_error {
 public:
  explicit BugError(const std::string& message) : std::logic_error(message) {}
};

/// Throws BugError with the broken contract and the caller's place in the source.
[[noreturn]] void bug(std::string_view what, std::source_location where = std::source_location::current());

/// Checks a contract between parts of Rossby. Release builds keep the check, so never use it in an inner
/// loop.
inline void require(bool holds, std::string_view what,
                    std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]]
    bug(what, where);
}

/// Returns the candidate with the smallest edit distance to `word`, or an empty view if all distances exceed
/// max(2, length/3).
template <class Range>
std::string_view nearest_name(std::string_view word, const Range& candidates);

/// Levenshtein distance between two words.
std::size_t edit_distance(std::string_view a, std::string_view b);

template <class Range>
std::string_view nearest_name(std::string_view word, const Range& candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace rossby
