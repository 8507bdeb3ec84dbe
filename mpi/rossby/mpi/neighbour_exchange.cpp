#include "rossby/mpi/neighbour_exchange.hpp"

#include <algorithm>
#include <cstring>

#include "rossby/base/error.hpp"
#include "rossby/exchange/packing.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

void check_arguments(const Communicator& comm, const RowPartition& partition, int part,
                     const GhostList& ghosts) {
  require(part == comm.rank() && partition.parts() == comm.size(), "parts of an exchange are the ranks");
  require(std::is_sorted(ghosts.begin(), ghosts.end()) &&
              std::adjacent_find(ghosts.begin(), ghosts.end()) == ghosts.end(),
          "ghosts ascend and are named once");
  require(std::none_of(ghosts.begin(), ghosts.end(),
                       [&](Position p) {
                         return p.value < 0 || p.value >= partition.rows() || partition.owner(p) == part;
                       }),
          "ghosts are positions owned elsewhere");
}

}  // namespace

NeighbourExchange::NeighbourExchange(const Communicator& comm, const RowPartition& partition, int part,
                                     const GhostList& ghosts)
    : comm_(comm.duplicate()) {
  agree(comm, [&] { check_arguments(comm, partition, part, ghosts); });
  owned_ = partition.size(part);
  ghosts_ = static_cast<Index>(ghosts.size());
  std::vector<std::vector<std::byte>> wanted(static_cast<std::size_t>(comm.size()));
  for (Index g = 0; g < ghosts_; ++g) {
    const Position ghost = ghosts[static_cast<std::size_t>(g)];
    const int owner = partition.owner(ghost);
    if (senders_.empty() || senders_.back().rank != owner) senders_.push_back({owner, g, 0});
    ++senders_.back().count;
    const auto row = static_cast<LocalColumn>(ghost.value - partition.begin(owner));
    auto& letter = wanted[static_cast<std::size_t>(owner)];
    letter.resize(letter.size() + sizeof row);
    std::memcpy(letter.data() + letter.size() - sizeof row, &row, sizeof row);
  }
  const auto requests = MpiMailbox(comm).swap(std::move(wanted));
  for (int p = 0; p < comm.size(); ++p) {
    const std::vector<std::byte>& request = requests[static_cast<std::size_t>(p)];
    const std::size_t first = send_rows_.size(), count = request.size() / sizeof(LocalColumn);
    if (count == 0) continue;
    receivers_.push_back({p, static_cast<Index>(first), static_cast<Index>(count)});
    send_rows_.resize(first + count);
    std::memcpy(send_rows_.data() + first, request.data(), request.size());
  }
}

Traffic NeighbourExchange::gather_cost(Index row_bytes) const {
  return row_bytes == 0 ? Traffic{} : Traffic{receivers(), static_cast<Index>(send_rows_.size()) * row_bytes};
}

Traffic NeighbourExchange::scatter_cost(Index row_bytes) const {
  return row_bytes == 0 ? Traffic{} : Traffic{senders(), ghosts_ * row_bytes};
}

template <class T>
void NeighbourExchange::start(Under way, Index cols, Index channels) {
  require(operation_.way == Under::nothing, "an exchange begins before the last one has ended");
  operation_.way = way;
  operation_.is_double = sizeof(T) == sizeof(double);
  const Index width = cols * channels;
  operation_.unit = width > 0 ? types_.row<T>(width) : MPI_DATATYPE_NULL;
  const auto bytes = static_cast<Index>(send_rows_.size()) * width * static_cast<Index>(sizeof(T));
  if (send_.size() < bytes) send_ = Buffer<std::byte>(bytes);
}

template <class T>
void NeighbourExchange::begin_gather(NodeView<const T> owned, NodeView<T> ghost) {
  require(owned.rows == owned_ && ghost.rows == ghosts_, "a gather needs the owned rows and the ghosts");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start<T>(Under::gather, ghost.cols, ghost.channels);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  pack_rows(owned, send_rows_, reinterpret_cast<T*>(send_.data()));
  const Wait wait(comm_, "the start of a halo exchange (gather)");
  const Index row_bytes = ghost.width() * static_cast<Index>(sizeof(T));
  receive(senders_, reinterpret_cast<std::byte*>(ghost.data), row_bytes);
  send(receivers_, send_.data(), row_bytes);
  sent_ += gather_cost(row_bytes);
}

template <class T>
void NeighbourExchange::begin_scatter(NodeView<const T> ghost, NodeView<T> owned) {
  require(owned.rows == owned_ && ghost.rows == ghosts_, "a scatter needs the owned rows and the ghosts");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start<T>(Under::scatter, ghost.cols, ghost.channels);
  if constexpr (sizeof(T) == sizeof(double))
    operation_.owned_double = owned;
  else
    operation_.owned_float = owned;
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  const Wait wait(comm_, "the start of a halo exchange (scatter of gradients)");
  const Index row_bytes = ghost.width() * static_cast<Index>(sizeof(T));
  receive(receivers_, send_.data(), row_bytes);
  send(senders_, reinterpret_cast<const std::byte*>(ghost.data), row_bytes);
  sent_ += scatter_cost(row_bytes);
}

void NeighbourExchange::receive(std::span<const Neighbour> neighbours, std::byte* to, Index row_bytes) {
  for (const Neighbour& from : neighbours)
    MPI_Irecv(to + from.first * row_bytes, static_cast<int>(from.count), operation_.unit, from.rank, 0,
              comm_.handle(), &requests_.emplace_back());
}

void NeighbourExchange::send(std::span<const Neighbour> neighbours, const std::byte* from, Index row_bytes) {
  for (const Neighbour& to : neighbours)
    MPI_Isend(from + to.first * row_bytes, static_cast<int>(to.count), operation_.unit, to.rank, 0,
              comm_.handle(), &requests_.emplace_back());
}

void NeighbourExchange::finish(Under way) {
  require(operation_.way == way, "an exchange ends that has not begun");
  operation_.way = Under::nothing;
}

void NeighbourExchange::complete() {
  MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
  requests_.clear();
}

void NeighbourExchange::gather_end() {
  finish(Under::gather);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  const Wait wait(comm_, "a halo exchange (gather)");
  complete();
}

void NeighbourExchange::scatter_add_end() {
  finish(Under::scatter);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  {
    const Wait wait(comm_, "a halo exchange (scatter of gradients)");
    complete();
  }
  if (operation_.is_double)
    add_rows(reinterpret_cast<const double*>(send_.data()), operation_.owned_double, send_rows_);
  else
    add_rows(reinterpret_cast<const float*>(send_.data()), operation_.owned_float, send_rows_);
}

void NeighbourExchange::gather_begin(NodeView<const float> owned, NodeView<float> ghost) {
  begin_gather(owned, ghost);
}
void NeighbourExchange::gather_begin(NodeView<const double> owned, NodeView<double> ghost) {
  begin_gather(owned, ghost);
}
void NeighbourExchange::scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) {
  begin_scatter(ghost, owned);
}
void NeighbourExchange::scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) {
  begin_scatter(ghost, owned);
}

}  // namespace rossby
