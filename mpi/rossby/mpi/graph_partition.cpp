#include "rossby/mpi/graph_partition.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <petscmat.h>
#include <scotch.h>  // after cstdio, of which it needs FILE

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/petsc_library.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

/// Both directions of each edge, by the owned end: (local row, global neighbour), sorted, once each, without
/// loops.
using Neighbours = std::vector<std::pair<PetscInt, PetscInt>>;

void add_pairs(const std::vector<std::byte>& letter, Neighbours& pairs) {
  for (std::size_t at = 0; at < letter.size(); at += 2 * sizeof(PetscInt)) {
    PetscInt pair[2];
    std::memcpy(pair, letter.data() + at, sizeof pair);
    pairs.emplace_back(pair[0], pair[1]);
  }
}

Neighbours symmetrise(const Communicator& comm, const GlobalEdges& edges, const RowPartition& blocks) {
  const Index first = blocks.begin(comm.rank());
  Neighbours pairs;
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm.size()));
  for (Index i = 0; i < edges.rows; ++i)
    for (Index e = edges.begin(i, 0); e < edges.end(i, edges.relations - 1); ++e) {
      const GlobalRow neighbour = edges.column[static_cast<std::size_t>(e)];
      const Index row = first + i;
      if (neighbour.value == row) continue;
      pairs.emplace_back(static_cast<PetscInt>(i), static_cast<PetscInt>(neighbour.value));
      const int owner = blocks.owner(neighbour);
      const PetscInt reverse[2] = {static_cast<PetscInt>(neighbour.value - blocks.begin(owner)),
                                   static_cast<PetscInt>(row)};
      auto& letter = letters[static_cast<std::size_t>(owner)];
      letter.resize(letter.size() + sizeof reverse);
      std::memcpy(letter.data() + letter.size() - sizeof reverse, reverse, sizeof reverse);
    }
  for (const auto& letter : MpiMailbox(comm).swap(std::move(letters))) add_pairs(letter, pairs);
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

void check_weights(std::span<const double> weights, Index rows) {
  require(weights.empty() || static_cast<Index>(weights.size()) == rows, "one weight a row");
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (!std::isfinite(weights[i]) || weights[i] < 0)
      user_error("partition: node {} has the cost {}, but costs have to be finite and not negative", i,
                 weights[i]);
}

template <class T>
T* petsc_array(std::size_t count) {
  T* memory = nullptr;
  ROSSBY_PETSC(PetscMallocA, 1, PETSC_FALSE, __LINE__, "petsc_array", __FILE__,
               std::max<std::size_t>(count, 1) * sizeof(T), &memory);
  return memory;
}

/// The pattern as PETSc's adjacency matrix, which takes ownership of the arrays.
Mat adjacency(const Communicator& comm, const Neighbours& pairs, Index owned, Index rows) {
  auto* ptr = petsc_array<PetscInt>(static_cast<std::size_t>(owned) + 1);
  auto* column = petsc_array<PetscInt>(pairs.size());
  std::fill_n(ptr, owned + 1, 0);
  for (std::size_t e = 0; e < pairs.size(); ++e) {
    ++ptr[pairs[e].first + 1];
    column[e] = pairs[e].second;
  }
  std::partial_sum(ptr, ptr + owned + 1, ptr);
  Mat matrix = nullptr;
  const Wait wait(comm, "the set-up of a graph (MatCreateMPIAdj)");
  ROSSBY_PETSC(MatCreateMPIAdj, comm.handle(), static_cast<PetscInt>(owned), static_cast<PetscInt>(rows), ptr,
               column, nullptr, &matrix);
  return matrix;
}

/// Converts the costs of rows [begin, end) to integers for Scotch: each at least 1, about 2^30 in total at
/// most.
template <class T>
void whole_weights(std::span<const double> weights, Index begin, Index end, T* whole) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double budget = std::min(0x1.0p30, 1e4 * static_cast<double>(weights.size()));
  for (Index i = begin; i < end; ++i)
    whole[i - begin] =
        std::max<T>(1, static_cast<T>(std::lround(weights[static_cast<std::size_t>(i)] / total * budget)));
}

[[nodiscard]] bool weighs(std::span<const double> weights) {
  return std::any_of(weights.begin(), weights.end(), [](double w) { return w > 0; });
}

/// Returns the owners of this rank's rows.
std::vector<int> partition_by_scotch(const Communicator& comm, Mat matrix, Index owned, int parts,
                                     PetscInt* weights) {
  const Wait wait(comm, "a graph partition (PT-Scotch)");
  MatPartitioning partitioning = nullptr;
  ROSSBY_PETSC(MatPartitioningCreate, comm.handle(), &partitioning);
  ROSSBY_PETSC(MatPartitioningSetAdjacency, partitioning, matrix);
  ROSSBY_PETSC(MatPartitioningSetType, partitioning, MATPARTITIONINGPTSCOTCH);
  ROSSBY_PETSC(MatPartitioningSetNParts, partitioning, parts);
  if (weights) ROSSBY_PETSC(MatPartitioningSetVertexWeights, partitioning, weights);
  SCOTCH_randomReset();  // or a second partition would continue the first one's random numbers
  IS owners = nullptr;
  ROSSBY_PETSC(MatPartitioningApply, partitioning, &owners);
  const PetscInt* values = nullptr;
  ROSSBY_PETSC(ISGetIndices, owners, &values);
  std::vector<int> result(values, values + owned);
  ROSSBY_PETSC(ISRestoreIndices, owners, &values);
  ROSSBY_PETSC(ISDestroy, &owners);
  ROSSBY_PETSC(MatPartitioningDestroy, &partitioning);
  return result;
}

std::vector<int> gather_owners(const Communicator& comm, const std::vector<int>& mine,
                               const RowPartition& blocks) {
  std::vector<int> counts;
  std::vector<int> begins;
  for (int p = 0; p < comm.size(); ++p) {
    counts.push_back(static_cast<int>(blocks.size(p)));
    begins.push_back(static_cast<int>(blocks.begin(p)));
  }
  std::vector<int> all(static_cast<std::size_t>(blocks.rows()));
  const Wait wait(comm, "a gather of owners (allgather)");
  MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT, all.data(), counts.data(),
                 begins.data(), MPI_INT, comm.handle());
  return all;
}

/// Returns the owners of this rank's rows [begin, end).
std::vector<int> owners_of(const Communicator& comm, const Neighbours& pairs, Index begin, Index end,
                           int parts, std::span<const double> weights, Index rows) {
  PetscInt* whole = nullptr;
  if (weighs(weights)) {
    whole = petsc_array<PetscInt>(static_cast<std::size_t>(end - begin));
    whole_weights(weights, begin, end, whole);
  }
  Mat matrix = adjacency(comm, pairs, end - begin, rows);
  std::vector<int> owners = partition_by_scotch(comm, matrix, end - begin, parts, whole);
  ROSSBY_PETSC(MatDestroy, &matrix);
  return owners;
}

/// Returns the owners of all rows. Calls Scotch with PETSc's arguments, because loading PETSc takes longer
/// than the partition of a small graph.
std::vector<int> owners_of_all(const Neighbours& pairs, int parts, std::span<const double> weights,
                               Index rows) {
  std::vector<SCOTCH_Num> ptr(static_cast<std::size_t>(rows) + 1), column, whole, owners(ptr.size() - 1);
  for (const auto& [row, neighbour] : pairs) {
    ++ptr[static_cast<std::size_t>(row) + 1];
    column.push_back(neighbour);
  }
  std::partial_sum(ptr.begin(), ptr.end(), ptr.begin());
  if (weighs(weights)) {
    whole.resize(owners.size());
    whole_weights(weights, 0, rows, whole.data());
  }
  SCOTCH_randomReset();  // or a second partition would continue the first one's random numbers
  SCOTCH_Graph graph;
  SCOTCH_Strat strategy;
  bool done = SCOTCH_graphInit(&graph) == 0 && SCOTCH_stratInit(&strategy) == 0;
  require(done, "Scotch starts");
  done = SCOTCH_graphBuild(&graph, 0, static_cast<SCOTCH_Num>(rows), ptr.data(), ptr.data() + 1,
                           whole.empty() ? nullptr : whole.data(), nullptr, ptr.back(), column.data(),
                           nullptr) == 0 &&
         SCOTCH_stratGraphMapBuild(&strategy, SCOTCH_STRATDEFAULT, parts, 0.01) == 0 &&
         SCOTCH_graphPart(&graph, parts, &strategy, owners.data()) == 0;
  SCOTCH_stratExit(&strategy);
  SCOTCH_graphExit(&graph);
  if (!done)
    user_error("partition: Scotch failed to cut the graph. Set parallel.partition = \"blocks\" or \"tiles\"");
  return {owners.begin(), owners.end()};
}

/// Partitions on rank 0 alone. The parts of a small graph then do not depend on the number of ranks, and a
/// plan in one process knows them.
std::vector<int> owners_by_one_rank(const Communicator& comm, Neighbours pairs, Index begin, int parts,
                                    std::span<const double> weights, Index rows) {
  if (comm.size() > 1) {
    std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm.size()));
    for (const auto& [row, neighbour] : pairs) {
      const PetscInt pair[2] = {static_cast<PetscInt>(begin + row), neighbour};
      auto& letter = letters.front();
      letter.resize(letter.size() + sizeof pair);
      std::memcpy(letter.data() + letter.size() - sizeof pair, pair, sizeof pair);
    }
    pairs.clear();
    for (const auto& letter : MpiMailbox(comm).swap(std::move(letters))) add_pairs(letter, pairs);
  }
  // If rank 0 failed alone, the others would wait forever.
  std::string text = agree(comm, [&] {
    std::string bytes;
    if (comm.rank() != 0) return bytes;
    const std::vector<int> owners = owners_of_all(pairs, parts, weights, rows);
    bytes.resize(owners.size() * sizeof(int));
    std::memcpy(bytes.data(), owners.data(), bytes.size());
    return bytes;
  });
  text = broadcast(comm, std::move(text));
  std::vector<int> owners(text.size() / sizeof(int));
  std::memcpy(owners.data(), text.data(), text.size());
  return owners;
}

}  // namespace

RowPartition graph_partition(const Communicator& comm, const GlobalEdges& block_edges,
                             const RowPartition& blocks, int parts, std::span<const double> weights) {
  constexpr Index few_rows = 100'000;  // one rank partitions them within a second
  const Index begin = blocks.begin(comm.rank());
  const Index end = blocks.end(comm.rank());
  agree(comm, [&] {
    require(blocks.identity() && blocks.parts() == comm.size(),
            "graph partition starts from contiguous blocks");
    require(block_edges.rows == end - begin, "edges of the rows of this rank's block");
    check_weights(weights, blocks.rows());
    if (blocks.rows() > std::numeric_limits<PetscInt>::max())
      user_error(
          "partition: {} nodes are more than PETSc with 32-bit indices can handle. Set parallel.partition = "
          "\"blocks\" or \"tiles\"",
          blocks.rows());
  });
  const RowPartition equal = RowPartition::blocks(blocks.rows(), parts);
  if (parts == 1 || blocks.rows() < parts) return equal;
  const Stage stage(comm, "partitioning the graph", patience_with_files);
  const Neighbours pairs = symmetrise(comm, block_edges, blocks);
  const auto mine = static_cast<Index>(pairs.size());
  Index all = 0;
  {
    const Wait wait(comm, "a count of edges (allreduce)");
    MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, comm.handle());
  }
  if (all == 0) return equal;
  if (blocks.rows() <= few_rows)
    return RowPartition::from_owners(owners_by_one_rank(comm, pairs, begin, parts, weights, blocks.rows()),
                                     parts);
  agree(comm, load_petsc);
  const std::vector<int> owners = owners_of(comm, pairs, begin, end, parts, weights, blocks.rows());
  return RowPartition::from_owners(gather_owners(comm, owners, blocks), parts);
}

}  // namespace rossby
