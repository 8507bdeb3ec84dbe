#pragma once

#include "rossby/base/random.hpp"
#include "rossby/relation/edges.hpp"

namespace rossby::test {

/// Random sparse relations of the rows [begin, end) of n. Some rows and columns are empty; some entries lie
/// on the diagonal.
inline GlobalEdges random_edges(Index n, int relations, std::uint64_t seed, Index begin, Index end) {
  const Random random(seed, "edges");
  GlobalEdges edges;
  edges.rows = end - begin;
  edges.relations = relations;
  edges.ptr = {0};
  for (Index i = begin; i < end; ++i)
    for (int k = 0; k < relations; ++k) {
      for (Index j = 0; j < n; ++j) {
        const auto key = static_cast<std::uint64_t>((i * relations + k) * n + j);
        if (i % 5 == 3 || j % 7 == 4 || random.uniform(key) > 0.3) continue;
        edges.column.emplace_back(j);
        edges.value.push_back(random.at(1).uniform(key));
      }
      edges.ptr.push_back(edges.entries());
    }
  return edges;
}

}  // namespace rossby::test
