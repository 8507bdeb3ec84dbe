#pragma once

#include <vector>

#include "rossby/data/split.hpp"

namespace rossby {

/// Splits whose validation parts decide together: the split itself, or without a validation part blocked
/// folds of its training part, which judge a long series better than its end alone.
[[nodiscard]] std::vector<Split> deciding_splits(const Split& split, Index folds);

}  // namespace rossby
