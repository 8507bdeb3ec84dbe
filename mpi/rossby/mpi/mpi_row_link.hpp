#pragma once

#include <deque>
#include <vector>

#include "rossby/exchange/row_link.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Connects ranks with one row block (ProcessGrid::time() or stages()), by non-blocking sends. Keeps copies
/// until they have been sent.
class MpiRowLink final : public RowLink {
 public:
  explicit MpiRowLink(const Communicator& ranks) : comm_(ranks.duplicate()) {}
  MpiRowLink(const MpiRowLink&) = delete;
  MpiRowLink& operator=(const MpiRowLink&) = delete;
  ~MpiRowLink() override;

  void send(int to, std::span<const std::byte> values) override;
  void receive(int from, std::span<std::byte> values) override;
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  struct Message {
    std::vector<std::byte> values;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  Communicator comm_;
  std::deque<Message> open_;  // in sending order
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
