#include "rossby/mpi/gather_nodes.hpp"

#include <algorithm>
#include <cstring>

#include "rossby/mpi/mpi_mailbox.hpp"

namespace rossby {

std::vector<float> gather_nodes(const Communicator& comm, const RowPartition& partition,
                                std::span<const float> owned, Index columns) {
  MpiMailbox mailbox(comm);
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm.size()));
  letters[0].resize(owned.size_bytes());
  if (!owned.empty()) std::memcpy(letters[0].data(), owned.data(), owned.size_bytes());
  const auto received = mailbox.swap(std::move(letters));
  std::vector<float> all;
  if (comm.rank() != 0) return all;
  all.resize(static_cast<std::size_t>(partition.rows() * columns));
  for (int part = 0; part < partition.parts(); ++part) {
    const std::byte* from = received[static_cast<std::size_t>(part)].data();
    const auto row_bytes = static_cast<std::size_t>(columns) * sizeof(float);
    for (Index p = partition.begin(part); p < partition.end(part); ++p, from += row_bytes)
      std::memcpy(all.data() + partition.global(Position{p}).value * columns, from, row_bytes);
  }
  return all;
}

}  // namespace rossby
