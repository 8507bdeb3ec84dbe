#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

using test::Lists;
using Matrix = std::vector<std::vector<double>>;

std::vector<Edge> random_edges(Index n, int relations, double density) {
  std::vector<Edge> edges;
  const Random random(53, "edges");
  std::uint64_t counter = 0;
  for (int k = 0; k < relations; ++k)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        if (random.uniform(counter++) < density)
          edges.push_back({j, i, k, random.uniform(counter++, 0.1, 1)});
  return edges;
}

Matrix dense(const std::vector<Edge>& edges, Index n, int relation) {
  Matrix w(static_cast<std::size_t>(n), std::vector<double>(static_cast<std::size_t>(n), 0.0));
  for (const Edge& edge : edges)
    if (edge.relation == relation)
      w[static_cast<std::size_t>(edge.destination)][static_cast<std::size_t>(edge.source)] += edge.weight;
  return w;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.size(), std::vector<double>(a.size(), 0.0));
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a.size(); ++j)
      for (std::size_t l = 0; l < a.size(); ++l) c[i][l] += a[i][j] * b[j][l];
  return c;
}

std::vector<GlobalEdges> build(const std::vector<Edge>& edges, int relations, const std::vector<int>& hops,
                               const RowPartition& partition) {
  return test::on_parts(partition.parts(), [&](Mailbox& mailbox) {
    const auto own =
        from_edge_list(test::slice(edges, mailbox.part(), mailbox.parts()), relations, partition, mailbox);
    return powers(own, hops, partition, mailbox);
  });
}

TEST(Powers, AreThoseOfTheDenseMatrices) {
  const int relations = 2;
  for (const Index n : {1, 2, 5, 19})
    for (const std::vector<int>& hops : {std::vector<int>{1}, {2}, {1, 2, 4}, {3, 5}}) {
      const auto edges = random_edges(n, relations, 0.25);
      const auto partition = RowPartition::blocks(n, 1);
      const auto blocks = build(edges, relations, hops, partition);
      ASSERT_EQ(blocks[0].relations, relations * static_cast<int>(hops.size()));
      const Lists lists = test::united(blocks, partition);
      for (int k = 0; k < relations; ++k) {
        const Matrix w = dense(edges, n, k);
        Matrix power = w;
        int exponent = 1;
        for (std::size_t h = 0; h < hops.size(); ++h) {
          for (; exponent < hops[h]; ++exponent) power = product(power, w);
          for (std::size_t i = 0; i < power.size(); ++i) {
            Matrix row(1, std::vector<double>(power.size(), 0.0));
            for (const auto& [j, value] : lists[i][h * relations + static_cast<std::size_t>(k)]) {
              EXPECT_NE(value, 0.0);
              row[0][static_cast<std::size_t>(j)] = value;
            }
            for (std::size_t j = 0; j < power.size(); ++j)
              EXPECT_NEAR(row[0][j], power[i][j], 1e-13 * std::abs(power[i][j]))
                  << "W_" << k << "^" << hops[h];
          }
        }
      }
    }
}

TEST(Powers, AreTheSameAtEveryNumberOfPartsToTheLastBit) {
  const std::vector<int> hops{1, 2, 4};
  for (const Index n : {1, 2, 5, 23}) {
    const auto edges = random_edges(n, 3, 0.15);
    const auto one = RowPartition::blocks(n, 1);
    const Lists expected = test::united(build(edges, 3, hops, one), one);
    for (const int parts : test::part_counts)
      for (const RowPartition& partition : test::partitions(n, parts))
        ASSERT_EQ(test::united(build(edges, 3, hops, partition), partition), expected)
            << n << " nodes, " << parts << " parts";
  }
}

TEST(Powers, ProductsThatCancelAreNoEntry) {
  // Node 0 reaches 3 over 1 and over 2, with opposite signs.
  const std::vector<Edge> edges{{1, 0, 0, 1}, {2, 0, 0, 1}, {3, 1, 0, 0.5}, {3, 2, 0, -0.5}, {0, 1, 0, 1}};
  const auto partition = RowPartition::blocks(4, 1);
  const Lists lists = test::united(build(edges, 1, {2}, partition), partition);
  EXPECT_EQ(lists[0][0], (test::List{{0, 1.0}}));
}

TEST(Powers, OfAOneWayPathEndAfterItsLength) {
  std::vector<Edge> edges;
  for (Index i = 0; i + 1 < 5; ++i) edges.push_back({i, i + 1, 0, 1});
  for (const int parts : test::part_counts) {
    const auto partition = RowPartition::blocks(5, parts);
    const Lists lists = test::united(build(edges, 1, {4, 5}, partition), partition);
    EXPECT_EQ(lists[4][0], (test::List{{0, 1.0}}));
    for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(lists[i][0].empty());
    for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(lists[i][1].empty());
  }
}

/// Counts received bytes: a part receives only the rows that its products need.
class CountingMailbox final : public Mailbox {
 public:
  explicit CountingMailbox(Mailbox& inner) : inner_(inner) {}
  [[nodiscard]] int part() const override { return inner_.part(); }
  [[nodiscard]] int parts() const override { return inner_.parts(); }
  [[nodiscard]] std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> letters) override {
    auto received = inner_.swap(std::move(letters));
    for (const auto& letter : received) bytes += letter.size();
    return received;
  }
  std::size_t bytes = 0;

 private:
  Mailbox& inner_;
};

TEST(Powers, FetchEachRowOfTheNeighbourhoodOnceAndNoOther) {
  // A ring of 1000 nodes in 4 blocks: W^4 of a block needs the 3 nearest foreign rows on each side.
  const Index n = 1000;
  std::vector<Edge> edges;
  for (Index i = 0; i < n; ++i) {
    edges.push_back({(i + 1) % n, i, 0, 0.5});
    edges.push_back({(i + n - 1) % n, i, 0, 0.5});
  }
  const auto partition = RowPartition::blocks(n, 4);
  const auto bytes = test::on_parts(4, [&](Mailbox& mailbox) {
    const auto own = from_edge_list(test::slice(edges, mailbox.part(), 4), 1, partition, mailbox);
    CountingMailbox counting(mailbox);
    const std::vector<int> hops{4};
    (void)powers(own, hops, partition, counting);
    return counting.bytes;
  });
  // Each part requests six rows and sends six. A request has 8 bytes, an answer a count and two entries of 16
  // bytes. Each of the four parts also receives a flag: are all values finite?
  for (const std::size_t b : bytes) EXPECT_EQ(b, 6u * 8 + 6u * (8 + 2 * 16) + 4u * 4);
}

TEST(Powers, RefuseOnAllPartsWhatGrowsBeyondAllNumbers) {
  // Only the last part holds the edge whose powers overflow.
  const std::vector<Edge> edges{{0, 1, 0, 1}, {5, 5, 0, 1e30}};
  const auto partition = RowPartition::blocks(6, 3);
  for (const int hop : {2, 11}) {
    const auto outcomes = test::outcomes_of_parts(3, [&](Mailbox& mailbox) {
      const auto own = from_edge_list(test::slice(edges, mailbox.part(), 3), 1, partition, mailbox);
      return powers(own, std::vector<int>{1, hop}, partition, mailbox);
    });
    for (const auto& outcome : outcomes) EXPECT_EQ(outcome.error != nullptr, hop == 11);
  }
}

TEST(Powers, RefuseListsThatDoNotAscend) {
  const auto partition = RowPartition::blocks(2, 1);
  OneMailbox mailbox;
  const auto own = from_edge_list(std::vector<Edge>{{0, 1, 0, 1}}, 1, partition, mailbox);
  for (const std::vector<int>& hops : {std::vector<int>{}, {0}, {2, 1}, {1, 1}, {-3}})
    EXPECT_THROW((void)powers(own, hops, partition, mailbox), UserError);
}

}  // namespace
}  // namespace rossby
