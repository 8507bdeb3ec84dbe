#include "rossby/mpi/row_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <petscmat.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/petsc_library.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

/// Calls use(row, column) for entries between two different rows of the part, as local rows.
template <class Use>
void for_inner_entries(const GlobalEdges& edges, const RowPartition& partition, int part, const Use& use) {
  const Index first = partition.begin(part), owned = partition.size(part);
  for (Index i = 0; i < edges.rows; ++i)
    for (Index e = edges.begin(i, 0); e < edges.end(i, edges.relations - 1); ++e) {
      const Index j = partition.position(edges.column[static_cast<std::size_t>(e)]).value - first;
      if (j >= 0 && j < owned && j != i) use(i, j);
    }
}

/// The pattern within a rank's rows, with both directions of every edge.
struct Neighbourhood {
  std::vector<PetscInt> ptr{0}, column;
};

Neighbourhood symmetric_pattern(const GlobalEdges& edges, const RowPartition& partition, int part) {
  std::vector<std::pair<PetscInt, PetscInt>> pairs;
  pairs.reserve(2 * edges.column.size());
  for_inner_entries(edges, partition, part, [&](Index i, Index j) {
    pairs.emplace_back(static_cast<PetscInt>(i), static_cast<PetscInt>(j));
    pairs.emplace_back(static_cast<PetscInt>(j), static_cast<PetscInt>(i));
  });
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Neighbourhood pattern;
  pattern.ptr.assign(static_cast<std::size_t>(edges.rows) + 1, 0);
  for (const auto& [row, column] : pairs) {
    ++pattern.ptr[static_cast<std::size_t>(row) + 1];
    pattern.column.push_back(column);
  }
  std::partial_sum(pattern.ptr.begin(), pattern.ptr.end(), pattern.ptr.begin());
  return pattern;
}

/// Local rows in their new order.
std::vector<PetscInt> local_order(Neighbourhood& pattern) {
  load_petsc();
  const auto rows = static_cast<PetscInt>(pattern.ptr.size() - 1);
  std::vector<PetscScalar> ones(pattern.column.size(), 1);
  Mat matrix = nullptr;
  ROSSBY_PETSC(MatCreateSeqAIJWithArrays, PETSC_COMM_SELF, rows, rows, pattern.ptr.data(),
               pattern.column.data(), ones.data(), &matrix);
  IS row_order = nullptr, column_order = nullptr;
  ROSSBY_PETSC(MatGetOrdering, matrix, MATORDERINGRCM, &row_order, &column_order);
  const PetscInt* values = nullptr;
  ROSSBY_PETSC(ISGetIndices, row_order, &values);
  std::vector<PetscInt> order(values, values + rows);
  ROSSBY_PETSC(ISRestoreIndices, row_order, &values);
  ROSSBY_PETSC(ISDestroy, &row_order);
  ROSSBY_PETSC(ISDestroy, &column_order);
  ROSSBY_PETSC(MatDestroy, &matrix);
  return order;
}

}  // namespace

double mean_distance(const GlobalEdges& edges, const RowPartition& partition, int part) {
  double sum = 0;
  Index count = 0;
  for_inner_entries(edges, partition, part, [&](Index i, Index j) {
    sum += static_cast<double>(std::abs(i - j));
    ++count;
  });
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

RowPartition reverse_cuthill_mckee(const Communicator& comm, const GlobalEdges& edges,
                                   const RowPartition& partition) {
  const Stage stage(comm, "ordering rows", patience_with_files);
  const int part = comm.rank();
  const auto mine = agree(comm, [&] {
    require(partition.parts() == comm.size() && edges.rows == partition.size(part),
            "edges of the rows of this rank");
    if (2 * edges.entries() > std::numeric_limits<PetscInt>::max())
      user_error(
          "row order: {} entries per rank are more than PETSc with 32-bit indices can handle. Use more "
          "ranks, or set parallel.row_order = \"file\"",
          edges.entries());
    Neighbourhood pattern = symmetric_pattern(edges, partition, part);
    std::vector<std::int64_t> rows;
    if (edges.rows > 0)
      for (const PetscInt i : local_order(pattern))
        rows.push_back(partition.global(Position{partition.begin(part) + i}).value);
    return rows;
  });
  std::vector<int> counts, begins;
  for (int p = 0; p < comm.size(); ++p) {
    counts.push_back(static_cast<int>(partition.size(p)));
    begins.push_back(static_cast<int>(partition.begin(p)));
  }
  std::vector<Index> all(static_cast<std::size_t>(partition.rows()));
  {
    const Wait wait(comm, "a gather of row orders (allgather)");
    MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), MPI_INT64_T, all.data(), counts.data(),
                   begins.data(), MPI_INT64_T, comm.handle());
  }
  return partition.reordered(all);
}

}  // namespace rossby
