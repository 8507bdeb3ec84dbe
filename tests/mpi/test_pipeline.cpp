#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/mpi/window_training.hpp"

// Micro-batches and pipelines of stages do not change a training. Losses and norms of the steps, trained
// parameters and the validation error agree with one rank, on row blocks x stages x time groups. Repeated
// runs and runs with recomputed cells are equal bit for bit.

namespace rossby {
namespace {

using namespace small_training;

void expect_equal(const Training& many, const Training& one) {
  ASSERT_EQ(many.losses.size(), one.losses.size());
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    EXPECT_NEAR(many.losses[s], one.losses[s], 1e-10 * std::abs(one.losses[s])) << "step " << s / 2;
  EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
  for (std::size_t p = 0; p < one.model->parameters().size(); ++p) {
    const auto& a = many.model->parameters()[p]->value;
    const auto& b = one.model->parameters()[p]->value;
    for (Index i = 0; i < b.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-10) << one.model->parameters()[p]->name << "[" << i << "]";
  }
  if (many.grid.groups() > 1) return;
  for (std::size_t i = 0; i < one.forecasts.size(); ++i)
    EXPECT_NEAR(many.forecasts[i], one.forecasts[i], 1e-10) << "forecast " << i;
}

// Stages of two encoder and two decoder layers: split by layer, encoder and decoder apart, one of them on one
// stage and the other on two, one layer a stage, and back and forth.
const std::vector<std::vector<int>> dcrnn_stages{{0, 1, 0, 1}, {0, 0, 1, 1}, {0, 0, 1, 2},
                                                 {0, 1, 2, 2}, {0, 1, 2, 3}, {1, 0, 0, 1}};
// Stages of four layers.
const std::vector<std::vector<int>> wavenet_stages{{0, 0, 1, 1}, {0, 1, 1, 1}, {0, 1, 1, 2}, {0, 1, 2, 3}};

bool alone() {
  return Communicator::world().size() == 1;
}

int stages_in(const std::vector<int>& stage_of) {
  return *std::max_element(stage_of.begin(), stage_of.end()) + 1;
}

/// Calls `visit(stage_of, groups)` for all grids of these ranks that have several stages.
template <class Visit>
void for_grids(Model model, const Visit& visit) {
  const int ranks = Communicator::world().size();
  for (const auto& stage_of : model == Model::dcrnn ? dcrnn_stages : wavenet_stages)
    for (const int groups : {1, 2, 3}) {
      const int stages = stages_in(stage_of);
      if (ranks % (groups * stages) != 0) continue;
      std::string name = model == Model::dcrnn ? "dcrnn" : "graph_wavenet";
      for (const int stage : stage_of) name += " " + std::to_string(stage);
      SCOPED_TRACE(name + ", " + std::to_string(groups) + " groups");
      visit(stage_of, groups);
    }
}

TEST(Pipeline, GivesTheSameLossesAsOneRank) {
  if (alone()) GTEST_SKIP() << "stages need ranks";
  for (const Model model : {Model::dcrnn, Model::graph_wavenet})
    for (const Index micro_batches : {1, 2, 3, 6}) {
      Case c{
          .name = "", .n = 11, .sampling = WindowSampling::blocked, .batch = 6, .lanes = 6, .model = model};
      c.micro_batches = micro_batches;
      c.inputs = model == Model::dcrnn && micro_batches % 2 == 0;
      SCOPED_TRACE(std::to_string(micro_batches) + " micro-batches");
      const Training one(c, Communicator::self());
      for_grids(model, [&](const std::vector<int>& stage_of, int groups) {
        c.stage_of = stage_of;
        const Training many(c, Communicator::world(), groups, stages_in(stage_of));
        expect_equal(many, one);
        // One message from encoder to decoder holds two states; their gradients come back.
        if (micro_batches == 1 && groups == 1 && stage_of == std::vector<int>{0, 0, 1, 1}) {
          EXPECT_EQ(many.handed_over.messages, std::ssize(many.losses));
        }
      });
    }
}

TEST(Pipeline, RepeatsBitForBitWithAndWithoutRecomputing) {
  if (alone()) GTEST_SKIP() << "stages need ranks";
  for (const Model model : {Model::dcrnn, Model::graph_wavenet}) {
    Case c{.name = "", .n = 11, .batch = 4, .model = model};
    c.micro_batches = 2;
    for_grids(model, [&](const std::vector<int>& stage_of, int groups) {
      c.stage_of = stage_of;
      c.batch = 4 * groups;
      c.recompute = Recompute::none;
      const Training first(c, Communicator::world(), groups, stages_in(stage_of));
      c.recompute = Recompute::cell;
      const Training second(c, Communicator::world(), groups, stages_in(stage_of));
      EXPECT_EQ(first.losses, second.losses);
      EXPECT_EQ(first.validation, second.validation);
      EXPECT_EQ(first.forecasts, second.forecasts);
    });
  }
}

TEST(Pipeline, StandsFewerRowsThanRanksAndWindowsThanMicroBatches) {
  if (alone()) GTEST_SKIP() << "stages need ranks";
  for (const Model model : {Model::dcrnn, Model::graph_wavenet}) {
    Case c{.name = "", .n = 1, .batch = 5, .model = model};
    c.micro_batches = 5;  // the last batch of an epoch has fewer windows
    const Training one(c, Communicator::self());
    for_grids(model, [&](const std::vector<int>& stage_of, int groups) {
      if (groups > 1) return;
      c.stage_of = stage_of;
      expect_equal(Training(c, Communicator::world(), groups, stages_in(stage_of)), one);
    });
  }
}

TEST(MicroBatches, AddUpToTheBatchInLessMemory) {
  for (const Model model : {Model::dcrnn, Model::tgcn}) {
    Case c{.name = "", .n = 61, .batch = 6, .model = model};
    const Training whole(c, Communicator::world());
    c.micro_batches = 3;
    const Training parts(c, Communicator::world());
    expect_equal(parts, whole);
    if (whole.partition.size(whole.grid.space().rank()) > 0) {
      EXPECT_LT(static_cast<double>(parts.kept_bytes), 0.6 * static_cast<double>(whole.kept_bytes));
    }
  }
}

/// Batch normalisation uses the statistics of one micro-batch on every grid.
TEST(MicroBatches, AreTheSameOnEveryGrid) {
  const int ranks = Communicator::world().size();
  for (const auto& [sampling, micro_batches] : {std::pair{WindowSampling::blocked, 2},
                                                {WindowSampling::blocked, 4},
                                                {WindowSampling::global, 2},
                                                {WindowSampling::global, 4}}) {
    Case c{.name = "", .n = 11, .sampling = sampling, .batch = 6, .lanes = 6, .model = Model::graph_wavenet};
    c.micro_batches = micro_batches;
    const Training one(c, Communicator::self());
    for (int groups = 1; groups <= ranks; ++groups)
      if (ranks % groups == 0 && 6 % groups == 0)
        expect_equal(Training(c, Communicator::world(), groups), one);
  }
}

TEST(ProcessGrid, PutsStagesBetweenRowBlocksAndGroups) {
  const Communicator world = Communicator::world();
  for (int groups = 1; groups <= world.size(); ++groups)
    for (int stages = 1; stages <= world.size() + 1; ++stages) {
      if (world.size() % (groups * stages) != 0) {
        EXPECT_THROW(ProcessGrid(world, groups, stages), UserError);
        continue;
      }
      const ProcessGrid grid(world, groups, stages);
      const int blocks = grid.space().size();
      EXPECT_EQ(blocks * groups * stages, world.size());
      EXPECT_EQ((grid.group() * stages + grid.stage()) * blocks + grid.space().rank(), world.rank());
      EXPECT_EQ(grid.plane().size(), blocks * groups);
      EXPECT_EQ(grid.plane().rank(), grid.group() * blocks + grid.space().rank());
      EXPECT_EQ(grid.groups(), groups);
      EXPECT_EQ(grid.stages(), stages);
      MpiReducer pipeline(grid.pipeline()), time(grid.time());
      double sums[] = {static_cast<double>(grid.space().rank()), static_cast<double>(grid.group())};
      pipeline.sum(std::span<double>(sums));
      EXPECT_EQ(sums[0], stages * grid.space().rank());
      EXPECT_EQ(sums[1], stages * grid.group());
      double rows = grid.space().rank() + 100.0 * grid.stage();
      time.sum(std::span<double>(&rows, 1));
      EXPECT_EQ(rows, groups * (grid.space().rank() + 100.0 * grid.stage()));
    }
}

}  // namespace
}  // namespace rossby
