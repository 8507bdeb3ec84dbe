#pragma once

#include "rossby/base/error.hpp"
#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

/// The exchange of a rank that owns all rows: no ghosts, nothing moves.
class OneRankExchange final : public Exchange {
 public:
  explicit OneRankExchange(Index owned) : owned_(owned) {}
  [[nodiscard]] Index owned() const override { return owned_; }
  [[nodiscard]] Index ghosts() const override { return 0; }
  void gather_begin(NodeView<const float>, NodeView<float>) override { begin(); }
  void gather_begin(NodeView<const double>, NodeView<double>) override { begin(); }
  void gather_end() override { end(); }
  void scatter_add_begin(NodeView<const float>, NodeView<float>) override { begin(); }
  void scatter_add_begin(NodeView<const double>, NodeView<double>) override { begin(); }
  void scatter_add_end() override { end(); }
  [[nodiscard]] Traffic sent() const override { return {}; }
  [[nodiscard]] Traffic gather_cost(Index) const override { return {}; }
  [[nodiscard]] Traffic scatter_cost(Index) const override { return {}; }

 private:
  void begin() {
    require(!open_, "an exchange begins before the last one has ended");
    open_ = true;
  }
  void end() {
    require(open_, "an exchange ends that has not begun");
    open_ = false;
  }
  Index owned_;
  bool open_ = false;
};

class OneRankReducer final : public Reducer {
 public:
  void sum(std::span<double>) override {}
  void sum(std::span<float>) override {}
  void max(std::span<double>) override {}
  void ordered_sum(std::span<double>) override {}
  [[nodiscard]] bool alone() const override { return true; }
  [[nodiscard]] Traffic sent() const override { return {}; }
};

}  // namespace rossby
