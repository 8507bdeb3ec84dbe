#pragma once

#include <algorithm>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby::test {

/// The same owners, with the rows of each part in random order. Results must not depend on this order.
inline RowPartition shuffled_rows(const RowPartition& partition) {
  std::vector<Index> rows;
  const Random random(13, "row order");
  const auto key = [&](Index row) { return random.bits(static_cast<std::uint64_t>(row)); };
  for (int p = 0; p < partition.parts(); ++p) {
    for (const GlobalRow row : partition.rows_of(p)) rows.push_back(row.value);
    std::sort(rows.begin() + partition.begin(p), rows.end(),
              [&](Index a, Index b) { return key(a) < key(b); });
  }
  return partition.reordered(rows);
}

}  // namespace rossby::test
