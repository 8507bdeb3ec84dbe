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

}  // namespace

ProcessGrid::ProcessGrid(const Communicator& world)
    : world_(world), space_(world), time_(Communicator::self()) {}

ProcessGrid::ProcessGrid(const Communicator& world, Index groups)
    : world_(world),
      space_(world.split(world.rank() / blocks_of(world, groups))),
      time_(world.split(world.rank() % blocks_of(world, groups))) {}

}  // namespace rossby
