#pragma once

#include <chrono>
#include <memory>

#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// An exchange that adds up the time inside it: packing, starting and waiting, without hidden transfers.
class TimedExchange final : public Exchange {
 public:
  explicit TimedExchange(std::unique_ptr<Exchange> inner) : inner_(std::move(inner)) {}
  [[nodiscard]] Index owned() const override { return inner_->owned(); }
  [[nodiscard]] Index ghosts() const override { return inner_->ghosts(); }
  void gather_begin(NodeView<const float> owned, NodeView<float> ghost) override {
    timed([&] { inner_->gather_begin(owned, ghost); });
  }
  void gather_begin(NodeView<const double> owned, NodeView<double> ghost) override {
    timed([&] { inner_->gather_begin(owned, ghost); });
  }
  void gather_end() override {
    timed([&] { inner_->gather_end(); });
  }
  void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) override {
    timed([&] { inner_->scatter_add_begin(ghost, owned); });
  }
  void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) override {
    timed([&] { inner_->scatter_add_begin(ghost, owned); });
  }
  void scatter_add_end() override {
    timed([&] { inner_->scatter_add_end(); });
  }
  [[nodiscard]] Traffic sent() const override { return inner_->sent(); }
  [[nodiscard]] Traffic gather_cost(Index row_bytes) const override { return inner_->gather_cost(row_bytes); }
  [[nodiscard]] Traffic scatter_cost(Index row_bytes) const override {
    return inner_->scatter_cost(row_bytes);
  }

  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  template <class Call>
  void timed(const Call& call) {
    const auto begin = Clock::now();
    call();
    seconds_ += seconds_between(begin, Clock::now());
  }

  std::unique_ptr<Exchange> inner_;
  double seconds_ = 0;
};

/// A reducer that records begin and end of its last reduction: in a training step, the fused allreduce.
class TimedReducer final : public Reducer {
 public:
  explicit TimedReducer(std::unique_ptr<Reducer> inner) : inner_(std::move(inner)) {}
  void sum(std::span<double> values) override {
    timed([&] { inner_->sum(values); });
  }
  void sum(std::span<float> values) override {
    timed([&] { inner_->sum(values); });
  }
  void sum_begin(std::span<double> values) override { inner_->sum_begin(values); }
  void sum_begin(std::span<float> values) override { inner_->sum_begin(values); }
  void sum_end() override { inner_->sum_end(); }
  void max(std::span<double> values) override {
    timed([&] { inner_->max(values); });
  }
  void ordered_sum(std::span<double> values) override {
    timed([&] { inner_->ordered_sum(values); });
  }
  [[nodiscard]] bool alone() const override { return inner_->alone(); }
  [[nodiscard]] Traffic sent() const override { return inner_->sent(); }

  [[nodiscard]] Clock::time_point last_begin() const { return begin_; }
  [[nodiscard]] Clock::time_point last_end() const { return end_; }

 private:
  template <class Call>
  void timed(const Call& call) {
    begin_ = Clock::now();
    call();
    end_ = Clock::now();
  }

  std::unique_ptr<Reducer> inner_;
  Clock::time_point begin_, end_;
};

}  // namespace rossby::bench
