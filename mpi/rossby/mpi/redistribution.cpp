#include "rossby/mpi/redistribution.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "rossby/base/error.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

void copy(const std::byte* from, Index bytes, std::byte* to) {
  if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace

RowRedistribution::RowRedistribution(const Communicator& comm, const RowPartition& partition)
    : RowRedistribution(
          comm, partition,
          partition.identity() ? partition : RowPartition::blocks(partition.rows(), comm.size())) {}

RowRedistribution::RowRedistribution(const Communicator& comm, const RowPartition& partition,
                                     RowPartition blocks)
    : comm_(comm), partition_(partition), blocks_(std::move(blocks)), moves_(!partition.identity()) {
  for (int p = 0; p < comm.size() && !moves_; ++p) moves_ = partition_.begin(p) != blocks_.begin(p);
  require(partition.parts() == comm.size(), "parts are the ranks");
  for (int p = 0; p < comm.size(); ++p) largest_ = std::max({largest_, partition_.size(p), blocks_.size(p)});
  if (!moves_) return;
  order_ = partition_.by_global_row(comm.rank());
  for (const Index i : order_)
    block_of_.push_back(blocks_.owner(partition_.global(Position{partition_.begin(comm.rank()) + i})));
  for (Index row = begin(); row < begin() + block_rows(); ++row)
    owner_of_.push_back(partition_.owner(GlobalRow{row}));
}

void RowRedistribution::to_blocks(const std::byte* local, Index outer, Index inner, std::byte* block) const {
  if (!moves_) return copy(local, outer * owned() * inner, block);
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm_.size()));
  for (std::size_t k = 0; k < order_.size(); ++k) {
    auto& letter = letters[static_cast<std::size_t>(block_of_[k])];
    const std::size_t end = letter.size();
    letter.resize(end + static_cast<std::size_t>(outer * inner));
    for (Index o = 0; o < outer; ++o)
      copy(local + (o * owned() + order_[k]) * inner, inner, letter.data() + end + o * inner);
  }
  const auto received = MpiMailbox(comm_).swap(std::move(letters));
  std::vector<Index> at(received.size(), 0);
  for (std::size_t b = 0; b < owner_of_.size(); ++b) {
    const auto owner = static_cast<std::size_t>(owner_of_[b]);
    for (Index o = 0; o < outer; ++o, at[owner] += inner)
      copy(received[owner].data() + at[owner], inner,
           block + (o * block_rows() + static_cast<Index>(b)) * inner);
  }
}

void RowRedistribution::from_blocks(const std::byte* block, Index outer, Index inner,
                                    std::byte* local) const {
  if (!moves_) return copy(block, outer * owned() * inner, local);
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(comm_.size()));
  for (std::size_t b = 0; b < owner_of_.size(); ++b) {
    auto& letter = letters[static_cast<std::size_t>(owner_of_[b])];
    const std::size_t end = letter.size();
    letter.resize(end + static_cast<std::size_t>(outer * inner));
    for (Index o = 0; o < outer; ++o)
      copy(block + (o * block_rows() + static_cast<Index>(b)) * inner, inner,
           letter.data() + end + o * inner);
  }
  const auto received = MpiMailbox(comm_).swap(std::move(letters));
  std::vector<Index> at(received.size(), 0);
  for (std::size_t k = 0; k < order_.size(); ++k) {
    const auto from = static_cast<std::size_t>(block_of_[k]);
    for (Index o = 0; o < outer; ++o, at[from] += inner)
      copy(received[from].data() + at[from], inner, local + (o * owned() + order_[k]) * inner);
  }
}

EntryRedistribution::EntryRedistribution(const RowRedistribution& rows, const GlobalEdges& edges)
    : rows_(rows) {
  require(edges.rows == rows.owned(), "entries belong to the owned rows");
  std::vector<Index> counts;
  local_begin_.push_back(0);
  for (Index i = 0; i < edges.rows; ++i) {
    counts.push_back(edges.relations > 0 ? edges.end(i, edges.relations - 1) - edges.begin(i, 0) : 0);
    local_begin_.push_back(local_begin_.back() + counts.back());
  }
  block_counts_.resize(static_cast<std::size_t>(rows.block_rows()));
  rows.to_blocks(reinterpret_cast<const std::byte*>(counts.data()), 1, sizeof(Index),
                 reinterpret_cast<std::byte*>(block_counts_.data()));
  count_ = std::accumulate(block_counts_.begin(), block_counts_.end(), Index{0});
  const MPI_Comm comm = rows.communicator().handle();
  const Wait wait(rows.communicator(), "a count of entries (exscan, allreduce)");
  MPI_Exscan(&count_, &first_, 1, MPI_INT64_T, MPI_SUM, comm);
  if (rows.communicator().rank() == 0) first_ = 0;  // MPI leaves it undefined there
  MPI_Allreduce(&count_, &total_, 1, MPI_INT64_T, MPI_SUM, comm);
  MPI_Allreduce(&count_, &largest_, 1, MPI_INT64_T, MPI_MAX, comm);
}

void EntryRedistribution::to_blocks(const std::byte* local, Index bytes, std::byte* block) const {
  if (!rows_.moves_) return copy(local, count_ * bytes, block);
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(rows_.comm_.size()));
  for (std::size_t k = 0; k < rows_.order_.size(); ++k) {
    auto& letter = letters[static_cast<std::size_t>(rows_.block_of_[k])];
    const auto i = static_cast<std::size_t>(rows_.order_[k]);
    letter.insert(letter.end(), local + local_begin_[i] * bytes, local + local_begin_[i + 1] * bytes);
  }
  const auto received = MpiMailbox(rows_.comm_).swap(std::move(letters));
  std::vector<Index> at(received.size(), 0);
  for (std::size_t b = 0; b < block_counts_.size(); ++b) {
    const auto owner = static_cast<std::size_t>(rows_.owner_of_[b]);
    copy(received[owner].data() + at[owner], block_counts_[b] * bytes, block);
    at[owner] += block_counts_[b] * bytes;
    block += block_counts_[b] * bytes;
  }
}

void EntryRedistribution::from_blocks(const std::byte* block, Index bytes, std::byte* local) const {
  if (!rows_.moves_) return copy(block, count_ * bytes, local);
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(rows_.comm_.size()));
  for (std::size_t b = 0; b < block_counts_.size(); ++b) {
    auto& letter = letters[static_cast<std::size_t>(rows_.owner_of_[b])];
    letter.insert(letter.end(), block, block + block_counts_[b] * bytes);
    block += block_counts_[b] * bytes;
  }
  const auto received = MpiMailbox(rows_.comm_).swap(std::move(letters));
  std::vector<Index> at(received.size(), 0);
  for (std::size_t k = 0; k < rows_.order_.size(); ++k) {
    const auto from = static_cast<std::size_t>(rows_.block_of_[k]);
    const auto i = static_cast<std::size_t>(rows_.order_[k]);
    const Index size = (local_begin_[i + 1] - local_begin_[i]) * bytes;
    copy(received[from].data() + at[from], size, local + local_begin_[i] * bytes);
    at[from] += size;
  }
}

}  // namespace rossby
