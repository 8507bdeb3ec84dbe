#pragma once

#include <cstddef>
#include <span>

#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: values that go from a rank to the rank of another time group that owns the same rows. What one group
/// sends to another arrives in the order in which it was sent.
class GroupLink {
 public:
  virtual ~GroupLink() = default;
  /// Takes a copy and returns at once.
  virtual void send(int group, std::span<const std::byte> values) = 0;
  /// Returns when the values are here; their number is what that group sends.
  virtual void receive(int group, std::span<std::byte> values) = 0;
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
