#pragma once

#include <optional>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// An exchange of node data on a device through host memory: where ranks share a GPU, or no transport between
/// GPUs is there. Data of the host go straight through. The inner exchange must outlive it.
///
/// Rows that nobody else wants stay on the device, where those that are wanted are known and the inner
/// exchange sends fewer than there are.
class StagedExchange final : public Exchange {
 public:
  /// `wanted`: the rows that other ranks want, each once; without them all rows travel. Of a trace, which
  /// moves nothing, they may be left out.
  StagedExchange(const Exec& exec, Exchange& inner,
                 std::optional<std::vector<LocalColumn>> wanted = std::nullopt);

  [[nodiscard]] Index owned() const override { return inner_->owned(); }
  [[nodiscard]] Index ghosts() const override { return inner_->ghosts(); }
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
  [[nodiscard]] Traffic sent() const override { return inner_->sent(); }
  /// What a host's exchange keeps for the widest rows so far: as many as it sends.
  [[nodiscard]] std::size_t kept_bytes() const {
    const auto bytes = static_cast<std::size_t>(inner_->gather_cost(widest_).bytes);
    return detail::resident_bytes(bytes, bytes);
  }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override { return inner_->gather_cost(row_bytes); }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return inner_->scatter_cost(row_bytes);
  }

 private:
  template <class T>
  void gather(NodeView<const T> owned, NodeView<T> ghost);
  template <class T>
  void scatter(NodeView<const T> ghost, NodeView<T> owned);
  template <class T>
  void add(NodeView<T> owned);
  /// `owned` in host memory, as far as others want it; on return it is there.
  template <class T>
  NodeView<T> fetch(NodeView<const T> owned);
  [[nodiscard]] std::span<const LocalColumn> wanted() const {
    return std::span(rows_).first(static_cast<std::size_t>(count_));
  }
  /// 0, 1, … up to as many, and `more`.
  [[nodiscard]] std::span<const LocalEntry> places(std::size_t more) const {
    return std::span(places_).first(static_cast<std::size_t>(count_) + more);
  }
  /// Whether nothing moves: data stay where they are.
  [[nodiscard]] bool idle() const;

  Exec exec_;
  Exchange* inner_;
  Index widest_ = 0;  // bytes of a row
  // Of the operation under way: where its result goes on the device; null: nothing was staged.
  NodeView<float> to_float_;
  NodeView<double> to_double_;
  bool some_ = false;              // those that others want travel alone:
  std::vector<LocalColumn> rows_;  // the first count_
  Index count_ = 0;
  std::vector<LocalEntry> places_;
  std::vector<Device::Copy> kept_;   // of both
  Buffer<std::byte> owned_, ghost_;  // host; pinned where they travel
  Buffer<std::byte> message_;        // host, pinned: wanted rows of an array
  Buffer<std::byte> packed_;         // device: the same
};

/// Sums over ranks of arrays on a device, through host memory; those of the host go straight through.
class StagedReducer final : public Reducer {
 public:
  StagedReducer(Device& device, Reducer& inner) : device_(&device), inner_(&inner) {}

  void sum(std::span<double> values) override { sum_now(values); }
  void sum(std::span<float> values) override { sum_now(values); }
  void sum_begin(std::span<double> values) override { begin(values); }
  void sum_begin(std::span<float> values) override { begin(values); }
  void sum_end() override;
  void max(std::span<double> values) override { inner_->max(values); }
  void ordered_sum(std::span<double> values) override { inner_->ordered_sum(values); }
  [[nodiscard]] bool alone() const override { return inner_->alone(); }
  [[nodiscard]] Traffic sent() const override { return inner_->sent(); }

 private:
  struct Open {
    Buffer<std::byte> host;
    std::byte* device;
    std::size_t bytes;
  };
  template <class T>
  std::span<T> fetch(std::span<T> values);
  template <class T>
  void sum_now(std::span<T> values);
  template <class T>
  void begin(std::span<T> values);

  Device* device_;
  Reducer* inner_;
  std::vector<Open> open_;  // sums begun, first to last
  std::size_t begun_ = 0;
};

}  // namespace rossby
