#pragma once

#include <span>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

/// The ghosts of one rank: positions owned elsewhere that its entries name, ascending (so grouped by owner).
using GhostList = std::vector<Position>;

/// The row block of r sparse relations in local numbering: column c < owned is the rank's own local row c,
/// column owned + g is ghost g. Entry order is that of GlobalEdges; a transposed index gives the same entries
/// by column, so that W·z, Wᵀ·δ and the sampled δzᵀ all stream one array of weights.
struct CsrBlock {
  Index rows = 0;    // owned rows
  Index ghosts = 0;  // columns are owned rows + ghosts
  int relations = 0;
  std::vector<LocalEntry> ptr;           // rows·relations + 1, by (row, relation)
  std::vector<LocalColumn> column;       // of each entry
  std::vector<RelationNumber> relation;  // of each entry
  std::vector<double> value;             // of each entry, as built

  std::vector<LocalEntry> t_ptr;           // (rows + ghosts)·relations + 1, by (column, relation)
  std::vector<LocalColumn> t_row;          // row of each transposed entry
  std::vector<LocalEntry> t_entry;         // its place in `column` and `value`
  std::vector<RelationNumber> t_relation;  // its relation

  std::vector<LocalColumn> interior;  // rows without ghost entries, ascending
  std::vector<LocalColumn> boundary;  // the others, ascending

  [[nodiscard]] Index columns() const { return rows + ghosts; }
  [[nodiscard]] Index entries() const { return static_cast<Index>(column.size()); }
};

/// Adds copies of a block's index on a device to `copies`: what kernels there would otherwise ask for every
/// time.
void keep_on(Device& device, const CsrBlock& block, std::vector<Device::Copy>& copies);

/// The ghosts that a rank needs for several relations together.
GhostList collect_ghosts(const RowPartition& partition, int part, std::span<const GlobalEdges* const> groups);

/// Turns global columns into local ones. Every column must be owned by `part` or be in `ghosts`.
CsrBlock localise(const GlobalEdges& edges, const RowPartition& partition, int part, const GhostList& ghosts);

}  // namespace rossby
