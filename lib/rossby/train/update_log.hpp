#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// What became of a sub-batch of a group.
struct UpdateEvent {
  Index batch = 0;
  Index version = 0;  // of the weights that it read
  Index update = 0;   // that took it: it made version `update` + 1; −1: it was dropped
  friend constexpr bool operator==(const UpdateEvent&, const UpdateEvent&) = default;
};

/// Asynchronous updates between two moments at which nothing was under way.
struct UpdateLeg {
  Index epoch = 0;
  Index first = 0, last = 0;                     // version of the weights at its begin and at its end
  std::vector<Index> group_batches;              // batches done then by each group
  std::vector<std::vector<UpdateEvent>> events;  // of each group
  friend bool operator==(const UpdateLeg&, const UpdateLeg&) = default;
};

/// Events in some bytes each, and back.
[[nodiscard]] std::string pack_events(const std::vector<UpdateEvent>& events, Index first);

/// The file of a recorded training: a line of text that says what was trained, and its legs. A leg is written
/// as a whole with a checksum; one that begins before the end of others replaces them (a training that was
/// resumed). Values are integers of 7 bits a byte (LEB128).
struct UpdateLog {
  std::string head;  // one line of JSON
  std::vector<UpdateLeg> legs;

  /// Throws UserError naming the file where it is none, or damaged. A leg that was cut off at the end, as by
  /// a full disk, is left out.
  [[nodiscard]] static UpdateLog read(const std::string& path);
  /// The same of a text; `path` stands in messages.
  [[nodiscard]] static UpdateLog parse(std::string_view bytes, const std::string& path);
};
[[nodiscard]] std::string first_line_of_log(const std::string& head);
/// `packed`: the events of each group by pack_events.
[[nodiscard]] std::string pack_leg(const UpdateLeg& leg, const std::vector<std::string>& packed);

}  // namespace rossby
