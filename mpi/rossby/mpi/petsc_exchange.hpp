#pragma once

#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/unit_types.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/buffer.hpp"

struct _p_PetscSF;

namespace rossby {

/// Halo exchange of sparse relations with PETSc's star forest (PetscSF). Only rows that entries refer to
/// travel, in one message per direction and pair of neighbouring ranks.
///
/// The roots of the forest are the rows that this rank sends, packed and grouped by receiver; a row for two
/// ranks appears twice. Every root thus has one leaf. A gather is PetscSFBcast. A scatter_add is
/// PetscSFReduce with MPI_REPLACE into the same buffer, which is then added to the owned rows, receiver by
/// receiver in rank order. No sum depends on the arrival order of messages, and PETSc need not pack anything
/// itself.
class PetscExchange final : public Exchange {
 public:
  /// Collective over `comm`, whose ranks are the parts of `partition`; part = comm.rank(). `ghosts`:
  /// positions owned by other ranks, ascending; ghost g of the exchange is ghosts[g].
  PetscExchange(const Communicator& comm, const RowPartition& partition, int part, const GhostList& ghosts);
  PetscExchange(const PetscExchange&) = delete;
  PetscExchange& operator=(const PetscExchange&) = delete;
  ~PetscExchange() override;

  [[nodiscard]] Index owned() const override { return owned_; }
  [[nodiscard]] Index ghosts() const override { return ghosts_; }

  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override;
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override;
  void gather_end() override;
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) override;
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) override;
  void scatter_add_end() override;

  [[nodiscard]] Traffic sent() const override { return sent_; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override;
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override;

  /// Numbers of ranks that get rows from this one, and that send rows to it.
  [[nodiscard]] Index receivers() const { return receivers_; }
  [[nodiscard]] Index senders() const { return senders_; }

 private:
  enum class Under { nothing, gather, scatter };
  /// State of an operation between begin and end.
  struct Operation {
    Under way = Under::nothing;
    bool is_double = false;
    MPI_Datatype unit = MPI_DATATYPE_NULL;  // null: empty rows, nothing moves
    const void* from = nullptr;
    void* to = nullptr;
    NodeView<float> owned_float;  // target of a scatter
    NodeView<double> owned_double;
  };

  template <class T>
  void begin_gather(NodeView<const T> owned, NodeView<T> ghost);
  template <class T>
  void begin_scatter(NodeView<const T> ghost, NodeView<T> owned);
  template <class T>
  void start(Under way, Index cols, Index channels);
  void finish(Under way);

  Communicator comm_;
  Index owned_ = 0;
  Index ghosts_ = 0;
  Index receivers_ = 0;
  Index senders_ = 0;
  std::vector<LocalColumn> send_rows_;  // local rows by receiver, in the order of the receiver's ghosts
  UnitTypes types_;
  _p_PetscSF* forest_ = nullptr;
  Buffer<std::byte> send_;  // rows sent (gather) or returned (scatter), in the order of send_rows_
  Operation operation_;
  Traffic sent_;
};

}  // namespace rossby
