#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/train/replayed_updates.hpp"
#include "rossby/train/update_log.hpp"
#include "tests/lib/train/asynchronous_ranks.hpp"

// Asynchronous updates of ranks that are threads of this process. The updates are recorded. Plain loops over
// the recorded updates must give the same parameters.

namespace rossby {
namespace {

using namespace asynchronous_ranks;

/// Result of the recorded events, one update after the other, in the ranks' order of summation.
struct Replayed {
  double shared[2] = {0.1, 0.1};
  std::vector<std::vector<double>> rows;  // of each block
  double loss = 0, targets = 0;
  Counts windows, staleness;
  Index updates = 0, dropped = 0;
};

Replayed replay(AsyncGrid& grid, const AsynchronousOptions& options) {
  Replayed now;
  const auto blocks = static_cast<std::size_t>(grid.of_blocks);
  now.rows.assign(blocks, {0.3, 0.3});
  std::vector<Replayed> versions{now};
  Index last = -1;
  for (AsyncRank& rank : grid.ranks)
    for (const UpdateEvent& event : rank.events) last = std::max(last, event.update);
  for (Index update = 0; update <= last; ++update) {
    double shared[2] = {0, 0}, targets = 0;
    std::vector<std::vector<double>> rows(blocks, {0, 0});
    Index windows = 0;
    bool first = true;
    for (int g = 0; g < grid.of_groups; ++g)
      for (int b = 0; b < grid.of_blocks; ++b) {
        double of_rank[2] = {0, 0}, rows_of_rank[2] = {0, 0};
        for (const UpdateEvent& event : grid.rank(g, b).events) {
          if (event.update != update) continue;
          const Replayed& read = versions.at(static_cast<std::size_t>(event.version));
          const Gradients x = gradients_of(event.batch % batches, g, b, read.shared,
                                           read.rows[static_cast<std::size_t>(b)].data());
          const double f = staleness_factor(options.rate, update - event.version);
          for (int i = 0; i < 2; ++i) of_rank[i] += f * x.shared[i], rows_of_rank[i] += f * x.rows[i];
          now.loss += x.loss;
          if (b > 0) continue;
          targets += targets_of(event.batch % batches, g);
          windows += windows_of(event.batch % batches, g);
          ++now.staleness[update - event.version];
        }
        for (int i = 0; i < 2; ++i) {
          shared[i] = first ? of_rank[i] : shared[i] + of_rank[i];
          double& row = rows[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)];
          row = g == 0 ? rows_of_rank[i] : row + rows_of_rank[i];
        }
        first = false;
      }
    for (int i = 0; i < 2; ++i) {
      now.shared[i] -= learning_rate * (shared[i] / targets);
      for (std::size_t b = 0; b < blocks; ++b)
        now.rows[b][static_cast<std::size_t>(i)] -=
            learning_rate * (rows[b][static_cast<std::size_t>(i)] / targets);
    }
    now.targets += targets;
    ++now.windows[windows];
    now.updates = update + 1;
    versions.push_back(now);
  }
  return now;
}

/// Returns the first value of an array of the host or of a device.
double first_of(const Buffer<double>& array) {
  if (!array.device()) return array[0];
  double value = 0;
  array.device()->download(std::span<double>(&value, 1), array.data());
  array.device()->wait();
  return value;
}

/// Checks every run: each sub-batch with targets is used or dropped once, the ranks of a group used the same
/// ones, and the parameters on every rank equal those of the replay.
void expect_replayed(AsyncGrid& grid, const AsynchronousOptions& options = {}) {
  const Replayed replayed = replay(grid, options);
  Index dropped = 0;
  for (int g = 0; g < grid.of_groups; ++g) {
    std::vector<Index> taken;
    for (const UpdateEvent& event : grid.rank(g).events) {
      taken.push_back(event.batch);
      dropped += event.update < 0;
      EXPECT_LE(event.version, event.update < 0 ? event.version : event.update);
    }
    std::vector<Index> all;
    for (Index index = 0; index < batches; ++index)
      if (targets_of(index, g) > 0) all.push_back(index);
    EXPECT_EQ(taken, all) << "in their order, of group " << g;
    for (int b = 1; b < grid.of_blocks; ++b) {
      ASSERT_EQ(grid.rank(g, b).events.size(), taken.size());
      for (std::size_t k = 0; k < taken.size(); ++k) {
        EXPECT_EQ(grid.rank(g, b).events[k].update, grid.rank(g).events[k].update);
        EXPECT_EQ(grid.rank(g, b).events[k].version, grid.rank(g).events[k].version)
            << "one version of the weights";
      }
    }
  }
  for (AsyncRank& rank : grid.ranks) {
    EXPECT_EQ(rank.error, "");
    EXPECT_EQ(rank.now.steps, replayed.updates);
    EXPECT_EQ(rank.now.batch, batches);
    EXPECT_EQ(rank.now.updates.windows, replayed.windows);
    EXPECT_EQ(rank.now.updates.staleness, replayed.staleness);
    EXPECT_EQ(rank.now.updates.dropped, dropped);
    EXPECT_EQ(rank.now.updates.targets.sum, replayed.targets);
    EXPECT_EQ(rank.now.node_steps, replayed.targets);
    ASSERT_EQ(rank.now.terms.size(), 1U);
    EXPECT_NEAR(rank.now.terms[0].value, replayed.loss, 1e-9 * replayed.loss);
    EXPECT_EQ(rank.now.terms[0].weight, replayed.targets);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(rank.task.unused_.value[i], 7) << "no loss depends on it";
    if (!rank.device) continue;
    EXPECT_EQ(first_of(rank.task.shared_.there), rank.task.shared_.value[0]) << "validations read it";
    EXPECT_EQ(first_of(rank.task.shared_.gradient), 0);
  }
  for (int g = 0; g < grid.of_groups; ++g)
    for (int b = 0; b < grid.of_blocks; ++b)
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(grid.rank(g, b).task.shared_.value[i], replayed.shared[i]) << "bit for bit";
        EXPECT_EQ(grid.rank(g, b).task.rows_.value[i],
                  replayed.rows[static_cast<std::size_t>(b)][static_cast<std::size_t>(i)]);
      }
}

/// Parameters: groups, blocks, true if a thread makes the updates, and true if ranks train on a device.
class AsyncGrids : public testing::TestWithParam<std::tuple<int, int, bool, bool>> {
 protected:
  [[nodiscard]] AsynchronousOptions options() const {
    AsynchronousOptions options;
    options.thread = std::get<2>(GetParam());
    return options;
  }
  [[nodiscard]] AsyncGrid grid(const AsynchronousOptions& with) const {
    return AsyncGrid(std::get<0>(GetParam()), std::get<1>(GetParam()), with, on_device());
  }
  [[nodiscard]] static bool on_device() { return std::get<3>(GetParam()); }
  /// Makes sub-batches take 1 ms, in the last group 3 ms, and in the last block a bit longer.
  static void slow_down(AsyncGrid& grid, double seconds = 1e-3) {
    for (int g = 0; g < grid.of_groups; ++g)
      for (int b = 0; b < grid.of_blocks; ++b) {
        const double mine = seconds * (g > 0 && g + 1 == grid.of_groups ? 3 : 1) * (1 + 0.2 * b);
        grid.rank(g, b).task.on_record = [mine](Index) { sleep_for(mine); };
      }
  }
  /// Lets rank 0 vote in one sub-batch and work slowly from then on, so that the updates learn of the vote
  /// before the last sub-batch, on a busy machine, too. Call slow_down after the run.
  static void vote_once(AsyncGrid& grid, int sub_batch) {
    const auto voted = std::make_shared<bool>(false);
    grid.rank(0).vote = [voted, sub_batch, asked = 0]() mutable {
      if (++asked != sub_batch) return 0U;
      *voted = true;
      return unsigned{vote_save};
    };
    grid.rank(0).task.on_record = [voted](Index) { sleep_for(*voted ? 30e-3 : 1e-3); };
  }
};

INSTANTIATE_TEST_SUITE_P(Updates, AsyncGrids,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2), testing::Bool(),
                                          testing::Bool()),
                         [](const auto& of) {
                           return std::to_string(std::get<0>(of.param)) + "x" +
                                  std::to_string(std::get<1>(of.param)) +
                                  (std::get<2>(of.param) ? "_thread" : "_driven") +
                                  (std::get<3>(of.param) ? "_device" : "");
                         });

TEST_P(AsyncGrids, TakeEachGradientOnceAndRepeatFromWhatWasWritten) {
  for (const double seconds : {0.0, 1e-3}) {
    AsyncGrid grid = this->grid(options());
    if (seconds > 0) slow_down(grid, seconds);
    grid.run();
    expect_replayed(grid, options());
  }
}

TEST_P(AsyncGrids, WeighGradientsByTheirStaleness) {
  for (const StalenessRate rate : {StalenessRate::inverse, StalenessRate::power}) {
    AsynchronousOptions options = this->options();
    options.rate = rate;
    AsyncGrid grid = this->grid(options);
    slow_down(grid);
    grid.run();
    expect_replayed(grid, options);
  }
}

TEST_P(AsyncGrids, KeepStalenessBelowItsLimit) {
  for (const bool waits : {false, true}) {
    AsynchronousOptions options = this->options();
    options.max_staleness = 1;
    options.waits = waits;
    AsyncGrid grid = this->grid(options);
    slow_down(grid);
    grid.run();
    expect_replayed(grid, options);
    const TrainingState& now = grid.rank(0).now;
    EXPECT_LE(now.updates.staleness.rbegin()->first, 1) << (waits ? "waits" : "drops");
    if (waits) {
      EXPECT_EQ(now.updates.dropped, 0);
    }
  }
}

TEST_P(AsyncGrids, LeaveAndGoOnAtEachGroupsBatch) {
  AsyncGrid grid = this->grid(options());
  slow_down(grid);
  vote_once(grid, 6);
  int runs = 0;
  while (grid.rank(0).now.batch < batches && runs < 100) {
    grid.run();
    slow_down(grid);
    ++runs;
    for (const AsyncRank& rank : grid.ranks) {
      EXPECT_EQ(rank.votes, grid.rank(0).votes);
      EXPECT_EQ(rank.now.group_batches, grid.rank(0).now.group_batches);
      EXPECT_EQ(rank.now.batch, grid.rank(0).now.batch);
    }
    // As from a checkpoint: keep only the state.
    for (AsyncRank& rank : grid.ranks) {
      const TrainingState read = training_state(to_json(rank.now));
      EXPECT_EQ(read.group_batches, rank.now.group_batches);
      EXPECT_EQ(read.updates.staleness, rank.now.updates.staleness);
      EXPECT_EQ(read.updates.targets.squares, rank.now.updates.targets.squares);
      rank.now = read;
    }
  }
  EXPECT_EQ(runs, 2);
  expect_replayed(grid, options());
}

TEST_P(AsyncGrids, SaveByUpdates) {
  AsynchronousOptions options = this->options();
  options.save_every = 3;
  AsyncGrid grid = this->grid(options);
  slow_down(grid, 20e-3);
  grid.run();
  for (const AsyncRank& rank : grid.ranks) {
    EXPECT_EQ(rank.votes, unsigned{vote_save});
    EXPECT_GE(rank.now.steps, 3);
    EXPECT_LT(rank.now.batch, batches);
  }
}

TEST_P(AsyncGrids, EndAlikeWhereASumIsNotFinite) {
  AsyncGrid grid = this->grid(options());
  slow_down(grid);
  AsyncRank& last = grid.rank(grid.of_groups - 1, grid.of_blocks - 1);
  last.task.not_finite_in = 5;
  grid.run();
  for (const AsyncRank& rank : grid.ranks) {
    EXPECT_EQ(rank.error, "the loss is nan (not finite)");
    EXPECT_EQ(rank.now.steps, grid.rank(0).now.steps);
    EXPECT_TRUE(std::isnan(first_of(rank.task.shared_.gradient))) << "for who says where it comes from";
    EXPECT_TRUE(std::isfinite(rank.task.shared_.value[0]));
  }
  // Continue from an earlier state, as after a rollback: nothing of the failed run may remain.
  for (AsyncRank& rank : grid.ranks) {
    rank.error.clear();
    rank.now = {};
    rank.task.not_finite_in = -1;
    rank.events.clear();
    for (int i = 0; i < 2; ++i) rank.task.shared_.value[i] = 0.1, rank.task.rows_.value[i] = 0.3;
  }
  grid.run();
  expect_replayed(grid, options());
}

TEST_P(AsyncGrids, ClipTheMeanGradient) {
  AsynchronousOptions options = this->options();
  options.clip = 1e-3;
  AsyncGrid grid = this->grid(options);
  grid.run();
  double square = 0;
  for (int b = 0; b < grid.of_blocks; ++b)
    for (int i = 0; i < 2; ++i) {
      const double moved = grid.rank(0, b).task.rows_.value[i] - 0.3;
      square += moved * moved + (b == 0 ? std::pow(grid.rank(0).task.shared_.value[i] - 0.1, 2) : 0);
    }
  const double most = learning_rate * 1e-3 * static_cast<double>(grid.rank(0).now.steps);
  EXPECT_LE(std::sqrt(square), most * (1 + 1e-9));
  EXPECT_GT(std::sqrt(square), 0.3 * most) << "all gradients are larger, and most point the same way";
}

/// Returns the content of a recorded training's file.
std::string recorded(AsyncGrid& grid, Index first) {
  UpdateLeg leg;
  leg.first = first;
  leg.last = grid.rank(0).now.steps;
  leg.group_batches = grid.rank(0).now.group_batches;
  std::vector<std::string> packed;
  for (int g = 0; g < grid.of_groups; ++g) {
    const std::vector<UpdateEvent>& last = grid.rank(g).updates.events();
    packed.push_back(pack_events(last, first));
    EXPECT_LE(packed.back().size(), 3 * last.size()) << "three bytes each";
  }
  return pack_leg(leg, packed);
}

TEST_P(AsyncGrids, RepeatBitByBitOnOtherNumbersOfGroups) {
  AsynchronousOptions options = this->options();
  options.clip = 1e-2;
  options.rate = StalenessRate::inverse;
  options.max_staleness = 2;
  AsyncGrid grid = this->grid(options);
  slow_down(grid);
  vote_once(grid, 5);
  std::string file = first_line_of_log("{}");
  while (grid.rank(0).now.batch < batches) {
    const Index first = grid.rank(0).now.steps;
    grid.run();
    slow_down(grid);
    ASSERT_EQ(grid.rank(0).error, "");
    file += recorded(grid, first);
  }
  const UpdateLog log = UpdateLog::parse(file, "log");
  EXPECT_EQ(log.legs.size(), 2U);
  for (int groups = 1; groups <= grid.of_groups; ++groups) {
    if (grid.of_groups % groups != 0) continue;
    AsyncGrid again(groups, grid.of_blocks, {}, on_device());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < again.ranks.size(); ++r)
      threads.emplace_back([&, r] {
        AsyncRank& rank = again.ranks[r];
        const int group = static_cast<int>(r) / again.of_blocks,
                  block = static_cast<int>(r) % again.of_blocks;
        ReplayedUpdates<double> updates(
            options,
            {&rank.all, &rank.groups, &rank.blocks, &rank.workers, group, groups, block, again.of_blocks},
            log.legs, rank.task, rank.masters, rank.optimiser, rank.exec);
        for (const UpdateLeg& leg : log.legs) {
          EXPECT_EQ(rank.now.steps, leg.first);
          (void)updates.run(rank.tape, learning_rate, rank.now, {}, {});
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (int g = 0; g < groups; ++g)
      for (int b = 0; b < grid.of_blocks; ++b) {
        AsyncRank& mine = again.rank(g, b);
        const AsyncRank& other = grid.rank(0, b);
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(mine.task.shared_.value[i], other.task.shared_.value[i]);
          EXPECT_EQ(mine.task.rows_.value[i], other.task.rows_.value[i]);
        }
        EXPECT_EQ(mine.now.steps, other.now.steps);
        EXPECT_EQ(mine.now.batch, batches);
        EXPECT_EQ(mine.now.updates.windows, other.now.updates.windows);
        EXPECT_EQ(mine.now.updates.staleness, other.now.updates.staleness);
        EXPECT_EQ(mine.now.updates.dropped, other.now.updates.dropped);
        EXPECT_EQ(mine.now.updates.targets.squares, other.now.updates.targets.squares);
        EXPECT_NEAR(mine.now.terms.at(0).value, other.now.terms.at(0).value,
                    1e-9 * other.now.terms.at(0).value);
      }
  }
}

TEST(Asynchronous, FastWorkersDoNotWaitForASlowOne) {
  AsyncGrid grid(3, 1);
  std::atomic<Index> reached[2] = {0, 0}, when_the_slow_one_was_halfway = 0;
  for (int g = 0; g < 3; ++g)
    grid.rank(g).task.on_record = [&, g](Index index) {
      if (g < 2) reached[g] = index;
      if (g == 2 && index == 11)
        when_the_slow_one_was_halfway = std::min(reached[0].load(), reached[1].load());
      sleep_for(g == 2 ? 10e-3 : 2e-3);
    };
  grid.run();
  expect_replayed(grid);
  EXPECT_GT(when_the_slow_one_was_halfway, 13) << "in step it would be 12 at most";
}

TEST(Asynchronous, FastWorkersRepeatTheirBatches) {
  for (const bool thread : {true, false}) {
    AsynchronousOptions options;
    options.repeats = true;
    options.thread = thread;
    AsyncGrid grid(2, 1, options);
    for (int g = 0; g < 2; ++g) grid.rank(g).task.on_record = [g](Index) { sleep_for(g == 1 ? 8e-3 : 2e-3); };
    grid.run();
    const std::vector<Index>& done = grid.rank(0).now.group_batches;
    EXPECT_GT(done[0], batches) << "while the other one trains";
    EXPECT_LT(done[1], batches);
    EXPECT_GE(done[0] + done[1], 2 * batches);
    constexpr auto waiting = static_cast<Index>(Handover<double>::most_waiting);
    EXPECT_LE(done[0] + done[1], 2 * (batches + waiting + 1))
        << "as many as may wait for the round that sees it";
    for (const AsyncRank& rank : grid.ranks) {
      EXPECT_EQ(rank.error, "");
      EXPECT_EQ(rank.now.batch, batches);
      EXPECT_EQ(rank.now.group_batches, done);
    }
    const Replayed replayed = replay(grid, options);
    EXPECT_EQ(grid.rank(0).task.shared_.value[0], replayed.shared[0]);
    EXPECT_EQ(grid.rank(0).now.steps, replayed.updates);
  }
}

TEST(Asynchronous, AnExceptionOfTheWorkerEndsAllRanks) {
  AsyncGrid grid(2, 1);
  struct Ends : std::exception {};
  for (int g = 0; g < 2; ++g) {
    grid.rank(g).task.on_record = [g](Index index) {
      sleep_for(1e-3);
      if (g == 1 && index == 2) throw UserError("the device has failed");
    };
    // The other ranks wait for the end of the job, here an exception.
    grid.rank(g).world.before = [] { throw UserError("the job ends"); };
  }
  grid.run();
  EXPECT_EQ(grid.rank(1).error, "the device has failed");
  EXPECT_EQ(grid.rank(0).error, "the job ends");
}

TEST(Asynchronous, AnExceptionOfTheUpdatesIsThatOfTheRun) {
  AsyncGrid grid(1, 1);
  int sums = 0;
  grid.rank(0).task.on_record = [](Index) { sleep_for(1e-3); };
  grid.rank(0).all.before = [&] {
    if (++sums == 10) throw std::bad_alloc();
  };
  grid.run();
  EXPECT_EQ(grid.rank(0).error, std::bad_alloc().what());
}

TEST(Asynchronous, ARankThatHangsIsNoticed) {
  for (const bool thread : {true, false}) {
    AsynchronousOptions options;
    options.thread = thread;
    options.patience = 0.1;
    std::atomic<bool> noticed = false;
    options.hung = [&](double seconds) {
      EXPECT_GT(seconds, 0.1);
      noticed = true;
    };
    AsyncGrid grid(2, 1, options);
    grid.rank(1).task.on_record = [&](Index index) {
      if (index == 4)
        for (int k = 0; k < 500 && !noticed; ++k) sleep_for(0.01);
    };
    grid.run();
    EXPECT_TRUE(noticed);
    expect_replayed(grid, options);
  }
}

}  // namespace
}  // namespace rossby
