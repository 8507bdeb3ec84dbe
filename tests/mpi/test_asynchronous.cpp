#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/train/replayed_updates.hpp"
#include "tests/lib/train/asynchronous_ranks.hpp"
#include "tests/mpi/world.hpp"

// Asynchronous updates over MPI on every process grid, by a thread and between sub-batches. A recording
// repeats bit for bit. A sum that is not finite ends all ranks with the same error.

namespace rossby {
namespace {

using namespace asynchronous_ranks;

/// One rank of a process grid, with its own communicators.
struct MpiRank {
  ProcessGrid grid;
  MpiReducer all, groups, blocks, workers, world;
  UpdatePorts ports;
  Fit task;
  MasterParameters<double> masters;
  Optimiser<double> optimiser;
  Tape<double> tape{Exec{}};
  TrainingState now;

  explicit MpiRank(int of_groups)
      : grid(test::environment_world(), of_groups),
        all(grid.world().for_thread()),
        groups(grid.time().for_thread()),
        blocks(grid.space().for_thread()),
        workers(grid.space()),
        world(grid.world()),
        ports{&all,
              &groups,
              &blocks,
              &workers,
              grid.group(),
              grid.groups(),
              grid.space().rank(),
              grid.space().size()},
        task(grid.group(), grid.space().rank()),
        masters(task.parameters()),
        optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, masters.parameters()) {
    task.on_record = [this](Index) { sleep_for(1e-4 * (1 + grid.world().rank())); };
  }
};

/// The recording as rank 0 writes it.
UpdateLog recorded(const MpiRank& rank, const std::vector<UpdateEvent>& events) {
  UpdateLeg leg;
  leg.last = rank.now.steps;
  leg.group_batches = rank.now.group_batches;
  std::vector<std::string> packed;
  for (int g = 0; g < rank.ports.of_groups; ++g)
    packed.push_back(broadcast(rank.grid.world(), pack_events(events, 0), g * rank.ports.of_blocks));
  return UpdateLog::parse(first_line_of_log("{}") + pack_leg(leg, packed), "log");
}

class MpiUpdates : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options.thread = GetParam();
    options.clip = 1e-2;
    options.records = true;
    if (options.thread && granted_threads() != ThreadLevel::multiple)
      GTEST_SKIP() << "this MPI does not allow calls from several threads";
  }
  AsynchronousOptions options;
};
INSTANTIATE_TEST_SUITE_P(By, MpiUpdates, testing::Bool(),
                         [](const auto& of) { return of.param ? "thread" : "worker"; });

TEST_P(MpiUpdates, RepeatOnEveryGrid) {
  const int ranks = test::environment_world().size();
  for (int groups = 1; groups <= ranks; ++groups) {
    if (ranks % groups != 0) continue;
    SCOPED_TRACE(groups);
    MpiRank first(groups);
    Asynchronous<double> updates(options, first.ports, first.task, first.masters, first.optimiser,
                                 first.world, Exec{});
    EXPECT_EQ(updates.run(first.tape, learning_rate, first.now, {}, {}), 0U);
    EXPECT_EQ(first.now.batch, batches);
    const UpdateLog log = recorded(first, updates.events());
    MpiRank again(groups);
    ReplayedUpdates<double> replayed(options, again.ports, log.legs, again.task, again.masters,
                                     again.optimiser, Exec{});
    (void)replayed.run(again.tape, learning_rate, again.now, {}, {});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(first.task.shared_.value[i], again.task.shared_.value[i]);
      EXPECT_EQ(first.task.rows_.value[i], again.task.rows_.value[i]);
    }
    EXPECT_EQ(first.now.steps, again.now.steps);
    EXPECT_EQ(first.now.updates.windows, again.now.updates.windows);
    EXPECT_EQ(first.now.updates.staleness, again.now.updates.staleness);
  }
}

TEST_P(MpiUpdates, EndAlikeWhereASumIsNotFinite) {
  const int ranks = test::environment_world().size();
  MpiRank rank(ranks);
  if (rank.grid.world().rank() == ranks - 1) rank.task.not_finite_in = 5;
  Asynchronous<double> updates(options, rank.ports, rank.task, rank.masters, rank.optimiser, rank.world,
                               Exec{});
  try {
    (void)updates.run(rank.tape, learning_rate, rank.now, {}, {});
    ADD_FAILURE() << "a loss that is not finite must be an error";
  } catch (const NotFinite& error) {
    EXPECT_STREQ(error.what(), "the loss is nan (not finite)");
  }
  agree_same(rank.grid.world(), std::to_string(rank.now.steps), "the step");
}

}  // namespace
}  // namespace rossby
