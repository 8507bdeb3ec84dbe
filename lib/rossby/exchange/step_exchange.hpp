#pragma once

#include <span>
#include <vector>

#include "rossby/base/error.hpp"
#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: moves time steps between the groups of a process grid. A rank exchanges with the ranks of other
/// groups that own the same rows. Collective over those ranks, in the same order; each message must be what
/// the receiver expects. Only one transfer runs at a time. Between begin and end the caller may compute but
/// must not touch the memory of either side.
class StepExchange {
 public:
  virtual ~StepExchange() = default;
  [[nodiscard]] virtual int groups() const = 0;
  [[nodiscard]] virtual int group() const = 0;

  /// outgoing[g]: the steps for group g, `width` floats each. incoming[g]: receives the steps of group g,
  /// side by side in sending order. One message per pair of groups.
  virtual void begin(Index width, std::span<const std::vector<const float*>> outgoing,
                     std::span<const std::span<float>> incoming) = 0;
  virtual void end() = 0;
  /// Traffic sent by this rank since construction.
  [[nodiscard]] virtual Traffic sent() const = 0;
};

/// The exchange of a single group: nothing moves.
class OneGroup final : public StepExchange {
 public:
  [[nodiscard]] int groups() const override { return 1; }
  [[nodiscard]] int group() const override { return 0; }
  void begin(Index, std::span<const std::vector<const float*>>, std::span<const std::span<float>>) override {
    require(!open_, "a transfer begins before the last one has ended");
    open_ = true;
  }
  void end() override {
    require(open_, "a transfer ends that has not begun");
    open_ = false;
  }
  [[nodiscard]] Traffic sent() const override { return {}; }

 private:
  bool open_ = false;
};

}  // namespace rossby
