#pragma once

#include <vector>

#include <mpi.h>

#include "rossby/exchange/step_exchange.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Moves steps between groups by point-to-point messages; group = rank of the communicator. Receives in
/// place, sends from one packed buffer. A message has fewer than 2³¹ steps of `width` floats.
class MpiStepExchange final : public StepExchange {
 public:
  /// `comm` connects the ranks that own the same rows, one per group. Collective: creates a separate message
  /// space.
  explicit MpiStepExchange(const Communicator& comm) : comm_(comm.duplicate()) {}
  ~MpiStepExchange() override;
  MpiStepExchange(const MpiStepExchange&) = delete;
  MpiStepExchange& operator=(const MpiStepExchange&) = delete;

  [[nodiscard]] int groups() const override { return comm_.size(); }
  [[nodiscard]] int group() const override { return comm_.rank(); }
  void begin(Index width, std::span<const std::vector<const float*>> outgoing,
             std::span<const std::span<float>> incoming) override;
  void end() override;
  [[nodiscard]] Traffic sent() const override { return sent_; }

 private:
  Communicator comm_;
  std::vector<MPI_Request> open_;
  std::vector<float> packed_;
  bool busy_ = false;
  Traffic sent_;
};

}  // namespace rossby
