#pragma once

#include <optional>
#include <vector>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// An exchange of node data on a device through host memory, for ranks that share a GPU or have no transport
/// between GPUs. Host data pass straight through. The inner exchange must outlive it.
///
/// Rows that no other rank wants stay on the device, if the wanted rows are known and the inner exchange
/// sends fewer rows than are owned.
class StagedExchange final : public Exchange {
 public:
  /// `wanted`: the rows that other ranks want, each once. Without it all rows travel. A trace moves nothing
  /// and may omit it.
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
  /// Bytes that the host's exchange keeps for the widest rows so far: as many as it sends.
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
  /// Copies the wanted rows of `owned` to host memory. They have arrived on return.
  template <class T>
  NodeView<T> fetch(NodeView<const T> owned);
  [[nodiscard]] std::span<const LocalColumn> wanted() const {
    return std::span(rows_).first(static_cast<std::size_t>(count_));
  }
  /// The sequence 0, 1, … of count_ + `more` places.
  [[nodiscard]] std::span<const LocalEntry> places(std::size_t more) const {
    return std::span(places_).first(static_cast<std::size_t>(count_) + more);
  }
  /// True if no data move.
  [[nodiscard]] bool idle() const;

  Exec exec_;
  Exchange* inner_;
  Index widest_ = 0;  // bytes of a row
  // Device target of the operation in progress; null: nothing is staged.
  NodeView<float> to_float_;
  NodeView<double> to_double_;
  bool some_ = false;              // only wanted rows travel:
  std::vector<LocalColumn> rows_;  // they are the first count_
  Index count_ = 0;
  std::vector<LocalEntry> places_;
  std::vector<Device::Copy> kept_;   // rows_ and places_ on the device
  Buffer<std::byte> owned_, ghost_;  // host; pinned if they travel
  Buffer<std::byte> message_;        // host, pinned: wanted rows of an array
  Buffer<std::byte> packed_;         // device: wanted rows of an array
};

/// Sums device arrays over ranks, through host memory. Host arrays pass straight through.
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
  std::vector<Open> open_;  // begun sums, in order
  std::size_t begun_ = 0;
};

}  // namespace rossby
