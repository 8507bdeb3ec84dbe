#pragma once

#include <vector>

#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Moves node data, as float32, from the owners of the rows under one partition to their owners under
/// another.
class RowMove {
 public:
  RowMove(const Communicator& comm, const RowPartition& from, const RowPartition& to);

  /// (rows of this rank, columns, channels) under `from` → the same under `to`, valid until the next call.
  /// T is float or double. Collective, unless both partitions are the same.
  template <class T>
  [[nodiscard]] NodeView<const float> operator()(NodeView<const T> x);

 private:
  MpiMailbox mailbox_;
  bool moves_ = false;
  Index rows_ = 0;               // under `to`
  std::vector<int> owner_;       // under `to`, of each row under `from`
  std::vector<Index> arriving_;  // row under `to` of each row that arrives, by sender and then in its order
  std::vector<float> values_, moved_;
};

}  // namespace rossby
