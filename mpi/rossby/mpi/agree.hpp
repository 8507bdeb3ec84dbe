#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// How a rank's share of a step ended.
struct Outcome {
  enum class Kind { fine, user, bug };
  Kind kind = Kind::fine;
  std::string message;

  /// Classifies the exception being handled. UserError, lack of memory and refusals of the operating system
  /// are user errors; all others are bugs.
  static Outcome of_current_exception();
};

/// Returns if all ranks are fine. Otherwise throws the error of the lowest failing rank on every rank,
/// prefixed with "rank R: " unless all ranks failed with that same message. One allreduce of 4 bytes if
/// nothing failed. Collective.
void agree_on(const Communicator& comm, const Outcome& outcome);

/// Returns if all ranks hold the same text. Otherwise throws the same UserError on every rank, naming the
/// lowest rank that differs from rank 0: "rank R: <what> is not the same as on rank 0". Call it on everything
/// that each rank reads for itself (configuration, header of the data), before use. Collective.
void agree_same(const Communicator& comm, std::string_view text, std::string_view what);
/// As above, on the hash of a text (TextHash).
void agree_same(const Communicator& comm, std::uint64_t hash, std::string_view what);

/// Returns the text of rank `root` on every rank. Collective.
[[nodiscard]] std::string broadcast(const Communicator& comm, std::string text, int root = 0);

/// Runs `work` on this rank, and lets all ranks agree on its success before any of them throws. An error of
/// one rank becomes the same UserError (or BugError) on all, never a hang. Returns the result of `work`.
/// Collective, but `work` itself must not communicate: if a rank throws early, the others would wait inside
/// `work`.
template <class Work>
std::invoke_result_t<Work> agree(const Communicator& comm, Work&& work) {
  Outcome outcome;
  if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
    try {
      std::forward<Work>(work)();
    } catch (...) {
      outcome = Outcome::of_current_exception();
    }
    agree_on(comm, outcome);
  } else {
    using Result = std::invoke_result_t<Work>;
    static_assert(!std::is_reference_v<Result>, "return a value or a pointer");
    std::optional<Result> result;
    try {
      result.emplace(std::forward<Work>(work)());
    } catch (...) {
      outcome = Outcome::of_current_exception();
    }
    agree_on(comm, outcome);
    return std::move(*result);
  }
}

}  // namespace rossby
