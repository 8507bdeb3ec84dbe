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

/// Halo exchange of sparse relations over PETSc's star forest (PetscSF): only rows that entries name travel,
/// one message a pair of neighbouring ranks and direction.
///
/// The roots of the forest are the rows this rank sends, packed and grouped by receiver (a row needed by two
/// ranks is there twice), so that every root has one leaf: a gather is PetscSFBcast, and a scatter_add is
/// PetscSFReduce with MPI_REPLACE into the same buffer, which is then added to the owned rows receiver by
/// receiver in rank order. No sum depends on the order in which messages arrive, and PETSc needs to pack
/// nothing itself.
class PetscExchange final : public Exchange {
 public:
  /// Collective over `comm`, whose ranks are the parts of `partition`; part = comm.rank(). `ghosts`:
  /// positions owned elsewhere, ascending; ghost g of the exchange is ghosts[g].
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

  /// Ranks this rank sends rows to, and ranks it receives rows from.
  [[nodiscard]] Index receivers() const { return receivers_; }
  [[nodiscard]] Index senders() const { return senders_; }

 private:
  enum class Under { nothing, gather, scatter };
  /// What the end of an operation needs from its begin.
  struct Operation {
    Under way = Under::nothing;
    bool is_double = false;
    MPI_Datatype unit = MPI_DATATYPE_NULL;  // null: rows of no bytes, nothing moves
    const void* from = nullptr;
    void* to = nullptr;
    NodeView<float> owned_float;  // where a scatter adds
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
  std::vector<LocalColumn>
      send_rows_;  // local rows, by receiver, inside a receiver in the order of its ghosts
  UnitTypes types_;
  _p_PetscSF* forest_ = nullptr;
  Buffer<std::byte> send_;  // rows that leave (gather) or come back (scatter), in the order of send_rows_
  Operation operation_;
  Traffic sent_;
};

}  // namespace rossby
