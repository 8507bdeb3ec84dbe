#pragma once

#include <functional>
#include <utility>
#include <vector>

#include <mpi.h>

#include "rossby/mpi/nccl_api.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::test {

/// NCCL's calls over MPI, in the second queue of a simulated device. Messages move while ranks wait, as
/// between GPUs. Calls fail on request.
class FakeNccl final : public NcclApi {
 public:
  /// Uses the ranks of `comm` in a message space of its own, because messages of the hosts are in a different
  /// order. Collective.
  explicit FakeNccl(MPI_Comm comm) { MPI_Comm_dup(comm, &comm_); }
  ~FakeNccl() override { MPI_Comm_free(&comm_); }
  int fail_id = 0, fail_init = 0, fail_group = 0, fail_later = 0, fail_sum = 0;
  mutable Index open = 0;     // communicators not destroyed, not aborted
  mutable Index aborted = 0;  // communicators aborted

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
  int comm_abort(void*) const override { return --open, ++aborted, 0; }
  int group_start() const override { return messages_.clear(), sums_.clear(), in_group_ = true, 0; }
  int group_end() const override {
    in_group_ = false;
    if (fail_group != 0) return fail_group;
    if (!queue_) return 0;
    queue_->enqueue([comm = comm_, messages = std::exchange(messages_, {}), sums = std::exchange(sums_, {})] {
      std::vector<MPI_Request> requests;
      for (const Message& m : messages) {
        const auto count = static_cast<int>(m.bytes);
        if (m.to)
          MPI_Irecv(m.to, count, MPI_CHAR, m.peer, 7, comm, &requests.emplace_back());
        else
          MPI_Isend(m.from, count, MPI_CHAR, m.peer, 7, comm, &requests.emplace_back());
      }
      MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
      for (const Sum& sum : sums)
        MPI_Allreduce(MPI_IN_PLACE, sum.values, static_cast<int>(sum.count),
                      sum.is_double ? MPI_DOUBLE : MPI_FLOAT, MPI_SUM, comm);
    });
    return 0;
  }
  int send(const void* from, std::size_t bytes, int peer, void*, void* queue) const override {
    queue_ = static_cast<Queue*>(queue);
    messages_.push_back({from, nullptr, bytes, peer});
    return 0;
  }
  int receive(void* to, std::size_t bytes, int peer, void*, void* queue) const override {
    queue_ = static_cast<Queue*>(queue);
    messages_.push_back({nullptr, to, bytes, peer});
    return 0;
  }
  int all_reduce(void* values, std::size_t count, bool is_double, void*, void* queue) const override {
    if (fail_sum != 0) return fail_sum;
    if (!in_group_) return 5;  // ncclInvalidUsage; NCCL would run it at once
    queue_ = static_cast<Queue*>(queue);
    sums_.push_back({values, count, is_double});
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

  struct Sum {
    void* values;
    std::size_t count;
    bool is_double;
  };
  using Queue = SimulatedDriver::SideQueue;

  MPI_Comm comm_ = MPI_COMM_NULL;
  mutable Queue* queue_ = nullptr;
  mutable std::vector<Message> messages_;
  mutable std::vector<Sum> sums_;
  mutable bool in_group_ = false;
};

}  // namespace rossby::test
