#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rossby/io/field_layout.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Fields with which a FieldFile can resume after its process was killed.
struct KeptFields {
  std::string identity;       // of everything that the values depend on; empty: nothing is kept
  std::vector<Index> fields;  // kept fields, by steps of the outer axis
};

/// A NetCDF-4 file of fields (FieldLayout) that all ranks write together. Rank 0 creates its structure. If
/// the ranks own contiguous rows, each writes its own. Otherwise, and for compression, values go first to the
/// rank that holds their unit (a row of the grid, or a node). Each rank compresses its chunks, and rank 0
/// writes these. The content does not depend on the number of ranks.
///
/// The file has a temporary name until `finish`; if the object is destroyed before, nothing stays. If the
/// process is killed, the temporary file and `PATH.progress`, which records its progress, stay. A later
/// process that asks for fields of the same identity resumes, on any number of ranks. Compressed files start
/// afresh. A failure of one rank is a UserError on all. Memory per field being written: 16 MiB, or 256 KiB or
/// a step of the outer axis for each step of the inner one.
class FieldFile {
 public:
  /// File nodes outside the domain get NaN. `centered` has for each field its first feature in the domain's
  /// centers, which are added, or −1. The domain outlives this object. Collective, like all members.
  FieldFile(const Communicator& comm, const std::string& path, const Domain& domain, FieldLayout layout,
            std::vector<Index> centered, KeptFields keeps = {});
  FieldFile(const FieldFile&) = delete;
  FieldFile& operator=(const FieldFile&) = delete;
  ~FieldFile();

  /// Puts values (rows, steps of outer, features of the field) at `inner` and outer, outer + 1, …: each once,
  /// and at one `inner` in ascending order.
  template <class T>
  void put(Index field, Index inner, Index outer, NodeView<const T> values);

  /// Steps of the outer axis, from the first on, that an earlier process has written to the kept fields. They
  /// are not put again.
  [[nodiscard]] Index kept() const;
  /// Values (rows, features) of a kept field at such a step, as they were put.
  [[nodiscard]] std::vector<float> read(Index field, Index inner, Index outer) const;

  /// Adds global attributes found meanwhile, and gives the file its name. Throws BugError if values have not
  /// been put.
  void finish(const std::vector<std::pair<std::string, std::string>>& attributes = {});

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rossby
