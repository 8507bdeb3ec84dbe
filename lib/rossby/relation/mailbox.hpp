#pragma once

#include <cstddef>
#include <vector>

namespace rossby {

/// Port for the all-to-all messages of distributed set-up code (builders, redistribution). Not for the
/// training step.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  [[nodiscard]] virtual int part() const = 0;
  [[nodiscard]] virtual int parts() const = 0;
  /// Collective. Delivers letters[p] to part p; returns what each part sent here, in part order.
  [[nodiscard]] virtual std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> letters) = 0;
};

/// The only inhabitant talks to himself.
class OneMailbox final : public Mailbox {
 public:
  [[nodiscard]] int part() const override { return 0; }
  [[nodiscard]] int parts() const override { return 1; }
  [[nodiscard]] std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> letters) override {
    return letters;
  }
};

}  // namespace rossby
