#pragma once

#include <cstddef>
#include <span>

#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// Port: sends values between ranks that own the same rows in different time groups or pipeline stages.
/// Messages between two ranks arrive in the order sent.
class RowLink {
 public:
  virtual ~RowLink() = default;
  /// Sends to a group or stage. Copies the values and returns at once.
  virtual void send(int to, std::span<const std::byte> values) = 0;
  /// Returns when the values have arrived. Their number must match the message from `from`.
  virtual void receive(int from, std::span<std::byte> values) = 0;
  /// Traffic sent by this rank since construction.
  [[nodiscard]] virtual Traffic sent() const = 0;
};

/// Port: gathers the values of all time groups, between ranks that own the same rows.
class GroupGather {
 public:
  virtual ~GroupGather() = default;
  [[nodiscard]] virtual int groups() const = 0;
  [[nodiscard]] virtual int group() const = 0;
  /// Returns the values of all groups, one group after the other. sizes[g] gets the bytes of group g,
  /// multiples of 4, which may differ. Valid until the next call. Collective over groups.
  [[nodiscard]] virtual std::span<const std::byte> gather(std::span<const std::byte> mine,
                                                          std::span<Index> sizes) = 0;
  /// Traffic sent by this rank since construction: each call is one message to each other group.
  [[nodiscard]] virtual Traffic sent() const = 0;
};

}  // namespace rossby
