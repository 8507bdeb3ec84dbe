#pragma once

#include <vector>

#include "rossby/data/split.hpp"

namespace rossby {

/// Returns splits whose validation parts together select settings: the split itself, or blocked folds of the
/// training part if there is no validation part. Folds judge a long series better than its end alone.
[[nodiscard]] std::vector<Split> deciding_splits(const Split& split, Index folds);

}  // namespace rossby
