#pragma once

#include <cstddef>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/relation/mailbox.hpp"

namespace rossby {

/// All-to-all messages of any size. Part = rank of the communicator. Messages are sent in pieces of at most
/// `piece` bytes, so that counts fit into 31 bits. Empty messages are not sent.
class MpiMailbox final : public Mailbox {
 public:
  explicit MpiMailbox(const Communicator& comm, std::size_t piece = std::size_t{1} << 26);

  [[nodiscard]] int part() const override { return comm_.rank(); }
  [[nodiscard]] int parts() const override { return comm_.size(); }
  [[nodiscard]] std::vector<std::vector<std::byte>> swap(
      std::vector<std::vector<std::byte>> letters) override;

 private:
  Communicator comm_;
  std::size_t piece_;
};

}  // namespace rossby
