#pragma once

#include <span>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// A rectangle of a (rows, columns) plane: one hyperslab.
struct Rectangle {
  Index row = 0, column = 0;  // first
  Index rows = 0, columns = 0;
  struct Node {
    Index position;  // in the list of wanted nodes
    Index cell;      // in the rectangle, in row order; valid once `cover` returns
  };
  std::vector<Node> nodes;

  [[nodiscard]] Index area() const { return rows * columns; }
};

/// Covers all wanted nodes (flat indices row·columns + column, ascending) with few rectangles and little
/// waste. Runs along a row are merged across gaps, and rows are stacked, while at most half of a rectangle is
/// waste or the waste is at most `free_cells`. `free_cells` is what is cheaper to read and drop than another
/// hyperslab.
std::vector<Rectangle> cover(std::span<const Index> nodes, Index columns, Index free_cells);

}  // namespace rossby::detail
