#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/exchange/traced.hpp"
#include "tests/lib/exchange/exchange_checks.hpp"
#include "tests/support/dry_run.hpp"

namespace rossby {
namespace {

using test::DryRunWorld;
using test::Players;

Players all_of(DryRunWorld& world, const RowPartition& partition, bool dense) {
  Players players;
  for (int p = 0; p < world.parts(); ++p) {
    players.parts.push_back(p);
    players.exchanges.push_back(&world.exchange(p));
    players.ghosts.push_back(dense ? test::all_positions(partition) : test::some_ghosts(partition, p));
  }
  return players;
}

std::vector<GhostList> ghosts_of_all(const RowPartition& partition) {
  std::vector<GhostList> ghosts;
  for (int p = 0; p < partition.parts(); ++p) ghosts.push_back(test::some_ghosts(partition, p));
  return ghosts;
}

TEST(OneRank, IsAnExchange) {
  for (const Index n : {0, 1, 13}) {
    const RowPartition partition = RowPartition::blocks(n, 1);
    OneRankExchange exchange(n);
    Players players;
    players.parts = {0};
    players.exchanges = {&exchange};
    players.ghosts = {{}};
    test::check_exchange(players, partition);
    EXPECT_EQ(exchange.sent(), Traffic{});
  }
}

class DryRun : public ::testing::TestWithParam<int> {};

TEST_P(DryRun, HaloIsAnExchange) {
  for (const test::Case& c : test::awkward_partitions(GetParam())) {
    SCOPED_TRACE(c.name);
    DryRunWorld world(c.partition, ghosts_of_all(c.partition));
    test::check_exchange(all_of(world, c.partition, false), c.partition);
  }
}

TEST_P(DryRun, DenseIsAnExchange) {
  for (const test::Case& c : test::awkward_partitions(GetParam())) {
    SCOPED_TRACE(c.name);
    DryRunWorld world = DryRunWorld::dense(c.partition);
    test::check_exchange(all_of(world, c.partition, true), c.partition);
  }
}

TEST_P(DryRun, TracedPortsCountAsItDoes) {
  for (const test::Case& c : test::awkward_partitions(GetParam())) {
    SCOPED_TRACE(c.name);
    DryRunWorld halo(c.partition, ghosts_of_all(c.partition)), dense = DryRunWorld::dense(c.partition);
    const std::vector<HaloCounts> counts = halo_counts(c.partition, ghosts_of_all(c.partition));
    for (int p = 0; p < GetParam(); ++p) {
      TracedHalo traced(counts[static_cast<std::size_t>(p)]);
      TracedAllRows all(c.partition, p);
      for (const auto& [real, port] : {std::pair<Exchange*, Exchange*>{&halo.exchange(p), &traced},
                                       std::pair<Exchange*, Exchange*>{&dense.exchange(p), &all}}) {
        EXPECT_EQ(port->owned(), real->owned());
        EXPECT_EQ(port->ghosts(), real->ghosts());
        for (const Index bytes : {0, 12}) {
          EXPECT_EQ(port->gather_cost(bytes), real->gather_cost(bytes));
          EXPECT_EQ(port->scatter_cost(bytes), real->scatter_cost(bytes));
        }
      }
      std::vector<float> owned(static_cast<std::size_t>(2 * traced.owned())),
          ghost(static_cast<std::size_t>(2 * traced.ghosts()), 1.0F);
      const NodeView<float> ghosts(ghost.data(), traced.ghosts(), 2, 1);
      traced.gather_begin(NodeView<const float>(owned.data(), traced.owned(), 2, 1), ghosts);
      traced.gather_end();
      EXPECT_EQ(traced.sent(), traced.gather_cost(8));
      EXPECT_EQ(ghost, std::vector<float>(ghost.size(), 0.0F));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, DryRun, ::testing::Values(1, 2, 3, 4, 7));

TEST(DryRunCounts, AreThoseOfTheRowsThatTravel) {
  // Parts own 0-1, 2-3, 4. Part 0 needs 2, 3, 4; part 1 needs 4; part 2 needs 0.
  const RowPartition partition = RowPartition::blocks(5, 3);
  DryRunWorld world(partition, {{Position{2}, Position{3}, Position{4}}, {Position{4}}, {Position{0}}});
  EXPECT_EQ(world.exchange(0).gather_cost(10), (Traffic{1, 10}));
  EXPECT_EQ(world.exchange(1).gather_cost(10), (Traffic{1, 20}));
  EXPECT_EQ(world.exchange(2).gather_cost(10), (Traffic{2, 20}));
  EXPECT_EQ(world.exchange(0).scatter_cost(10), (Traffic{2, 30}));
  EXPECT_EQ(world.exchange(1).scatter_cost(10), (Traffic{1, 10}));
  EXPECT_EQ(world.exchange(2).scatter_cost(10), (Traffic{1, 10}));
  EXPECT_EQ(world.exchange(2).gather_cost(0), Traffic{});

  DryRunWorld dense = DryRunWorld::dense(partition);
  EXPECT_EQ(dense.exchange(2).gather_cost(10), (Traffic{2, 20}));
  EXPECT_EQ(dense.exchange(2).scatter_cost(10), (Traffic{2, 40}));
}

/// Five rows over two parts; part 0 needs row 4.
struct TwoParts {
  RowPartition partition = RowPartition::blocks(5, 2);
  DryRunWorld world{partition, {{Position{4}}, {}}};
  double a[3] = {1, 2, 3};
  double b[2] = {4, 5};
  double ghost[1] = {0};
  void begin_0() {
    world.exchange(0).gather_begin(NodeView<const double>(a, 3, 1, 1), NodeView<double>(ghost, 1, 1, 1));
  }
  void begin_1() {
    world.exchange(1).gather_begin(NodeView<const double>(b, 2, 1, 1), NodeView<double>(nullptr, 0, 1, 1));
  }
};

TEST(DryRunOrder, AnEndBeforeAllHaveBegunIsABug) {
  TwoParts t;
  t.begin_0();
  EXPECT_THROW(t.world.exchange(0).gather_end(), BugError);
  t.begin_1();
  t.world.exchange(0).gather_end();
  EXPECT_EQ(t.ghost[0], 5);
}

TEST(DryRunOrder, AnEndWithoutABeginIsABug) {
  TwoParts t;
  EXPECT_THROW(t.world.exchange(0).gather_end(), BugError);
  t.begin_0();
  EXPECT_THROW(t.begin_0(), BugError);
  EXPECT_THROW(t.world.exchange(0).scatter_add_end(), BugError);
}

TEST(DryRunOrder, RanksThatBeginDifferentThingsAreABug) {
  TwoParts t;
  t.begin_0();
  EXPECT_THROW(t.world.exchange(1).scatter_add_begin(NodeView<const double>(nullptr, 0, 1, 1),
                                                     NodeView<double>(t.b, 2, 1, 1)),
               BugError);
}

TEST(DryRunOrder, ARankMayGoOnWhileOthersHaveNotEnded) {
  TwoParts t;
  t.begin_0();
  t.begin_1();
  t.world.exchange(1).gather_end();
  t.b[1] = 50;  // its own again after `end`
  t.begin_1();
  t.world.exchange(0).gather_end();
  EXPECT_EQ(t.ghost[0], 5);
  t.begin_0();
  t.world.exchange(0).gather_end();
  EXPECT_EQ(t.ghost[0], 50);
  EXPECT_EQ(t.world.exchange(1).sent(), (Traffic{2, 16}));
}

}  // namespace
}  // namespace rossby
