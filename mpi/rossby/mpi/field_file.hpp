#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rossby/io/field_layout.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// What a FieldFile can go on with after its process was killed.
struct KeptFields {
  std::string identity;       // of all that the values follow from; empty: nothing is kept
  std::vector<Index> fields;  // that are kept, by steps of the outer axis
};

/// A NetCDF-4 file of fields (FieldLayout) that all ranks write at once. Rank 0 makes its structure. If the
/// ranks own contiguous rows, each writes its own. Otherwise, and for compression, values go first to the
/// rank that holds their unit (a row of the grid, or a node). Each rank compresses its chunks, and rank 0
/// writes these. The content does not depend on the number of ranks.
///
/// The file has a temporary name until `finish`; if the object dies before, nothing stays. If the process is
/// killed, the temporary file and `PATH.progress`, which says how far it got, stay for a later process that
/// asks for fields of the same identity, on any number of ranks. Compressed files are begun anew. A failure
/// of one rank is a UserError on all. Memory: of a field that is being put, 16 MiB, or 256 KiB or a step of
/// the outer axis for each step of the inner one.
class FieldFile {
 public:
  /// File nodes that are no nodes of the domain have NaN. `centered` has for each field its first feature in
  /// the domain's centers, which are added, or −1. The domain outlives it. Collective, as all of this.
  FieldFile(const Communicator& comm, const std::string& path, const Domain& domain, FieldLayout layout,
            std::vector<Index> centered, KeptFields keeps = {});
  FieldFile(const FieldFile&) = delete;
  FieldFile& operator=(const FieldFile&) = delete;
  ~FieldFile();

  /// Values (rows, steps of outer, features of the field) at `inner` and outer, outer + 1, …: each once, and
  /// at one `inner` in ascending order.
  template <class T>
  void put(Index field, Index inner, Index outer, NodeView<const T> values);

  /// Steps of the outer axis, from the first on, that an earlier process has put into the kept fields. They
  /// are not put again.
  [[nodiscard]] Index kept() const;
  /// Values (rows, features) of a kept field at such a step, as `put` got them.
  [[nodiscard]] std::vector<float> read(Index field, Index inner, Index outer) const;

  /// Adds global attributes that became known meanwhile, and gives the file its name. Throws BugError if
  /// values have not been put.
  void finish(const std::vector<std::pair<std::string, std::string>>& attributes = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rossby
