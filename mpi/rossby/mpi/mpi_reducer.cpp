#include "rossby/mpi/mpi_reducer.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

/// MPI_MAX leaves the result for NaN open. Ranks with different results would diverge.
void max_or_nan(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const double*>(in);
  auto* b = static_cast<double*>(inout);
  for (int i = 0; i < *count; ++i)
    if (std::isnan(a[i]) || a[i] > b[i]) b[i] = a[i];
}

constexpr std::size_t chunk = std::size_t{1} << 28;  // values in one call: counts are 31 bits

}  // namespace

MpiReducer::MpiReducer(const Communicator& comm) : comm_(comm) {
  MPI_Op_create(max_or_nan, 1, &max_or_nan_);
}

MpiReducer::~MpiReducer() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Op_free(&max_or_nan_);
}

void MpiReducer::reduce(void* values, std::size_t count, std::size_t size, MPI_Datatype type, MPI_Op op) {
  if (comm_.size() == 1) return;
  const Wait wait(comm_, op == MPI_SUM ? "a sum over ranks (allreduce)" : "a maximum over ranks (allreduce)");
  for (std::size_t at = 0; at < count; at += chunk) {
    const auto here = static_cast<int>(std::min(chunk, count - at));
    MPI_Allreduce(MPI_IN_PLACE, static_cast<std::byte*>(values) + at * size, here, type, op, comm_.handle());
    sent_ += {1, here * static_cast<Index>(size)};
  }
}

void MpiReducer::sum(std::span<double> values) {
  reduce(values.data(), values.size(), sizeof(double), MPI_DOUBLE, MPI_SUM);
}

void MpiReducer::sum(std::span<float> values) {
  reduce(values.data(), values.size(), sizeof(float), MPI_FLOAT, MPI_SUM);
}

void MpiReducer::begin(void* values, std::size_t count, std::size_t size, MPI_Datatype type) {
  if (comm_.size() == 1) return;
  const Wait wait(comm_, "the start of a sum over ranks (iallreduce)");
  for (std::size_t at = 0; at < count; at += chunk) {
    const auto here = static_cast<int>(std::min(chunk, count - at));
    MPI_Iallreduce(MPI_IN_PLACE, static_cast<std::byte*>(values) + at * size, here, type, MPI_SUM,
                   comm_.handle(), &open_.emplace_back());
    sent_ += {1, here * static_cast<Index>(size)};
  }
}

void MpiReducer::sum_begin(std::span<double> values) {
  begin(values.data(), values.size(), sizeof(double), MPI_DOUBLE);
}

void MpiReducer::sum_begin(std::span<float> values) {
  begin(values.data(), values.size(), sizeof(float), MPI_FLOAT);
}

void MpiReducer::sum_end() {
  const Wait wait(comm_, "the end of a sum over ranks (iallreduce)");
  MPI_Waitall(static_cast<int>(open_.size()), open_.data(), MPI_STATUSES_IGNORE);
  open_.clear();
}

bool MpiReducer::sum_done() {
  int all = 0;
  MPI_Testall(static_cast<int>(open_.size()), open_.data(), &all, MPI_STATUSES_IGNORE);
  if (all != 0) open_.clear();
  return all != 0;
}

void MpiReducer::max(std::span<double> values) {
  reduce(values.data(), values.size(), sizeof(double), MPI_DOUBLE, max_or_nan_);
}

void MpiReducer::ordered_sum(std::span<double> values) {
  const auto parts = static_cast<std::size_t>(comm_.size());
  if (parts == 1 || values.empty()) return;
  require(values.size() < chunk, "an ordered sum takes fewer than 2^28 values");
  const std::size_t count = values.size();
  const auto others = static_cast<Index>(parts) - 1;
  sent_ += {others, others * static_cast<Index>(values.size_bytes())};
  if (comm_.is_pretended()) return;
  contributions_.resize(parts * count);
  const Wait wait(comm_, "a sum in rank order (allgather)");
  MPI_Allgather(values.data(), static_cast<int>(count), MPI_DOUBLE, contributions_.data(),
                static_cast<int>(count), MPI_DOUBLE, comm_.handle());
  std::copy_n(contributions_.begin(), count, values.begin());
  for (std::size_t p = 1; p < parts; ++p)
    for (std::size_t i = 0; i < count; ++i) values[i] += contributions_[p * count + i];
}

}  // namespace rossby
