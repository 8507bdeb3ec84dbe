#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/row_cost.hpp"
#include "rossby/relation/row_partition.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

void expect_consistent(const RowPartition& partition) {
  Index seen = 0;
  std::vector<bool> taken(static_cast<std::size_t>(partition.rows()), false);
  for (int p = 0; p < partition.parts(); ++p) {
    EXPECT_EQ(partition.begin(p), seen);
    const auto rows = partition.rows_of(p);
    ASSERT_EQ(static_cast<Index>(rows.size()), partition.size(p));
    const auto ascending = partition.by_global_row(p);
    ASSERT_EQ(ascending.size(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(rows[static_cast<std::size_t>(ascending[i - 1])],
                  rows[static_cast<std::size_t>(ascending[i])]);
      }
      ASSERT_FALSE(taken[static_cast<std::size_t>(rows[i].value)]);
      taken[static_cast<std::size_t>(rows[i].value)] = true;
      const Position position{partition.begin(p) + static_cast<Index>(i)};
      EXPECT_EQ(partition.position(rows[i]), position);
      EXPECT_EQ(partition.global(position), rows[i]);
      EXPECT_EQ(partition.owner(position), p);
      EXPECT_EQ(partition.owner(rows[i]), p);
    }
    seen += partition.size(p);
  }
  EXPECT_EQ(seen, partition.rows());
}

TEST(RowPartition, NumberingIsConsistentAtEverySize) {
  for (const Index n : {0, 1, 2, 3, 5, 7, 31, 100})
    for (const int parts : test::part_counts)
      for (const RowPartition& partition : test::partitions(n, parts)) expect_consistent(partition);
}

TEST(RowPartition, EqualBlocksGiveTheFirstOnesTheRest) {
  const auto partition = RowPartition::blocks(11, 4);
  EXPECT_EQ(partition.size(0), 3);
  EXPECT_EQ(partition.size(1), 3);
  EXPECT_EQ(partition.size(2), 3);
  EXPECT_EQ(partition.size(3), 2);
  EXPECT_TRUE(partition.identity());
}

TEST(RowPartition, KeepsTheOwnersItIsGiven) {
  const std::vector<int> owners{2, 0, 2, 1, 0, 2, 0};
  const auto partition = RowPartition::from_owners(owners, 4);
  EXPECT_FALSE(partition.identity());
  for (std::size_t i = 0; i < owners.size(); ++i)
    EXPECT_EQ(partition.owner(GlobalRow{static_cast<Index>(i)}), owners[i]);
  EXPECT_EQ(partition.size(3), 0);
  EXPECT_TRUE(RowPartition::from_owners(std::vector<int>{0, 0, 1, 3}, 4).identity());
}

TEST(RowPartition, ReordersRowsInsideTheirParts) {
  const auto owners = RowPartition::from_owners(std::vector<int>{1, 0, 1, 0, 1}, 2);
  const auto partition = owners.reordered(std::vector<Index>{3, 1, 4, 0, 2});
  EXPECT_EQ(partition.position(GlobalRow{4}).value, 2);
  EXPECT_EQ(partition.global(Position{3}).value, 0);
  EXPECT_EQ(partition.by_global_row(0), (std::vector<Index>{1, 0}));
  EXPECT_EQ(partition.by_global_row(1), (std::vector<Index>{1, 2, 0}));
  for (Index row = 0; row < 5; ++row)
    EXPECT_EQ(partition.owner(GlobalRow{row}), owners.owner(GlobalRow{row})) << row;
  const auto blocks = RowPartition::blocks(5, 2);
  EXPECT_FALSE(blocks.reordered(std::vector<Index>{2, 1, 0, 3, 4}).identity());
  EXPECT_TRUE(blocks.reordered(std::vector<Index>{0, 1, 2, 3, 4}).identity());
  EXPECT_THROW((void)blocks.reordered(std::vector<Index>{0, 1, 3, 2, 4}), BugError);
  EXPECT_THROW((void)blocks.reordered(std::vector<Index>{0, 1, 1, 3, 4}), BugError);
  EXPECT_THROW((void)blocks.reordered(std::vector<Index>{0, 1, 2}), BugError);
}

TEST(RowPartition, RefusesOwnersThatAreNotParts) {
  for (const int bad : {-1, 3}) {
    const std::vector<int> owners{0, 1, bad};
    try {
      RowPartition::from_owners(owners, 3);
      ADD_FAILURE() << "owner " << bad << " must be refused";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("node 2"), std::string::npos) << error.what();
    }
  }
}

TEST(RowPartition, BalancesWeights) {
  std::vector<double> weights(100, 1.0);
  for (std::size_t i = 0; i < 20; ++i) weights[i] = 9;  // 180 + 80 = 260
  const auto partition = RowPartition::blocks(100, 4, weights);
  for (int p = 0; p < 4; ++p) {
    double sum = 0;
    for (Index i = partition.begin(p); i < partition.end(p); ++i) sum += weights[static_cast<std::size_t>(i)];
    EXPECT_NEAR(sum, 65, 9) << "part " << p;
  }
}

TEST(RowPartition, ABlockIsEmptyOnlyWhereRowsAreFewerThanParts) {
  for (const Index n : {0, 1, 3, 7, 8, 20})
    for (const int parts : test::part_counts)
      for (const Index heavy : {Index{0}, n / 2, n - 1}) {
        if (heavy < 0) continue;
        std::vector<double> weights(static_cast<std::size_t>(n), 1.0);
        if (n > 0) weights[static_cast<std::size_t>(heavy)] = 1e6;
        const auto partition = RowPartition::blocks(n, parts, weights);
        expect_consistent(partition);
        for (int p = 0; p < parts; ++p) {
          if (n >= parts) {
            EXPECT_GE(partition.size(p), 1) << n << " rows, part " << p << " of " << parts;
          } else {
            EXPECT_LE(partition.size(p), 1) << n << " rows, part " << p << " of " << parts;
          }
        }
      }
}

TEST(RowPartition, ZeroWeightsMeanEqualCounts) {
  const std::vector<double> weights(10, 0.0);
  const auto partition = RowPartition::blocks(10, 5, weights);
  for (int p = 0; p < 5; ++p) EXPECT_EQ(partition.size(p), 2);
  const std::vector<double> bad{1, std::numeric_limits<double>::quiet_NaN()};
  EXPECT_THROW(RowPartition::blocks(2, 2, bad), BugError);
}

TEST(RowCost, CountsRowsAndEntries) {
  GlobalEdges edges;
  edges.rows = 3;
  edges.relations = 2;
  edges.ptr = {0, 1, 3, 3, 3, 4, 4};
  edges.column.resize(4);
  edges.value.resize(4);
  EXPECT_EQ(row_costs(edges, 10, 2), (std::vector<double>{16, 10, 12}));
}

TEST(RowCost, GathersByGlobalRow) {
  for (const Index n : {0, 1, 5, 23})
    for (const int parts : test::part_counts)
      for (const RowPartition& partition : test::partitions(n, parts)) {
        std::vector<double> expected(static_cast<std::size_t>(n));
        std::iota(expected.begin(), expected.end(), 0.5);
        const auto gathered = test::on_parts(parts, [&](Mailbox& mailbox) {
          std::vector<double> owned;
          for (const GlobalRow row : partition.rows_of(mailbox.part()))
            owned.push_back(static_cast<double>(row.value) + 0.5);
          return gather_by_global_row(owned, partition, mailbox);
        });
        for (const auto& values : gathered) EXPECT_EQ(values, expected);
      }
}

}  // namespace
}  // namespace rossby
