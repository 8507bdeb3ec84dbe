#pragma once

#include <cstddef>
#include <vector>

namespace rossby {

/// Port for the all-to-all messages of distributed set-up code (builders, redistribution). Not for training
/// steps.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  [[nodiscard]] virtual int part() const = 0;
  [[nodiscard]] virtual int parts() const = 0;
  /// Sends messages[p] to part p. Returns the messages from all parts, in part order. Collective.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> messages) = 0;
};

/// The mailbox of a single part: it receives its own message.
class OneMailbox final : public Mailbox {
 public:
  [[nodiscard]] int part() const override { return 0; }
  [[nodiscard]] int parts() const override { return 1; }
  [[nodiscard]] std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> messages) override {
    return messages;
  }
};

}  // namespace rossby
