#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/io/series_file.hpp"

namespace rossby {

/// What float32 would lose of a file's values: small variations on large offsets, such as positions of
/// 4,100,000 m that change by millimetres.
struct FloatLoss {
  std::vector<double> first;    // (nodes, m): the first value, NaN where there is none
  std::vector<double> varying;  // (m): nodes whose values vary
  std::vector<double> lost;     // (m): those whose variations float32 does not resolve
  // Of the worst node of each feature, (m): its size, standard deviation, and the spacing of float32 there.
  std::vector<double> level, spread, spacing;
};

/// Looks at a sample of steps [first, last) for these nodes: up to three stretches of 64 steps. Nothing
/// (empty lists) where the file holds no values finer than float32.
[[nodiscard]] FloatLoss float_loss(const SeriesFile& file, std::span<const Index> nodes, Index first,
                                   Index last);

/// Whether a feature needs its offset subtracted before float32: of the varying nodes, one of twenty is lost.
[[nodiscard]] inline bool needs_center(double varying, double lost) {
  return lost > 0 && 20 * lost >= varying;
}

/// First values for the nodes that have none in `first`, from all steps in use.
void complete_first(const SeriesFile& file, std::span<const Index> nodes, std::vector<double>& first);

}  // namespace rossby
