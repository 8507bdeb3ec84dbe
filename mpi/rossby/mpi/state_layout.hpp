#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rossby/base/error.hpp"
#include "rossby/mpi/redistribution.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/mpi/state_storage.hpp"
#include "rossby/mpi/watchdog.hpp"

// Shared by writing and reading of state files: the steps in which arrays move, equal on all ranks.
namespace rossby::state {

constexpr std::uint64_t format_version = 1;

inline std::string_view placement_name(Placement placement) {
  switch (placement) {
    case Placement::replicated:
      return "replicated";
    case Placement::rows:
      return "rows";
    case Placement::entries:
      return "entries";
  }
  bug("a placement without a name");
}

/// An array's values as D: T or bf16.
template <class D, class T>
D* values_of(const StateArray<T>& array) {
  if constexpr (std::is_same_v<D, Bf16>)
    return array.bf16;
  else
    return array.data;
}

/// Converts a stored value to D.
template <class D, class S>
D converted(S value) {
  if constexpr (std::is_same_v<D, S>)
    return value;
  else if constexpr (std::is_same_v<D, Bf16>)
    return round_nearest(static_cast<float>(value));
  else
    return static_cast<D>(widen(value));
}

template <class T>
void check_arrays(std::span<const StateArray<T>> arrays, const RowPartition& partition, int part) {
  std::set<std::string_view> names;
  for (const StateArray<T>& array : arrays) {
    require(!array.name.empty() && array.name.find('/') == std::string::npos,
            "a state array needs a name without '/'");
    require(names.insert(array.name).second, "two state arrays have one name: " + array.name);
    require(array.outer >= 0 && array.inner >= 0, "extents are zero or more");
    if (array.placement == Placement::entries)
      require(
          array.edges && array.edges->rows == partition.size(part) && array.outer == 1 && array.inner == 1,
          "an entries array has a pattern of the owned rows and one value an entry: " + array.name);
    require(!array.in_bf16 || (array.placement == Placement::rows && !array.data),
            "arrays in bf16 are of rows: " + array.name);
    require(!array.inner_is_nodes || (array.placement == Placement::rows && array.inner == partition.rows()),
            "only rows of n values run over nodes: " + array.name);
  }
}

/// Number of planes of a rows array in one staging step.
inline Index planes_at_once(const RowRedistribution& layout, Index inner, std::size_t value_bytes) {
  const Index plane = std::max<Index>(1, inner * layout.largest() * static_cast<Index>(value_bytes));
  return std::max<Index>(1, slab_bytes / plane);
}

/// Number of rows of one plane passed to HDF5 at once.
inline Index rows_at_once(const RowRedistribution& layout, Index inner, std::size_t value_bytes) {
  const Index row = std::max<Index>(1, inner * static_cast<Index>(value_bytes));
  return row * layout.largest() <= slab_bytes ? std::max<Index>(1, layout.largest())
                                              : std::max<Index>(1, slab_bytes / row);
}

/// This rank's part of planes [o, o + count), in rows [r, r + step) of its block.
inline Slab row_slab(const RowRedistribution& layout, Index o, Index count, Index inner, Index r,
                     Index step) {
  const Index rows = std::clamp<Index>(layout.block_rows() - r, 0, step);
  const auto u = [](Index x) { return static_cast<hsize_t>(x); };
  return {{u(o), u(layout.begin() + r), 0},
          {u(count), u(rows), u(inner)},
          {u(count), u(layout.block_rows()), u(inner)},
          u(r)};
}

/// This rank's share of the checksum of planes [o, o + count) of a rows array.
template <class V>
std::uint64_t row_checksum(const RowRedistribution& layout, const V* block, Index o, Index count,
                           Index inner) {
  std::uint64_t sum = 0;
  const Index values = layout.block_rows() * inner;
  for (Index k = 0; k < count; ++k)
    sum += checksum(block + k * values, values, ((o + k) * layout.rows() + layout.begin()) * inner);
  return sum;
}

/// Calls visit(start, slab) for the steps of a one-dimensional dataset of which this rank holds [first, first
/// + count). `largest` is the maximum count of any rank.
template <class Visit>
void linear_steps(Index first, Index count, Index largest, std::size_t value_bytes, Visit&& visit) {
  const Index step = slab_bytes / static_cast<Index>(value_bytes);
  for (Index at = 0; at < largest; at += step) {
    const Index here = std::clamp<Index>(count - at, 0, step);
    const auto u = [](Index x) { return static_cast<hsize_t>(x); };
    visit(at, Slab{{0, u(first + std::min(at, count)), 0}, {1, u(here), 1}, {1, u(here), 1}, 0});
  }
}

/// The entries of this rank's rows in global numbering, in the order of their values.
struct EntryIndex {
  std::vector<std::int64_t> node;
  std::vector<std::int32_t> relation;
  std::vector<std::int64_t> neighbour;
};

inline EntryIndex entry_index(const GlobalEdges& edges, const RowPartition& partition, int part) {
  EntryIndex index;
  for (Index i = 0; i < edges.rows; ++i)
    for (int k = 0; k < edges.relations; ++k)
      for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e) {
        index.node.push_back(partition.global(Position{partition.begin(part) + i}).value);
        index.relation.push_back(k);
        index.neighbour.push_back(edges.column[static_cast<std::size_t>(e)].value);
      }
  return index;
}

/// Moves values of owned entries to the order of this rank's block.
template <class V>
std::vector<V> entries_to_blocks(const EntryRedistribution& layout, const V* local) {
  std::vector<V> block(static_cast<std::size_t>(layout.count()));
  layout.to_blocks(reinterpret_cast<const std::byte*>(local), sizeof(V),
                   reinterpret_cast<std::byte*>(block.data()));
  return block;
}

inline std::uint64_t sum_over_ranks(const Communicator& comm, std::uint64_t value) {
  const Wait wait(comm, "a sum of checksums (allreduce)");
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, MPI_SUM, comm.handle());
  return value;
}

}  // namespace rossby::state
