#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "rossby/kernels/device/launch.hpp"

// Scattered sums over targets that a list names in any order, some of them often: without atomics, in the
// list's order.

namespace rossby::ROSSBY_DEVICE {

/// A thread's targets: every n-th one, with n a power of two.
struct Share {
  Index first, mask;
  [[nodiscard]] ROSSBY_ON_DEVICE bool has(Index target) const { return (target & mask) == first; }
};

inline constexpr Index many_shares = 4096;

/// f(share, k) for all k in [0, each) of up to `most` shares of `targets`.
template <class F>
void for_each_share(const Exec& exec, Index targets, Index each, Index most, const F& f) {
  if (targets <= 0) return;
  const auto shares = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(std::min(targets, most))));
  for_each(exec, shares * each, [=] ROSSBY_ON_DEVICE(Index k) { f(Share{k / each, shares - 1}, k % each); });
}

}  // namespace rossby::ROSSBY_DEVICE
