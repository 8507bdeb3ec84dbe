#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/step.hpp"
#include "rossby/train/stnn_task.hpp"

// Counts heap allocations of training steps, in operator new of this program and in the buffers, which
// allocate elsewhere.

namespace {
long heap_calls = 0;
}

// Not inlined: GCC would report malloc and delete as a mismatched pair.
__attribute__((noinline)) void* operator new(std::size_t size) {
  ++heap_calls;
  if (void* memory = std::malloc(size > 0 ? size : 1)) return memory;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* memory) noexcept {
  std::free(memory);
}
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace rossby {
namespace {

enum class Kind { refine, given_low_rank, discover, dense_refine };

struct Setting {
  Kind kind;
  bool pairs = false;
  double beta1 = 0;
  int layers = 1;
  double dropout = 0.1;
  bool joint = false;
  bool bf16 = false;
};

struct Training {
  static constexpr Index n = 42, steps = 12;
  RowPartition partition = RowPartition::blocks(n, 1);
  OneRankExchange exchange{n};
  OneRankReducer reducer;
  Series series{steps, n, 1};
  Scaler scaler{n, 1};
  Split split;
  std::unique_ptr<Stnn<float>> model;
  std::unique_ptr<StnnTask<float>> task;
  std::unique_ptr<Optimiser<float>> optimiser;
  std::unique_ptr<Step<float>> step;
  Tape<float> tape{Exec{}};
  Losses losses;
  Index done = 0;

  explicit Training(const Setting& setting) {
    split = make_split(steps, {.train = "12", .validation = "0", .test = "0"});
    const Random random(1, "series");
    for (Index q = 0; q < series.values.size(); ++q)
      series.values[q] = static_cast<float>(random.normal(static_cast<std::uint64_t>(q)));
    auto relations = std::make_unique<Relations<float>>(partition, 0);
    Grid grid{6, 7, {}, false};
    for (Index i = 0; i < n; ++i) grid.node_of_cell.push_back(i);
    GlobalEdges edges = grid_neighbours(grid, GridRelations::directional, partition, 0);
    if (setting.bf16) relations->hold_dense_in_bf16();
    if (setting.kind == Kind::dense_refine) relations->add_dense(edges, true, 0.5);
    if (setting.kind == Kind::refine) relations->add_refine(std::move(edges), 0.5);
    if (setting.kind == Kind::given_low_rank) {
      relations->add_given(std::move(edges));
      relations->add_low_rank(3);
      relations->add_self(0.5);
    }
    if (setting.kind == Kind::discover) relations->add_discover(0.02);
    relations->finish(exchange, reducer);
    StnnOptions options;
    options.steps = steps;
    options.latent = 2;
    options.layers = setting.layers;
    options.hidden = 5;
    options.activation = LatentActivation::tanh;
    options.l2_z = 0.01;
    options.l1_rel = 0.01;
    options.dropout_z = setting.dropout;
    model = std::make_unique<Stnn<float>>(options, std::move(relations), partition.rows_of(0));
    model->start({.seed = 3});
    for (Parameter<float>* parameter : model->parameters()) parameter->decay = 1e-6;
    const BatchOptions batches{
        .pairs = setting.pairs, .pairs_per_batch = 50, .slab_steps = 4, .joint = setting.joint, .seed = 5};
    task = std::make_unique<StnnTask<float>>(StnnTaskOptions{}, batches, *model, series, scaler, split,
                                             partition, 0, reducer);
    OptimiserOptions adam;
    adam.beta1 = setting.beta1;
    adam.fuse = !setting.pairs;
    optimiser = std::make_unique<Optimiser<float>>(adam, model->parameters());
    step = std::make_unique<Step<float>>(model->parameters(), *optimiser, reducer,
                                         setting.kind == Kind::refine ? 1 : 0);
  }

  /// Returns the heap allocations in the steps of an epoch.
  long epoch(Index number) {
    task->start_epoch(number);
    const long heap = heap_calls;
    const Index buffers = detail::allocation_count();
    for (Index b = 0; b < task->batches(); ++b, ++done)
      step->run(tape, 1e-3, false, losses, [&] { task->record(tape, b, done, losses); });
    const long taken = heap_calls - heap + (detail::allocation_count() - buffers);
    optimiser->settle(Exec{});
    return taken;
  }
};

class Allocation : public testing::TestWithParam<Setting> {};

TEST_P(Allocation, NoneOnceEveryKindOfStepHasBeenMade) {
  Training training(GetParam());
  EXPECT_GT(training.epoch(0), 0) << "the count sees nothing";
  training.epoch(1);
  for (Index epoch = 2; epoch < 5; ++epoch) EXPECT_EQ(training.epoch(epoch), 0) << "epoch " << epoch;
}
INSTANTIATE_TEST_SUITE_P(Settings, Allocation,
                         testing::Values(Setting{Kind::refine}, Setting{Kind::refine, false, 0.9},
                                         Setting{Kind::refine, true}, Setting{Kind::given_low_rank},
                                         Setting{Kind::given_low_rank, false, 0, 2},
                                         Setting{Kind::given_low_rank, true}, Setting{Kind::discover},
                                         Setting{Kind::discover, false, 0.9}, Setting{Kind::discover, true},
                                         Setting{.kind = Kind::discover, .pairs = true, .dropout = 0},
                                         Setting{.kind = Kind::discover, .beta1 = 0.9, .bf16 = true},
                                         Setting{.kind = Kind::dense_refine, .beta1 = 0.9},
                                         Setting{.kind = Kind::refine, .joint = true},
                                         Setting{.kind = Kind::refine, .pairs = true, .dropout = 0}));

}  // namespace
}  // namespace rossby
