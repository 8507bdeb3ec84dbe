#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include "rossby/base/error.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {
namespace {

struct Cell {
  Index lat = 0;
  Index lon = 0;
  Index node = 0;
};

/// The nodes of the grid, each once, by ascending cell. Checks that they are.
std::vector<Cell> cells_of(Index n_lat, Index n_lon, std::span<const Index> node_of_cell) {
  require(n_lat >= 0 && n_lon >= 0 && static_cast<Index>(node_of_cell.size()) == n_lat * n_lon,
          "one node number a cell");
  std::vector<Cell> cells;
  for (Index c = 0; c < static_cast<Index>(node_of_cell.size()); ++c)
    if (const Index node = node_of_cell[static_cast<std::size_t>(c)]; node >= 0)
      cells.push_back({c / n_lon, c % n_lon, node});
  std::vector<bool> seen(cells.size(), false);
  for (const Cell& cell : cells) {
    require(cell.node < static_cast<Index>(cells.size()) && !seen[static_cast<std::size_t>(cell.node)],
            "the cells of a grid hold the nodes 0…n−1, each once");
    seen[static_cast<std::size_t>(cell.node)] = true;
  }
  return cells;
}

class Bisection {
 public:
  Bisection(std::span<const double> weights, std::size_t nodes) : weights_(weights), owner_(nodes, 0) {}

  /// Assigns `cells` to the parts first, first + 1, …, first + parts − 1.
  void cut(std::span<Cell> cells, int first, int parts) {
    if (parts == 1) {
      for (const Cell& cell : cells) owner_[static_cast<std::size_t>(cell.node)] = first;
      return;
    }
    if (cells.empty()) return;
    sort_along_longer_side(cells);
    const int left = parts / 2;
    const std::size_t at = split(cells, left, parts);
    cut(cells.first(at), first, left);
    cut(cells.subspan(at), first + left, parts - left);
  }

  [[nodiscard]] std::vector<int> take() { return std::move(owner_); }

 private:
  [[nodiscard]] double weight(const Cell& cell) const {
    return weights_.empty() ? 1.0 : weights_[static_cast<std::size_t>(cell.node)];
  }

  static void sort_along_longer_side(std::span<Cell> cells) {
    const auto by_lat = [](const Cell& a, const Cell& b) { return a.lat < b.lat; };
    const auto by_lon = [](const Cell& a, const Cell& b) { return a.lon < b.lon; };
    const auto [south, north] = std::minmax_element(cells.begin(), cells.end(), by_lat);
    const auto [west, east] = std::minmax_element(cells.begin(), cells.end(), by_lon);
    if (east->lon - west->lon >= north->lat - south->lat)
      std::sort(cells.begin(), cells.end(),
                [](const Cell& a, const Cell& b) { return std::tie(a.lon, a.lat) < std::tie(b.lon, b.lat); });
    else
      std::sort(cells.begin(), cells.end(),
                [](const Cell& a, const Cell& b) { return std::tie(a.lat, a.lon) < std::tie(b.lat, b.lon); });
  }

  /// Number of the sorted cells that go left: a share left/parts of the weight, to the nearest cell. The cut
  /// may run through a grid line: two more ghosts, but no imbalance. No part stays empty while another one
  /// has two cells.
  [[nodiscard]] std::size_t split(std::span<const Cell> cells, int left, int parts) const {
    const auto n = static_cast<Index>(cells.size());
    const Index right = parts - left;
    const Index low = n >= parts ? left : std::max<Index>(0, n - right);
    const Index high = n >= parts ? n - right : std::min<Index>(n, left);
    double total = 0;
    for (const Cell& cell : cells) total += weight(cell);
    const double target = total * left / parts;
    double before = 0;
    Index at = 0;
    while (at < low || (at < high && before + weight(cells[static_cast<std::size_t>(at)]) / 2 < target))
      before += weight(cells[static_cast<std::size_t>(at++)]);
    return static_cast<std::size_t>(at);
  }

  std::span<const double> weights_;
  std::vector<int> owner_;
};

}  // namespace

std::vector<int> grid_tiles(Index n_lat, Index n_lon, std::span<const Index> node_of_cell, int parts,
                            std::span<const double> weights) {
  require(parts >= 1, "a partition needs at least one part");
  std::vector<Cell> cells = cells_of(n_lat, n_lon, node_of_cell);
  require(weights.empty() || weights.size() == cells.size(), "one weight a node");
  for (const double weight : weights)
    require(std::isfinite(weight) && weight >= 0, "weights are finite and not negative");
  Bisection bisection(weights, cells.size());
  bisection.cut(cells, 0, parts);
  return bisection.take();
}

}  // namespace rossby
