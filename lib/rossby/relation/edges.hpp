#pragma once

#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// The row block of r sparse relations in global numbering, as builders produce it. Rows are the owned rows
/// in position order. Entries are ordered by row, then relation, then ascending global column, without
/// duplicates. Entries of row i and relation k are at [ptr[i·r + k], ptr[i·r + k + 1]). W_k[i, j] > 0 means
/// that node j acts on node i.
struct GlobalEdges {
  Index rows = 0;
  int relations = 0;
  std::vector<Index> ptr;  // rows·relations + 1
  std::vector<GlobalRow> column;
  std::vector<double> value;

  [[nodiscard]] Index entries() const { return static_cast<Index>(column.size()); }
  [[nodiscard]] Index begin(Index row, int relation) const {
    return ptr[static_cast<std::size_t>(row * relations + relation)];
  }
  [[nodiscard]] Index end(Index row, int relation) const {
    return ptr[static_cast<std::size_t>(row * relations + relation) + 1];
  }
  /// Memory of the lists.
  [[nodiscard]] std::size_t bytes() const {
    return ptr.size() * sizeof(Index) + column.size() * sizeof(GlobalRow) + value.size() * sizeof(double);
  }
};

}  // namespace rossby
