#pragma once

#include <functional>
#include <set>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Measures a curve that straight lines between its points will stand for: `measure` at each of `sizes`
/// (ascending, above zero), and between two of them where a point in the middle (by ratio) is more than a
/// tenth off their line: there, and between what this makes two intervals of. So a library that sends long
/// messages in another way than short ones, or a network with a bucket of bytes that go at once, has its
/// steps where they are. `measure` returns seconds, as many each time (one way and back, say); every rank
/// must return the same. Returns those of `sizes` behind which the curve bends; with `only`, nothing is
/// looked for but behind these.
std::set<Index> measure_with_bends(const std::vector<Index>& sizes,
                                   const std::function<std::vector<double>(Index)>& measure,
                                   const std::set<Index>* only = nullptr);

}  // namespace rossby
