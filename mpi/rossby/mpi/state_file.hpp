#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/relation/edges.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// Source of planes (owned, inner) of an array that another time group holds.
template <class T>
class PlaneSource {
 public:
  virtual ~PlaneSource() = default;
  /// Planes [plane, plane + count) of array number `array`.
  virtual void fetch(Index array, Index plane, Index count, T* to) = 0;
};

/// One array of a state file, and this rank's share of it in memory.
template <class T>
struct StateArray {
  std::string name;  // not empty, no '/'
  Placement placement = Placement::replicated;
  /// rows: local (outer, owned, inner) ↔ file (outer, n, inner). replicated: (outer, inner), in the file
  /// (outer, 1, inner). entries: both 1.
  Index outer = 1;
  Index inner = 1;
  T* data = nullptr;
  const GlobalEdges* edges = nullptr;  // entries: pattern of the owned rows, one value per entry
  /// rows: inner runs over nodes in position order (dense relations, (r, owned, n)), inner = n. The file
  /// holds them in global order, too.
  bool inner_is_nodes = false;
  /// rows: bf16 values, used instead of `data`. The file stores them as bf16, two bytes each.
  Bf16* bf16 = nullptr;
  bool in_bf16 = false;
  /// rows, on a process grid: `data` holds only the planes [first, first + held) of `outer`; −1: all. Writing
  /// requests planes of other time groups. Every group reads all planes and keeps its own.
  Index first = 0;
  Index held = -1;
  PlaneSource<T>* elsewhere = nullptr;
  Index number = 0;  // of the array in `elsewhere`
  /// rows in contiguous blocks, the same on all ranks: the mapped file that holds `data` or `bf16`; null:
  /// memory. It is processed in pieces, and their pages are forgotten.
  FileMemory* file = nullptr;
};

/// An array with the layout of a parameter: its value or its moments. Dense relations need contiguous row
/// blocks, so that their columns are in global order. `edges`: the pattern for placement entries.
template <class T>
StateArray<T> state_array(std::string name, const Parameter<T>& parameter, T* data,
                          const GlobalEdges* edges = nullptr, Bf16* bf16 = nullptr,
                          FileMemory* file = nullptr) {
  StateArray<T> array{std::move(name), parameter.placement, 1, 1, data, nullptr};
  if (parameter.placement == Placement::rows) {
    array.outer = parameter.split() ? parameter.outer_all : parameter.shape[0];
    array.first = parameter.outer_first;
    if (parameter.split()) array.held = parameter.shape[0];
    array.inner = parameter.shape[2];
  }
  if (parameter.placement == Placement::replicated) array.inner = parameter.size();
  if (parameter.placement == Placement::entries) array.edges = edges;
  array.in_bf16 = parameter.in_bf16;
  array.bf16 = bf16;
  array.file = file;
  return array;
}

/// Writes arrays and a text (JSON, the same on all ranks) to one HDF5 file, in parallel and in *global row
/// order*: the file depends neither on the number of ranks nor on the partition. Collective. Every rank
/// passes the same names, placements and extents.
///
///     /metadata                    (1, bytes, 1) of the text
///     /arrays/<name>/value         rows: (outer, n, inner); replicated: (outer, 1, inner); entries:
///                                  (1, entries, 1), ordered by (global row, relation, neighbour)
///     /arrays/<name>/entry_node, entry_relation, entry_neighbour     entries only; shared by arrays
///                                  of one pattern
///
/// Each value and index dataset carries `checksum`, a 64-bit sum over hashes of (index, bits), equal at any
/// P. Each array carries its `placement`. The file appears as a whole or not at all: it is written as
/// path.tmp, flushed by all ranks, fsynced and renamed. If that fails (no such directory, disk full), all
/// ranks throw the same UserError and path.tmp is removed. Memory besides the arrays: one staging slab of
/// about 64 MiB, or at least one (rows, inner) plane if the partition is not contiguous.
template <class T>
void write_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                 std::span<const StateArray<T>> arrays, const std::string& metadata_json);

/// Throws UserError if such a file could not be written now, because the file system is full or read-only.
/// Leaves nothing behind. Collective.
template <class T>
void check_state_room(const Communicator& comm, const std::string& path, const RowPartition& partition,
                      std::span<const StateArray<T>> arrays);

/// Fills the arrays from a file written at any P under any partition. Values stored in another precision are
/// converted (to bf16: to the nearest). Other arrays of the file are ignored. The file may have another
/// number of nodes if all arrays are replicated. Collective. Throws UserError on all ranks, with the array
/// and the difference, if the file cannot be read, lacks the array, has another placement, shape or entries
/// pattern, or if a checksum does not match. The arrays' contents are then undefined.
template <class T>
void read_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                std::span<const StateArray<T>> arrays);

/// Returns the text of a state file. Not collective: any single process may call it. Throws UserError as
/// read_state does.
std::string read_state_metadata(const std::string& path);

/// One stored array of a state file.
struct StoredArray {
  std::string name;
  Placement placement = Placement::replicated;
  Index extents[3] = {0, 0, 0};
  int value_bytes = 0;  // 2: bf16, 4: float, 8: double
  std::uint64_t checksum = 0;
};

struct StoredState {
  std::string metadata;
  Index nodes = 0;
  Index bytes = 0;  // size of the file
  std::vector<StoredArray> arrays;
};

/// Returns the contents of a state file without its values. Not collective. Throws UserError as read_state
/// does.
StoredState list_state(const std::string& path);

/// Compares every checksum of a state file with its values. Not collective; memory is bounded. Throws
/// UserError with the damaged array.
void verify_state(const std::string& path);

}  // namespace rossby
