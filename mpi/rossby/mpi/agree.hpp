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

/// How one rank's share of a step ended.
struct Outcome {
  enum class Kind { fine, user, bug };
  Kind kind = Kind::fine;
  std::string message;

  /// What the exception now being handled means: UserError, running out of memory and refusals of the
  /// operating system are the user's to mend; everything else is a bug.
  static Outcome of_current_exception();
};

/// Collective. Returns if all ranks are fine; otherwise throws on every rank the error of the lowest failing
/// rank, with "rank R: " before it unless all ranks failed with that same message. One allreduce of 4 bytes
/// where nothing failed.
void agree_on(const Communicator& comm, const Outcome& outcome);

/// Collective. Returns if all ranks hold the same text; otherwise throws on every rank the same UserError,
/// which names the lowest rank that differs from rank 0: "rank R: <what> is not the same as on rank 0". What
/// every rank reads for itself (configuration, header of the data) goes through here before they rely on it.
void agree_same(const Communicator& comm, std::string_view text, std::string_view what);
/// The same of a text's hash (TextHash).
void agree_same(const Communicator& comm, std::uint64_t hash, std::string_view what);

/// Collective: the text of rank `root`, on every rank.
[[nodiscard]] std::string broadcast(const Communicator& comm, std::string text, int root = 0);

/// Runs `work` on this rank and lets all ranks agree on its success before any of them throws: an error of
/// one rank becomes the same UserError (or BugError) on all, never a hang. Returns what `work` returned.
/// Collective, but `work` itself must not communicate: a rank that throws early would leave the others
/// waiting inside it.
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
