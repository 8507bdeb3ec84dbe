#pragma once

#include <limits>
#include <numeric>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby::test {

inline constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// first, first + 1, …, last − 1.
inline std::vector<Index> range(Index first, Index last) {
  std::vector<Index> values(static_cast<std::size_t>(last - first));
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace rossby::test
