#pragma once

#include <span>
#include <vector>

#include "rossby/exchange/reducer.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Sums over the ranks of a communicator by MPI_Allreduce and MPI_Iallreduce. NaN wins every maximum, on
/// every rank. `sent` counts a call as one message with this rank's values, because the library chooses the
/// algorithm. It counts ordered_sum as P − 1 messages, because each rank sends its values to every other.
/// Nothing is counted on one rank.
class MpiReducer final : public Reducer {
 public:
  explicit MpiReducer(const Communicator& comm);
  MpiReducer(const MpiReducer&) = delete;
  MpiReducer& operator=(const MpiReducer&) = delete;
  ~MpiReducer() override;

  void sum(std::span<double> values) override;
  void sum(std::span<float> values) override;
  void sum_begin(std::span<double> values) override;
  void sum_begin(std::span<float> values) override;
  void sum_end() override;
  [[nodiscard]] bool sum_done() override;
  void max(std::span<double> values) override;
  void ordered_sum(std::span<double> values) override;
  [[nodiscard]] bool alone() const override { return comm_.size() == 1; }
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  void begin(void* values, std::size_t count, std::size_t size, MPI_Datatype type);
  void reduce(void* values, std::size_t count, std::size_t size, MPI_Datatype type, MPI_Op op);

  Communicator comm_;
  MPI_Op max_or_nan_ = MPI_OP_NULL;
  std::vector<MPI_Request> open_;
  std::vector<double> contributions_;
  Traffic sent_;
};

}  // namespace rossby
