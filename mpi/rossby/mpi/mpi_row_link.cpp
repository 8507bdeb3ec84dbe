#include "rossby/mpi/mpi_row_link.hpp"

#include <limits>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

constexpr Index piece = std::numeric_limits<int>::max();

/// Type and count of one message of any size, because MPI counts are ints.
MPI_Datatype bytes_of(std::size_t size, int& count) {
  const auto whole = static_cast<Index>(size);
  if (whole <= piece) {
    count = static_cast<int>(whole);
    return MPI_BYTE;
  }
  require(whole % 4 == 0 && whole / 4 <= piece, "a message between groups or stages has at most 8 GiB");
  count = static_cast<int>(whole / 4);
  return MPI_FLOAT;
}

}  // namespace

MpiRowLink::~MpiRowLink() {
  for (Message& message : open_) {
    MPI_Cancel(&message.request);
    MPI_Request_free(&message.request);
  }
}

void MpiRowLink::send(int to, std::span<const std::byte> values) {
  while (!open_.empty()) {
    int done = 0;
    MPI_Test(&open_.front().request, &done, MPI_STATUS_IGNORE);
    if (!done) break;
    spare_.push_back(std::move(open_.front().values));
    open_.pop_front();
  }
  Message& message = open_.emplace_back();
  if (!spare_.empty()) {
    message.values = std::move(spare_.back());
    spare_.pop_back();
  }
  message.values.assign(values.begin(), values.end());
  int count = 0;
  const MPI_Datatype type = bytes_of(values.size(), count);
  MPI_Isend(message.values.data(), count, type, to, 0, comm_.handle(), &message.request);
  sent_ += {1, static_cast<Index>(values.size())};
}

void MpiRowLink::receive(int from, std::span<std::byte> values) {
  const Wait wait(comm_, "values of another time group or stage (point to point)");
  int count = 0;
  const MPI_Datatype type = bytes_of(values.size(), count);
  MPI_Recv(values.data(), count, type, from, 0, comm_.handle(), MPI_STATUS_IGNORE);
}

std::span<const std::byte> MpiGroupGather::gather(std::span<const std::byte> mine, std::span<Index> sizes) {
  require(std::ssize(sizes) == comm_.size(), "a size for every group");
  const Wait wait(comm_, "factors of other time groups (allgather)");
  const Index size = std::ssize(mine);
  MPI_Allgather(&size, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, comm_.handle());
  counts_.clear();
  places_.clear();
  Index total = 0;
  for (const Index bytes : sizes) {
    require(bytes % 4 == 0 && (total + bytes) / 4 <= piece, "groups gather at most 8 GiB of scalars");
    counts_.push_back(static_cast<int>(bytes / 4));
    places_.push_back(static_cast<int>(total / 4));
    total += bytes;
  }
  if (std::ssize(all_) < total) all_.resize(static_cast<std::size_t>(total));
  MPI_Allgatherv(mine.data(), static_cast<int>(size / 4), MPI_FLOAT, all_.data(), counts_.data(),
                 places_.data(), MPI_FLOAT, comm_.handle());
  const Index others = comm_.size() - 1;
  sent_ += {others, others * size};
  return {all_.data(), static_cast<std::size_t>(total)};
}

}  // namespace rossby
