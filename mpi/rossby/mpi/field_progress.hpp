#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Progress of a FieldFile whose process may be killed. It is stored as text in PATH.progress.
struct FieldProgress {
  std::string identity;                     // of everything that the values depend on
  std::string file;                         // temporary name (temporary_name), without its folder
  std::uint64_t bytes = 0;                  // of that file
  Index steps = 0;                          // complete steps of the outer axis
  std::vector<std::uint64_t> offsets = {};  // of the fields in the file

  /// Writes the progress of the file `path`.
  void write(const std::string& path) const;
};

[[nodiscard]] std::string progress_file_of(const std::string& path);

/// If a killed process left a file of this identity (empty: none) with so many fields and at most `outer`
/// steps, gives it the name `temporary` and returns its progress. Otherwise returns nullopt, and removes what
/// a killed process left in PATH.progress.
[[nodiscard]] std::optional<FieldProgress> take_up(const std::string& path, const std::string& temporary,
                                                   const std::string& identity, Index fields, Index outer);

/// Removes temporary files that killed processes of this machine left for `path`, because they may be large.
void remove_leftovers(const std::string& path);

}  // namespace rossby
