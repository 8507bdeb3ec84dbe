#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/model/dcrnn.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mailbox.hpp"
#include "rossby/mpi/petsc_exchange.hpp"
#include "rossby/mpi/reducer.hpp"
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

struct Case {
  const char* name;
  Index n = 37;
  DiffusionVariant variant = DiffusionVariant::paper;
  int steps = 2;
  bool shuffled = true;
  Recompute recompute = Recompute::none;
  double clip = 0.05;
};

struct Training {
  RowPartition partition;
  MpiReducer reducer;
  Series series;
  Scaler scaler;
  TimeFeatures times;
  Split split;
  CsrBlock block;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Dcrnn<double>> model;
  std::vector<double> losses, forecasts;
  double validation = 0;

  Training(const Case& c, const Communicator& comm)
      : partition(make_partition(c.n, c.shuffled, comm.size())), reducer(comm) {
    const int part = comm.rank();
    split = make_split(30, {.train = "20", .validation = "8", .test = "rest"});
    series = random_series(partition, part, 30);
    scaler = Scaler::fit(series, split, {.center = ScaleBy::node, .spread = ScaleBy::global, .factor = 1},
                         reducer);
    times = TimeFeatures::of(TimeAxis::regular(30, "hours since 2001-01-01", 0, 1), true, false);
    MpiMailbox mailbox(comm);
    const GlobalEdges graph = random_edges(partition, part, 0.15);
    const GlobalEdges supports = random_walks(graph, false, partition, mailbox);
    const GlobalEdges* groups[] = {&supports};
    const GhostList ghosts = collect_ghosts(partition, part, groups);
    exchange = std::make_unique<PetscExchange>(comm, partition, part, ghosts);
    block = localise(supports, partition, part, ghosts);
    DcrnnOptions options;
    options.inputs = 4;
    options.channels = 3;
    options.features = 2;
    options.layers = 2;
    options.units = 5;
    options.recompute = c.recompute;
    model = std::make_unique<Dcrnn<double>>(options, Diffusion<double>(block, *exchange, c.steps, c.variant));
    model->start(3);
    train(c, comm);
  }

  void train(const Case& c, const Communicator& comm) {
    const WindowShape shape{4, 3};
    const SeriesReader<double> reader(series, scaler, times, Fill::mean);
    WindowPlan plan({shape, 5, 7}, series, training_windows(split, shape, 1, {}), reducer);
    const auto origins = window_origins(split.origins(Role::validation, 3), shape, 3, {});
    WindowTask<double> task({.sampling_decay = 8, .score_batch = 3, .seed = 2}, std::move(plan), *model,
                            reader, series, origins, reducer, Exec{});
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
    const auto rows = partition.rows_of(comm.rank());
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
    c.recompute = recompute;
    const Training second(c, Communicator::world());
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.validation, second.validation);
    EXPECT_EQ(first.forecasts, second.forecasts);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, WindowRanks,
    testing::Values(Case{.name = "Paper"},
                    Case{.name = "Legacy", .variant = DiffusionVariant::legacy, .steps = 3},
                    Case{.name = "Blocks", .shuffled = false, .clip = 0}, Case{.name = "Gru", .steps = 0},
                    Case{.name = "FewRows", .n = 3}, Case{.name = "OneRow", .n = 1},
                    Case{.name = "Recomputed", .recompute = Recompute::step}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace rossby
