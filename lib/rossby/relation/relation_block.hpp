#pragma once

#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// Ghosts of one rank: positions of its entries that other ranks own, ascending (so grouped by owner).
using GhostList = std::vector<Position>;

/// The row block of r sparse relations in local numbering. Column c < owned is the rank's own local row c,
/// column owned + g is ghost g. Entries have the order of GlobalEdges. A transposed index lists the same
/// entries by column, so that W·z, Wᵀ·δ and the sampled δzᵀ all stream one array of weights.
struct CsrBlock {
  Index rows = 0;    // owned rows
  Index ghosts = 0;  // number of columns: rows + ghosts
  int relations = 0;
  std::vector<LocalEntry> ptr;           // rows·relations + 1, by (row, relation)
  std::vector<LocalColumn> column;       // per entry
  std::vector<RelationNumber> relation;  // per entry
  std::vector<double> value;             // per entry, as built

  std::vector<LocalEntry> t_ptr;           // (rows + ghosts)·relations + 1, by (column, relation)
  std::vector<LocalColumn> t_row;          // row of each transposed entry
  std::vector<LocalEntry> t_entry;         // index of the entry in `column` and `value`
  std::vector<RelationNumber> t_relation;  // its relation

  std::vector<LocalColumn> interior;  // rows without ghost entries, ascending
  std::vector<LocalColumn> boundary;  // the others, ascending

  [[nodiscard]] Index columns() const { return rows + ghosts; }
  [[nodiscard]] Index entries() const { return static_cast<Index>(column.size()); }
};

/// Adds device copies of a block's index to `copies`, so that kernels need not request them each time.
void keep_on(Device& device, const CsrBlock& block, std::vector<Device::Copy>& copies);

/// Returns the ghosts that a rank needs for several relations together.
GhostList collect_ghosts(const RowPartition& partition, int part, std::span<const GlobalEdges* const> groups);

/// Converts global columns to local ones. Every column must be owned by `part` or be in `ghosts`.
CsrBlock localise(const GlobalEdges& edges, const RowPartition& partition, int part, const GhostList& ghosts);

}  // namespace rossby
