#pragma once

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// P = P_space × P_time ranks: row blocks × groups that hold different times. World rank = group · P_space +
/// row block, so that the ranks of a group, which exchange ghosts in every product, are neighbours.
class ProcessGrid {
 public:
  /// All ranks in one group.
  explicit ProcessGrid(const Communicator& world);
  /// Collective. Throws UserError on every rank where the groups do not divide the ranks. Of a pretended
  /// rank: its place in the grid.
  ProcessGrid(const Communicator& world, Index groups);

  [[nodiscard]] const Communicator& world() const { return world_; }
  /// The ranks of this group; rank = row block.
  [[nodiscard]] const Communicator& space() const { return space_; }
  /// The ranks with this one's rows; rank = group.
  [[nodiscard]] const Communicator& time() const { return time_; }
  [[nodiscard]] int groups() const { return time_.size(); }
  [[nodiscard]] int group() const { return time_.rank(); }

 private:
  Communicator world_;
  Communicator space_;
  Communicator time_;
};

}  // namespace rossby
