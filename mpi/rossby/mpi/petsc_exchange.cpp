#include "rossby/mpi/petsc_exchange.hpp"

#include <algorithm>
#include <cstring>

#include <petscsf.h>

#include "rossby/base/error.hpp"
#include "rossby/exchange/packing.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/petsc_library.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

void check_arguments(const Communicator& comm, const RowPartition& partition, int part,
                     const GhostList& ghosts) {
  require(part == comm.rank() && partition.parts() == comm.size(), "parts of an exchange are the ranks");
  require(std::is_sorted(ghosts.begin(), ghosts.end()) &&
              std::adjacent_find(ghosts.begin(), ghosts.end()) == ghosts.end(),
          "ghosts ascend and are named once");
  require(std::none_of(ghosts.begin(), ghosts.end(),
                       [&](Position p) {
                         return p.value < 0 || p.value >= partition.rows() || partition.owner(p) == part;
                       }),
          "ghosts are positions owned elsewhere");
}

/// The rows that this rank sends, and the sources of its ghosts.
struct Pattern {
  std::vector<LocalColumn> send_rows;
  std::vector<PetscSFNode> source;  // per ghost: owner, index in the owner's send rows
};

Pattern build_pattern(const Communicator& comm, const RowPartition& partition, const GhostList& ghosts) {
  MpiMailbox mailbox(comm);
  const auto parts = static_cast<std::size_t>(comm.size());
  Pattern pattern;
  pattern.source.resize(ghosts.size());
  std::vector<std::vector<std::byte>> wanted(parts);
  for (std::size_t g = 0; g < ghosts.size(); ++g) {
    const int owner = partition.owner(ghosts[g]);
    const auto row = static_cast<LocalColumn>(ghosts[g].value - partition.begin(owner));
    auto& letter = wanted[static_cast<std::size_t>(owner)];
    pattern.source[g] = {owner, static_cast<PetscInt>(letter.size() / sizeof(LocalColumn))};
    letter.resize(letter.size() + sizeof row);
    std::memcpy(letter.data() + letter.size() - sizeof row, &row, sizeof row);
  }
  const auto requests = mailbox.swap(std::move(wanted));

  // A receiver's rows start after those of earlier receivers. Tell it the start.
  std::vector<std::vector<std::byte>> starts(parts);
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t count = requests[p].size() / sizeof(LocalColumn);
    if (count == 0) continue;
    const auto start = static_cast<PetscInt>(pattern.send_rows.size());
    starts[p].resize(sizeof start);
    std::memcpy(starts[p].data(), &start, sizeof start);
    pattern.send_rows.resize(pattern.send_rows.size() + count);
    std::memcpy(pattern.send_rows.data() + start, requests[p].data(), requests[p].size());
  }
  const auto told = mailbox.swap(std::move(starts));
  for (PetscSFNode& node : pattern.source) {
    PetscInt start = 0;
    std::memcpy(&start, told[static_cast<std::size_t>(node.rank)].data(), sizeof start);
    node.index += start;
  }
  return pattern;
}

}  // namespace

PetscExchange::PetscExchange(const Communicator& comm, const RowPartition& partition, int part,
                             const GhostList& ghosts)
    : comm_(comm) {
  agree(comm, [&] {
    check_arguments(comm, partition, part, ghosts);
    load_petsc();
  });
  owned_ = partition.size(part);
  ghosts_ = static_cast<Index>(ghosts.size());
  Pattern pattern = build_pattern(comm, partition, ghosts);
  send_rows_ = std::move(pattern.send_rows);

  const Wait wait(comm, "the set-up of the halo exchange");
  ROSSBY_PETSC(PetscSFCreate, comm.handle(), &forest_);
  ROSSBY_PETSC(PetscSFSetType, forest_, PETSCSFBASIC);
  ROSSBY_PETSC(PetscSFSetGraph, forest_, static_cast<PetscInt>(send_rows_.size()),
               static_cast<PetscInt>(ghosts_), nullptr, PETSC_COPY_VALUES, pattern.source.data(),
               PETSC_COPY_VALUES);
  ROSSBY_PETSC(PetscSFSetUp, forest_);
  PetscInt count = 0;
  ROSSBY_PETSC(PetscSFGetRootRanks, forest_, &count, nullptr, nullptr, nullptr, nullptr);
  senders_ = count;
  ROSSBY_PETSC(PetscSFGetLeafRanks, forest_, &count, nullptr, nullptr, nullptr);
  receivers_ = count;
}

PetscExchange::~PetscExchange() {
  if (petsc_runs()) (void)ROSSBY_PETSC_FUNCTION(PetscSFDestroy)(&forest_);
}

Traffic PetscExchange::gather_cost(Index row_bytes) const {
  return row_bytes == 0 ? Traffic{} : Traffic{receivers_, static_cast<Index>(send_rows_.size()) * row_bytes};
}

Traffic PetscExchange::scatter_cost(Index row_bytes) const {
  return row_bytes == 0 ? Traffic{} : Traffic{senders_, ghosts_ * row_bytes};
}

template <class T>
void PetscExchange::start(Under way, Index cols, Index channels) {
  require(operation_.way == Under::nothing, "an exchange begins before the last one has ended");
  operation_.way = way;
  operation_.is_double = sizeof(T) == sizeof(double);
  const Index width = cols * channels;
  operation_.unit = width > 0 ? types_.row<T>(width) : MPI_DATATYPE_NULL;
  const auto bytes = static_cast<Index>(send_rows_.size()) * width * static_cast<Index>(sizeof(T));
  if (send_.size() < bytes) send_ = Buffer<std::byte>(bytes);
}

template <class T>
void PetscExchange::begin_gather(NodeView<const T> owned, NodeView<T> ghost) {
  require(owned.rows == owned_ && ghost.rows == ghosts_, "a gather needs the owned rows and the ghosts");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start<T>(Under::gather, ghost.cols, ghost.channels);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  pack_rows(owned, send_rows_, reinterpret_cast<T*>(send_.data()));
  operation_.from = send_.data();
  operation_.to = ghost.data;
  const Wait wait(comm_, "the start of a halo exchange (gather)");
  ROSSBY_PETSC(PetscSFBcastBegin, forest_, operation_.unit, operation_.from, operation_.to, MPI_REPLACE);
  sent_ += gather_cost(ghost.width() * static_cast<Index>(sizeof(T)));
}

template <class T>
void PetscExchange::begin_scatter(NodeView<const T> ghost, NodeView<T> owned) {
  require(owned.rows == owned_ && ghost.rows == ghosts_, "a scatter needs the owned rows and the ghosts");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start<T>(Under::scatter, ghost.cols, ghost.channels);
  if constexpr (sizeof(T) == sizeof(double))
    operation_.owned_double = owned;
  else
    operation_.owned_float = owned;
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  operation_.from = ghost.data;
  operation_.to = send_.data();
  const Wait wait(comm_, "the start of a halo exchange (scatter of gradients)");
  ROSSBY_PETSC(PetscSFReduceBegin, forest_, operation_.unit, operation_.from, operation_.to, MPI_REPLACE);
  sent_ += scatter_cost(ghost.width() * static_cast<Index>(sizeof(T)));
}

void PetscExchange::finish(Under way) {
  require(operation_.way == way, "an exchange ends that has not begun");
  operation_.way = Under::nothing;
}

void PetscExchange::gather_end() {
  finish(Under::gather);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  const Wait wait(comm_, "a halo exchange (gather)");
  ROSSBY_PETSC(PetscSFBcastEnd, forest_, operation_.unit, operation_.from, operation_.to, MPI_REPLACE);
}

void PetscExchange::scatter_add_end() {
  finish(Under::scatter);
  if (operation_.unit == MPI_DATATYPE_NULL) return;
  {
    const Wait wait(comm_, "a halo exchange (scatter of gradients)");
    ROSSBY_PETSC(PetscSFReduceEnd, forest_, operation_.unit, operation_.from, operation_.to, MPI_REPLACE);
  }
  if (operation_.is_double)
    add_rows(reinterpret_cast<const double*>(send_.data()), operation_.owned_double, send_rows_);
  else
    add_rows(reinterpret_cast<const float*>(send_.data()), operation_.owned_float, send_rows_);
}

void PetscExchange::gather_begin(NodeView<const float> owned, NodeView<float> ghost) {
  begin_gather(owned, ghost);
}
void PetscExchange::gather_begin(NodeView<const double> owned, NodeView<double> ghost) {
  begin_gather(owned, ghost);
}
void PetscExchange::scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) {
  begin_scatter(ghost, owned);
}
void PetscExchange::scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) {
  begin_scatter(ghost, owned);
}

}  // namespace rossby
