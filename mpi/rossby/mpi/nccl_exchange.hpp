#pragma once

#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/rows.hpp"
#include "rossby/mpi/nccl_link.hpp"
#include "rossby/mpi/wanted_rows.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// Sends ghost rows between GPUs: a kernel packs them, and one group of messages carries them while interior
/// rows are computed. Gradients return in the same way, and are summed in an order that depends only on the
/// ranks. Host data go through `host`, an exchange of the same ghosts.
class NcclExchange final : public Exchange {
 public:
  /// `ghosts`: ascending; may include rows of this rank (dense relations gather all positions). Collective.
  NcclExchange(const Communicator& comm, NcclLink& link, const Exec& exec, Exchange& host,
               const RowPartition& partition, const GhostList& ghosts);

  [[nodiscard]] Index owned() const override { return host_->owned(); }
  [[nodiscard]] Index ghosts() const override { return host_->ghosts(); }
  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override { gather(owned, ghost); }
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override { gather(owned, ghost); }
  void gather_end() override;
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) override {
    scatter(ghost, owned);
  }
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) override {
    scatter(ghost, owned);
  }
  void scatter_add_end() override;
  [[nodiscard]] Traffic sent() const override;
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override { return host_->gather_cost(row_bytes); }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return host_->scatter_cost(row_bytes);
  }

 private:
  template <class T>
  void gather(NodeView<const T> owned, NodeView<T> ghost);
  template <class T>
  void scatter(NodeView<const T> ghost, NodeView<T> owned);
  template <class T>
  void add(NodeView<T>& owned);
  template <class T>
  T* message(Index width);

  NcclLink* link_;
  Exec exec_;
  Exchange* host_;
  WantedRows wanted_;
  std::vector<Device::Copy> kept_;
  Buffer<std::byte> message_;
  enum class Under { nothing, gather, scatter, host } way_ = Under::nothing;
  NodeView<float> owned_float_;
  NodeView<double> owned_double_;
  Traffic sent_;
};

/// Sums GPU arrays over ranks; host arrays go through `host`.
class NcclReducer final : public Reducer {
 public:
  NcclReducer(NcclLink& link, Reducer& host) : link_(&link), host_(&host) {}

  void sum(std::span<double> values) override { sum_begin(values), sum_end(); }
  void sum(std::span<float> values) override { sum_begin(values), sum_end(); }
  void sum_begin(std::span<double> values) override { begin(values); }
  void sum_begin(std::span<float> values) override { begin(values); }
  void sum_end() override;
  void sum_each(std::span<const std::span<double>> arrays) override { sum_together(arrays); }
  void sum_each(std::span<const std::span<float>> arrays) override { sum_together(arrays); }
  void max(std::span<double> values) override { host_->max(values); }
  void ordered_sum(std::span<double> values) override { host_->ordered_sum(values); }
  [[nodiscard]] bool alone() const override { return host_->alone(); }
  [[nodiscard]] bool enqueues() const override { return true; }
  [[nodiscard]] Traffic sent() const override { return host_->sent(); }

 private:
  template <class T>
  void begin(std::span<T> values);
  template <class T>
  void sum_together(std::span<const std::span<T>> arrays);

  NcclLink* link_;
  Reducer* host_;
  bool begun_ = false;  // sums on the device
};

}  // namespace rossby
