#include "rossby/io/hyperslabs.hpp"

#include <algorithm>
#include <iterator>

#include "rossby/base/error.hpp"

namespace rossby::detail {
namespace {

/// The bounding rectangle of both.
Rectangle join(const Rectangle& a, const Rectangle& b) {
  Rectangle both;
  both.row = std::min(a.row, b.row);
  both.column = std::min(a.column, b.column);
  both.rows = std::max(a.row + a.rows, b.row + b.rows) - both.row;
  both.columns = std::max(a.column + a.columns, b.column + b.columns) - both.column;
  return both;
}

/// True if reading one rectangle is worth it: at most half of it is waste, or the waste is small.
bool well_filled(Index area, Index wanted, Index free_cells) {
  return area <= 2 * wanted + free_cells;
}

/// Runs of wanted nodes along one row; moves `k` to the first node after the row.
std::vector<Rectangle> runs_of_row(std::span<const Index> nodes, Index columns, Index free_cells,
                                   std::size_t& k) {
  const Index row = nodes[k] / columns;
  std::vector<Rectangle> runs;
  for (; k < nodes.size() && nodes[k] / columns == row; ++k) {
    require(k == 0 || nodes[k] > nodes[k - 1], "nodes ascend");
    const Index column = nodes[k] % columns;
    if (runs.empty() || !well_filled(column - runs.back().column + 1,
                                     static_cast<Index>(runs.back().nodes.size()) + 1, free_cells))
      runs.push_back({row, column, 1, 1, {}});
    runs.back().columns = column - runs.back().column + 1;
    runs.back().nodes.push_back({static_cast<Index>(k), 0});
  }
  return runs;
}

}  // namespace

std::vector<Rectangle> cover(std::span<const Index> nodes, Index columns, Index free_cells) {
  std::vector<Rectangle> done, open;  // open: rectangles that end in the row before
  for (std::size_t k = 0; k < nodes.size();) {
    std::vector<Rectangle> next;
    for (Rectangle& run : runs_of_row(nodes, columns, free_cells, k)) {
      const auto match = std::find_if(open.begin(), open.end(), [&](const Rectangle& above) {
        return above.row + above.rows == run.row &&
               well_filled(join(above, run).area(), static_cast<Index>(above.nodes.size() + run.nodes.size()),
                           free_cells);
      });
      if (match == open.end()) {
        next.push_back(std::move(run));
        continue;
      }
      Rectangle both = join(*match, run);
      both.nodes = std::move(match->nodes);
      both.nodes.insert(both.nodes.end(), run.nodes.begin(), run.nodes.end());
      open.erase(match);
      next.push_back(std::move(both));
    }
    std::move(open.begin(), open.end(), std::back_inserter(done));
    open = std::move(next);
  }
  std::move(open.begin(), open.end(), std::back_inserter(done));
  for (Rectangle& r : done)
    for (Rectangle::Node& node : r.nodes) {
      const Index flat = nodes[static_cast<std::size_t>(node.position)];
      node.cell = (flat / columns - r.row) * r.columns + flat % columns - r.column;
    }
  return done;
}

}  // namespace rossby::detail
