#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/row_link.hpp"
#include "rossby/exchange/step_exchange.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/device.hpp"

// Ports of one pretended rank without any others. Nothing moves, and received values are zero. They count the
// traffic that the rank would send, as the real ports do. A step over these ports costs what the rank's step
// costs at any P, with exact messages and bytes; its numbers are meaningless.

namespace rossby {

/// An exchange that knows its traffic.
class TracedExchange : public Exchange {
 public:
  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override { gather_of(owned, ghost); }
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override {
    gather_of(owned, ghost);
  }
  void gather_end() override {}
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float>) override { scatter_of(ghost); }
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double>) override { scatter_of(ghost); }
  void scatter_add_end() override {}
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  template <class T>
  void gather_of(NodeView<const T> owned, NodeView<T> ghost) {
    std::fill_n(ghost.data, ghost.size(), T{0});
    sent_ += gather_cost(owned.width() * static_cast<Index>(sizeof(T)));
  }
  template <class T>
  void scatter_of(NodeView<const T> ghost) {
    sent_ += scatter_cost(ghost.width() * static_cast<Index>(sizeof(T)));
  }
  Traffic sent_;
};

/// Traffic counts of one rank in a halo exchange: its rows go to ranks that need them (gather), gradients of
/// its ghosts go to their owners (scatter).
struct HaloCounts {
  Index owned = 0;
  Index ghosts = 0;
  Index owners = 0;     // ranks that own the ghosts
  Index receivers = 0;  // ranks that need this rank's rows
  Index rows_sent = 0;  // to all receivers
};

/// Counts of every part. `ghosts`: from collect_ghosts.
[[nodiscard]] std::vector<HaloCounts> halo_counts(const RowPartition& partition,
                                                  std::span<const GhostList> ghosts);

class TracedHalo final : public TracedExchange {
 public:
  explicit TracedHalo(const HaloCounts& counts) : counts_(counts) {}
  [[nodiscard]] Index owned() const override { return counts_.owned; }
  [[nodiscard]] Index ghosts() const override { return counts_.ghosts; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override {
    return row_bytes == 0 ? Traffic{} : Traffic{counts_.receivers, counts_.rows_sent * row_bytes};
  }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return row_bytes == 0 ? Traffic{} : Traffic{counts_.owners, counts_.ghosts * row_bytes};
  }

 private:
  HaloCounts counts_;
};

/// A gather of all rows: the ghosts are all positions.
class TracedAllRows final : public TracedExchange {
 public:
  TracedAllRows(const RowPartition& partition, int part);
  [[nodiscard]] Index owned() const override { return owned_; }
  [[nodiscard]] Index ghosts() const override { return rows_; }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override {
    return owned_ == 0 || row_bytes == 0 ? Traffic{} : Traffic{parts_ - 1, (parts_ - 1) * owned_ * row_bytes};
  }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return row_bytes == 0 ? Traffic{} : Traffic{others_, (rows_ - owned_) * row_bytes};
  }

 private:
  Index rows_, owned_;
  Index parts_;       // all parts
  Index others_ = 0;  // other parts that own rows
};

/// A sum over `ranks` ranks; sums remain this rank's own contribution.
class TracedReducer final : public Reducer {
 public:
  explicit TracedReducer(int ranks) : ranks_(ranks) {}
  void sum(std::span<double> values) override { count(1, values.size_bytes()); }
  void sum(std::span<float> values) override { count(1, values.size_bytes()); }
  void max(std::span<double> values) override { count(1, values.size_bytes()); }
  void ordered_sum(std::span<double> values) override { count(ranks_ - 1, values.size_bytes()); }
  [[nodiscard]] bool alone() const override { return ranks_ == 1; }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  void count(Index messages, std::size_t bytes) {
    if (ranks_ > 1 && bytes > 0) sent_ += {messages, messages * static_cast<Index>(bytes)};
  }
  int ranks_;
  Traffic sent_;
};

/// Time steps between groups.
class TracedStepExchange final : public StepExchange {
 public:
  TracedStepExchange(int groups, int group) : groups_(groups), group_(group) {}
  [[nodiscard]] int groups() const override { return groups_; }
  [[nodiscard]] int group() const override { return group_; }
  void begin(Index width, std::span<const std::vector<const float*>> outgoing,
             std::span<const std::span<float>> incoming) override {
    for (const auto& steps : outgoing)
      if (width > 0 && !steps.empty())
        sent_ += {1, std::ssize(steps) * width * static_cast<Index>(sizeof(float))};
    for (const std::span<float> values : incoming) std::fill(values.begin(), values.end(), 0.0F);
  }
  void end() override {}
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  int groups_, group_;
  Traffic sent_;
};

/// Values between neighbouring groups.
class TracedRowLink final : public RowLink {
 public:
  void send(int, std::span<const std::byte> values) override { sent_ += {1, std::ssize(values)}; }
  void receive(int, std::span<std::byte> values) override {
    std::fill(values.begin(), values.end(), std::byte{0});
  }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  Traffic sent_;
};

/// A gather over all groups. The others' values are zeros, as many as this group's.
class TracedGroupGather final : public GroupGather {
 public:
  TracedGroupGather(int groups, int group) : groups_(groups), group_(group) {}
  [[nodiscard]] int groups() const override { return groups_; }
  [[nodiscard]] int group() const override { return group_; }
  [[nodiscard]] std::span<const std::byte> gather(std::span<const std::byte> mine,
                                                  std::span<Index> sizes) override {
    std::fill(sizes.begin(), sizes.end(), std::ssize(mine));
    sent_ += {groups_ - 1, (groups_ - 1) * std::ssize(mine)};
    all_.assign(mine.size() * sizes.size(), std::byte{0});
    return all_;
  }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  int groups_, group_;
  std::vector<std::byte> all_;
  Traffic sent_;
};

/// Sums that NCCL would enqueue on a device that is addresses only. Nothing is summed, waited for or counted.
/// Sums of the host go through `host`.
class TracedDeviceSums final : public Reducer {
 public:
  TracedDeviceSums(const Device& device, Reducer& host) : device_(&device), host_(&host) {}

  void sum(std::span<double> values) override { sum_of(values); }
  void sum(std::span<float> values) override { sum_of(values); }
  void max(std::span<double> values) override { host_->max(values); }
  void ordered_sum(std::span<double> values) override { host_->ordered_sum(values); }
  [[nodiscard]] bool alone() const override { return host_->alone(); }
  [[nodiscard]] bool enqueues() const override { return true; }
  [[nodiscard]] Traffic sent() const override { return host_->sent(); }

 private:
  template <class T>
  void sum_of(std::span<T> values) {
    if (!device_->owns(values.data())) host_->sum(values);
  }

  const Device* device_;
  Reducer* host_;
};

}  // namespace rossby
