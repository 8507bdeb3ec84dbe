#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

using test::Lists;

/// Random edges with duplicates. The sums of their weights depend on the order.
std::vector<Edge> random_edges(Index n, int relations, std::size_t count) {
  std::vector<Edge> edges;
  const Random random(41, "edges");
  if (n == 0 || relations == 0) return edges;
  for (std::size_t e = 0; e < count; ++e)
    edges.push_back({static_cast<Index>(random.bits(4 * e) % static_cast<std::uint64_t>(n)),
                     static_cast<Index>(random.bits(4 * e + 1) % static_cast<std::uint64_t>(n)),
                     static_cast<int>(random.bits(4 * e + 2) % static_cast<std::uint64_t>(relations)),
                     random.uniform(4 * e + 3, -1, 1)});
  return edges;
}

Lists by_map(const std::vector<Edge>& edges, Index n, int relations) {
  std::vector<std::map<Index, double>> rows(static_cast<std::size_t>(n * relations));
  for (const Edge& edge : edges)
    rows[static_cast<std::size_t>(edge.destination * relations + edge.relation)][edge.source] += edge.weight;
  Lists lists(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    test::List list;
    for (const auto& [column, weight] : rows[i])
      if (weight != 0) list.emplace_back(column, weight);
    lists[i / static_cast<std::size_t>(relations)].push_back(list);
  }
  return lists;
}

std::vector<GlobalEdges> build(const std::vector<Edge>& edges, int relations, const RowPartition& partition) {
  return test::on_parts(partition.parts(), [&](Mailbox& mailbox) {
    return from_edge_list(test::slice(edges, mailbox.part(), mailbox.parts()), relations, partition, mailbox);
  });
}

TEST(EdgeList, IsTheSameAtEveryNumberOfPartsToTheLastBit) {
  for (const Index n : {1, 2, 5, 17})
    for (const int relations : {1, 3})
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{400}}) {
        const auto edges = random_edges(n, relations, count);
        const Lists expected = by_map(edges, n, relations);
        for (const int parts : test::part_counts)
          for (const RowPartition& partition : test::partitions(n, parts))
            ASSERT_EQ(test::united(build(edges, relations, partition), partition), expected)
                << n << " nodes, " << count << " edges, " << parts << " parts";
      }
}

TEST(EdgeList, NoNodesAndNoEdgesAreFine) {
  for (const int parts : test::part_counts)
    for (const GlobalEdges& block : build({}, 2, RowPartition::blocks(0, parts))) {
      EXPECT_EQ(block.entries(), 0);
      EXPECT_EQ(block.ptr.size(), 1u);
    }
}

TEST(EdgeList, TheSourceIsTheColumn) {
  const std::vector<Edge> edges{{2, 0, 0, 0.5}};
  const auto block = build(edges, 1, RowPartition::blocks(3, 1)).front();
  ASSERT_EQ(block.entries(), 1);
  EXPECT_EQ(block.column[0], GlobalRow{2});
  EXPECT_EQ(block.end(0, 0), 1);
}

TEST(EdgeList, DuplicatesThatCancelAreNoEntry) {
  const std::vector<Edge> edges{{1, 0, 0, 0.25}, {2, 0, 0, 1}, {1, 0, 0, -0.25}, {0, 1, 0, 0}};
  const auto block = build(edges, 1, RowPartition::blocks(3, 1)).front();
  ASSERT_EQ(block.entries(), 1);
  EXPECT_EQ(block.column[0], GlobalRow{2});
}

TEST(EdgeList, NamesTheFirstBadEdgeOnAllParts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  struct Case {
    Edge edge;
    std::string says;
  };
  const std::vector<Case> cases{{{-1, 0, 0, 1}, "source node -1"},  {{0, 10, 0, 1}, "destination node 10"},
                                {{0, 0, 2, 1}, "relation 2"},       {{0, 0, -1, 1}, "relation -1"},
                                {{0, 0, 0, nan}, "weight nan"},     {{0, 0, 0, infinity}, "weight inf"},
                                {{0, 0, 0, -1e31}, "weight -1e+31"}};
  for (const Case& bad : cases)
    for (const int parts : test::part_counts) {
      auto edges = random_edges(10, 2, 30);
      edges[23] = bad.edge;
      edges[29] = bad.edge;
      const auto partition = RowPartition::blocks(10, parts);
      const auto outcomes = test::outcomes_of_parts(parts, [&](Mailbox& mailbox) {
        return from_edge_list(test::slice(edges, mailbox.part(), mailbox.parts()), 2, partition, mailbox);
      });
      for (const auto& outcome : outcomes) {
        ASSERT_TRUE(outcome.error) << "every part must throw";
        try {
          std::rethrow_exception(outcome.error);
        } catch (const UserError& error) {
          EXPECT_NE(std::string(error.what()).find("edge 23 has " + bad.says), std::string::npos)
              << error.what();
        }
      }
    }
}

TEST(SelfLoops, AreSetInEveryRowOfEveryRelation) {
  const Index n = 13;
  auto edges = random_edges(n, 2, 60);
  edges.push_back({4, 4, 1, 0.75});
  for (const double weight : {0.5, 0.0}) {
    Lists expected = by_map(edges, n, 2);
    for (std::size_t i = 0; i < expected.size(); ++i)
      for (auto& list : expected[i]) {
        std::erase_if(list, [&](const auto& entry) { return entry.first == static_cast<Index>(i); });
        if (weight != 0) list.emplace_back(static_cast<Index>(i), weight);
        std::sort(list.begin(), list.end());
      }
    for (const int parts : test::part_counts)
      for (const RowPartition& partition : test::partitions(n, parts)) {
        auto blocks = build(edges, 2, partition);
        for (int p = 0; p < parts; ++p) {
          auto& block = blocks[static_cast<std::size_t>(p)];
          block = with_self_loops(block, weight, partition, p);
        }
        EXPECT_EQ(test::united(blocks, partition), expected);
      }
  }
}

TEST(Normalise, RowsSumToOneAndEmptyOnesStayEmpty) {
  // Row 1 is empty, row 2 sums to zero, row 3 has negative weights.
  const std::vector<Edge> edges{{0, 0, 0, 1},    {1, 0, 0, 2},  {2, 0, 0, 5}, {0, 2, 0, 0.5},
                                {1, 2, 0, -0.5}, {0, 3, 0, -2}, {1, 3, 0, 4}, {3, 0, 1, 7}};
  auto block = build(edges, 2, RowPartition::blocks(4, 1)).front();
  normalise_rows(block);
  const auto lists = test::united({block}, RowPartition::blocks(4, 1));
  EXPECT_EQ(lists[0][0], (test::List{{0, 1.0 / 8}, {1, 2.0 / 8}, {2, 5.0 / 8}}));
  EXPECT_EQ(lists[0][1], (test::List{{3, 1.0}}));
  EXPECT_TRUE(lists[1][0].empty());
  EXPECT_EQ(lists[2][0], (test::List{{0, 0.5}, {1, -0.5}}));
  EXPECT_EQ(lists[3][0], (test::List{{0, -1.0}, {1, 2.0}}));
  // The sum is zero up to rounding: dividing by it would give infinity.
  auto cancelled =
      build({{0, 0, 0, 1e30}, {1, 0, 0, -1e30}, {2, 0, 0, 1e-300}}, 1, RowPartition::blocks(3, 1)).front();
  const auto before = cancelled.value;
  normalise_rows(cancelled);
  EXPECT_EQ(cancelled.value, before);
  GlobalEdges nothing;
  nothing.ptr = {0};
  normalise_rows(nothing);
  EXPECT_EQ(nothing.entries(), 0);
}

TEST(Stack, KeepsGroupsInOrder) {
  const Index n = 6;
  const auto one = random_edges(n, 1, 9);
  const auto three = random_edges(n, 3, 30);
  const auto first = by_map(one, n, 1);
  const auto second = by_map(three, n, 3);
  Lists expected = first;
  for (std::size_t i = 0; i < expected.size(); ++i)
    expected[i].insert(expected[i].end(), second[i].begin(), second[i].end());
  for (const int parts : test::part_counts)
    for (const RowPartition& partition : test::partitions(n, parts)) {
      const auto a = build(one, 1, partition);
      const auto b = build(three, 3, partition);
      std::vector<GlobalEdges> blocks;
      for (std::size_t p = 0; p < a.size(); ++p) {
        const GlobalEdges* const groups[] = {&a[p], &b[p]};
        blocks.push_back(stack(groups));
      }
      EXPECT_EQ(blocks.front().relations, 4);
      EXPECT_EQ(test::united(blocks, partition), expected);
    }
}

}  // namespace
}  // namespace rossby
