#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/mpi/graph_partition.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/row_order.hpp"

namespace rossby {
namespace {

/// The rows of a (height, width) lattice with randomly numbered nodes, for which contiguous blocks are a bad
/// partition. It has only the edges to the right and upward: the partitioner must symmetrise.
struct Lattice {
  Index height, width;
  std::vector<Index> node_of_cell;
  std::vector<Index> cell_of_node;

  Lattice(Index h, Index w) : height(h), width(w) {
    const Permutation permutation(Random(2, "lattice"), h * w);
    cell_of_node.resize(static_cast<std::size_t>(h * w));
    for (Index cell = 0; cell < h * w; ++cell) node_of_cell.push_back(permutation(cell));
    for (Index cell = 0; cell < h * w; ++cell)
      cell_of_node[static_cast<std::size_t>(node_of_cell[static_cast<std::size_t>(cell)])] = cell;
  }

  [[nodiscard]] std::vector<Index> neighbours(Index node) const {
    const Index cell = cell_of_node[static_cast<std::size_t>(node)];
    std::vector<Index> result;
    if (cell % width + 1 < width) result.push_back(node_of_cell[static_cast<std::size_t>(cell + 1)]);
    if (cell + width < height * width) result.push_back(node_of_cell[static_cast<std::size_t>(cell + width)]);
    result.push_back(node);  // a self-loop, which cannot be cut
    std::sort(result.begin(), result.end());
    return result;
  }

  [[nodiscard]] GlobalEdges edges(const RowPartition& partition, int part) const {
    GlobalEdges edges;
    edges.rows = partition.size(part);
    edges.relations = 2;
    edges.ptr = {0};
    for (const GlobalRow row : partition.rows_of(part))
      for (int k = 0; k < 2; ++k) {
        for (const Index j : neighbours(row.value)) edges.column.push_back(GlobalRow{j});
        edges.ptr.push_back(static_cast<Index>(edges.column.size()));
      }
    edges.value.assign(edges.column.size(), 1.0);
    return edges;
  }

  [[nodiscard]] Index cut(const RowPartition& partition) const {
    Index cut = 0;
    for (Index i = 0; i < height * width; ++i)
      for (const Index j : neighbours(i))
        cut += partition.owner(GlobalRow{i}) != partition.owner(GlobalRow{j}) ? 1 : 0;
    return cut;
  }
};

std::vector<int> owners_of(const RowPartition& partition) {
  std::vector<int> owners;
  for (Index i = 0; i < partition.rows(); ++i) owners.push_back(partition.owner(GlobalRow{i}));
  return owners;
}

TEST(GraphPartition, CutsFewEdgesIntoEqualPartsOnAllRanksAlike) {
  const Communicator world = Communicator::world();
  const Lattice lattice(31, 29);
  const RowPartition blocks = RowPartition::blocks(31 * 29, world.size());
  const RowPartition partition =
      graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size());
  const std::vector<int> owners = owners_of(partition);
  std::vector<int> of_rank_0 = owners;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_INT, 0, world.handle());
  EXPECT_EQ(owners, of_rank_0);
  for (int p = 0; p < world.size(); ++p)
    EXPECT_NEAR(static_cast<double>(partition.size(p)), 899.0 / world.size(), 0.1 * 899 / world.size());
  if (world.size() > 1) {
    EXPECT_LT(lattice.cut(partition), lattice.cut(blocks) / 5);
    EXPECT_GT(lattice.cut(partition), 0);
  }
  for (int again = 0; again < 3; ++again)
    EXPECT_EQ(owners_of(graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size())),
              owners);
}

TEST(GraphPartition, BalancesWeights) {
  const Communicator world = Communicator::world();
  const Lattice lattice(20, 20);
  const RowPartition blocks = RowPartition::blocks(400, world.size());
  std::vector<double> weights(400, 0.01);
  for (Index cell = 0; cell < 80; ++cell)  // the first four lines of the lattice cost ten times as much
    weights[static_cast<std::size_t>(lattice.node_of_cell[static_cast<std::size_t>(cell)])] = 0.1;
  const RowPartition partition =
      graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size(), weights);
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (int p = 0; p < world.size(); ++p) {
    double mine = 0;
    for (const GlobalRow row : partition.rows_of(p)) mine += weights[static_cast<std::size_t>(row.value)];
    EXPECT_NEAR(mine, total / world.size(), 0.15 * total / world.size());
  }
}

TEST(GraphPartition, TakesBlocksThatAreEmpty) {
  const Communicator world = Communicator::world();
  const Lattice lattice(8, 9);
  std::vector<double> head(72, 0.0);
  head[0] = 1;
  const RowPartition blocks = RowPartition::blocks(72, world.size(), head);
  const RowPartition partition =
      graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size());
  EXPECT_EQ(partition.rows(), 72);
  if (world.size() > 1) {
    EXPECT_LT(partition.size(0), 72);
  }
}

TEST(GraphPartition, FallsBackToTheBlocks) {
  const Communicator world = Communicator::world();
  const RowPartition none = RowPartition::blocks(0, world.size());
  EXPECT_EQ(graph_partition(world, Lattice(0, 0).edges(none, world.rank()), none, world.size()).rows(), 0);
  const Lattice two(1, 2);
  const RowPartition few = RowPartition::blocks(2, world.size());
  const RowPartition same = graph_partition(world, two.edges(few, world.rank()), few, world.size());
  if (world.size() > 2) {
    EXPECT_EQ(owners_of(same), owners_of(few));
  }

  const RowPartition blocks = RowPartition::blocks(20, world.size());
  GlobalEdges loops;
  loops.rows = blocks.size(world.rank());
  loops.relations = 1;
  loops.ptr = {0};
  for (const GlobalRow row : blocks.rows_of(world.rank())) {
    loops.column.push_back(row);
    loops.value.push_back(1);
    loops.ptr.push_back(loops.entries());
  }
  EXPECT_EQ(owners_of(graph_partition(world, loops, blocks, world.size())), owners_of(blocks));
}

TEST(GraphPartition, ABadWeightIsAnErrorOnAllRanks) {
  const Communicator world = Communicator::world();
  const Lattice lattice(4, 5);
  const RowPartition blocks = RowPartition::blocks(20, world.size());
  std::vector<double> weights(20, 1.0);
  if (world.rank() == 0) weights[7] = std::nan("");
  EXPECT_THROW(graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size(), weights),
               UserError);
}

TEST(RowOrder, NeighboursLieCloseTogetherAndOwnersStay) {
  const Communicator world = Communicator::world();
  const Lattice lattice(31, 29);
  const RowPartition blocks = RowPartition::blocks(31 * 29, world.size());
  const RowPartition scattered =
      graph_partition(world, lattice.edges(blocks, world.rank()), blocks, world.size());
  const GlobalEdges edges = lattice.edges(scattered, world.rank());
  const RowPartition ordered = reverse_cuthill_mckee(world, edges, scattered);
  EXPECT_EQ(owners_of(ordered), owners_of(scattered));
  // The bandwidth of a lattice is its shorter side. A random order has a third of all rows.
  const GlobalEdges after = lattice.edges(ordered, world.rank());
  const double before = mean_distance(edges, scattered, world.rank());
  EXPECT_LE(mean_distance(after, ordered, world.rank()), std::max(31.0, before / 2));
  EXPECT_EQ(mean_distance(edges, ordered, world.rank()) == 0, before == 0);
  const RowPartition again = reverse_cuthill_mckee(world, edges, scattered);
  std::vector<Index> order, other;
  for (Index p = 0; p < ordered.rows(); ++p) {
    order.push_back(ordered.global(Position{p}).value);
    other.push_back(again.global(Position{p}).value);
  }
  EXPECT_EQ(order, other);
  MPI_Bcast(other.data(), static_cast<int>(other.size()), MPI_INT64_T, 0, world.handle());
  EXPECT_EQ(order, other);
}

TEST(RowOrder, RowsWithoutNeighboursAndEmptyRanks) {
  const Communicator world = Communicator::world();
  const RowPartition blocks = RowPartition::blocks(3, world.size());
  GlobalEdges none;
  none.rows = blocks.size(world.rank());
  none.relations = 1;
  none.ptr.assign(static_cast<std::size_t>(none.rows) + 1, 0);
  EXPECT_EQ(mean_distance(none, blocks, world.rank()), 0);
  const RowPartition ordered = reverse_cuthill_mckee(world, none, blocks);
  EXPECT_EQ(owners_of(ordered), owners_of(blocks));
}

}  // namespace
}  // namespace rossby
