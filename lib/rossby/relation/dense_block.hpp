#pragma once

#include <cstdint>
#include <vector>

#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {

/// The row block of r relations with all n columns, for storage = dense. Columns are positions, so the rows
/// of Z that an allgather brings lie in column order: those of rank 0, of rank 1, … Memory: 8·r·rows·n bytes.
struct DenseBlock {
  Index rows = 0;     // owned rows
  Index columns = 0;  // n
  int relations = 0;
  Buffer<double> value;  // (r, rows, n)

  [[nodiscard]] double* row(int relation, Index i) { return value.data() + (relation * rows + i) * columns; }
  [[nodiscard]] const double* row(int relation, Index i) const {
    return value.data() + (relation * rows + i) * columns;
  }
};

/// The owned rows of sparse relations as a dense block, zero where there is no entry. Throws UserError where
/// memory does not suffice.
DenseBlock densify(const GlobalEdges& edges, const RowPartition& partition, int part);

/// Where sparse relations have entries: (r, rows, n) as in DenseBlock, 1 at an entry and 0 elsewhere. What
/// `refine` on dense storage multiplies its weights with.
std::vector<std::uint8_t> pattern_mask(const GlobalEdges& edges, const RowPartition& partition, int part);

}  // namespace rossby
