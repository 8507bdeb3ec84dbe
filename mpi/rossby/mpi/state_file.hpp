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

/// Where planes (owned, inner) of an array come from that another time group holds.
template <class T>
class PlaneSource {
 public:
  virtual ~PlaneSource() = default;
  /// Planes [plane, plane + count) of array number `array`.
  virtual void fetch(Index array, Index plane, Index count, T* to) = 0;
};

/// One array of a state file and where this rank's share of it lies in memory.
template <class T>
struct StateArray {
  std::string name;  // not empty, no '/'
  Placement placement = Placement::replicated;
  /// rows: local (outer, owned, inner) ↔ file (outer, n, inner). replicated: (outer, inner), in the file
  /// (outer, 1, inner). entries: both 1.
  Index outer = 1;
  Index inner = 1;
  T* data = nullptr;
  const GlobalEdges* edges = nullptr;  // entries: the pattern of the owned rows, one value an entry
  /// rows: inner runs over nodes in position order (dense relations, (r, owned, n)), inner = n. The file has
  /// them in global order, too.
  bool inner_is_nodes = false;
  /// rows: the values where they are in bf16, in place of `data`. They lie in the file as such, two bytes
  /// each.
  Bf16* bf16 = nullptr;
  bool in_bf16 = false;
  /// rows, on a process grid: `data` has the planes [first, first + held) of `outer` alone; −1: all. Those of
  /// other time groups are asked for when they are written; all are read by every group, which keeps its own.
  Index first = 0;
  Index held = -1;
  PlaneSource<T>* elsewhere = nullptr;
  Index number = 0;  // of the array, as that source counts them
  /// rows in contiguous blocks, the same on all ranks: the mapped file where `data` or `bf16` lies, null:
  /// memory. It passes in pieces whose pages are forgotten.
  FileMemory* file = nullptr;
};

/// An array laid out as a parameter: its value, its moments. Dense relations go with contiguous row blocks
/// only, so that their columns are in global order. `edges`: the pattern behind placement entries.
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

/// Writes arrays and a text (JSON, the same on all ranks) as one HDF5 file, all ranks at once, in *global row
/// order*: the file does not depend on the number of ranks or on the partition. Collective; every rank passes
/// the same names, placements and extents.
///
///     /metadata                    (1, bytes, 1) of the text
///     /arrays/<name>/value         rows: (outer, n, inner); replicated: (outer, 1, inner); entries: (1,
///     entries, 1),
///                                  ordered by (global row, relation, neighbour)
///     /arrays/<name>/entry_node, entry_relation, entry_neighbour     entries only; arrays of one pattern
///     share them
///
/// Each value and index dataset carries `checksum`, a 64-bit sum over hashes of (index, bits), equal at any
/// P; each array its `placement`. The file appears whole or not at all: it is written as path.tmp, flushed by
/// all ranks, fsynced and renamed. Where that fails (no such directory, disk full), all ranks throw the same
/// UserError and path.tmp is removed. Memory beside the arrays: one staging slab of about 64 MiB, at least
/// one (rows, inner) plane where the partition is not contiguous.
template <class T>
void write_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                 std::span<const StateArray<T>> arrays, const std::string& metadata_json);

/// Throws UserError if such a file could not be written now: the file system is full or read-only. Nothing
/// stays behind. Collective.
template <class T>
void check_state_room(const Communicator& comm, const std::string& path, const RowPartition& partition,
                      std::span<const StateArray<T>> arrays);

/// Fills the arrays from a file written at any P under any partition; values stored in another precision
/// are converted (to bf16: to the nearest). Arrays of the file that are not asked for are left alone. The
/// file may be of another number of nodes if all arrays are replicated. Collective. Throws UserError on all
/// ranks, naming the array and the difference, where the file cannot be read, has no such array, another
/// placement, shape or entries pattern, or a checksum that does not match; the arrays' contents are then
/// undefined.
template <class T>
void read_state(const Communicator& comm, const std::string& path, const RowPartition& partition,
                std::span<const StateArray<T>> arrays);

/// The text of a state file. Not collective: any one process may call it. Throws UserError as read_state
/// does.
std::string read_state_metadata(const std::string& path);

/// One array of a state file, as it is stored.
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
  Index bytes = 0;  // of the file
  std::vector<StoredArray> arrays;
};

/// What a state file holds, without its values. Not collective. Throws UserError as read_state does.
StoredState list_state(const std::string& path);

/// Holds every checksum of a state file against its values. Not collective; memory is bounded. Throws
/// UserError naming the array that is damaged.
void verify_state(const std::string& path);

}  // namespace rossby
