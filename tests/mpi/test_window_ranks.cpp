#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/mpi/window_training.hpp"

// Window models do not depend on the number of ranks. Compares P ranks with one: losses and norms of steps,
// trained parameters, validation error and forecasts. Two runs at one P agree to the bit. Cases have missing
// values, scheduled sampling, clipping, recomputed segments, row counts that P does not divide, and fewer
// rows than ranks.

namespace rossby {
namespace {

using namespace small_training;

/// Compares trained parameters, those of rows by their global row.
void expect_same_parameters(const Training& many, const Training& one) {
  for (std::size_t p = 0; p < one.model->parameters().size(); ++p) {
    const Parameter<double>& a = *many.model->parameters()[p];
    const Parameter<double>& b = *one.model->parameters()[p];
    if (b.placement == Placement::replicated) {
      for (Index i = 0; i < b.size(); ++i)
        EXPECT_NEAR(a.value[i], b.value[i], 1e-10) << b.name << "[" << i << "]";
      continue;
    }
    const Index width = b.shape[2];
    const auto rows = many.partition.rows_of(many.grid.space().rank());
    ASSERT_EQ(a.size(), std::ssize(rows) * width);
    for (Index i = 0; i < a.size(); ++i) {
      const GlobalRow row = rows[static_cast<std::size_t>(i / width)];
      const Index there = one.partition.position(row).value * width + i % width;
      EXPECT_NEAR(a.value[i], b.value[there], 1e-10) << b.name << " of row " << row.value;
    }
  }
}

bool recomputes_steps(const Case& c) {
  if (!c.of_registry) return c.model != Model::graph_wavenet;
  const auto modes = small_architecture(*c.of_registry)->windows()->recompute_modes();
  return std::ranges::find(modes, "step") != modes.end();
}

/// Small models of the registry, with many rows and with fewer rows than ranks.
std::vector<Case> cases_of_registry() {
  std::vector<Case> cases;
  const std::string vectors = "node_embedding = 3\ntime_of_day_embedding = 2\nday_of_week_embedding = 2";
  for (const ModelDescriptor& descriptor : models()) {
    if (!descriptor.of_windows) continue;
    const KeyTable& keys = descriptor.keys;
    if (descriptor.name != "stid" &&
        std::ranges::find(keys, "model.node_embedding", &KeySpec::name) != keys.end())
      cases.push_back(
          {.name = std::string(descriptor.name) + "_vectors", .of_registry = &descriptor, .more = vectors});
    cases.push_back({.name = std::string(descriptor.name), .of_registry = &descriptor});
    if (descriptor.reads_known)
      cases.push_back(
          {.name = std::string(descriptor.name) + "_inputs", .of_registry = &descriptor, .inputs = true});
    for (const Index n : {37, 3})
      if (small_architecture(descriptor)->windows()->learns_low_rank())
        cases.push_back({.name = fmt::format("{}_relation_of_{}", descriptor.name, n),
                         .n = n,
                         .of_registry = &descriptor,
                         .low_rank = 2});
    if (std::ranges::find(keys, "model.relate", &KeySpec::name) != keys.end())
      for (const Index rank : {0, 2})
        cases.push_back({.name = fmt::format("{}_layers_relate_{}", descriptor.name, rank),
                         .of_registry = &descriptor,
                         .more = "relate = 'layers'",
                         .low_rank = rank});
    cases.push_back({.name = std::string(descriptor.name) + "_two_rows",
                     .n = 2,
                     .shuffled = false,
                     .clip = 0,
                     .of_registry = &descriptor});
  }
  return cases;
}

class WindowRanks : public testing::TestWithParam<Case> {};

TEST_P(WindowRanks, GiveTheSameLossesAsOneRank) {
  Training many(GetParam(), Communicator::world());
  Training one(GetParam(), Communicator::self());
  ASSERT_EQ(many.losses.size(), one.losses.size());
  ASSERT_GE(one.losses.size(), 20U);
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    EXPECT_NEAR(many.losses[s], one.losses[s], 1e-10 * std::abs(one.losses[s])) << "step " << s / 2;
  // The loss of one batch of two rows of noise says nothing.
  if (GetParam().n > 2 || !GetParam().of_registry) {
    EXPECT_LT(one.losses[one.losses.size() - 2], one.losses[0]) << "it learns";
  }
  EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
  for (std::size_t i = 0; i < one.forecasts.size(); ++i)
    EXPECT_NEAR(many.forecasts[i], one.forecasts[i], 1e-10) << "forecast " << i;
  expect_same_parameters(many, one);
}

TEST_P(WindowRanks, RepeatBitForBitWithAndWithoutRecomputing) {
  Case c = GetParam();
  const Training first(c, Communicator::world());
  for (const Recompute recompute : {Recompute::none, Recompute::cell, Recompute::step}) {
    if (recompute == Recompute::step && !recomputes_steps(c)) continue;
    c.recompute = recompute;
    const Training second(c, Communicator::world());
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.validation, second.validation);
    EXPECT_EQ(first.forecasts, second.forecasts);
  }
}

/// If the windows of a step do not depend on the grid, every grid of these ranks has the losses of one rank.
void expect_same_on_grids(const Case& c) {
  const int ranks = Communicator::world().size();
  const Training one(c, Communicator::self());
  for (int groups = 1; groups <= ranks; ++groups) {
    if (ranks % groups != 0 || 6 % groups != 0) continue;
    SCOPED_TRACE(std::string(one.model->name()) + " " + std::to_string(ranks / groups) + " x " +
                 std::to_string(groups));
    const Training many(c, Communicator::world(), groups);
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      EXPECT_NEAR(many.losses[s], one.losses[s], 1e-10 * std::abs(one.losses[s])) << "step " << s / 2;
    EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
    expect_same_parameters(many, one);
    const Training again(c, Communicator::world(), groups);
    EXPECT_EQ(again.losses, many.losses) << "bit for bit";
  }
}

TEST(WindowGrid, GivesTheSameLossesAsOneRank) {
  for (const auto& [model, sampling] : {std::pair{Model::dcrnn, WindowSampling::blocked},
                                        {Model::dcrnn, WindowSampling::global},
                                        {Model::graph_wavenet, WindowSampling::blocked},
                                        {Model::graph_wavenet, WindowSampling::global}})
    expect_same_on_grids({.name = "",
                          .n = 11,
                          .sampling = sampling,
                          .batch = 6,
                          .lanes = 6,
                          .model = model,
                          .inputs = model == Model::dcrnn});
  for (const ModelDescriptor& descriptor : models())
    if (descriptor.of_windows)
      expect_same_on_grids(
          {.name = "",
           .n = 11,
           .sampling = WindowSampling::blocked,
           .batch = 6,
           .lanes = 6,
           .of_registry = &descriptor,
           .low_rank = small_architecture(descriptor)->windows()->learns_low_rank() ? 2 : 0});
}

TEST(WindowGrid, LocalSamplingMovesNothing) {
  const Communicator world = Communicator::world();
  const Case c{.name = "", .n = 11, .batch = 2 * world.size()};
  const Training many(c, world, world.size());
  EXPECT_EQ(many.sent, Traffic{});
  const Training again(c, world, world.size());
  EXPECT_EQ(again.losses, many.losses);
}

TEST(WindowGrid, LocalSamplingDoesNotDependOnTheRowBlocks) {
  const Communicator world = Communicator::world();
  if (world.size() % 2 != 0) GTEST_SKIP() << "two groups need an even number of ranks";
  const Case c{.name = "", .n = 11, .batch = 4};
  const Training blocks(c, world, 2);
  const Training pair(c, world.split(world.rank() / 2), 2);
  ASSERT_EQ(blocks.losses.size(), pair.losses.size());
  for (std::size_t s = 0; s < pair.losses.size(); ++s)
    EXPECT_NEAR(blocks.losses[s], pair.losses[s], 1e-10 * std::abs(pair.losses[s])) << "step " << s / 2;
}

TEST(ProcessGrid, NumbersRowBlocksFirst) {
  const Communicator world = Communicator::world();
  for (int groups = 1; groups <= world.size(); ++groups) {
    if (world.size() % groups != 0) {
      EXPECT_THROW(ProcessGrid(world, groups), UserError);
      continue;
    }
    const ProcessGrid grid(world, groups);
    EXPECT_EQ(grid.groups(), groups);
    EXPECT_EQ(grid.space().size() * groups, world.size());
    EXPECT_EQ(grid.group() * grid.space().size() + grid.space().rank(), world.rank());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, WindowRanks,
    testing::Values(
        Case{.name = "Paper"}, Case{.name = "Legacy", .variant = DiffusionVariant::legacy, .steps = 3},
        Case{.name = "Blocks", .shuffled = false, .clip = 0}, Case{.name = "Gru", .steps = 0},
        Case{.name = "FewRows", .n = 3}, Case{.name = "OneRow", .n = 1},
        Case{.name = "Recomputed", .recompute = Recompute::step}, Case{.name = "Inputs", .inputs = true},
        Case{.name = "InputsFewRows", .n = 3, .inputs = true}, Case{.name = "Tgcn", .model = Model::tgcn},
        Case{.name = "GraphWavenet", .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetBlocks", .shuffled = false, .clip = 0, .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetFewRows", .n = 3, .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetOneRow", .n = 1, .model = Model::graph_wavenet},
        Case{.name = "GraphAlone", .model = Model::graph_wavenet, .adaptive = false},
        Case{.name = "AdaptiveAlone", .steps = 0, .model = Model::graph_wavenet}),
    [](const auto& chosen) { return chosen.param.name; });

INSTANTIATE_TEST_SUITE_P(Registry, WindowRanks, testing::ValuesIn(cases_of_registry()),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace rossby
