#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/plan/bends.hpp"

namespace rossby {
namespace {

/// The second of two ways; the first is flat.
struct Curve {
  std::vector<Index> asked;
  std::set<Index> bends;
  Curve(const std::vector<Index>& sizes, double (*seconds)(Index), const std::set<Index>* only = nullptr) {
    bends = measure_with_bends(
        sizes,
        [&](Index size) {
          asked.push_back(size);
          return std::vector<double>{1.0, seconds(size)};
        },
        only);
  }
  [[nodiscard]] Index between(Index low, Index high) const {
    Index count = 0;
    for (const Index size : asked) count += size > low && size < high;
    return count;
  }
};

const std::vector<Index> grid{1, 8, 64, 512, 4096};

TEST(Bends, AStraightCurveIsTriedOnceAnInterval) {
  const Curve straight(grid, [](Index size) { return 10.0 + 0.5 * static_cast<double>(size); });
  EXPECT_TRUE(straight.bends.empty());
  EXPECT_EQ(straight.asked, (std::vector<Index>{1, 8, 64, 512, 4096, 3, 23, 181, 1448}));
}

TEST(Bends, AStepIsFoundWhereItIs) {
  // As long messages that go another way from 100 on.
  const Curve step(grid, [](Index size) { return static_cast<double>(size) + (size < 100 ? 0 : 200); });
  EXPECT_EQ(step.bends, (std::set<Index>{64}));
  EXPECT_EQ(step.between(64, 512), 3);
  EXPECT_EQ(step.between(8, 64), 1);
  EXPECT_EQ(step.between(512, 4096), 1);
  const std::set<Index> none, only{64};
  EXPECT_EQ(Curve(
                grid, [](Index size) { return size < 100 ? 1.0 : 9.0; }, &none)
                .asked,
            grid);
  const Curve there(
      grid, [](Index size) { return size < 100 ? 1.0 : 9.0; }, &only);
  EXPECT_EQ(there.asked.size(), grid.size() + 3);
  EXPECT_EQ(there.between(64, 512), 3);
}

TEST(Bends, NeighboursHaveNothingBetween) {
  const Curve close({1, 2, 3, 4}, [](Index size) { return std::pow(10.0, static_cast<double>(size)); });
  EXPECT_EQ(close.asked.size(), 4U);
  EXPECT_THROW(Curve({8, 1}, [](Index) { return 1.0; }), BugError);
  EXPECT_THROW(Curve({0, 1}, [](Index) { return 1.0; }), BugError);
}

}  // namespace
}  // namespace rossby
