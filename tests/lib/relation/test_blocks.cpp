#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/relation_block.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

constexpr int relations = 2;

std::vector<Edge> random_edges(Index n) {
  std::vector<Edge> edges;
  const Random random(61, "edges");
  std::uint64_t counter = 0;
  for (int k = 0; k < relations; ++k)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        if (std::abs(i - j) < 4 && random.uniform(counter++) < 0.5)
          edges.push_back({j, i, k, random.uniform(counter++, 0.1, 1)});
  return edges;
}

/// Calls `visit` for every part of every partition of a few sizes, with the edges of that part.
template <class Visit>
void each_part(const Visit& visit) {
  for (const Index n : {0, 1, 2, 5, 23})
    for (const int parts : test::part_counts)
      for (const RowPartition& partition : test::partitions(n, parts)) {
        const auto edges = random_edges(n);
        const auto blocks = test::on_parts(parts, [&](Mailbox& mailbox) {
          return from_edge_list(test::slice(edges, mailbox.part(), parts), relations, partition, mailbox);
        });
        for (int p = 0; p < parts; ++p) visit(blocks[static_cast<std::size_t>(p)], partition, p);
      }
}

GhostList ghosts_of(const GlobalEdges& edges, const RowPartition& partition, int part) {
  const GlobalEdges* group = &edges;
  return collect_ghosts(partition, part, {&group, 1});
}

TEST(CollectGhosts, AreTheForeignColumnsOnceByPosition) {
  each_part([](const GlobalEdges& edges, const RowPartition& partition, int part) {
    std::set<Index> expected;
    for (const GlobalRow column : edges.column)
      if (partition.owner(column) != part) expected.insert(partition.position(column).value);
    const GhostList ghosts = ghosts_of(edges, partition, part);
    ASSERT_EQ(ghosts.size(), expected.size());
    auto it = expected.begin();
    for (const Position ghost : ghosts) EXPECT_EQ(ghost.value, *it++);
  });
}

TEST(CollectGhosts, OfGroupsTogetherAreTheirUnion) {
  const auto partition = RowPartition::blocks(6, 2);
  GlobalEdges a, b;
  a.rows = b.rows = 3;
  a.relations = b.relations = 1;
  a.ptr = {0, 1, 2, 2};
  a.column = {GlobalRow{1}, GlobalRow{5}};
  a.value = {1, 1};
  b.ptr = {0, 0, 2, 2};
  b.column = {GlobalRow{3}, GlobalRow{5}};
  b.value = {1, 1};
  const GlobalEdges* const groups[] = {&a, &b};
  EXPECT_EQ(collect_ghosts(partition, 0, groups), (GhostList{Position{3}, Position{5}}));
}

TEST(CsrBlock, LocalColumnsNameTheSameNodes) {
  each_part([](const GlobalEdges& edges, const RowPartition& partition, int part) {
    const GhostList ghosts = ghosts_of(edges, partition, part);
    const CsrBlock block = localise(edges, partition, part, ghosts);
    EXPECT_EQ(block.rows, partition.size(part));
    EXPECT_EQ(block.ghosts, static_cast<Index>(ghosts.size()));
    EXPECT_EQ(std::vector<Index>(block.ptr.begin(), block.ptr.end()), edges.ptr);
    EXPECT_EQ(block.value, edges.value);
    for (std::size_t e = 0; e < edges.column.size(); ++e) {
      const LocalColumn c = block.column[e];
      ASSERT_LT(c, block.columns());
      const Position position = c < block.rows ? Position{partition.begin(part) + c}
                                               : ghosts[static_cast<std::size_t>(c - block.rows)];
      EXPECT_EQ(partition.global(position), edges.column[e]);
    }
  });
}

TEST(CsrBlock, EveryRowIsInteriorOrBoundary) {
  each_part([](const GlobalEdges& edges, const RowPartition& partition, int part) {
    const CsrBlock block = localise(edges, partition, part, ghosts_of(edges, partition, part));
    std::vector<LocalColumn> interior, boundary;
    for (Index i = 0; i < block.rows; ++i) {
      bool ghost = false;
      for (int k = 0; k < relations; ++k)
        for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e)
          ghost = ghost || partition.owner(edges.column[static_cast<std::size_t>(e)]) != part;
      (ghost ? boundary : interior).push_back(static_cast<LocalColumn>(i));
    }
    EXPECT_EQ(block.interior, interior);
    EXPECT_EQ(block.boundary, boundary);
  });
}

TEST(CsrBlock, TheTransposedIndexHoldsEachEntryOnceInItsColumn) {
  each_part([](const GlobalEdges& edges, const RowPartition& partition, int part) {
    const CsrBlock block = localise(edges, partition, part, ghosts_of(edges, partition, part));
    ASSERT_EQ(block.t_ptr.size(), static_cast<std::size_t>(block.columns() * relations) + 1);
    ASSERT_EQ(block.t_ptr.back(), block.entries());
    std::vector<int> seen(block.column.size(), 0);
    for (Index c = 0; c < block.columns(); ++c)
      for (int k = 0; k < relations; ++k) {
        const auto list = static_cast<std::size_t>(c * relations + k);
        for (Index t = block.t_ptr[list]; t < block.t_ptr[list + 1]; ++t) {
          const Index e = block.t_entry[static_cast<std::size_t>(t)];
          EXPECT_EQ(block.relation[static_cast<std::size_t>(e)],
                    block.t_relation[static_cast<std::size_t>(t)]);
          EXPECT_EQ(block.t_relation[static_cast<std::size_t>(t)], k);
          const LocalColumn i = block.t_row[static_cast<std::size_t>(t)];
          ++seen.at(static_cast<std::size_t>(e));
          EXPECT_EQ(block.column[static_cast<std::size_t>(e)], c);
          EXPECT_GE(e, edges.begin(i, k));
          EXPECT_LT(e, edges.end(i, k));
          if (t > block.t_ptr[list]) {
            EXPECT_LT(block.t_row[static_cast<std::size_t>(t) - 1], i) << "rows ascend inside a list";
          }
        }
      }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  });
}

TEST(CsrBlock, RefusesAColumnThatIsNeitherOwnedNorAGhost) {
  const auto partition = RowPartition::blocks(4, 2);
  GlobalEdges edges;
  edges.rows = 2;
  edges.relations = 1;
  edges.ptr = {0, 1, 1};
  edges.column = {GlobalRow{3}};
  edges.value = {1};
  EXPECT_THROW((void)localise(edges, partition, 0, {Position{2}}), BugError);
  EXPECT_NO_THROW((void)localise(edges, partition, 0, {Position{3}}));
}

}  // namespace
}  // namespace rossby
