#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/unit_types.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Halo exchange of sparse relations. Only rows that entries refer to travel, in one message per direction
/// and pair of neighbouring ranks.
///
/// A rank packs the rows that it sends, receiver by receiver; a row for two ranks is packed twice. Ghosts
/// ascend, so those of one owner lie together and are received in place. A scatter_add sends them back into
/// the same buffer, which is then added to the owned rows, receiver by receiver in rank order: no sum depends
/// on the arrival order of messages.
class NeighbourExchange final : public Exchange {
 public:
  /// Collective over `comm`, whose ranks are the parts of `partition`; part = comm.rank(). `ghosts`:
  /// positions owned by other ranks, ascending; ghost g of the exchange is ghosts[g].
  NeighbourExchange(const Communicator& comm, const RowPartition& partition, int part,
                    const GhostList& ghosts);
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
  [[nodiscard]] Index receivers() const { return std::ssize(receivers_); }
  [[nodiscard]] Index senders() const { return std::ssize(senders_); }

 private:
  enum class Under { nothing, gather, scatter };
  /// Rows [first, first + count) of send_rows_ or of the ghosts, which go to or come from one rank.
  struct Neighbour {
    int rank;
    Index first;
    Index count;
  };
  /// State of an operation between begin and end.
  struct Operation {
    Under way = Under::nothing;
    bool is_double = false;
    MPI_Datatype unit = MPI_DATATYPE_NULL;  // null: empty rows, nothing moves
    NodeView<float> owned_float;            // target of a scatter
    NodeView<double> owned_double;
  };

  template <class T>
  void begin_gather(NodeView<const T> owned, NodeView<T> ghost);
  template <class T>
  void begin_scatter(NodeView<const T> ghost, NodeView<T> owned);
  template <class T>
  void start(Under way, Index cols, Index channels);
  void finish(Under way);
  void receive(std::span<const Neighbour> neighbours, std::byte* to, Index row_bytes);
  void send(std::span<const Neighbour> neighbours, const std::byte* from, Index row_bytes);
  void complete();

  Communicator comm_;
  Index owned_ = 0;
  Index ghosts_ = 0;
  std::vector<LocalColumn> send_rows_;  // local rows by receiver, in the order of the receiver's ghosts
  std::vector<Neighbour> receivers_, senders_;
  UnitTypes types_;
  std::vector<MPI_Request> requests_;
  Buffer<std::byte> send_;  // rows sent (gather) or returned (scatter), in the order of send_rows_
  Operation operation_;
  Traffic sent_;
};

}  // namespace rossby
