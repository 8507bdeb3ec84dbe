#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// What a rank was seen doing.
struct Sighting {
  int rank = 0;
  std::uint64_t moves = 0;  // waits and stages begun and ended so far; ranks that have done the same agree
  std::string wait;         // what it waits for; empty: it works
  std::string stage;        // what it is busy with; may be empty
  Index step = 0;           // training step, from 1; 0: none yet
  double since = 0;         // seconds since 1970 since when that has been so
};

/// A small file <folder>/.watchdog in which ranks tell each other what they do when something lasts too long:
/// one slot of fixed size for each, so that no rank needs another one's help to write or read. Files of other
/// jobs are told apart by `job`. No call waits for a file system that hangs: after a moment it gives up.
class WatchBoard {
 public:
  WatchBoard(const std::string& folder, std::uint64_t job, int ranks);

  /// Writes a rank's slot. False where that is not possible.
  bool write(const Sighting& sighting) const;
  /// What ranks have written, by rank. nullopt where nothing can be read.
  [[nodiscard]] std::optional<std::vector<Sighting>> read() const;
  /// Removes the file.
  void remove() const;

 private:
  std::string path_;
  std::uint64_t job_;
  int ranks_;
};

}  // namespace rossby
