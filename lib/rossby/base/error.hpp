#pragma once

#include <algorithm>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rossby {

/// `text` with a blank for every control character: names and texts of files go into messages, and may hold
/// line ends or sequences that a terminal obeys.
std::string one_line(std::string text);

/// What a user can mend: a wrong key, file or size. The message is one line: what is wrong, where, what would
/// be right.
class UserError : public std::runtime_error {
 public:
  explicit UserError(const std::string& message) : std::runtime_error(one_line(message)) {}
};

/// A broken promise inside Rossby (wrong shape, bad call order). Never the user's fault.
class BugError : public std::logic_error {
 public:
  explicit BugError(const std::string& message) : std::logic_error(message) {}
};

/// Throws BugError naming the failed promise and the caller's place in the source.
[[noreturn]] void bug(std::string_view what, std::source_location where = std::source_location::current());

/// Checks a promise between parts of Rossby; kept in release builds, so never inside an inner loop.
inline void require(bool holds, std::string_view what,
                    std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]]
    bug(what, where);
}

/// The name of the candidate with the smallest edit distance to `word`, or an empty view where none is near
/// (distance above max(2, length/3)).
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
