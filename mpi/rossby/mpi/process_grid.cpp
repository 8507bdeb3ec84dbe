#include "rossby/mpi/process_grid.hpp"

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// A rank's coordinates in the grid.
struct GridPlace {
  int blocks, stages, groups;
  int block, stage, group;
};

/// Throws the same error on every rank.
GridPlace place_of(const Communicator& world, Index groups, Index stages) {
  const Index ranks = world.size();
  if (groups < 1 || ranks % groups != 0)
    user_error(
        "parallel.time_groups = {} does not divide the {} ranks. Set parallel.time_groups to a divisor of "
        "this number",
        groups, ranks);
  if (stages < 1 || ranks / groups % stages != 0)
    user_error(
        "parallel.stages = {} does not divide the {} ranks{}. Set parallel.stages to a divisor of this "
        "number",
        stages, ranks / groups, groups > 1 ? " of a time group" : "");
  GridPlace place{};
  place.groups = static_cast<int>(groups);
  place.stages = static_cast<int>(stages);
  place.blocks = static_cast<int>(ranks / groups / stages);
  place.block = world.rank() % place.blocks;
  place.stage = world.rank() / place.blocks % place.stages;
  place.group = world.rank() / place.blocks / place.stages;
  return place;
}

/// The ranks of one colour, with this rank as number `rank` of `size`.
Communicator part_of(const Communicator& world, int color, int rank, int size) {
  if (world.is_pretended()) return Communicator::pretended(rank, size, world.pretended_on_host());
  return world.split(color, rank);
}

}  // namespace

ProcessGrid::ProcessGrid(const Communicator& world)
    : world_(world),
      space_(world),
      time_(Communicator::self()),
      pipeline_(Communicator::self()),
      plane_(world) {}

ProcessGrid::ProcessGrid(const Communicator& world, Index groups, Index stages) : ProcessGrid(world) {
  const GridPlace at = place_of(world, groups, stages);
  const int blocks = at.blocks;
  if (at.groups * at.stages > 1) space_ = part_of(world, at.group * at.stages + at.stage, at.block, blocks);
  if (at.groups > 1) time_ = part_of(world, at.stage * blocks + at.block, at.group, at.groups);
  if (at.stages == 1) return;
  pipeline_ = part_of(world, at.group * blocks + at.block, at.stage, at.stages);
  plane_ = part_of(world, at.stage, at.group * blocks + at.block, at.groups * blocks);
}

}  // namespace rossby
