#pragma once

#include <deque>
#include <vector>

#include "rossby/exchange/group_link.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Between the ranks with one row block (ProcessGrid::time()), by non-blocking sends. Copies are held until
/// they have left.
class MpiGroupLink final : public GroupLink {
 public:
  explicit MpiGroupLink(const Communicator& time) : comm_(time.duplicate()) {}
  MpiGroupLink(const MpiGroupLink&) = delete;
  MpiGroupLink& operator=(const MpiGroupLink&) = delete;
  ~MpiGroupLink() override;

  void send(int group, std::span<const std::byte> values) override;
  void receive(int group, std::span<std::byte> values) override;
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  struct Message {
    std::vector<std::byte> values;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Communicator comm_;
  std::deque<Message> open_;  // in the order of sending
  std::vector<std::vector<std::byte>> spare_;
  Traffic sent_;
};

/// By MPI_Allgatherv.
class MpiGroupGather final : public GroupGather {
 public:
  explicit MpiGroupGather(const Communicator& time) : comm_(time) {}

  [[nodiscard]] int groups() const override { return comm_.size(); }
  [[nodiscard]] int group() const override { return comm_.rank(); }
  [[nodiscard]] std::span<const std::byte> gather(std::span<const std::byte> mine,
                                                  std::span<Index> sizes) override;
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  Communicator comm_;
  std::vector<std::byte> all_;
  std::vector<int> counts_, places_;
  Traffic sent_;
};

}  // namespace rossby
