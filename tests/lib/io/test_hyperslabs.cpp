#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/io/hyperslabs.hpp"

namespace rossby {
namespace {

using detail::cover;
using detail::Rectangle;

Index area(const std::vector<Rectangle>& rectangles) {
  Index sum = 0;
  for (const auto& r : rectangles) sum += r.area();
  return sum;
}

TEST(Hyperslabs, EveryWantedNodeLiesInOneRectangleAtItsCell) {
  const Random random(3, "nodes");
  for (const Index columns : {1, 7, 13, 64}) {
    for (const double share : {0.02, 0.3, 0.9, 1.0}) {
      for (const Index free_cells : {0, 5, 1000}) {
        std::vector<Index> nodes;
        for (Index i = 0; i < 31 * columns; ++i)
          if (random.at(static_cast<std::uint64_t>(columns)).uniform(static_cast<std::uint64_t>(i)) < share)
            nodes.push_back(i);
        std::set<Index> seen;
        Index total = 0;
        for (const Rectangle& r : cover(nodes, columns, free_cells)) {
          EXPECT_GE(r.column, 0);
          EXPECT_LE(r.column + r.columns, columns);
          EXPECT_LE(r.row + r.rows, 31);
          total += r.area();
          for (const auto& node : r.nodes) {
            EXPECT_TRUE(seen.insert(node.position).second);
            ASSERT_LT(node.cell, r.area());
            const Index flat = (r.row + node.cell / r.columns) * columns + r.column + node.cell % r.columns;
            EXPECT_EQ(flat, nodes[static_cast<std::size_t>(node.position)]);
          }
        }
        EXPECT_EQ(seen.size(), nodes.size());
        if (free_cells == 0) {
          EXPECT_LE(total, 2 * static_cast<Index>(nodes.size()));
        }
      }
    }
  }
}

TEST(Hyperslabs, ATileIsOneRectangleAndTwoFarTilesAreTwo) {
  std::vector<Index> tile, two;
  for (Index i = 10; i < 20; ++i)
    for (Index j = 0; j < 100; ++j) {
      if (j >= 40 && j < 50) tile.push_back(i * 100 + j);
      if (j < 10 || j >= 90) two.push_back(i * 100 + j);
    }
  EXPECT_EQ(cover(tile, 100, 0).size(), 1u);
  EXPECT_EQ(area(cover(tile, 100, 0)), 100);
  EXPECT_EQ(cover(two, 100, 0).size(), 2u);
  EXPECT_EQ(area(cover(two, 100, 0)), 200);
  EXPECT_TRUE(cover({}, 100, 0).empty());
}

}  // namespace
}  // namespace rossby
