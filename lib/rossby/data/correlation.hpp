#pragma once

#include <span>
#include <vector>

#include "rossby/relation/builders.hpp"

namespace rossby {

/// The pairs of nodes that a correlation joins.
struct CorrelationRule {
  Index neighbours = 0;    // > 0: sources per node, the most correlated; 0: all above threshold
  double threshold = 0.5;  // smallest correlation of an edge; above 0
  Index overlap = 30;      // minimum of steps at which both are observed
};

/// Maximum number of correlated nodes, because time grows as T·n².
constexpr Index most_correlated_nodes = 30000;

/// Edges i → j with Pearson's correlation r(i, j) as weight, over the steps at which both are observed. Means
/// and standard deviations also use only these common steps. `values`: (T, n) of the training part, NaN if
/// missing. A node that is constant on the common steps has no correlation; negative correlations make no
/// edges. Ascending by (source, destination). Blocks of columns are multiplied in double: besides `values`,
/// memory is O(T·block + block·n). Throws UserError if a rule gives more than 2^27 edges, or if n >
/// most_correlated_nodes.
[[nodiscard]] std::vector<Edge> correlation_graph(std::span<const float> values, Index steps, Index nodes,
                                                  const CorrelationRule& rule);

}  // namespace rossby
