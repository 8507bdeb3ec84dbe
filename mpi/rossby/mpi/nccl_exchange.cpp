#include "rossby/mpi/nccl_exchange.hpp"

#include <type_traits>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

NcclExchange::NcclExchange(const Communicator& comm, NcclLink& link, const Exec& exec, Exchange& host,
                           const RowPartition& partition, const GhostList& ghosts)
    : link_(&link), exec_(exec), host_(&host), wanted_(wanted_rows(comm, partition, ghosts)) {
  require(static_cast<Index>(ghosts.size()) == host.ghosts() && host.owned() == partition.size(comm.rank()),
          "an exchange of the host has the same rows");
  Device& device = link.device();
  kept_.push_back(device.keep(wanted_.sent));
  kept_.push_back(device.keep(wanted_.rows));
  kept_.push_back(device.keep(wanted_.ptr));
  kept_.push_back(device.keep(wanted_.position));
}

Traffic NcclExchange::sent() const {
  Traffic all = host_->sent();
  all += sent_;
  return all;
}

template <class T>
T* NcclExchange::message(Index width) {
  const Index bytes = std::ssize(wanted_.sent) * width * static_cast<Index>(sizeof(T));
  if (message_.size() < bytes) {
    message_ = {};
    message_ = Buffer<std::byte>(bytes, link_->device());
  }
  return reinterpret_cast<T*>(message_.data());
}

template <class T>
void NcclExchange::gather(NodeView<const T> owned, NodeView<T> ghost) {
  require(way_ == Under::nothing, "an exchange begins before the last one has ended");
  Device& device = link_->device();
  const Index width = owned.width();
  const bool here =
      (owned.size() > 0 && !device.owns(owned.data)) || (ghost.size() > 0 && !device.owns(ghost.data));
  way_ = here ? Under::host : Under::gather;
  if (here) return host_->gather_begin(owned, ghost);
  T* packed = message<T>(width);
  gather_rows<T>(exec_, packed, owned, wanted_.sent);
  const auto bytes = [&](Index rows) { return static_cast<std::size_t>(rows * width) * sizeof(T); };
  const WantedRows::Peer& self = wanted_.peers[static_cast<std::size_t>(link_->rank())];
  if (bytes(self.ghosts) > 0)
    device.driver().copy_within(ghost.row(self.first_ghost), packed + self.first * width, bytes(self.ghosts));
  link_->begin();
  for (const WantedRows::Peer& peer : wanted_.peers) {
    if (peer.rank == link_->rank()) continue;
    link_->send(packed + peer.first * width, bytes(peer.rows), peer.rank);
    link_->receive(ghost.data + peer.first_ghost * width, bytes(peer.ghosts), peer.rank);
  }
  link_->end();
  sent_ += gather_cost(width * static_cast<Index>(sizeof(T)));
}

void NcclExchange::gather_end() {
  require(way_ == Under::gather || way_ == Under::host, "an exchange ends that has not begun");
  if (way_ == Under::host)
    host_->gather_end();
  else
    link_->device().driver().join();
  way_ = Under::nothing;
}

template <class T>
void NcclExchange::scatter(NodeView<const T> ghost, NodeView<T> owned) {
  require(way_ == Under::nothing, "an exchange begins before the last one has ended");
  Device& device = link_->device();
  const Index width = owned.width();
  const bool here =
      (owned.size() > 0 && !device.owns(owned.data)) || (ghost.size() > 0 && !device.owns(ghost.data));
  way_ = here ? Under::host : Under::scatter;
  if (here) return host_->scatter_add_begin(ghost, owned);
  if constexpr (std::is_same_v<T, float>)
    owned_float_ = owned;
  else
    owned_double_ = owned;
  T* packed = message<T>(width);
  const auto bytes = [&](Index rows) { return static_cast<std::size_t>(rows * width) * sizeof(T); };
  const WantedRows::Peer& self = wanted_.peers[static_cast<std::size_t>(link_->rank())];
  if (bytes(self.ghosts) > 0)
    device.driver().copy_within(packed + self.first * width, ghost.row(self.first_ghost), bytes(self.ghosts));
  link_->begin();
  for (const WantedRows::Peer& peer : wanted_.peers) {
    if (peer.rank == link_->rank()) continue;
    link_->send(ghost.data + peer.first_ghost * width, bytes(peer.ghosts), peer.rank);
    link_->receive(packed + peer.first * width, bytes(peer.rows), peer.rank);
  }
  link_->end();
  sent_ += scatter_cost(width * static_cast<Index>(sizeof(T)));
}

template <class T>
void NcclExchange::add(NodeView<T>& owned) {
  if (owned.data)
    scatter_add_rows<T>(exec_, owned, message<T>(owned.width()),
                        {wanted_.rows, wanted_.ptr, wanted_.position});
  owned = {};
}

void NcclExchange::scatter_add_end() {
  require(way_ == Under::scatter || way_ == Under::host, "an exchange ends that has not begun");
  if (way_ == Under::host) {
    host_->scatter_add_end();
  } else {
    link_->device().driver().join();
    add(owned_float_);
    add(owned_double_);
  }
  way_ = Under::nothing;
}

template <class T>
void NcclReducer::begin(std::span<T> values) {
  if (!link_->device().owns(values.data())) return host_->sum_begin(values);
  link_->begin();
  link_->all_reduce(values.data(), values.size(), std::is_same_v<T, double>);
  link_->end();
  begun_ = true;
}

template <class T>
void NcclReducer::sum_together(std::span<const std::span<T>> arrays) {
  link_->begin();
  for (const std::span<T> values : arrays) {
    require(values.empty() || link_->device().owns(values.data()),
            "arrays of the device are summed together");
    link_->all_reduce(values.data(), values.size(), std::is_same_v<T, double>);
  }
  link_->end();
  link_->device().driver().join();
}

void NcclReducer::sum_end() {
  host_->sum_end();
  if (std::exchange(begun_, false)) link_->device().driver().join();
}

}  // namespace rossby
