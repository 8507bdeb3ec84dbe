#include <cstring>

#include <gtest/gtest.h>
#include <mpi.h>

#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "tests/lib/exchange/exchange_checks.hpp"
#include "tests/mpi/message_count.hpp"
#include "tests/support/dry_run.hpp"

namespace rossby {
namespace {

using test::Case;
using test::DryRunWorld;
using test::Players;

Players me(Exchange& exchange, GhostList ghosts, MpiReducer& reducer) {
  Players players;
  players.parts = {Communicator::world().rank()};
  players.exchanges = {&exchange};
  players.ghosts = {std::move(ghosts)};
  players.sum = [&reducer](double x) {
    reducer.sum(std::span<double>(&x, 1));
    return x;
  };
  return players;
}

/// The same exchange in a dry run of all ranks.
struct Pretended {
  DryRunWorld world;
  Players players;
  Pretended(const RowPartition& partition, bool dense)
      : world(dense ? DryRunWorld::dense(partition) : DryRunWorld(partition, lists(partition))) {
    for (int p = 0; p < partition.parts(); ++p) {
      players.parts.push_back(p);
      players.exchanges.push_back(&world.exchange(p));
      players.ghosts.push_back(dense ? test::all_positions(partition) : test::some_ghosts(partition, p));
    }
  }
  static std::vector<GhostList> lists(const RowPartition& partition) {
    std::vector<GhostList> ghosts;
    for (int p = 0; p < partition.parts(); ++p) ghosts.push_back(test::some_ghosts(partition, p));
    return ghosts;
  }
};

/// Returns this rank's slice of scatter_bits over all parts of a dry run.
template <class T>
std::vector<T> my_slice(const std::vector<T>& all, const RowPartition& partition, Index width) {
  const int rank = Communicator::world().rank();
  return {all.begin() + partition.begin(rank) * width, all.begin() + partition.end(rank) * width};
}

template <class T>
void expect_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Real exchange and dry run: both pass the checks, with equal bits and counts.
void compare(Exchange& real, bool dense, const RowPartition& partition) {
  const Communicator world = Communicator::world();
  MpiReducer reducer(world);
  const int rank = world.rank();
  Pretended pretended(partition, dense);
  const auto mine = static_cast<std::size_t>(rank);
  const Players players = me(real, pretended.players.ghosts[mine], reducer);
  ASSERT_EQ(real.owned(), partition.size(rank));
  ASSERT_EQ(real.ghosts(), static_cast<Index>(pretended.players.ghosts[mine].size()));

  test::check_exchange(players, partition);
  test::check_exchange(pretended.players, partition);
  expect_same_bits(test::scatter_bits<float>(players, partition, 3, 5),
                   my_slice(test::scatter_bits<float>(pretended.players, partition, 3, 5), partition, 15));
  expect_same_bits(test::scatter_bits<double>(players, partition, 1, 2),
                   my_slice(test::scatter_bits<double>(pretended.players, partition, 1, 2), partition, 2));

  const Exchange& dry = pretended.world.exchange(rank);
  EXPECT_EQ(real.gather_cost(12), dry.gather_cost(12));
  EXPECT_EQ(real.scatter_cost(12), dry.scatter_cost(12));
  EXPECT_EQ(real.sent(), dry.sent());
  if (partition.rows() == 64 && world.size() > 1) {
    EXPECT_GT(real.sent().bytes, 0);
  }
}

TEST(NeighbourExchange, EqualsTheDryRun) {
  const Communicator world = Communicator::world();
  for (const Case& c : test::awkward_partitions(world.size())) {
    SCOPED_TRACE(c.name);
    NeighbourExchange exchange(world, c.partition, world.rank(),
                               test::some_ghosts(c.partition, world.rank()));
    compare(exchange, false, c.partition);
  }
}

TEST(AllgatherExchange, EqualsTheDryRun) {
  const Communicator world = Communicator::world();
  for (const Case& c : test::awkward_partitions(world.size())) {
    SCOPED_TRACE(c.name);
    AllgatherExchange exchange(world, c.partition, world.rank());
    compare(exchange, true, c.partition);
  }
}

/// The exchange counts exactly the messages that it gives to MPI.
TEST(NeighbourExchange, CountsWhatMpiSends) {
  const Communicator world = Communicator::world();
  for (const Case& c : test::awkward_partitions(world.size())) {
    SCOPED_TRACE(c.name);
    const GhostList ghosts = test::some_ghosts(c.partition, world.rank());
    NeighbourExchange exchange(world, c.partition, world.rank(), ghosts);
    for (const Index width : {7, 3, 7}) {
      test::Data<float> owned(exchange.owned(), 1, width, false);
      test::Data<float> ghost(exchange.ghosts(), 1, width, false);
      const Traffic before = exchange.sent();
      test::reset_message_count();
      exchange.gather(NodeView<const float>(owned.view), ghost.view);
      EXPECT_EQ(test::messages_sent(), exchange.gather_cost(4 * width));
      exchange.scatter_add(NodeView<const float>(ghost.view), owned.view);
      Traffic both = exchange.gather_cost(4 * width);
      both += exchange.scatter_cost(4 * width);
      EXPECT_EQ(test::messages_sent(), both);
      Traffic total = before;
      total += both;
      EXPECT_EQ(exchange.sent(), total);
    }
  }
}

TEST(AllgatherExchange, CountsWhatItHandsToMpi) {
  const Communicator world = Communicator::world();
  for (const Case& c : test::awkward_partitions(world.size())) {
    SCOPED_TRACE(c.name);
    AllgatherExchange exchange(world, c.partition, world.rank());
    test::Data<double> owned(exchange.owned(), 2, 3, true);
    test::Data<double> ghost(exchange.ghosts(), 2, 3, false);
    test::reset_message_count();
    exchange.gather(NodeView<const double>(owned.view), ghost.view);
    EXPECT_EQ(test::collective_sent(), exchange.gather_cost(48));
    test::reset_message_count();
    exchange.scatter_add(NodeView<const double>(ghost.view), owned.view);
    EXPECT_EQ(test::collective_sent(), exchange.scatter_cost(48));
    EXPECT_EQ(test::messages_sent(), Traffic{});
  }
}

/// `begin` returns before another rank has begun, and the work in between does not see its data.
TEST(NeighbourExchange, BeginDoesNotWaitForOthers) {
  const Communicator world = Communicator::world();
  const RowPartition partition = RowPartition::blocks(64, world.size());
  NeighbourExchange exchange(world, partition, world.rank(), test::some_ghosts(partition, world.rank()));
  test::Data<double> owned(exchange.owned(), 1, 3, false, 1.0);
  test::Data<double> ghost(exchange.ghosts(), 1, 3, false);
  if (world.rank() == 0) {
    exchange.gather_begin(NodeView<const double>(owned.view), ghost.view);
    world.barrier();  // unreachable if `begin` waited for other ranks
  } else {
    world.barrier();
    exchange.gather_begin(NodeView<const double>(owned.view), ghost.view);
  }
  exchange.gather_end();
  ghost.each([](Index, Index, Index, double value) { ASSERT_EQ(value, 1.0); });
}

TEST(AllgatherExchange, BeginDoesNotWaitForOthers) {
  const Communicator world = Communicator::world();
  const RowPartition partition = RowPartition::blocks(64, world.size());
  AllgatherExchange exchange(world, partition, world.rank());
  test::Data<double> owned(exchange.owned(), 1, 3, false, 1.0);
  test::Data<double> ghost(exchange.ghosts(), 1, 3, false, 2.0);
  if (world.rank() == 0) {
    exchange.scatter_add_begin(NodeView<const double>(ghost.view), owned.view);
    world.barrier();
  } else {
    world.barrier();
    exchange.scatter_add_begin(NodeView<const double>(ghost.view), owned.view);
  }
  exchange.scatter_add_end();
  owned.each([&](Index, Index, Index, double value) { ASSERT_EQ(value, 1.0 + 2.0 * world.size()); });
}

TEST(NeighbourExchange, WrongUseIsABug) {
  const Communicator world = Communicator::world();
  const RowPartition partition = RowPartition::blocks(10, world.size());
  NeighbourExchange exchange(world, partition, world.rank(), test::some_ghosts(partition, world.rank()));
  EXPECT_THROW(exchange.gather_end(), BugError);
  test::Data<double> owned(exchange.owned() + 1, 1, 1, false);
  test::Data<double> ghost(exchange.ghosts(), 1, 1, false);
  EXPECT_THROW(exchange.gather(NodeView<const double>(owned.view), ghost.view), BugError);
}

TEST(NeighbourExchange, AGhostOwnedHereIsABugOnAllRanks) {
  const Communicator world = Communicator::world();
  const RowPartition partition = RowPartition::blocks(10, world.size());
  GhostList ghosts = test::some_ghosts(partition, world.rank());
  if (world.rank() == 0) ghosts = {Position{0}};
  EXPECT_THROW(NeighbourExchange(world, partition, world.rank(), ghosts), BugError);
}

}  // namespace
}  // namespace rossby
