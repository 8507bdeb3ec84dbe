#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <mpi.h>

#include "rossby/mpi/nccl_api.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::testing {

/// NCCL's calls over MPI, in the queue of a simulated device: messages move when the ranks wait, as they
/// would between GPUs. Calls fail when they are told to.
class FakeNccl final : public NcclApi {
 public:
  explicit FakeNccl(MPI_Comm comm) : comm_(comm) {}
  int fail_id = 0, fail_init = 0, fail_group = 0, fail_later = 0, fail_sum = 0;
  mutable Index open = 0;  // communicators that were not destroyed

  int unique_id(Id* id) const override { return id->bytes[5] = 42, fail_id; }
  int comm_init(void** comm, int ranks, const Id& id, int rank) const override {
    int own_rank = 0, own_ranks = 0;
    MPI_Comm_rank(comm_, &own_rank);
    MPI_Comm_size(comm_, &own_ranks);
    if (id.bytes[5] != 42 || rank != own_rank || ranks != own_ranks) return 4;
    if (fail_init == 0) *comm = const_cast<FakeNccl*>(this), ++open;
    return fail_init;
  }
  int comm_destroy(void*) const override { return --open, 0; }
  int group_start() const override { return messages_.clear(), 0; }
  int group_end() const override {
    if (fail_group != 0) return fail_group;
    if (!driver_) return 0;
    driver_->enqueue([comm = comm_, messages = std::exchange(messages_, {})] {
      std::vector<MPI_Request> requests;
      for (const Message& m : messages) {
        const auto count = static_cast<int>(m.bytes);
        if (m.to)
          MPI_Irecv(m.to, count, MPI_CHAR, m.peer, 7, comm, &requests.emplace_back());
        else
          MPI_Isend(m.from, count, MPI_CHAR, m.peer, 7, comm, &requests.emplace_back());
      }
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    });
    return 0;
  }
  int send(const void* from, std::size_t bytes, int peer, void*, void* queue) const override {
    driver_ = static_cast<SimulatedDriver*>(queue);
    messages_.push_back({from, nullptr, bytes, peer});
    return 0;
  }
  int receive(void* to, std::size_t bytes, int peer, void*, void* queue) const override {
    driver_ = static_cast<SimulatedDriver*>(queue);
    messages_.push_back({nullptr, to, bytes, peer});
    return 0;
  }
  int all_reduce(void* values, std::size_t count, bool is_double, void*, void* queue) const override {
    if (fail_sum != 0) return fail_sum;
    static_cast<SimulatedDriver*>(queue)->enqueue([=, comm = comm_] {
      MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), is_double ? MPI_DOUBLE : MPI_FLOAT,
                    MPI_SUM, comm);
    });
    return 0;
  }
  int async_error(void*) const override { return fail_later; }
  [[nodiscard]] std::string error_text(int error) const override {
    return "text of " + std::to_string(error);
  }

 private:
  struct Message {
    const void* from;
    void* to;
    std::size_t bytes;
    int peer;
  };

  MPI_Comm comm_;
  mutable SimulatedDriver* driver_ = nullptr;
  mutable std::vector<Message> messages_;
};

}  // namespace rossby::testing
