#pragma once

#include <memory>

#include "rossby/autograd/staged_ports.hpp"
#include "rossby/mpi/nccl_exchange.hpp"

namespace rossby {

/// Sums of arrays on a device over ranks, by NCCL or through the host.
class DeviceSums {
 public:
  /// `reducer` of the host must outlive it. Collective.
  DeviceSums(const Communicator& comm, Device& device, bool nccl, Reducer& reducer) {
    if (nccl && comm.size() > 1) {
      link_ = std::make_unique<NcclLink>(comm, device);
      reducer_ = std::make_unique<NcclReducer>(*link_, reducer);
    } else {
      reducer_ = std::make_unique<StagedReducer>(device, reducer);
    }
  }

  [[nodiscard]] Reducer& reducer() { return *reducer_; }
  /// Null: through the host.
  [[nodiscard]] NcclLink* link() { return link_.get(); }

 private:
  std::unique_ptr<NcclLink> link_;
  std::unique_ptr<Reducer> reducer_;
};

/// How a model on a device reaches other ranks: by NCCL, or through the host's ports.
class DevicePorts {
 public:
  /// `exchange` and `reducer` of the host must outlive it. Collective.
  DevicePorts(const Communicator& comm, Device& device, const Exec& exec, bool nccl, Exchange& exchange,
              Reducer& reducer, const RowPartition& partition, const GhostList& ghosts)
      : sums_(comm, device, nccl, reducer) {
    if (NcclLink* link = sums_.link())
      exchange_ = std::make_unique<NcclExchange>(comm, *link, exec, exchange, partition, ghosts);
    else
      exchange_ = std::make_unique<StagedExchange>(exec, exchange);
  }

  [[nodiscard]] Exchange& exchange() { return *exchange_; }
  /// StagedExchange::kept_bytes; 0 by NCCL.
  [[nodiscard]] std::size_t kept_bytes() const {
    const auto* staged = dynamic_cast<const StagedExchange*>(exchange_.get());
    return staged ? staged->kept_bytes() : 0;
  }
  [[nodiscard]] Reducer& reducer() { return sums_.reducer(); }

 private:
  DeviceSums sums_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace rossby
