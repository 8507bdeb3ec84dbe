#include "rossby/mpi/allgather_exchange.hpp"

#include <limits>

#include "rossby/base/error.hpp"
#include "rossby/exchange/packing.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {

AllgatherExchange::AllgatherExchange(const Communicator& comm, const RowPartition& partition, int part)
    : comm_(comm.duplicate()),
      rows_(partition.rows()),
      owned_(partition.size(part)),
      first_(partition.begin(part)) {
  require(part == comm.rank() && partition.parts() == comm.size(), "parts of an exchange are the ranks");
  // Contributions are contiguous: MPI needs not only counts but also offsets as ints.
  require(owned_ * comm.size() <= std::numeric_limits<int>::max() && rows_ <= std::numeric_limits<int>::max(),
          "row counts of a dense exchange fit into 31 bits");
  int next = 0;
  for (int p = 0; p < comm.size(); ++p) {
    counts_.push_back(static_cast<int>(partition.size(p)));
    begins_.push_back(static_cast<int>(partition.begin(p)));
    to_others_.push_back(p == part ? 0 : counts_.back());
    from_others_.push_back(p == part ? 0 : static_cast<int>(owned_));
    from_begins_.push_back(next);
    next += from_others_.back();
  }
}

Traffic AllgatherExchange::gather_cost(Index row_bytes) const {
  const Index others = comm_.size() - 1;
  return owned_ == 0 || row_bytes == 0 ? Traffic{} : Traffic{others, others * owned_ * row_bytes};
}

Traffic AllgatherExchange::scatter_cost(Index row_bytes) const {
  Traffic cost;
  if (row_bytes == 0) return cost;
  for (const int count : to_others_) cost += {count > 0 ? 1 : 0, count * row_bytes};
  return cost;
}

template <class T>
T* AllgatherExchange::staging(Index values) {
  const Index bytes = values * static_cast<Index>(sizeof(T));
  if (staging_.size() < bytes) staging_ = Buffer<std::byte>(bytes);
  return reinterpret_cast<T*>(staging_.data());
}

void AllgatherExchange::start(Under way) {
  require(way_ == Under::nothing, "an exchange begins before the last one has ended");
  way_ = way;
}

void AllgatherExchange::finish(Under way) {
  require(way_ == way, "an exchange ends that has not begun");
  way_ = Under::nothing;
  const Wait wait(comm_, way == Under::gather ? "a gather of all rows (allgather)"
                                              : "a scatter of all rows' gradients (alltoall)");
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

template <class T>
void AllgatherExchange::begin_gather(NodeView<const T> owned, NodeView<T> ghost) {
  require(owned.rows == owned_ && ghost.rows == rows_,
          "a dense gather needs the owned rows and all positions");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start(Under::gather);
  const Index width = ghost.width();
  if (width == 0 || rows_ == 0) return;
  const T* rows = owned.data;
  if (!owned.packed()) {
    T* packed = staging<T>(owned_ * width);
    for (Index i = 0; i < owned_; ++i) pack_row(owned, i, packed + i * width);
    rows = packed;
  }
  const MPI_Datatype unit = types_.row<T>(width);
  const Wait wait(comm_, "the start of a gather of all rows (allgather)");
  MPI_Iallgatherv(rows, static_cast<int>(owned_), unit, ghost.data, counts_.data(), begins_.data(), unit,
                  comm_.handle(), &request_);
  sent_ += gather_cost(width * static_cast<Index>(sizeof(T)));
}

void AllgatherExchange::gather_end() {
  finish(Under::gather);
}

template <class T>
void AllgatherExchange::begin_scatter(NodeView<const T> ghost, NodeView<T> owned) {
  require(owned.rows == owned_ && ghost.rows == rows_,
          "a dense scatter needs the owned rows and all positions");
  require(owned.cols == ghost.cols && owned.channels == ghost.channels && ghost.packed(),
          "ghosts are packed and have the columns of the owned rows");
  start(Under::scatter);
  const Index width = ghost.width();
  own_ = ghost.data + first_ * width;
  is_double_ = sizeof(T) == sizeof(double);
  if constexpr (sizeof(T) == sizeof(double))
    owned_double_ = owned;
  else
    owned_float_ = owned;
  if (width == 0 || rows_ == 0) return;
  T* contributions = staging<T>(owned_ * (comm_.size() - 1) * width);
  const MPI_Datatype unit = types_.row<T>(width);
  const Wait wait(comm_, "the start of a scatter of all rows' gradients (alltoall)");
  MPI_Ialltoallv(ghost.data, to_others_.data(), begins_.data(), unit, contributions, from_others_.data(),
                 from_begins_.data(), unit, comm_.handle(), &request_);
  sent_ += scatter_cost(width * static_cast<Index>(sizeof(T)));
}

template <class T>
void AllgatherExchange::add_contributions(const T* own, NodeView<T> owned) {
  const T* contributions = reinterpret_cast<const T*>(staging_.data());
  for (int p = 0; p < comm_.size(); ++p) {
    const T* from =
        p == comm_.rank() ? own : contributions + from_begins_[static_cast<std::size_t>(p)] * owned.width();
    for (Index i = 0; i < owned_; ++i) add_row(from + i * owned.width(), owned, i);
  }
}

void AllgatherExchange::scatter_add_end() {
  finish(Under::scatter);
  if (is_double_)
    add_contributions(static_cast<const double*>(own_), owned_double_);
  else
    add_contributions(static_cast<const float*>(own_), owned_float_);
}

void AllgatherExchange::gather_begin(NodeView<const float> owned, NodeView<float> ghost) {
  begin_gather(owned, ghost);
}
void AllgatherExchange::gather_begin(NodeView<const double> owned, NodeView<double> ghost) {
  begin_gather(owned, ghost);
}
void AllgatherExchange::scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) {
  begin_scatter(ghost, owned);
}
void AllgatherExchange::scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) {
  begin_scatter(ghost, owned);
}

}  // namespace rossby
