#pragma once

#include <span>
#include <vector>

#include "rossby/relation/builders.hpp"

namespace rossby {

/// Which pairs of nodes a correlation joins.
struct CorrelationRule {
  Index neighbours = 0;  // > 0: each node's so many most correlated others act on it; 0: all above threshold
  double threshold = 0.5;  // smallest correlation of an edge; above 0
  Index overlap = 30;      // fewest steps at which both nodes are observed
};

/// Most nodes that are correlated with each other: time grows as T·n².
constexpr Index most_correlated_nodes = 30000;

/// Edges i → j with Pearson's correlation r(i, j) as weight, over the steps at which both are observed (both
/// means and standard deviations are those of the common steps). `values`: (T, n) of the training part, NaN
/// where missing. A node that is constant on the common steps is correlated with none; negative correlations
/// are no edges. Ascending by (source, destination). Blocks of columns are multiplied in double: beside
/// `values`, memory is O(T·block + block·n). Throws UserError where a rule gives more than 2^27 edges or n >
/// most_correlated_nodes.
[[nodiscard]] std::vector<Edge> correlation_graph(std::span<const float> values, Index steps, Index nodes,
                                                  const CorrelationRule& rule);

}  // namespace rossby
