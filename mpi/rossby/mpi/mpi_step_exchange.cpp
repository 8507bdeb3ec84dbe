#include "rossby/mpi/mpi_step_exchange.hpp"

#include <algorithm>

#include "rossby/mpi/watchdog.hpp"

namespace rossby {

MpiStepExchange::~MpiStepExchange() {
  for (MPI_Request& request : open_) {
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiStepExchange::begin(Index width, std::span<const std::vector<const float*>> outgoing,
                            std::span<const std::span<float>> incoming) {
  require(!busy_, "a transfer begins before the last one has ended");
  require(static_cast<int>(outgoing.size()) == groups() && static_cast<int>(incoming.size()) == groups(),
          "a list for every group");
  busy_ = true;
  if (width == 0) return;
  MPI_Datatype step = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(width), MPI_FLOAT, &step);
  MPI_Type_commit(&step);
  std::size_t total = 0;
  for (const auto& list : outgoing) total += list.size();
  packed_.resize(total * static_cast<std::size_t>(width));
  for (int g = 0; g < groups(); ++g) {
    const std::span<float> to = incoming[static_cast<std::size_t>(g)];
    if (to.empty()) continue;
    open_.emplace_back();
    MPI_Irecv(to.data(), static_cast<int>(static_cast<Index>(to.size()) / width), step, g, 0, comm_.handle(),
              &open_.back());
  }
  float* next = packed_.data();
  for (int g = 0; g < groups(); ++g) {
    const auto& list = outgoing[static_cast<std::size_t>(g)];
    if (list.empty()) continue;
    const float* first = next;
    for (const float* values : list) next = std::copy_n(values, width, next);
    open_.emplace_back();
    MPI_Isend(first, static_cast<int>(list.size()), step, g, 0, comm_.handle(), &open_.back());
    sent_ += {1, static_cast<Index>(list.size()) * width * static_cast<Index>(sizeof(float))};
  }
  MPI_Type_free(&step);
}

void MpiStepExchange::end() {
  require(busy_, "a transfer ends that has not begun");
  const Wait wait(comm_, "time steps of other groups (point to point)");
  MPI_Waitall(static_cast<int>(open_.size()), open_.data(), MPI_STATUSES_IGNORE);
  open_.clear();
  busy_ = false;
}

}  // namespace rossby
