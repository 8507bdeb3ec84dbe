#include "rossby/mpi/mpi_mailbox.hpp"

#include <algorithm>
#include <cstdint>

#include "rossby/base/error.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

MpiMailbox::MpiMailbox(const Communicator& comm, std::size_t piece) : comm_(comm.duplicate()), piece_(piece) {
  require(piece >= 1 && piece <= (std::size_t{1} << 30), "a piece of a letter has 1 to 2^30 bytes");
}

std::vector<std::vector<std::byte>> MpiMailbox::swap(std::vector<std::vector<std::byte>> letters) {
  const auto parts = static_cast<std::size_t>(comm_.size());
  require(letters.size() == parts, "one letter for each part");
  std::vector<std::uint64_t> out(parts);
  std::vector<std::uint64_t> in(parts);
  for (std::size_t p = 0; p < parts; ++p) out[p] = letters[p].size();
  const Wait wait(comm_, "an exchange of letters between all ranks (alltoall)");
  MPI_Alltoall(out.data(), 1, MPI_UINT64_T, in.data(), 1, MPI_UINT64_T, comm_.handle());

  std::vector<std::vector<std::byte>> received(parts);
  for (std::size_t p = 0; p < parts; ++p) received[p].resize(in[p]);
  const auto me = static_cast<std::size_t>(comm_.rank());
  received[me] = std::move(letters[me]);

  // MPI keeps the order of messages between two ranks, so pieces need no numbers.
  std::vector<MPI_Request> requests;
  const auto each_piece = [&](std::vector<std::byte>& letter, auto&& call) {
    for (std::size_t at = 0; at < letter.size(); at += piece_) {
      requests.push_back(MPI_REQUEST_NULL);
      call(letter.data() + at, static_cast<int>(std::min(piece_, letter.size() - at)), &requests.back());
    }
  };
  for (std::size_t shift = 1; shift < parts; ++shift) {
    const std::size_t from = (me + parts - shift) % parts;
    each_piece(received[from], [&](std::byte* data, int count, MPI_Request* request) {
      MPI_Irecv(data, count, MPI_BYTE, static_cast<int>(from), 0, comm_.handle(), request);
    });
  }
  for (std::size_t shift = 1; shift < parts; ++shift) {
    const std::size_t to = (me + shift) % parts;
    each_piece(letters[to], [&](std::byte* data, int count, MPI_Request* request) {
      MPI_Isend(data, count, MPI_BYTE, static_cast<int>(to), 0, comm_.handle(), request);
    });
  }
  MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  return received;
}

}  // namespace rossby
