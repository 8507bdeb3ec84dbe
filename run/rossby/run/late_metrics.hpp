#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rossby/io/run_directory.hpp"

namespace rossby {

/// Lines of metrics.jsonl on their way to the disk. If the disk has no room, they wait, and training goes on.
/// Ranks without lines need no directory.
class LateMetrics {
 public:
  /// Writes the line of this epoch after those that wait, or warns once that they are written later.
  void write(const RunDirectory* directory, Index epoch, std::string line);
  /// Writes the lines that wait. Throws UserError if the disk still has no room.
  void write_last(const RunDirectory* directory);
  /// Forgets waiting lines from this epoch on, which a training that was rolled back makes again.
  void cut(Index epoch);

 private:
  std::vector<std::pair<Index, std::string>> lines_;  // with their epochs, ascending
  bool told_ = false;
};

}  // namespace rossby
