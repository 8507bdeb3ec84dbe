#pragma once

#include <cstddef>
#include <span>

#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: values that go from a rank to another one that owns the same rows: that of another time group, or of
/// another stage of a pipeline. What one sends to another arrives in the order in which it was sent.
class RowLink {
 public:
  virtual ~RowLink() = default;
  /// To a group or stage. Takes a copy and returns at once.
  virtual void send(int to, std::span<const std::byte> values) = 0;
  /// Returns when the values are here; their number is what `from` sends.
  virtual void receive(int from, std::span<std::byte> values) = 0;
  /// What this rank has sent since construction.
  [[nodiscard]] virtual Traffic sent() const = 0;
};

/// Port: brings together what every time group has, between the ranks that own the same rows.
class GroupGather {
 public:
  virtual ~GroupGather() = default;
  [[nodiscard]] virtual int groups() const = 0;
  [[nodiscard]] virtual int group() const = 0;
  /// The values of all groups, one group after the other; sizes[g]: bytes of group g, multiples of 4, which
  /// may differ. Valid until the next call. Collective over groups.
  [[nodiscard]] virtual std::span<const std::byte> gather(std::span<const std::byte> mine,
                                                          std::span<Index> sizes) = 0;
  /// What this rank has sent since construction: a call is a message to each other group.
  [[nodiscard]] virtual Traffic sent() const = 0;
};

}  // namespace rossby
