#pragma once

#include <vector>

#include "rossby/data/split.hpp"

namespace rossby {

/// Returns the last `most` training steps, from which Gram matrices are built.
inline std::vector<Index> gram_steps(const Split& split, Index most) {
  std::vector<Index> steps = split.training_steps();
  const auto size = static_cast<Index>(steps.size());
  if (size > most) steps.erase(steps.begin(), steps.begin() + (size - most));
  return steps;
}

/// Returns indices j into `steps` for which steps j−1, j and j+1 follow each other without a gap.
inline std::vector<Index> steps_with_neighbours(const std::vector<Index>& steps, const Split& split) {
  std::vector<Index> places;
  for (std::size_t j = 1; j + 1 < steps.size(); ++j)
    if (steps[j + 1] == steps[j - 1] + 2 && split.follows(steps[j]) && split.follows(steps[j + 1]))
      places.push_back(static_cast<Index>(j));
  return places;
}

}  // namespace rossby
