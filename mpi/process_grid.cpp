#include "rossby/mpi/process_grid.hpp"

#include "rossby/base/error.hpp"

namespace rossby {
namespace {

/// Ranks of a group; the same error on every rank.
int blocks_of(const Communicator& world, Index groups) {
  if (groups < 1 || world.size() % groups != 0)
    user_error("parallel.time_groups = {} does not divide the {} ranks into equal groups", groups,
               world.size());
  return static_cast<int>(world.size() / groups);
}

/// The ranks with this one's quotient or remainder by `blocks`.
Communicator part_of(const Communicator& world, int blocks, bool same_group) {
  const int group = world.rank() / blocks, block = world.rank() % blocks;
  if (!world.is_pretended()) return world.split(same_group ? group : block);
  return same_group ? Communicator::pretended(block, blocks, world.pretended_on_host())
                    : Communicator::pretended(group, world.size() / blocks, world.pretended_on_host());
}

}  // namespace

ProcessGrid::ProcessGrid(const Communicator& world)
    : world_(world), space_(world), time_(Communicator::self()) {}

ProcessGrid::ProcessGrid(const Communicator& world, Index groups)
    : world_(world),
      space_(part_of(world, blocks_of(world, groups), true)),
      time_(part_of(world, blocks_of(world, groups), false)) {}

}  // namespace rossby
