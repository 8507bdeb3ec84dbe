#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/data/windows.hpp"
#include "rossby/exchange/traced.hpp"
#include "tests/support/values.hpp"

// The order of windows in epochs, the windows of each time group and micro-batch, and the steps that they
// need.

namespace rossby {
namespace {

using test::range;

std::vector<double> counts(Index steps) {
  std::vector<double> observed;
  for (Index t = 0; t < steps; ++t) observed.push_back(static_cast<double>(1000 + t * t));
  return observed;
}

/// Windows of 4 + 3 steps, 12 per batch.
WindowOptions twelve(WindowSampling sampling, int groups, Index blocks) {
  return {.shape = {4, 3},
          .batch = 12,
          .seed = 5,
          .sampling = sampling,
          .groups = groups,
          .lanes = 6,
          .blocks = blocks};
}

/// The windows of batch `index` by group, and the counts that each group receives.
std::vector<std::vector<Index>> batches_of(const WindowPlan& plan, Index index,
                                           const std::vector<double>& observed) {
  std::vector<std::vector<Index>> starts;
  double expected = 0;
  std::vector<double> told;
  for (int g = 0; g < plan.options().groups; ++g) {
    WindowBatch batch;
    plan.batch(index, g, batch);
    told.push_back(batch.observed);
    for (const Index start : batch.starts)
      for (Index h = 0; h < plan.options().shape.outputs; ++h)
        expected += observed[static_cast<std::size_t>(start + plan.options().shape.inputs + h)];
    starts.push_back(batch.starts);
  }
  for (const double count : told) EXPECT_EQ(count, expected);
  return starts;
}

class WindowPlans : public testing::TestWithParam<std::tuple<WindowSampling, int>> {};

TEST_P(WindowPlans, AnEpochTakesEveryWindowOnceInAnOrderOfItsOwn) {
  const auto [sampling, groups] = GetParam();
  for (const Index size : {12, 30, 97}) {
    const auto observed = counts(size + 7);
    WindowPlan plan(twelve(sampling, groups, 3), range(0, size), size + 7);
    plan.set_observed(observed);
    std::vector<std::vector<Index>> orders;
    for (const Index epoch : {0, 1, 0}) {
      plan.start_epoch(epoch);
      const StepLists held = plan.steps_of_groups();
      std::vector<Index> order;
      for (Index b = 0; b < plan.batches(); ++b) {
        const auto batches = batches_of(plan, b, observed);
        std::size_t together = 0;
        for (std::size_t g = 0; g < batches.size(); ++g) {
          together += batches[g].size();
          order.insert(order.end(), batches[g].begin(), batches[g].end());
          if (sampling == WindowSampling::global) continue;
          for (const Index step : plan.steps_of(batches[g]))  // a group holds what it trains on
            EXPECT_TRUE(std::binary_search(held[g].begin(), held[g].end(), step));
        }
        EXPECT_LE(together, 12U);
        EXPECT_GT(together, 0U);
      }
      EXPECT_EQ(order.size(), static_cast<std::size_t>(size));
      EXPECT_EQ(std::set<Index>(order.begin(), order.end()).size(), static_cast<std::size_t>(size));
      orders.push_back(order);
    }
    EXPECT_NE(orders[0], orders[1]);
    EXPECT_EQ(orders[0], orders[2]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WindowPlans,
                         testing::Combine(testing::Values(WindowSampling::local, WindowSampling::global,
                                                          WindowSampling::blocked),
                                          testing::Values(1, 2, 3, 6)));

/// The steps of some windows, one by one.
std::vector<Index> steps_of(const std::vector<Index>& starts, const WindowShape& shape) {
  std::set<Index> steps;
  for (const Index start : starts)
    for (Index k = 0; k < shape.inputs + shape.outputs; ++k) steps.insert(start + k);
  return {steps.begin(), steps.end()};
}

// The first window of a share brings its whole length, each further window `stride` steps. The halo is the
// length less a stride: inputs + outputs - 1 if windows begin at every step.
TEST(WindowPlan, AGroupHoldsItsShareAndTheHaloAndNoMore) {
  for (const WindowShape shape : {WindowShape{4, 3}, {12, 12}, {1, 1}, {1, 6}, {6, 1}})
    for (const Index stride : {1, 2, 3, 9})
      for (const Index size : {1, 2, 5, 24, 97})
        for (const int groups : {1, 2, 3, 5, 7})
          for (const WindowSampling sampling : {WindowSampling::local, WindowSampling::global}) {
            if (sampling == WindowSampling::local && size < groups) continue;  // refused
            SCOPED_TRACE(testing::Message()
                         << shape.inputs << " + " << shape.outputs << ", stride " << stride << ", " << size
                         << " windows, " << groups << " groups, sampling " << static_cast<int>(sampling));
            std::vector<Index> windows;
            for (Index k = 0; k < size; ++k) windows.push_back(5 + k * stride);
            const Index length = shape.inputs + shape.outputs;
            WindowPlan plan({.shape = shape, .batch = 4 * groups, .sampling = sampling, .groups = groups},
                            windows, windows.back() + length + 11);
            plan.start_epoch(3);
            const StepLists held = plan.steps_of_groups();
            ASSERT_EQ(held.size(), static_cast<std::size_t>(groups));
            for (Index g = 0; g < groups; ++g) {
              const auto& steps = held[static_cast<std::size_t>(g)];
              const Index first = size * g / groups, last = size * (g + 1) / groups;
              EXPECT_EQ(steps, steps_of({windows.begin() + first, windows.begin() + last}, shape));
              if (last == first) {
                EXPECT_TRUE(steps.empty());
                continue;
              }
              const Index halo = std::max<Index>(length - stride, 0);
              EXPECT_EQ(std::ssize(steps), (last - first) * std::min(stride, length) + halo);
              EXPECT_EQ(steps.front(), 5 + first * stride);
              EXPECT_EQ(steps.back(), 5 + (last - 1) * stride + length - 1);
            }
          }
}

TEST(WindowPlan, AGroupHoldsNothingOfAGap) {
  std::vector<Index> windows = range(0, 9);
  for (const Index start : range(40, 51)) windows.push_back(start);
  const WindowPlan plan({.shape = {3, 2}, .batch = 4, .groups = 2}, windows, 60);
  const StepLists held = plan.steps_of_groups();  // windows 0 to 8 and 40; windows 41 to 50
  std::vector<Index> expected = range(0, 13);
  for (const Index step : range(40, 45)) expected.push_back(step);
  EXPECT_EQ(held[0], expected);
  EXPECT_EQ(held[1], range(41, 55));
}

TEST(WindowPlan, AGroupHoldsTheBlocksThatItIsDealtAndTheirHalosAndNoMore) {
  for (const WindowShape shape : {WindowShape{4, 3}, {1, 1}, {5, 12}})
    for (const Index stride : {1, 3})
      for (const Index size : {6, 13, 97})
        for (const int groups : {1, 2, 3, 6}) {
          SCOPED_TRACE(testing::Message() << shape.inputs << " + " << shape.outputs << ", stride " << stride
                                          << ", " << size << " windows, " << groups << " groups");
          std::vector<Index> windows;
          for (Index k = 0; k < size; ++k) windows.push_back(k * stride);
          const Index length = shape.inputs + shape.outputs, blocks = 3;
          WindowPlan plan({.shape = shape,
                           .batch = 12,
                           .seed = 5,
                           .sampling = WindowSampling::blocked,
                           .groups = groups,
                           .lanes = 6,
                           .blocks = blocks},
                          windows, windows.back() + length + 11);
          for (const Index epoch : {0, 1, 4}) {
            plan.start_epoch(epoch);
            const StepLists held = plan.steps_of_groups();
            ASSERT_EQ(held.size(), static_cast<std::size_t>(groups));
            for (int g = 0; g < groups; ++g) {
              std::vector<Index> taken, starts;
              for (Index b = 0; b < plan.batches(); ++b) {
                plan.starts_of(b, g, starts);
                taken.insert(taken.end(), starts.begin(), starts.end());
              }
              const auto& steps = held[static_cast<std::size_t>(g)];
              EXPECT_EQ(steps, steps_of(taken, shape));
              const Index halos = 6 / groups * blocks * std::max<Index>(length - stride, 0);
              EXPECT_LE(std::ssize(steps), std::ssize(taken) * std::min(stride, length) + halos);
            }
          }
        }
}

// A store that brings nothing asks its exchange for the same steps as one that does.
TEST(StepStore, IdleAsksForTheSameSteps) {
  for (const WindowSampling sampling : {WindowSampling::global, WindowSampling::blocked})
    for (int group = 0; group < 3; ++group) {
      WindowPlan plan({.shape = {4, 3},
                       .batch = 6,
                       .seed = 5,
                       .sampling = sampling,
                       .groups = 3,
                       .lanes = 3,
                       .blocks = 2},
                      range(0, 50), 60);
      TracedStepExchange real(3, group), told(3, group);
      StepStore store(60, 2, 3, plan.steps_of_groups(), real);
      StepStore idle(60, 2, 3, plan.steps_of_groups(), told, true);
      Traffic before;
      for (Index epoch = 0; epoch < 3; ++epoch) {
        plan.start_epoch(epoch);
        if (sampling == WindowSampling::blocked)
          for (StepStore* each : {&store, &idle}) each->rearrange(plan.steps_of_groups());
        for (Index batch = 0; batch < plan.batches(); ++batch) {
          StepLists wanted;
          std::vector<Index> starts;
          for (int g = 0; g < 3; ++g) {
            plan.starts_of(batch, g, starts);
            wanted.push_back(plan.steps_of(starts));
          }
          for (StepStore* each : {&store, &idle}) {
            each->prefetch(wanted);
            each->arrive();
            for (const Index step : wanted[static_cast<std::size_t>(group)]) EXPECT_EQ(each->at(step)[5], 0);
          }
          EXPECT_EQ(real.sent(), told.sent());
        }
        if (epoch > 0 || sampling == WindowSampling::global) {
          EXPECT_NE(real.sent(), before);
        }
        before = real.sent();
      }
    }
}

TEST(WindowPlan, SizesAreThoseOfMicroBatches) {
  for (const WindowSampling sampling :
       {WindowSampling::local, WindowSampling::global, WindowSampling::blocked}) {
    WindowPlan plan(
        {.shape = {2, 1}, .batch = 12, .sampling = sampling, .groups = 2, .lanes = 4, .micro_batches = 5},
        range(0, 47), 49);
    for (Index index = 0; index < plan.batches(); ++index) {
      std::vector<Index> expected;
      for (int g = 0; g < 2; ++g) {
        WindowBatch batch;
        plan.batch(index, g, batch);
        for (std::size_t k = 0; k < 5; ++k)
          expected.push_back(batch.ends[k] - (k > 0 ? batch.ends[k - 1] : 0));
      }
      EXPECT_EQ(plan.sizes(index), expected);
    }
  }
}

TEST(WindowPlan, RunsEndWhereBatchesChangeSize) {
  for (const WindowSampling sampling :
       {WindowSampling::local, WindowSampling::global, WindowSampling::blocked})
    for (const int groups : {1, 3}) {
      WindowPlan plan(
          {.shape = {2, 1}, .batch = 6, .seed = 5, .sampling = sampling, .groups = groups, .lanes = 3},
          range(0, 22), 24);
      plan.start_epoch(1);
      const std::vector<Index> runs = plan.runs();
      const auto sizes = [&](Index index) {
        std::vector<std::size_t> of_groups;
        std::vector<Index> starts;
        for (int g = 0; g < groups; ++g) {
          plan.starts_of(index, g, starts);
          of_groups.push_back(starts.size());
        }
        return of_groups;
      };
      ASSERT_FALSE(runs.empty());
      EXPECT_EQ(runs.front(), 0);
      for (Index index = 1; index < plan.batches(); ++index)
        if (sizes(index) != sizes(index - 1)) {
          EXPECT_TRUE(std::count(runs.begin(), runs.end(), index)) << index;
        }
      EXPECT_LE(runs.size(), 3U) << "the last batches alone are smaller";
    }
  WindowPlan even({.shape = {2, 1}, .batch = 11}, range(0, 22), 24);
  EXPECT_EQ(even.runs(), (std::vector<Index>{0}));
}

TEST(WindowPlan, TheWindowsOfAStepDoNotDependOnTheGroupsButWithLocalSampling) {
  for (const WindowSampling sampling : {WindowSampling::global, WindowSampling::blocked}) {
    std::vector<std::vector<std::multiset<Index>>> all;
    for (const int groups : {1, 2, 3, 6}) {
      WindowPlan plan(twelve(sampling, groups, 2), range(0, 50), 57);
      plan.start_epoch(4);
      all.emplace_back();
      for (Index b = 0; b < plan.batches(); ++b) {
        all.back().emplace_back();
        for (int g = 0; g < groups; ++g) {
          std::vector<Index> starts;
          plan.starts_of(b, g, starts);
          all.back().back().insert(starts.begin(), starts.end());
        }
      }
      EXPECT_EQ(all.back(), all.front()) << groups << " groups";
    }
  }
}

/// Windows of each group in each micro-batch, and of all groups together.
struct Dealt {
  std::vector<std::vector<Index>> sizes;
  std::vector<std::set<Index>> micro_batches;
};

Dealt dealt(const WindowPlan& plan, Index index) {
  Dealt all;
  all.micro_batches.resize(static_cast<std::size_t>(plan.options().micro_batches));
  WindowBatch batch;
  for (int g = 0; g < plan.options().groups; ++g) {
    plan.batch(index, g, batch);
    all.sizes.emplace_back();
    Index first = 0;
    for (std::size_t k = 0; k < batch.ends.size(); ++k) {
      all.sizes.back().push_back(batch.ends[k] - first);
      all.micro_batches[k].insert(batch.starts.begin() + first, batch.starts.begin() + batch.ends[k]);
      first = batch.ends[k];
    }
    EXPECT_EQ(first, std::ssize(batch.starts));
  }
  for (std::size_t k = 0; k < all.micro_batches.size(); ++k)
    EXPECT_EQ(batch.of_all[k], std::ssize(all.micro_batches[k])) << "no window twice";
  return all;
}

Index spread(const std::vector<Index>& counts) {
  return *std::max_element(counts.begin(), counts.end()) - *std::min_element(counts.begin(), counts.end());
}

// For a batch with enough windows in all lanes.
TEST(WindowPlan, AMicroBatchHasAsManyWindowsOfOneGroupAsOfAnother) {
  for (const WindowSampling sampling :
       {WindowSampling::local, WindowSampling::global, WindowSampling::blocked})
    for (const Index micro_batches : {1, 2, 3, 4, 7, 8, 12, 16, 24, 48}) {
      std::vector<std::set<Index>> of_one_group;
      for (const int groups : {1, 2, 3, 4, 6, 12}) {
        SCOPED_TRACE(testing::Message() << "sampling " << static_cast<int>(sampling) << ", " << micro_batches
                                        << " micro-batches, " << groups << " groups");
        WindowOptions options{.shape = {4, 3},
                              .batch = 48,
                              .seed = 5,
                              .sampling = sampling,
                              .groups = groups,
                              .lanes = 12,
                              .blocks = 2};
        WindowPlan whole(options, range(0, 480), 487);
        options.micro_batches = micro_batches;
        WindowPlan plan(options, range(0, 480), 487);
        for (const Index epoch : {0, 3}) {
          whole.start_epoch(epoch);
          plan.start_epoch(epoch);
          for (const Index index : {0, 4}) {
            const Dealt parts = dealt(plan, index);
            std::vector<Index> of_groups, of_micro_batches;
            std::set<Index> all;
            for (const auto& sizes : parts.sizes) {
              EXPECT_LE(spread(sizes), 1) << "one micro-batch of a group and the next";
              of_groups.push_back(std::accumulate(sizes.begin(), sizes.end(), Index{0}));
            }
            EXPECT_EQ(spread(of_groups), 0) << "one group and another";
            for (std::size_t k = 0; k < parts.micro_batches.size(); ++k) {
              std::vector<Index> mine;
              for (const auto& sizes : parts.sizes) mine.push_back(sizes[k]);
              EXPECT_LE(spread(mine), 1) << "groups in micro-batch " << k;
              of_micro_batches.push_back(std::ssize(parts.micro_batches[k]));
              all.insert(parts.micro_batches[k].begin(), parts.micro_batches[k].end());
            }
            EXPECT_LE(spread(of_micro_batches), 1) << "all groups together";
            EXPECT_EQ(all, dealt(whole, index).micro_batches.front());
            if (sampling == WindowSampling::local || epoch != 3 || index != 4) continue;
            if (groups == 1) of_one_group = parts.micro_batches;
            EXPECT_EQ(parts.micro_batches, of_one_group);
          }
        }
      }
    }
}

TEST(WindowPlan, RefusesWhatDoesNotGoTogether) {
  const auto make = [](WindowOptions options) { WindowPlan plan(options, range(0, 20), 30); };
  EXPECT_THROW(make({.shape = {}, .batch = 9, .groups = 2}), UserError);
  EXPECT_THROW(make({.shape = {}, .batch = 12, .sampling = WindowSampling::blocked, .groups = 2, .lanes = 3}),
               UserError);
  EXPECT_THROW(make({.shape = {}, .batch = 10, .sampling = WindowSampling::blocked, .groups = 2, .lanes = 4}),
               UserError);
  EXPECT_THROW(make({.shape = {}, .batch = 50, .groups = 25}), UserError);
  EXPECT_NO_THROW(make({.shape = {}, .batch = 9, .sampling = WindowSampling::global, .groups = 2}));
}

}  // namespace
}  // namespace rossby
