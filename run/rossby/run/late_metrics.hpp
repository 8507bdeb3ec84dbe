#pragma once

#include <string>
#include <vector>

#include "rossby/io/run_directory.hpp"

namespace rossby {

/// Lines of metrics.jsonl on their way to the disk. If the disk has no room, they wait, and training goes on.
/// Ranks without lines need no directory.
class LateMetrics {
 public:
  /// Writes this line after those that wait, or warns once that they are written later.
  void write(const RunDirectory* directory, std::string line);
  /// Writes the lines that wait. Throws UserError if the disk still has no room.
  void write_last(const RunDirectory* directory);

 private:
  std::vector<std::string> lines_;
  bool told_ = false;
};

}  // namespace rossby
