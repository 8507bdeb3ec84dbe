#pragma once

#include <memory>
#include <string_view>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby::bench {

/// The ranks of this run: mpirun's if the program was built with MPI, otherwise this process alone.
class Ranks {
 public:
  virtual ~Ranks() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Reducer> reducer() = 0;
  /// Returns the exchange that Rossby would choose: all nodes if a relation is dense, otherwise the ghosts.
  [[nodiscard]] virtual std::unique_ptr<Exchange> exchange(const RowPartition& partition,
                                                           const GhostList& ghosts, bool all_nodes) = 0;
  /// Returns the same owners with neighbours close together, as with parallel.row_order = "rcm". Without MPI
  /// and PETSc, returns the partition itself.
  [[nodiscard]] virtual RowPartition with_neighbours_close(const GlobalEdges& edges,
                                                           const RowPartition& partition) = 0;
  virtual void barrier() = 0;
  /// Ends all ranks with exit code 1.
  [[noreturn]] virtual void abort(std::string_view message) = 0;
};

/// Make one object per process, first in main. Defined in ranks_mpi.cpp or ranks_one.cpp.
[[nodiscard]] std::unique_ptr<Ranks> start_ranks();

}  // namespace rossby::bench
