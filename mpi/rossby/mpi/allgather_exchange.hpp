#pragma once

#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/unit_types.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// The exchange of dense relations, in which every node acts on every node. Its ghosts are *all positions*:
/// ghosts() == n, and ghost row p is the node at Position p of the partition, this rank's own rows included.
/// (A product with a dense block (owned, n) in position order then reads one array.)
///
/// gather is MPI_Iallgatherv. Its adjoint, scatter_add, is a reduce-scatter in a fixed order. Each rank sends
/// every other rank the gradients of that rank's rows (MPI_Ialltoallv: the volume of a ring reduce-scatter).
/// The owner adds them in rank order, its own included, so that the result does not depend on the library's
/// algorithm. Memory: P·owned packed rows for the scatter, owned packed rows for a gather of strided data.
///
/// Message counts include what leaves a rank: its rows to each of the P − 1 others (gather), each other
/// rank's rows (scatter). Empty blocks send nothing.
class AllgatherExchange final : public Exchange {
 public:
  /// The ranks of `comm` are the parts of `partition`; part = comm.rank(). Collective.
  AllgatherExchange(const Communicator& comm, const RowPartition& partition, int part);
  AllgatherExchange(const AllgatherExchange&) = delete;
  AllgatherExchange& operator=(const AllgatherExchange&) = delete;

  [[nodiscard]] Index owned() const override { return owned_; }
  [[nodiscard]] Index ghosts() const override { return rows_; }

  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override;
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override;
  void gather_end() override;
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) override;
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) override;
  void scatter_add_end() override;

  [[nodiscard]] Traffic sent() const override { return sent_; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override;
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override;

 private:
  enum class Under { nothing, gather, scatter };

  template <class T>
  void begin_gather(NodeView<const T> owned, NodeView<T> ghost);
  template <class T>
  void begin_scatter(NodeView<const T> ghost, NodeView<T> owned);
  template <class T>
  T* staging(Index values);
  template <class T>
  void add_contributions(const T* own, NodeView<T> owned);
  void start(Under way);
  void finish(Under way);

  Communicator comm_;
  Index rows_ = 0;
  Index owned_ = 0;
  Index first_ = 0;               // this rank's first position
  std::vector<int> counts_;       // rows by part
  std::vector<int> begins_;       // first position by part
  std::vector<int> to_others_;    // counts_, with 0 for this rank
  std::vector<int> from_others_;  // `owned` for every other rank with rows
  std::vector<int> from_begins_;  // beginning of each contribution, in rows
  UnitTypes types_;
  Buffer<std::byte> staging_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Under way_ = Under::nothing;
  bool is_double_ = false;
  NodeView<float> owned_float_;  // target of a scatter, and its local contribution
  NodeView<double> owned_double_;
  const void* own_ = nullptr;
  Traffic sent_;
};

}  // namespace rossby
