#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// Fate of a sub-batch of a group.
struct UpdateEvent {
  Index batch = 0;
  Index version = 0;  // of the weights that it read
  Index update = 0;   // that took it and made version `update` + 1; −1: the sub-batch was dropped
  friend constexpr bool operator==(const UpdateEvent&, const UpdateEvent&) = default;
};

/// Asynchronous updates between two moments at which no work was in flight.
struct UpdateLeg {
  Index epoch = 0;
  Index first = 0, last = 0;                     // version of the weights at its begin and end
  std::vector<Index> group_batches;              // batches done by each group at its end
  std::vector<std::vector<UpdateEvent>> events;  // of each group
  friend bool operator==(const UpdateLeg&, const UpdateLeg&) = default;
};

/// Packs events into a few bytes each, and unpacks them.
[[nodiscard]] std::string pack_events(const std::vector<UpdateEvent>& events, Index first);

/// The file of a recorded training: a line of text that describes the training, then its legs. Each leg is
/// written as a whole with a checksum. A leg that begins before the end of others replaces them (a resumed
/// training). Values are integers of 7 bits per byte (LEB128).
struct UpdateLog {
  std::string head;  // one line of JSON
  std::vector<UpdateLeg> legs;

  /// Reads a file. Leaves out a leg that was cut off at the end, for example by a full disk. Throws UserError
  /// that names the file if it is damaged or is no update log.
  [[nodiscard]] static UpdateLog read(const std::string& path);
  /// The same from a text; messages name `path`.
  [[nodiscard]] static UpdateLog parse(std::string_view bytes, const std::string& path);
};
/// True if a file begins as an update log.
[[nodiscard]] bool is_update_log(const std::string& path);
[[nodiscard]] std::string first_line_of_log(const std::string& head);
/// `packed`: the events of each group from pack_events.
[[nodiscard]] std::string pack_leg(const UpdateLeg& leg, const std::vector<std::string>& packed);

}  // namespace rossby
