#pragma once

#include <functional>
#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// The fields to extract patterns from.
struct PatternFields {
  std::span<const GlobalRow> rows;  // owned
  std::span<const Index> steps;     // of this time group; each step in one group
  /// Reads a step's deviations from the mean, one value per row.
  std::function<void(Index step, std::span<double> field)> read;
};

struct LeadingPatterns {
  std::vector<double> pattern;  // (rows, modes), orthonormal over all rows; 0 beyond the rank of the fields
  std::vector<double> spread;   // (modes), root mean square of their amplitudes over all steps
};

/// Leading empirical orthogonal functions: patterns that span the space of the first EOFs, by subspace
/// iteration (Halko, Martinsson and Tropp, SIAM Review 53, 2011), the strongest first. In contrast to
/// leading_eofs, the cost is linear in the number of steps, and steps may belong to several time groups.
/// `space` sums over row blocks, `groups` over time groups. Collective over both.
[[nodiscard]] LeadingPatterns leading_patterns(const PatternFields& fields, Index modes, Reducer& space,
                                               Reducer& groups);

}  // namespace rossby
