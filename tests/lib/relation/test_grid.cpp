#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

using test::List;
using test::Lists;

/// About a third of the cells are land. Nodes are numbered in random order.
Grid patchy_grid(Index n_lat, Index n_lon, bool periodic) {
  Grid grid{n_lat, n_lon, {}, periodic};
  const Random random(23, "land");
  std::vector<std::size_t> sea;
  for (std::size_t c = 0; c < static_cast<std::size_t>(n_lat * n_lon); ++c)
    if (random.uniform(c) < 0.67) sea.push_back(c);
  grid.node_of_cell.assign(static_cast<std::size_t>(n_lat * n_lon), -1);
  const Permutation order(random.at(1), static_cast<Index>(sea.size()));
  for (std::size_t i = 0; i < sea.size(); ++i) grid.node_of_cell[sea[i]] = order(static_cast<Index>(i));
  return grid;
}

Index nodes_of(const Grid& grid) {
  return static_cast<Index>(std::count_if(grid.node_of_cell.begin(), grid.node_of_cell.end(),
                                          [](Index node) { return node >= 0; }));
}

/// Checks every pair of cells for being neighbours in the given direction (−1: in any).
Lists pairwise(const Grid& grid, bool directional) {
  const int step_lat[] = {1, 1, 0, -1, -1, -1, 0, 1};
  const int step_lon[] = {0, 1, 1, 1, 0, -1, -1, -1};
  const bool round = grid.periodic_lon && grid.n_lon >= 3;
  Lists lists(static_cast<std::size_t>(nodes_of(grid)), std::vector<List>(directional ? 8 : 1));
  for (Index a = 0; a < grid.n_lat * grid.n_lon; ++a)
    for (Index b = 0; b < grid.n_lat * grid.n_lon; ++b) {
      const Index i = grid.node_of_cell[static_cast<std::size_t>(a)];
      const Index j = grid.node_of_cell[static_cast<std::size_t>(b)];
      if (i < 0 || j < 0) continue;
      for (int k = 0; k < 8; ++k) {
        const Index lat = b / grid.n_lon - a / grid.n_lon - step_lat[k];
        const Index lon = b % grid.n_lon - a % grid.n_lon - step_lon[k];
        const bool meets = lat == 0 && (lon == 0 || (round && (lon == grid.n_lon || lon == -grid.n_lon)));
        if (meets)
          lists[static_cast<std::size_t>(i)][directional ? static_cast<std::size_t>(k) : 0].emplace_back(j,
                                                                                                         1.0);
      }
    }
  for (auto& row : lists)
    for (auto& list : row) std::sort(list.begin(), list.end());
  return lists;
}

TEST(GridNeighbours, AreThoseOfEveryPairOfCellsAtEveryNumberOfParts) {
  for (const bool periodic : {false, true})
    for (const auto& [n_lat, n_lon] :
         {std::pair<Index, Index>{1, 1}, {1, 7}, {7, 1}, {2, 2}, {5, 3}, {6, 9}}) {
      const Grid grid = patchy_grid(n_lat, n_lon, periodic);
      for (const auto kind : {GridRelations::one, GridRelations::directional}) {
        const Lists expected = pairwise(grid, kind == GridRelations::directional);
        for (const int parts : test::part_counts)
          for (const RowPartition& partition : test::partitions(nodes_of(grid), parts)) {
            std::vector<GlobalEdges> blocks;
            for (int p = 0; p < parts; ++p) blocks.push_back(grid_neighbours(grid, kind, partition, p));
            EXPECT_EQ(test::united(blocks, partition), expected);
          }
      }
    }
}

TEST(GridNeighbours, AnInnerCellHasEightAndACornerThree) {
  Grid grid{4, 5, std::vector<Index>(20), false};
  std::iota(grid.node_of_cell.begin(), grid.node_of_cell.end(), Index{0});
  const auto partition = RowPartition::blocks(20, 1);
  const auto edges = grid_neighbours(grid, GridRelations::one, partition, 0);
  EXPECT_EQ(edges.end(6, 0) - edges.begin(6, 0), 8);
  EXPECT_EQ(edges.end(0, 0) - edges.begin(0, 0), 3);
  grid.periodic_lon = true;
  const auto round = grid_neighbours(grid, GridRelations::one, partition, 0);
  EXPECT_EQ(round.end(0, 0) - round.begin(0, 0), 5);
  EXPECT_EQ(round.end(5, 0) - round.begin(5, 0), 8);
}

TEST(GridNeighbours, ColumnsTouchWhereTheirLongitudesDo) {
  const auto joins = [](std::vector<double> longitude) {
    const ColumnJoins found = join_columns(longitude);
    std::string text;
    for (const std::uint8_t apart : found.apart) text += apart != 0 ? '|' : '-';
    return text + (found.round ? "o" : "");
  };
  EXPECT_EQ(joins({10, 20, 30, 40}), "---");
  EXPECT_EQ(joins({-180, -90, 0, 90}), "---o");
  EXPECT_EQ(joins({270, 180, 90, 0}), "---o");
  EXPECT_EQ(joins({-180, -170, -160, 150, 160, 170}), "--|--o")
      << "the Pacific, in longitudes from -180 to 180";
  EXPECT_EQ(joins({-170, -160, -150, 140, 150, 160}), "--|--") << "a gap at the date line";
  EXPECT_EQ(joins({0, 60, 120, -180, -120, -60}), "-----o") << "the whole globe, wrapped but not sorted";
  EXPECT_EQ(joins({150, 160, 170, -180, -170, -160}), "-----");
  EXPECT_EQ(joins({0, 90, 180, 270, 360}), "----") << "the last is the first once more";
  EXPECT_EQ(joins({0, 1, 2.5, 4.7, 8, 13}), "-----") << "a stretched grid";
  EXPECT_EQ(joins({0, 180}), "");
  EXPECT_EQ(joins({}), "");

  Grid grid{2, 6, std::vector<Index>(12), true, {0, 0, 1, 0, 0}};
  std::iota(grid.node_of_cell.begin(), grid.node_of_cell.end(), Index{0});
  const auto edges = grid_neighbours(grid, GridRelations::directional, RowPartition::blocks(12, 1), 0);
  const auto neighbours = [&](Index node) {
    std::vector<Index> list;
    for (int k = 0; k < 8; ++k)
      for (Index e = edges.begin(node, k); e < edges.end(node, k); ++e)
        list.push_back(edges.column[static_cast<std::size_t>(e)].value);
    return list;
  };
  EXPECT_EQ(neighbours(2), (std::vector<Index>{8, 1, 7})) << "N, W, NW: nothing to the east";
  EXPECT_EQ(neighbours(9), (std::vector<Index>{10, 4, 3})) << "E, SE, S: nothing to the west";
  EXPECT_EQ(neighbours(0), (std::vector<Index>{6, 7, 1, 5, 11})) << "joined with the last column";
}

TEST(GridNeighbours, DirectionsAreInTheOrderNorthToNorthWest) {
  Grid grid{3, 3, std::vector<Index>(9), false};
  std::iota(grid.node_of_cell.begin(), grid.node_of_cell.end(), Index{0});
  const auto edges = grid_neighbours(grid, GridRelations::directional, RowPartition::blocks(9, 1), 0);
  const std::vector<Index> expected{7, 8, 5, 2, 1, 0, 3, 6};  // around the middle cell, 4
  for (int k = 0; k < 8; ++k) {
    ASSERT_EQ(edges.end(4, k) - edges.begin(4, k), 1);
    EXPECT_EQ(edges.column[static_cast<std::size_t>(edges.begin(4, k))].value,
              expected[static_cast<std::size_t>(k)]);
  }
}

}  // namespace
}  // namespace rossby
