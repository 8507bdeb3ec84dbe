#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/model/dcrnn.hpp"
#include "rossby/model/graph_wavenet.hpp"
#include "rossby/model/tgcn.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mailbox.hpp"
#include "rossby/mpi/petsc_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/mpi/reducer.hpp"
#include "rossby/mpi/step_exchange.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/window_task.hpp"
#include "tests/mpi/small_training.hpp"

// Windowed forecasters do not depend on the number of ranks: losses and norms of the steps, trained
// parameters, validation error and forecasts at P ranks against one, and two runs at one P bit for bit. With
// missing values, scheduled sampling, clipping, recomputed segments, row counts that P does not divide, and
// fewer rows than ranks.

namespace rossby {
namespace {

using namespace small_training;

enum class Model { dcrnn, tgcn, graph_wavenet };

struct Case {
  const char* name;
  Index n = 37;
  DiffusionVariant variant = DiffusionVariant::paper;
  int steps = 2;
  bool shuffled = true;
  Recompute recompute = Recompute::none;
  double clip = 0.05;
  WindowSampling sampling = WindowSampling::local;
  Index batch = 5;
  Index lanes = 1;
  Model model = Model::dcrnn;
  bool adaptive = true;  // graph_wavenet
};

struct Training {
  ProcessGrid grid;
  RowPartition partition;
  MpiReducer reducer;
  Series series;
  Scaler scaler;
  TimeFeatures times;
  Split split;
  CsrBlock block;
  std::unique_ptr<Exchange> exchange, everyone;
  std::unique_ptr<WindowModel<double>> model;
  std::vector<double> losses, forecasts;
  Traffic sent;  // steps between groups
  double validation = 0;

  Training(const Case& c, const Communicator& world, Index groups = 1)
      : grid(world, groups), partition(make_partition(c.n, c.shuffled, grid.space().size())), reducer(world) {
    const Communicator& comm = grid.space();
    const int part = comm.rank();
    split = make_split(30, {.train = "20", .validation = "8", .test = "rest"});
    series = random_series(partition, part, 30);
    times = TimeFeatures::of(TimeAxis::regular(30, "hours since 2001-01-01", 0, 1), true, false);
    MpiMailbox mailbox(comm);
    const GlobalEdges graph = random_edges(partition, part, 0.15);
    const GlobalEdges supports = c.model == Model::tgcn
                                     ? normalise_symmetrically(first_relation(graph), partition, mailbox)
                                     : random_walks(graph, false, partition, mailbox);
    const GlobalEdges* lists[] = {&supports};
    const GhostList ghosts = collect_ghosts(partition, part, lists);
    exchange = std::make_unique<PetscExchange>(comm, partition, part, ghosts);
    block = localise(supports, partition, part, ghosts);
    Diffusion<double> diffusion(block, *exchange, c.steps, c.variant);
    if (c.model == Model::tgcn)
      model = std::make_unique<Tgcn<double>>(TgcnOptions{4, 3, 3, 2, 5, c.recompute}, std::move(diffusion));
    else if (c.model == Model::graph_wavenet)
      make_graph_wavenet(c);
    else
      model = std::make_unique<Dcrnn<double>>(DcrnnOptions{4, 3, 2, 2, 5, c.recompute}, std::move(diffusion));
    model->start(3);
    train(c);
  }

  /// Seven steps for four inputs, with dropout. Its pieces of all columns are exchanged on one rank too.
  void make_graph_wavenet(const Case& c) {
    const Communicator& comm = grid.space();
    everyone = std::make_unique<AllgatherExchange>(comm, partition, comm.rank());
    AllNodes all;
    all.first = partition.begin(comm.rank());
    all.owned = partition.size(comm.rank());
    for (Index p = 0; p < c.n; ++p) all.global.push_back(partition.global(Position{p}).value);
    all.exchange = everyone.get();
    const GraphWavenetOptions options{4, 3, 3, 2, 2, 2, 5, 7, 6, 2, c.adaptive, 3, 0.3, 5, c.recompute};
    Diffusion<double> diffusion(block, *exchange, c.steps, DiffusionVariant::powers);
    model = std::make_unique<GraphWavenet<double>>(options, std::move(diffusion), all, reducer);
  }

  /// The first relation alone.
  static GlobalEdges first_relation(const GlobalEdges& graph) {
    GlobalEdges one;
    one.rows = graph.rows;
    one.relations = 1;
    one.ptr = {0};
    for (Index i = 0; i < graph.rows; ++i) {
      for (Index e = graph.begin(i, 0); e < graph.end(i, 0); ++e) {
        one.column.push_back(graph.column[static_cast<std::size_t>(e)]);
        one.value.push_back(graph.value[static_cast<std::size_t>(e)]);
      }
      one.ptr.push_back(one.entries());
    }
    return one;
  }

  /// What this group holds of the series.
  StepLists held_steps(const WindowPlan& plan, const std::vector<std::vector<Index>>& origins) const {
    StepLists held = plan.steps_of_groups();
    for (std::size_t g = 0; g < held.size(); ++g) {
      for (const Index origin : origins[g])
        for (Index step = origin - 3; step <= origin + 3; ++step) held[g].push_back(step);
      std::sort(held[g].begin(), held[g].end());
      held[g].erase(std::unique(held[g].begin(), held[g].end()), held[g].end());
    }
    return held;
  }

  /// Its values; scale and counts with the other groups.
  void fill(StepStore& store, WindowPlan& plan) {
    const Index width = series.rows * 2;
    float* to = store.values().data();
    for (const Index step : store.held()) to = std::copy_n(series.values.data() + step * width, width, to);
    const auto counted = store.counted();
    std::vector<Index> training;
    std::copy_if(counted.begin(), counted.end(), std::back_inserter(training),
                 [](Index t) { return t < 20; });
    MpiReducer space(grid.space()), across(grid.time());
    scaler = Scaler::fit({series.rows, 2, training, [&](Index t) { return store.at(t); }, &across},
                         {.center = ScaleBy::node, .spread = ScaleBy::global, .factor = 1}, space);
    std::vector<double> observed(30);
    for (const Index step : training)
      for (Index k = 0; k < width; ++k)
        observed[static_cast<std::size_t>(step)] += std::isnan(store.at(step)[k]) ? 0 : 1;
    reducer.sum(observed);
    plan.set_observed(std::move(observed));
  }

  void train(const Case& c) {
    const WindowShape shape{4, 3};
    const int groups = grid.groups();
    WindowPlan plan({.shape = shape,
                     .batch = c.batch,
                     .seed = 7,
                     .sampling = c.sampling,
                     .groups = groups,
                     .lanes = c.lanes,
                     .blocks = 2},
                    training_windows(split, shape, 1, {}), 30);
    const auto all = window_origins(split.origins(Role::validation, 3), shape, 3, {});
    std::vector<std::vector<Index>> origins;
    for (Index g = 0; g < groups; ++g)
      origins.emplace_back(all.begin() + std::ssize(all) * g / groups,
                           all.begin() + std::ssize(all) * (g + 1) / groups);
    std::unique_ptr<StepExchange> between = std::make_unique<OneGroup>();
    if (groups > 1) between = std::make_unique<MpiStepExchange>(grid.time());
    StepStore store(30, series.rows, 2, held_steps(plan, origins), *between);
    fill(store, plan);
    const SeriesReader<double> reader(store, scaler, times, Fill::mean);
    WindowTask<double> task({.sampling_decay = 8, .score_batch = 3, .seed = 2}, plan, *model, reader, store,
                            origins, reducer, Exec{});
    Optimiser<double> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, model->parameters());
    Step<double> step(model->parameters(), optimiser, reducer, c.clip);
    Tape<double> tape{Exec{}};
    Losses terms;
    Index count = 0;
    for (Index epoch = 0; epoch < 4; ++epoch) {
      task.start_epoch(epoch);
      for (Index b = 0; b < task.batches(); ++b, ++count) {
        const auto result = step.run(tape, 1e-2, 0, terms, [&] { task.record(tape, b, count, terms); });
        losses.push_back(result.loss);
        losses.push_back(result.gradient_norm);
      }
    }
    validation = task.validate();
    sent = between->sent();
    if (groups > 1) return;  // the last origin's steps may be with another group
    const auto rows = partition.rows_of(grid.space().rank());
    forecasts.assign(static_cast<std::size_t>(c.n * 3 * 2), 0.0);
    const std::vector<Index> origin{26};
    task.forecast(origin, 3, [&](Index, Index horizon, NodeView<const double> x) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (Index f = 0; f < 2; ++f)
          forecasts[static_cast<std::size_t>((rows[i].value * 3 + horizon - 1) * 2 + f)] =
              x.at(static_cast<Index>(i), 0)[f];
    });
    reducer.sum(std::span<double>(forecasts));
  }
};

class WindowRanks : public testing::TestWithParam<Case> {};

TEST_P(WindowRanks, GiveTheSameLossesAsOneRank) {
  Training many(GetParam(), Communicator::world());
  Training one(GetParam(), Communicator::self());
  ASSERT_EQ(many.losses.size(), one.losses.size());
  ASSERT_GE(one.losses.size(), 20U);
  for (std::size_t s = 0; s < one.losses.size(); ++s)
    EXPECT_NEAR(many.losses[s], one.losses[s], 1e-10 * std::abs(one.losses[s])) << "step " << s / 2;
  EXPECT_LT(one.losses[one.losses.size() - 2], one.losses[0]) << "it learns";
  EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
  for (std::size_t i = 0; i < one.forecasts.size(); ++i)
    EXPECT_NEAR(many.forecasts[i], one.forecasts[i], 1e-10) << "forecast " << i;
  for (std::size_t p = 0; p < one.model->parameters().size(); ++p) {
    const auto& a = many.model->parameters()[p]->value;
    const auto& b = one.model->parameters()[p]->value;
    for (Index i = 0; i < b.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-10) << one.model->parameters()[p]->name << "[" << i << "]";
  }
}

TEST_P(WindowRanks, RepeatBitForBitWithAndWithoutRecomputing) {
  Case c = GetParam();
  const Training first(c, Communicator::world());
  for (const Recompute recompute : {Recompute::none, Recompute::cell, Recompute::step}) {
    if (c.model == Model::graph_wavenet && recompute == Recompute::step)
      continue;  // it has no recurrent steps
    c.recompute = recompute;
    const Training second(c, Communicator::world());
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.validation, second.validation);
    EXPECT_EQ(first.forecasts, second.forecasts);
  }
}

/// Every grid of these ranks has the losses of one rank, where the windows of a step do not depend on it.
TEST(WindowGrid, GivesTheSameLossesAsOneRank) {
  const int ranks = Communicator::world().size();
  for (const auto& [model, sampling] : {std::pair{Model::dcrnn, WindowSampling::blocked},
                                        {Model::dcrnn, WindowSampling::global},
                                        {Model::graph_wavenet, WindowSampling::blocked},
                                        {Model::graph_wavenet, WindowSampling::global}}) {
    const Case c{.name = "", .n = 11, .sampling = sampling, .batch = 6, .lanes = 6, .model = model};
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
      for (std::size_t p = 0; p < one.model->parameters().size(); ++p)
        for (Index i = 0; i < one.model->parameters()[p]->size(); ++i)
          EXPECT_NEAR(many.model->parameters()[p]->value[i], one.model->parameters()[p]->value[i], 1e-10);
      const Training again(c, Communicator::world(), groups);
      EXPECT_EQ(again.losses, many.losses) << "bit for bit";
    }
  }
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
        Case{.name = "Recomputed", .recompute = Recompute::step}, Case{.name = "Tgcn", .model = Model::tgcn},
        Case{.name = "GraphWavenet", .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetBlocks", .shuffled = false, .clip = 0, .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetFewRows", .n = 3, .model = Model::graph_wavenet},
        Case{.name = "GraphWavenetOneRow", .n = 1, .model = Model::graph_wavenet},
        Case{.name = "GraphAlone", .model = Model::graph_wavenet, .adaptive = false},
        Case{.name = "AdaptiveAlone", .steps = 0, .model = Model::graph_wavenet}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace rossby
