#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A rank's activity, as last observed.
struct Sighting {
  int rank = 0;
  std::uint64_t moves = 0;  // waits and stages begun and ended; equal on ranks that did the same
  std::string wait;         // what it waits for; empty: working
  std::string stage;        // current stage; may be empty
  Index step = 0;           // training step, from 1; 0: none so far
  double since = 0;         // beginning of this activity, in seconds since 1970
};

/// A small file <folder>/.watchdog in which ranks note their activity when something lasts too long. Each
/// rank has one slot of fixed size, so that it writes and reads without help from others. `job` distinguishes
/// files of other jobs. Calls give up after a moment instead of waiting for a file system that hangs.
class WatchBoard {
 public:
  WatchBoard(const std::string& folder, std::uint64_t job, int ranks);

  /// Writes a rank's slot. Returns false if that is impossible.
  bool write(const Sighting& sighting) const;
  /// Returns what ranks have written, by rank; nullopt if nothing can be read.
  [[nodiscard]] std::optional<std::vector<Sighting>> read() const;
  void remove() const;

 private:
  std::string path_;
  std::uint64_t job_;
  int ranks_;
};

}  // namespace rossby
