#pragma once

#include <memory>
#include <utility>

#include "rossby/autograd/staged_ports.hpp"
#include "rossby/exchange/traced.hpp"
#include "rossby/mpi/nccl_exchange.hpp"

namespace rossby {

/// Sums of arrays on a device over ranks, by NCCL or through the host.
class DeviceSums {
 public:
  /// `reducer`, of the host, must outlive this. `link`: one of the same ranks to use, or null. Collective.
  DeviceSums(const Communicator& comm, Device& device, bool nccl, Reducer& reducer,
             std::shared_ptr<NcclLink> link = nullptr)
      : link_(std::move(link)) {
    const bool traced = device.driver().only_addresses();
    if (nccl && comm.size() > 1 && !traced && !link_) link_ = std::make_shared<NcclLink>(comm, device);
    if (link_)
      reducer_ = std::make_unique<NcclReducer>(*link_, reducer);
    else if (nccl && traced)
      reducer_ = std::make_unique<TracedDeviceSums>(device, reducer);
    else
      reducer_ = std::make_unique<StagedReducer>(device, reducer);
  }

  [[nodiscard]] Reducer& reducer() { return *reducer_; }
  /// Null if sums go through the host.
  [[nodiscard]] const std::shared_ptr<NcclLink>& link() const { return link_; }

 private:
  std::shared_ptr<NcclLink> link_;
  std::unique_ptr<Reducer> reducer_;
};

/// How a model on a device reaches other ranks: by NCCL, or through the host's ports.
class DevicePorts {
 public:
  /// `exchange` and `reducer`, of the host, must outlive this. `link`: as for DeviceSums. Collective.
  DevicePorts(const Communicator& comm, Device& device, const Exec& exec, bool nccl, Exchange& exchange,
              Reducer& reducer, const RowPartition& partition, const GhostList& ghosts,
              std::shared_ptr<NcclLink> link = nullptr)
      : sums_(comm, device, nccl, reducer, std::move(link)) {
    if (NcclLink* ranks = sums_.link().get())
      exchange_ = std::make_unique<NcclExchange>(comm, *ranks, exec, exchange, partition, ghosts);
    else
      exchange_ = std::make_unique<StagedExchange>(exec, exchange,
                                                   device.driver().only_addresses()
                                                       ? std::vector<LocalColumn>()
                                                       : wanted_rows(comm, partition, ghosts).rows);
  }

  [[nodiscard]] Exchange& exchange() { return *exchange_; }
  /// StagedExchange::kept_bytes; 0 with NCCL.
  [[nodiscard]] std::size_t kept_bytes() const {
    const auto* staged = dynamic_cast<const StagedExchange*>(exchange_.get());
    return staged ? staged->kept_bytes() : 0;
  }
  [[nodiscard]] Reducer& reducer() { return sums_.reducer(); }
  [[nodiscard]] const std::shared_ptr<NcclLink>& link() const { return sums_.link(); }

 private:
  DeviceSums sums_;
  std::unique_ptr<Exchange> exchange_;
};

}  // namespace rossby
