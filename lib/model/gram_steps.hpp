#pragma once

#include <vector>

#include "rossby/data/split.hpp"

namespace rossby {

/// The training steps that Gram matrices are built from: the last `most` of them.
inline std::vector<Index> gram_steps(const Split& split, Index most) {
  std::vector<Index> steps = split.training_steps();
  const auto size = static_cast<Index>(steps.size());
  if (size > most) steps.erase(steps.begin(), steps.begin() + (size - most));
  return steps;
}

}  // namespace rossby
