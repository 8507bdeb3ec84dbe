#include "rossby/relation/relation_block.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// Adds the transposed index, by a counting sort of the entries by (column, relation). Rows ascend within a
/// list.
void transpose(CsrBlock& block) {
  const auto r = static_cast<Index>(block.relations);
  block.t_ptr.assign(static_cast<std::size_t>(block.columns() * r) + 1, 0);
  block.t_row.resize(block.column.size());
  block.t_entry.resize(block.column.size());
  block.relation.resize(block.column.size());
  block.t_relation.resize(block.column.size());
  const auto slot = [&](Index entry, Index relation) {
    return static_cast<std::size_t>(block.column[static_cast<std::size_t>(entry)] * r + relation);
  };
  const auto each = [&](auto&& visit) {
    for (Index i = 0; i < block.rows; ++i)
      for (Index k = 0; k < r; ++k)
        for (Index e = block.ptr[static_cast<std::size_t>(i * r + k)];
             e < block.ptr[static_cast<std::size_t>(i * r + k) + 1]; ++e)
          visit(i, k, e);
  };
  each([&](Index, Index k, Index e) { ++block.t_ptr[slot(e, k) + 1]; });
  std::partial_sum(block.t_ptr.begin(), block.t_ptr.end(), block.t_ptr.begin());
  std::vector<LocalEntry> next(block.t_ptr.begin(), block.t_ptr.end() - 1);
  each([&](Index i, Index k, Index e) {
    const auto at = static_cast<std::size_t>(next[slot(e, k)]++);
    block.t_row[at] = static_cast<LocalColumn>(i);
    block.t_entry[at] = static_cast<LocalEntry>(e);
    block.t_relation[at] = static_cast<RelationNumber>(k);
    block.relation[static_cast<std::size_t>(e)] = static_cast<RelationNumber>(k);
  });
}

}  // namespace

GhostList collect_ghosts(const RowPartition& partition, int part,
                         std::span<const GlobalEdges* const> groups) {
  GhostList ghosts;
  for (const GlobalEdges* group : groups)
    for (const GlobalRow column : group->column) {
      const Position position = partition.position(column);
      if (position.value < partition.begin(part) || position.value >= partition.end(part))
        ghosts.push_back(position);
    }
  std::sort(ghosts.begin(), ghosts.end());
  ghosts.erase(std::unique(ghosts.begin(), ghosts.end()), ghosts.end());
  return ghosts;
}

CsrBlock localise(const GlobalEdges& edges, const RowPartition& partition, int part,
                  const GhostList& ghosts) {
  require(edges.rows == partition.size(part), "relation rows must be the owned rows");
  CsrBlock block;
  block.rows = edges.rows;
  block.ghosts = static_cast<Index>(ghosts.size());
  require(block.columns() < std::numeric_limits<LocalColumn>::max(),
          "owned rows and ghosts must fit into 31 bits");
  require(edges.entries() <= std::numeric_limits<LocalEntry>::max(),
          "a rank's entries of sparse relations must fit into 31 bits: use more ranks");
  require(edges.relations <= std::numeric_limits<RelationNumber>::max(), "relations must fit into 16 bits");
  block.relations = edges.relations;
  block.ptr.resize(edges.ptr.size());
  std::transform(edges.ptr.begin(), edges.ptr.end(), block.ptr.begin(),
                 [](Index p) { return static_cast<LocalEntry>(p); });
  block.value = edges.value;
  block.column.resize(edges.column.size());
  const Index first = partition.begin(part);
  const Index last = partition.end(part);
  for (std::size_t e = 0; e < edges.column.size(); ++e) {
    const Position position = partition.position(edges.column[e]);
    if (position.value >= first && position.value < last) {
      block.column[e] = static_cast<LocalColumn>(position.value - first);
      continue;
    }
    const auto it = std::lower_bound(ghosts.begin(), ghosts.end(), position);
    require(it != ghosts.end() && *it == position, "a column is neither owned nor a ghost");
    block.column[e] = static_cast<LocalColumn>(block.rows + (it - ghosts.begin()));
  }
  for (Index i = 0; i < block.rows; ++i) {
    const auto begin = block.column.begin() + block.ptr[static_cast<std::size_t>(i * block.relations)];
    const auto end = block.column.begin() + block.ptr[static_cast<std::size_t>((i + 1) * block.relations)];
    const bool inside = std::none_of(begin, end, [&](LocalColumn c) { return c >= block.rows; });
    (inside ? block.interior : block.boundary).push_back(static_cast<LocalColumn>(i));
  }
  block.interior.shrink_to_fit();
  block.boundary.shrink_to_fit();
  transpose(block);
  return block;
}

void keep_on(Device& device, const CsrBlock& block, std::vector<Device::Copy>& copies) {
  copies.push_back(device.keep(block.ptr));
  copies.push_back(device.keep(block.column));
  copies.push_back(device.keep(block.relation));
  copies.push_back(device.keep(block.t_ptr));
  copies.push_back(device.keep(block.t_row));
  copies.push_back(device.keep(block.t_entry));
  copies.push_back(device.keep(block.t_relation));
  copies.push_back(device.keep(block.interior));
  copies.push_back(device.keep(block.boundary));
}

}  // namespace rossby
