#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/io/series_file.hpp"

namespace rossby {

/// The precision that float32 would lose of a file's values: small variations on large offsets, such as
/// positions of 4,100,000 m that change by millimetres.
struct FloatLoss {
  std::vector<double> first;    // (nodes, m): the first value, NaN if there is none
  std::vector<double> varying;  // (m): nodes whose values vary
  std::vector<double> lost;     // (m): nodes whose variations float32 does not resolve
  // For the worst node of each feature, (m): its level, standard deviation, and the spacing of float32 there.
  std::vector<double> level, spread, spacing;
};

/// Samples steps [first, last) of these nodes: up to three stretches of 64 steps. Returns empty lists if the
/// file holds no values finer than float32.
[[nodiscard]] FloatLoss float_loss(const SeriesFile& file, std::span<const Index> nodes, Index first,
                                   Index last);

/// True if a feature needs its offset subtracted before float32: one of twenty varying nodes is lost.
[[nodiscard]] inline bool needs_center(double varying, double lost) {
  return lost > 0 && 20 * lost >= varying;
}

/// Finds first values for nodes that have none in `first`, from all steps in use.
void complete_first(const SeriesFile& file, std::span<const Index> nodes, std::vector<double>& first);

}  // namespace rossby
