#pragma once

#include "rossby/base/index.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// P = P_space × P_stages × P_time ranks: row blocks × stages of a pipeline with different layers × groups
/// with different times. World rank = (group · P_stages + stage) · P_space + row block, so that ranks that
/// exchange ghosts in every product are neighbours.
class ProcessGrid {
 public:
  /// All ranks in one group.
  explicit ProcessGrid(const Communicator& world);
  /// Collective. Throws UserError on every rank if groups and stages do not divide the number of ranks. A
  /// pretended rank gets its place in the grid.
  ProcessGrid(const Communicator& world, Index groups, Index stages = 1);

  [[nodiscard]] const Communicator& world() const { return world_; }
  /// The ranks of this group and stage; rank = row block.
  [[nodiscard]] const Communicator& space() const { return space_; }
  /// The ranks with the same rows and stage; rank = group.
  [[nodiscard]] const Communicator& time() const { return time_; }
  /// The ranks with the same rows and times; rank = stage.
  [[nodiscard]] const Communicator& pipeline() const { return pipeline_; }
  /// The ranks of this stage, which together hold all rows and times once; rank = group · P_space + row
  /// block.
  [[nodiscard]] const Communicator& plane() const { return plane_; }
  [[nodiscard]] int groups() const { return time_.size(); }
  [[nodiscard]] int group() const { return time_.rank(); }
  [[nodiscard]] int stages() const { return pipeline_.size(); }
  [[nodiscard]] int stage() const { return pipeline_.rank(); }

 private:
  Communicator world_;
  Communicator space_;
  Communicator time_;
  Communicator pipeline_;
  Communicator plane_;
};

}  // namespace rossby
