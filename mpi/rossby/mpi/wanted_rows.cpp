#include "rossby/mpi/wanted_rows.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "rossby/mpi/mpi_mailbox.hpp"

namespace rossby {

WantedRows wanted_rows(const Communicator& comm, const RowPartition& partition, const GhostList& ghosts) {
  WantedRows wanted;
  const auto ranks = static_cast<std::size_t>(comm.size());
  for (int r = 0; r < comm.size(); ++r) wanted.peers.push_back({r, 0, 0, 0, 0});
  // Every rank tells owners which of their rows it wants. It also sends itself such a message.
  std::vector<std::vector<std::byte>> letters(ranks);
  for (std::size_t g = 0; g < ghosts.size(); ++g) {
    const int owner = partition.owner(ghosts[g]);
    WantedRows::Peer& peer = wanted.peers[static_cast<std::size_t>(owner)];
    if (peer.ghosts++ == 0) peer.first_ghost = static_cast<Index>(g);
    const auto row = static_cast<LocalColumn>(ghosts[g].value - partition.begin(owner));
    auto& letter = letters[static_cast<std::size_t>(owner)];
    letter.resize(letter.size() + sizeof row);
    std::memcpy(letter.data() + letter.size() - sizeof row, &row, sizeof row);
  }
  MpiMailbox mailbox(comm);
  const auto requests = mailbox.swap(std::move(letters));
  for (std::size_t r = 0; r < ranks; ++r) {
    wanted.peers[r].first = std::ssize(wanted.sent);
    wanted.peers[r].rows = static_cast<Index>(requests[r].size() / sizeof(LocalColumn));
    wanted.sent.resize(wanted.sent.size() + static_cast<std::size_t>(wanted.peers[r].rows));
    if (!requests[r].empty())
      std::memcpy(wanted.sent.data() + wanted.peers[r].first, requests[r].data(), requests[r].size());
  }
  std::vector<LocalEntry> order(wanted.sent.size());
  for (std::size_t k = 0; k < order.size(); ++k) order[k] = static_cast<LocalEntry>(k);
  std::stable_sort(order.begin(), order.end(), [&](LocalEntry a, LocalEntry b) {
    return wanted.sent[static_cast<std::size_t>(a)] < wanted.sent[static_cast<std::size_t>(b)];
  });
  for (const LocalEntry place : order) {
    const LocalColumn row = wanted.sent[static_cast<std::size_t>(place)];
    if (wanted.rows.empty() || wanted.rows.back() != row) {
      wanted.rows.push_back(row);
      wanted.ptr.push_back(static_cast<LocalEntry>(wanted.position.size()));
    }
    wanted.position.push_back(place);
  }
  wanted.ptr.push_back(static_cast<LocalEntry>(wanted.position.size()));
  return wanted;
}

}  // namespace rossby
