#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/halo.hpp"

namespace rossby {
namespace {

Grid full_grid(Index n_lat, Index n_lon, bool periodic = false) {
  Grid grid{n_lat, n_lon, std::vector<Index>(static_cast<std::size_t>(n_lat * n_lon)), periodic};
  std::iota(grid.node_of_cell.begin(), grid.node_of_cell.end(), Index{0});
  return grid;
}

std::vector<Index> sizes(const std::vector<int>& owners, int parts) {
  std::vector<Index> count(static_cast<std::size_t>(parts), 0);
  for (const int owner : owners) ++count.at(static_cast<std::size_t>(owner));
  return count;
}

// 60 × 168 cells, 8 neighbours: bisection is as good as the best rectangular tilings, 1×4 and 2×8.
TEST(GridTiles, HalosAreThoseOfTheBestRectangles) {
  struct Case {
    bool periodic;
    int parts;
    Index total;
    Index largest;
    Index four_hops;
  };
  const std::vector<int> hops{1, 2, 4};
  for (const auto& [periodic, parts, total, largest, four_hops] :
       {Case{false, 4, 360, 120, 1440}, {false, 16, 1204, 83, 5152}, {true, 4, 480, 120, 1920}}) {
    const Grid grid = full_grid(60, 168, periodic);
    const test::Halo halo = test::halo(grid, test::tiles(grid, parts));
    EXPECT_LE(halo.total, total) << parts << " parts";
    EXPECT_LE(halo.largest, largest) << parts << " parts";
    EXPECT_LE(test::halo(grid, test::tiles(grid, parts), hops).total, four_hops) << parts << " parts";
  }
}

TEST(GridTiles, BeatsContiguousRowsByFar) {
  const Grid grid = full_grid(60, 168);
  EXPECT_EQ(test::halo(grid, RowPartition::blocks(60 * 168, 4)).total, 1008);
  EXPECT_EQ(test::halo(grid, RowPartition::blocks(60 * 168, 16)).total, 5040 + 24);
}

TEST(GridTiles, BalancesAnyNumberOfParts) {
  for (const auto& [n_lat, n_lon] :
       {std::pair<Index, Index>{1, 1}, {1, 17}, {17, 1}, {5, 7}, {13, 11}, {60, 168}})
    for (const int parts : {1, 2, 3, 4, 5, 6, 7, 11, 16}) {
      const Grid grid = full_grid(n_lat, n_lon);
      const auto count = sizes(grid_tiles(n_lat, n_lon, grid.node_of_cell, parts), parts);
      const auto [least, most] = std::minmax_element(count.begin(), count.end());
      EXPECT_LE(*most - *least, std::ceil(std::log2(parts)))
          << n_lat << "×" << n_lon << ", " << parts << " parts";
      EXPECT_LE(*most, n_lat * n_lon < parts ? 1 : n_lat * n_lon);
      EXPECT_GE(*least, n_lat * n_lon < parts ? 0 : 1);
    }
}

TEST(GridTiles, OneRowIsCutIntoIntervals) {
  const Grid grid = full_grid(1, 10);
  EXPECT_EQ(grid_tiles(1, 10, grid.node_of_cell, 3), (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_EQ(grid_tiles(10, 1, grid.node_of_cell, 2), (std::vector<int>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

TEST(GridTiles, GoesByTheBoxOfTheNodesNotOfTheGrid) {
  // A wide grid whose only sea is a tall strip: tiles must be stacked in latitude.
  Grid grid{12, 40, std::vector<Index>(480, -1), false};
  Index node = 0;
  for (Index lat = 0; lat < 12; ++lat)
    for (Index lon = 20; lon < 23; ++lon)
      grid.node_of_cell[static_cast<std::size_t>(lat * 40 + lon)] = node++;
  const auto owners = grid_tiles(12, 40, grid.node_of_cell, 2);
  for (Index i = 0; i < node; ++i) EXPECT_EQ(owners[static_cast<std::size_t>(i)], i < node / 2 ? 0 : 1);
}

TEST(GridTiles, LandHasNoOwnerAndNoWeight) {
  Grid grid{9, 14, std::vector<Index>(126, -1), false};
  const Random random(3, "land");
  Index node = 0;
  for (std::size_t c = 0; c < 126; ++c)
    if (random.uniform(c) < 0.6) grid.node_of_cell[c] = node++;
  for (const int parts : {1, 2, 3, 7}) {
    const auto owners = grid_tiles(9, 14, grid.node_of_cell, parts);
    ASSERT_EQ(static_cast<Index>(owners.size()), node);
    const auto count = sizes(owners, parts);
    const auto [least, most] = std::minmax_element(count.begin(), count.end());
    EXPECT_LE(*most - *least, 3);
  }
  const std::vector<Index> land(126, -1);
  EXPECT_TRUE(grid_tiles(9, 14, land, 4).empty());
  EXPECT_TRUE(grid_tiles(0, 0, {}, 4).empty());
}

TEST(GridTiles, BalancesWeightsNotCounts) {
  const Grid grid = full_grid(20, 30);
  std::vector<double> weights(600);
  for (std::size_t i = 0; i < 600; ++i) weights[i] = i % 30 < 10 ? 4.0 : 1.0;  // total 20·(40 + 20) = 1200
  const auto owners = grid_tiles(20, 30, grid.node_of_cell, 4, weights);
  std::vector<double> sum(4, 0.0);
  for (std::size_t i = 0; i < 600; ++i) sum[static_cast<std::size_t>(owners[i])] += weights[i];
  for (const double s : sum) EXPECT_NEAR(s, 300, 8);
}

TEST(GridTiles, OneHeavyNodeLeavesNoTileEmpty) {
  const Grid grid = full_grid(4, 5);
  for (std::size_t heavy = 0; heavy < 20; ++heavy) {
    std::vector<double> weights(20, 1.0);
    weights[heavy] = 1e9;
    for (const int parts : {2, 3, 7, 20})
      for (const Index size : sizes(grid_tiles(4, 5, grid.node_of_cell, parts, weights), parts))
        EXPECT_GE(size, 1);
  }
}

TEST(GridTiles, NumbersOfNodesDoNotMatter) {
  // The same cells with nodes numbered backwards give the same tiles.
  Grid grid = full_grid(7, 9);
  const auto owners = grid_tiles(7, 9, grid.node_of_cell, 5);
  std::reverse(grid.node_of_cell.begin(), grid.node_of_cell.end());
  auto mirrored = grid_tiles(7, 9, grid.node_of_cell, 5);
  std::reverse(mirrored.begin(), mirrored.end());
  EXPECT_EQ(owners, mirrored);
}

TEST(GridTiles, RefusesCellsThatShareANode) {
  const std::vector<Index> twice{0, 1, 1, 2};
  EXPECT_THROW(grid_tiles(2, 2, twice, 2), BugError);
  const std::vector<Index> gap{0, 1, 4, 2};
  EXPECT_THROW(grid_tiles(2, 2, gap, 2), BugError);
}

}  // namespace
}  // namespace rossby
