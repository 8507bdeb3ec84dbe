#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/mpi_row_link.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/train/stnn_task.hpp"
#include "tests/mpi/small_training.hpp"

// An STNN whose factors are split over time groups, on every process grid. Losses, gradient norms, parameters
// and the validation error agree with one rank. A second run gives the same bits. The cases cover all kinds
// of relations, both kinds of slabs, missing values, dropout, clipping, and a training part with a hole. In
// some, lanes have unequal lengths, so that groups have batches without a step. Others have fewer rows than
// ranks.

namespace rossby {
namespace {

using namespace small_training;

constexpr Index steps_in_all = 32;

struct Case {
  const char* name;
  Index n = 11;
  bool joint = false;
  bool refine = true;
  bool dense = false;
  bool from_data = false;
  bool fused = false;  // backward updates the dense relation from the factors of all groups
  bool late = false;   // with one group: the same for the low-rank factors (and a dense relation)
  int layers = 2;
  Index slab = 12;
  Index lanes = 12;
  Index folds = 0;
  Index fold = 0;
  double clip = 0.5;
  double decay = 1e-3;
  double beta1 = 0.9;
};

struct Training {
  ProcessGrid grid;
  RowPartition partition;
  MpiReducer reducer, space, across;
  Split split;
  Series series;
  Scaler scaler;
  BatchOptions batches;
  StepRange held;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<MpiRowLink> link;
  std::unique_ptr<MpiGroupGather> gather;
  std::unique_ptr<Stnn<double>> model;
  std::vector<double> losses;
  Index without_steps = 0;  // number of batches without a step of this group
  double validation = 0;
  TrainingState state;

  Training(const Case& c, const Communicator& world, Index groups = 1)
      : grid(world, groups),
        partition(make_partition(c.n, !c.dense, grid.space().size())),
        reducer(world),
        space(grid.space()),
        across(grid.time()) {
    const int part = grid.space().rank();
    split = make_split(steps_in_all, {.train = "26",
                                      .validation = c.folds > 0 ? "0" : "4",
                                      .test = "rest",
                                      .folds = c.folds,
                                      .fold = c.fold});
    batches = {.slab_steps = c.slab,
               .joint = c.joint,
               .seed = 5,
               .lanes = c.lanes,
               .groups = grid.groups(),
               .group = grid.group()};
    const auto training = split.training_steps();
    held = steps_of_groups(batches, training)[static_cast<std::size_t>(grid.group())];
    read(part);
    std::vector<Index> own;
    std::copy_if(training.begin(), training.end(), std::back_inserter(own),
                 [&](Index t) { return held.contains(t); });
    scaler = Scaler::fit({series.rows, 2, own, [&](Index t) { return series.at(t); }, &across},
                         {.center = ScaleBy::node, .spread = ScaleBy::global, .factor = 1}, space);
    scaler.apply(series);
    make_model(c, part);
    train(c, part);
  }

  /// True if this group holds the steps before the validation part, and so reads that part too.
  [[nodiscard]] bool validates() const {
    return held.contains(std::max<Index>(split.validation.first - 1, 0));
  }
  void read(int part) {
    const Series all = random_series(partition, part, steps_in_all);
    const Index last = validates() ? std::max(held.last, split.validation.last) : held.last;
    series = Series(last - held.first, all.rows, 2);
    series.first = held.first;
    std::copy_n(all.at(held.first), series.values.size(), series.values.data());
  }

  void make_model(const Case& c, int part) {
    auto relations = std::make_unique<Relations<double>>(partition, part);
    if (c.refine)
      relations->add_refine(random_edges(partition, part, 0.3), 0.5);
    else
      relations->add_given(random_edges(partition, part, 0.3));
    relations->add_self(0.5);
    if (c.dense) relations->add_discover(0.1);
    relations->add_low_rank(3);
    if (grid.space().size() > 1 && relations->needs_all())
      exchange = std::make_unique<AllgatherExchange>(grid.space(), partition, part);
    else
      exchange = std::make_unique<NeighbourExchange>(grid.space(), partition, part, relations->ghosts());
    relations->finish(*exchange, space);
    gather = std::make_unique<MpiGroupGather>(grid.time());
    if (grid.groups() > 1) relations->gather_over(*gather);
    StnnOptions options;
    options.steps = split.train.last;
    options.held = held;
    options.group = grid.group();
    options.features = 2;
    options.latent = 2;
    options.layers = c.layers;
    options.hidden = 4;
    options.activation = LatentActivation::tanh;
    options.l2_z = 0.01;
    options.l1_rel = 0.01;
    options.dropout_z = 0.1;
    options.dropout_dynamics = 0.1;
    link = std::make_unique<MpiRowLink>(grid.time());
    model =
        std::make_unique<Stnn<double>>(options, std::move(relations), partition.rows_of(part), link.get());
    StnnStart start{.seed = 3};
    if (c.from_data) {
      start.data = &series;
      start.around = around();
    }
    model->start(start);
    for (Parameter<double>* parameter : model->parameters()) {
      parameter->decay = c.decay;
      const bool can = parameter->fusable, factors = can && parameter->name == "discover_weight";
      parameter->clips_late = c.late && can;
      parameter->fusable = c.late ? can && (grid.groups() == 1 || (c.fused && factors)) : factors;
    }
  }

  /// Observations of the whole series before and after the steps of this group.
  ObservedAround around() {
    Series all = random_series(partition, grid.space().rank(), steps_in_all);
    scaler.apply(all);
    const Index width = all.rows * 2;
    const auto nearest = [&](Index from, Index to, Index by) {
      std::vector<float> found(static_cast<std::size_t>(width), NAN);
      for (Index t = from; t != to; t += by)
        for (Index q = 0; q < width; ++q)
          if (float& x = found[static_cast<std::size_t>(q)]; std::isnan(x)) x = all.values[t * width + q];
      return found;
    };
    return {nearest(held.first - 1, -1, -1), nearest(held.last, std::max(held.last, split.train.last), 1)};
  }

  void train(const Case& c, int part) {
    StnnTask<double> task({.horizons = 2, .filter_lambda = 0.1, .validates = validates()}, batches, *model,
                          series, scaler, split, partition, part, reducer);
    Optimiser<double> optimiser({.beta1 = c.beta1, .fuse = c.fused || c.late}, model->parameters());
    const TimeGroups groups{grid.groups() > 1 ? &across : nullptr, grid.group() == 0};
    BatchPlan plan(batches, series, split.training_steps(), split.training_pairs(), partition, part, reducer);
    Step<double> step(model->parameters(), optimiser, reducer, c.clip, groups);
    Tape<double> tape{Exec{}};
    Losses terms;
    Index count = 0;
    for (Index epoch = 0; epoch < 4; ++epoch) {
      task.start_epoch(epoch);
      plan.start_epoch(epoch);
      for (Index b = 0; b < task.batches(); ++b, ++count) {
        without_steps += plan.batch(b).times.empty() ? 1 : 0;
        const auto result = step.run(tape, 3e-3, 0, terms, [&] { task.record(tape, b, count, terms); });
        losses.push_back(result.loss);
        losses.push_back(result.gradient_norm);
      }
    }
    state.parameters = optimiser.books();
    if (groups.reducer) optimiser.gather_books(state.parameters, *groups.reducer);
    optimiser.settle(Exec{});
    validation = task.validate(tape);
  }

  /// Values of a parameter of rows by global step and row, (outer, n, inner).
  std::vector<double> whole(const Parameter<double>& p) {
    const Index outer = p.split() ? p.outer_all : p.shape[0];
    std::vector<double> all(static_cast<std::size_t>(outer * partition.rows() * p.shape[2]));
    const auto& rows = model->rows();
    if (p.split() || grid.group() == 0)
      for (Index t = 0; t < p.shape[0]; ++t)
        for (std::size_t i = 0; i < rows.size(); ++i)
          for (Index f = 0; f < p.shape[2]; ++f)
            all[static_cast<std::size_t>(
                ((p.outer_first + t) * partition.rows() + rows[i].value) * p.shape[2] + f)] =
                p.value[(t * p.shape[1] + static_cast<Index>(i)) * p.shape[2] + f];
    reducer.sum(std::span<double>(all));
    return all;
  }
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < b.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-10 * std::max(1.0, std::abs(b[i]))) << what << "[" << i << "]";
}

class StnnGrid : public testing::TestWithParam<Case> {};

TEST_P(StnnGrid, GivesTheSameLossesAsOneRank) {
  const Case& c = GetParam();
  const Communicator world = Communicator::world();
  Training one(c, Communicator::self());
  ASSERT_GE(one.losses.size(), 8U);
  double empty = 0;
  for (int groups = 1; groups <= world.size(); ++groups) {
    if (world.size() % groups != 0 || c.lanes % groups != 0) continue;
    SCOPED_TRACE(std::to_string(world.size() / groups) + " x " + std::to_string(groups));
    Training many(c, world, groups);
    ASSERT_EQ(many.losses.size(), one.losses.size());
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      EXPECT_NEAR(many.losses[s], one.losses[s], 1e-10 * std::abs(one.losses[s])) << "step " << s / 2;
    EXPECT_NEAR(many.validation, one.validation, 1e-10 * one.validation);
    for (std::size_t p = 0; p < one.model->parameters().size(); ++p) {
      const Parameter<double>& a = *many.model->parameters()[p];
      const Parameter<double>& b = *one.model->parameters()[p];
      if (b.placement == Placement::rows) expect_near(many.whole(a), one.whole(b), b.name);
      if (b.placement == Placement::replicated)
        expect_near({a.value.begin(), a.value.end()}, {b.value.begin(), b.value.end()}, b.name);
      EXPECT_EQ(many.state.parameters[p].table.done, one.state.parameters[p].table.done);
      EXPECT_EQ(many.state.parameters[p].count, one.state.parameters[p].count);
    }
    empty += static_cast<double>(many.without_steps);
    const Training again(c, world, groups);
    EXPECT_EQ(again.losses, many.losses) << "bit for bit";
    EXPECT_EQ(again.validation, many.validation);
  }
  MpiReducer(world).sum(std::span<double>(&empty, 1));
  if (c.slab > 0 && c.folds == 0 && (world.size() == 4 || world.size() == 6)) {
    EXPECT_GT(empty, 0) << "a group without steps is tried, too";
  }
}

/// Traffic of a step over the grid: gradients of relations, one row of latents, nothing of the size of Z.
TEST(StnnGridTraffic, LendsOneStepANeighbour) {
  const Communicator world = Communicator::world();
  if (world.size() == 1) GTEST_SKIP() << "one rank has no neighbours";
  const Case c{.name = "", .n = 12, .joint = true, .slab = 0, .lanes = 12 / world.size() * world.size()};
  const Training all(c, world, world.size());
  // Every batch has all steps. Neighbours exchange a row and its gradient, in 4 epochs of one batch.
  const bool first = world.rank() == 0, last = world.rank() + 1 == world.size();
  const Index messages = 4 * ((last ? 0 : 1) + (first ? 0 : 1));
  EXPECT_EQ(all.link->sent(), (Traffic{messages, messages * 12 * 2 * 8}));
}

/// Without clipping, updates from factors agree with updates from the summed gradients of all groups.
TEST(StnnGridFactors, EqualSummedGradients) {
  const Communicator world = Communicator::world();
  const Case c{.name = "", .dense = true, .slab = 12, .lanes = 12, .clip = 0};
  Case f = c;
  f.fused = true;
  Training summed(c, world, world.size()), factors(f, world, world.size());
  for (std::size_t s = 0; s < summed.losses.size(); ++s)
    EXPECT_NEAR(factors.losses[s], summed.losses[s], 1e-10 * std::abs(summed.losses[s])) << "step " << s / 2;
  expect_near(factors.whole(factors.model->parameter("discover_weight")),
              summed.whole(summed.model->parameter("discover_weight")), "discover_weight");
  EXPECT_EQ(factors.model->parameter("discover_weight").gradient.size(), 0);
  EXPECT_EQ(summed.gather->sent(), Traffic{});
  if (world.size() > 1) {
    EXPECT_GT(factors.gather->sent().bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, StnnGrid,
    testing::Values(Case{.name = "Slabs"}, Case{.name = "Joint", .joint = true},
                    Case{.name = "OneSlab", .joint = true, .slab = 0}, Case{.name = "Given", .refine = false},
                    Case{.name = "Dense", .dense = true},
                    Case{.name = "DenseJoint", .joint = true, .dense = true},
                    Case{.name = "Fused", .dense = true, .fused = true},
                    Case{.name = "FusedOneLayer", .joint = true, .dense = true, .fused = true, .layers = 1},
                    Case{.name = "FusedFewRows", .n = 3, .dense = true, .fused = true},
                    Case{.name = "Late", .late = true, .clip = 0.02},
                    Case{.name = "LateDense", .joint = true, .dense = true, .late = true, .clip = 0.02},
                    Case{.name = "LateFused", .dense = true, .fused = true, .late = true, .clip = 0.02},
                    Case{.name = "FromData", .from_data = true}, Case{.name = "Hole", .folds = 3, .fold = 1},
                    Case{.name = "HoleFirst", .joint = true, .folds = 3, .fold = 0},
                    Case{.name = "Closed", .clip = 0, .decay = 0, .beta1 = 0},
                    Case{.name = "FewRows", .n = 3}, Case{.name = "OneRow", .n = 1}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

}  // namespace
}  // namespace rossby
