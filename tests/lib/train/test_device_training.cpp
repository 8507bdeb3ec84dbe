#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/stnn_task.hpp"
#include "rossby/train/trainer.hpp"
#include "tests/support/test_device.hpp"

// A training with arrays on a device gives the host's losses and parameters. On a simulated device, the test
// dies if the host touches an array.

namespace rossby::test {
namespace {

enum class Kind { refine, given_low_rank, discover, dense_refine };

struct Setting {
  Kind kind;
  bool fuse = true;
  double beta1 = 0;
  int layers = 1;
  double clip = 0;
  double dropout = 0;
  Index chunk_rows = 0;  // of a dense relation; 0: all
  std::optional<Transfer> transfer = {};
  bool bf16 = false;
  double decay = 1e-4;
  bool self = false;
  Index pairs = 0;  // per batch; 0: slabs
  Index rank = 3;
  bool host_updates = false;
  bool validates = true;
  std::function<void()> before_step = {};
  Index infinite_step = -1;  // step with a non-finite value in the series
};

struct Result {
  std::vector<double> losses;
  std::vector<double> parameters;
  Index steps = 0;
  std::string error;  // of the training, which ended in `steps`
};

/// Trains an STNN on a 6 x 7 grid for some epochs. `device` null: on the host.
template <class T = double>
Result train(const Setting& setting, Device* device, Backend backend, Index epochs = 3,
             bool keep_best = true) {
  constexpr Index n = 42, steps = 14;
  const RowPartition partition = RowPartition::blocks(n, 1);
  OneRankExchange exchange(n);
  OneRankReducer reducer;
  Series series(steps, n, 2);
  Scaler scaler(n, 2);
  const Split split = make_split(steps, {.train = "12", .validation = "2", .test = "0"});
  const Random random(1, "series");
  for (Index q = 0; q < series.values.size(); ++q)
    series.values[q] = q % 11 == 3 ? NAN : static_cast<float>(random.normal(static_cast<std::uint64_t>(q)));
  if (setting.infinite_step >= 0) series.values[(setting.infinite_step * n + 7) * 2] = INFINITY;
  auto relations = std::make_unique<Relations<T>>(partition, 0);
  Grid grid{6, 7, {}, false};
  for (Index i = 0; i < n; ++i) grid.node_of_cell.push_back(i);
  GlobalEdges edges = grid_neighbours(grid, GridRelations::directional, partition, 0);
  if (setting.kind == Kind::refine) relations->add_refine(std::move(edges), 0.5);
  if (setting.kind == Kind::given_low_rank) {
    relations->add_given(std::move(edges));
    relations->add_low_rank(setting.rank);
  }
  relations->work_in_chunks(setting.chunk_rows * n *
                            static_cast<Index>(setting.bf16 ? sizeof(Bf16) : sizeof(T)));
  if (setting.transfer)  // two chunks of W and its moments
    relations->stream_dense({.folder = "",
                             .device = device,
                             .transfer = *setting.transfer,
                             .budget = static_cast<std::size_t>(2 * 3 * setting.chunk_rows * n) * sizeof(T),
                             .host_updates = setting.host_updates});
  if (setting.bf16) relations->hold_dense_in_bf16();
  if (setting.kind == Kind::discover) relations->add_discover(0.02);
  if (setting.kind == Kind::dense_refine) relations->add_refine(std::move(edges), 0.5);
  if (setting.self) relations->add_self(0.4);
  relations->finish(exchange, reducer);
  StnnOptions options;
  options.steps = steps;
  options.features = 2;
  options.latent = 3;
  options.layers = setting.layers;
  options.hidden = 5;
  options.l1_rel = 1e-3;
  options.l2_z = 1e-3;
  options.dropout_z = setting.dropout;
  std::vector<GlobalRow> rows;
  for (Index i = 0; i < n; ++i) rows.emplace_back(i);
  Stnn<T> model(options, std::move(relations), rows, nullptr);
  model.start({.seed = 3});
  for (Parameter<T>* parameter : model.parameters()) parameter->decay = setting.decay;
  BatchOptions batches;
  batches.slab_steps = 4;
  batches.pairs = setting.pairs > 0;
  batches.pairs_per_batch = setting.pairs;
  StnnTaskOptions task_options;
  task_options.rollout = true;
  task_options.validates = setting.validates;
  StnnTask<T> task(task_options, batches, model, series, scaler, split, partition, 0, reducer);
  OptimiserOptions with;
  with.beta1 = setting.beta1;
  with.fuse = setting.fuse;
  std::vector<Device::Copy> kept;
  if (device) {
    kept = model.relations().bank().keep_on(*device);
    kept.push_back(device->keep(series.values.span()));
  }
  Optimiser<T> optimiser(with, model.parameters(), device);
  TrainerOptions trainer_options;
  trainer_options.epochs = epochs;
  trainer_options.clip = setting.clip;
  trainer_options.keep_best = keep_best;
  Trainer<T> trainer(trainer_options, {.lr = 1e-2}, task, optimiser, reducer,
                     device ? Exec{backend, 1, widest_isa(), device} : Exec{});
  Result result;
  try {
    const auto observe = [&](const EpochReport& report) {
      for (const TermMean& term : report.terms) result.losses.push_back(term.value);
      result.losses.push_back(report.validation);
    };
    (void)trainer.run(observe, [&] {
      if (setting.before_step) setting.before_step();
      return false;
    });
  } catch (const NotFinite& error) {
    result.error = error.what();
  }
  result.steps = trainer.steps();
  for (Parameter<T>* parameter : model.parameters())
    for (Index i = 0; i < parameter->size(); ++i)
      result.parameters.push_back(static_cast<double>(parameter->stored(i)));
  return result;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& right, double tolerance) {
  ASSERT_EQ(got.size(), right.size());
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_NEAR(got[k], right[k], tolerance * (1 + std::abs(right[k]))) << k;
}

class DeviceTraining : public ::testing::TestWithParam<Backend> {};

TEST_P(DeviceTraining, StnnEqualsTheHost) {
  for (const Setting& setting :
       {Setting{Kind::refine}, Setting{Kind::refine, true, 0.9, 2}, Setting{Kind::given_low_rank},
        Setting{Kind::given_low_rank, false, 0.9, 2, 0.1}, Setting{Kind::discover},
        Setting{Kind::discover, true, 0.9, 1, 0.05}, Setting{Kind::discover, false, 0, 2},
        Setting{Kind::refine, true, 0, 1, 0, 0.3}, Setting{.kind = Kind::refine, .self = true},
        Setting{.kind = Kind::refine, .decay = 0}, Setting{.kind = Kind::discover, .layers = 2, .decay = 0},
        Setting{.kind = Kind::refine, .fuse = false, .self = true, .pairs = 97},
        Setting{.kind = Kind::given_low_rank, .fuse = false, .beta1 = 0.9, .layers = 2, .pairs = 200},
        Setting{.kind = Kind::discover, .fuse = false, .clip = 0.05, .pairs = 60},
        Setting{.kind = Kind::dense_refine, .fuse = false, .dropout = 0.2, .pairs = 150}}) {
    SCOPED_TRACE(fmt::format("kind {}, {} pairs", static_cast<int>(setting.kind), setting.pairs));
    std::string reason;
    const auto device = test_device(GetParam(), reason);
    if (!device) GTEST_SKIP() << "no GPU: " << reason;
    const Result host = train(setting, nullptr, Backend::cpu);
    const Result there = train(setting, device.get(), GetParam());
    expect_near(there.losses, host.losses, 1e-10);
    expect_near(there.parameters, host.parameters, 1e-9);
    const Result again = train(setting, device.get(), GetParam());
    EXPECT_EQ(again.parameters, there.parameters) << "two runs are bit-equal";
  }
}

/// A relation that streams to the device gives results bit-equal to a resident one, for every transfer.
TEST_P(DeviceTraining, StreamedEqualsResident) {
  for (Setting setting : {Setting{Kind::discover}, Setting{Kind::discover, true, 0.9, 2, 0.05},
                          // Updates owed to steps without the relation are made in closed form.
                          Setting{.kind = Kind::discover, .decay = 0}}) {
    std::string reason;
    const auto device = test_device(GetParam(), reason);
    if (!device) GTEST_SKIP() << "no GPU: " << reason;
    for (const Index rows : {Index{5}, Index{17}}) {
      setting.chunk_rows = rows;
      setting.transfer = {};
      const Result host = train(setting, nullptr, Backend::cpu);
      const Result resident = train(setting, device.get(), GetParam());
      expect_near(resident.losses, host.losses, 1e-10);
      expect_near(resident.parameters, host.parameters, 1e-9);
      for (const Transfer transfer :
           {Transfer::pageable, Transfer::pinned, Transfer::pageable_async, Transfer::pinned_async}) {
        setting.transfer = transfer;
        const Result streamed = train(setting, device.get(), GetParam());
        EXPECT_EQ(streamed.losses, resident.losses);
        EXPECT_EQ(streamed.parameters, resident.parameters);
      }
    }
  }
}

/// If the host updates a streamed relation, gradients leave the device. Results agree with the resident
/// relation to rounding, and with each other to the bit for every kind of transfer.
TEST_P(DeviceTraining, StreamedAndUpdatedOnTheHostIsNearResident) {
  for (Setting setting : {Setting{Kind::discover}, Setting{Kind::discover, true, 0.9, 2, 0.05},
                          Setting{.kind = Kind::discover, .decay = 0}}) {
    std::string reason;
    const auto device = test_device(GetParam(), reason);
    if (!device) GTEST_SKIP() << "no GPU: " << reason;
    for (const Index rows : {Index{5}, Index{17}}) {
      setting.chunk_rows = rows;
      setting.transfer = {};
      setting.host_updates = false;
      const Result resident = train(setting, device.get(), GetParam());
      setting.host_updates = true;
      setting.transfer = Transfer::pageable;
      const Result first = train(setting, device.get(), GetParam());
      expect_near(first.losses, resident.losses, 1e-10);
      expect_near(first.parameters, resident.parameters, 1e-9);
      for (const Transfer transfer : {Transfer::pinned, Transfer::pageable_async, Transfer::pinned_async}) {
        setting.transfer = transfer;
        const Result streamed = train(setting, device.get(), GetParam());
        EXPECT_EQ(streamed.losses, first.losses);
        EXPECT_EQ(streamed.parameters, first.parameters);
      }
    }
  }
}

/// With bf16, arithmetic is in float, and stored values are rounded with the same random numbers.
TEST_P(DeviceTraining, Bf16IsNearTheHost) {
  for (Setting setting : {Setting{.kind = Kind::discover, .bf16 = true},
                          Setting{.kind = Kind::discover, .beta1 = 0.9, .bf16 = true}}) {
    std::string reason;
    const auto device = test_device(GetParam(), reason);
    if (!device) GTEST_SKIP() << "no GPU: " << reason;
    setting.chunk_rows = 5;
    const Result host = train<float>(setting, nullptr, Backend::cpu);
    const Result resident = train<float>(setting, device.get(), GetParam());
    expect_near(resident.losses, host.losses, 1e-3);
    setting.transfer = Transfer::pinned_async;
    const Result streamed = train<float>(setting, device.get(), GetParam());
    EXPECT_EQ(streamed.losses, resident.losses);
    EXPECT_EQ(streamed.parameters, resident.parameters);
    setting.host_updates = true;
    const Result updated = train<float>(setting, device.get(), GetParam());
    expect_near(updated.losses, resident.losses, 1e-3);
  }
}

/// Returns how often the host waits for the device in one more epoch, and the steps of that epoch.
std::pair<Index, Index> waits_and_steps(const Setting& setting) {
  Index waits[2] = {}, steps[2] = {};
  for (const int more : {0, 1}) {
    auto driver = std::make_unique<SimulatedDriver>();
    const SimulatedDriver* counter = driver.get();
    Device device(std::move(driver));
    steps[more] = train(setting, &device, Backend::simulated, 2 + more, false).steps;
    waits[more] = counter->waits();
  }
  return {waits[1] - waits[0], steps[1] - steps[0]};
}

/// The host waits once per step if it needs a value: the norm for clipping, the loss of a relation's own
/// update, or chunks under way.
TEST(DeviceSteps, WaitOnce) {
  for (Setting setting :
       {Setting{.kind = Kind::refine, .clip = 0.1},
        Setting{.kind = Kind::discover, .beta1 = 0.9, .clip = 0.1},
        Setting{Kind::given_low_rank, false, 0.9, 2, 0.1},
        Setting{.kind = Kind::discover, .beta1 = 0.9, .clip = 0.1, .chunk_rows = 5},
        Setting{.kind = Kind::discover, .beta1 = 0.9, .chunk_rows = 5, .transfer = Transfer::pinned_async},
        Setting{.kind = Kind::discover,
        .beta1 = 0.9,
        .chunk_rows = 5,
        .transfer = Transfer::pinned_async,
        .host_updates = true}}) {
    setting.validates = false;
    const auto [waits, steps] = waits_and_steps(setting);
    EXPECT_EQ(waits, steps + (setting.host_updates ? 1 : 0)) << "the host settles what it owes an epoch";
  }
}

/// A validation also runs on the device. The host waits for the decoder, for the initial latents and for each
/// of two horizons; for parameters only if they are the best so far.
TEST(DeviceSteps, ValidationsWaitForForecastsAlone) {
  Setting setting{Kind::refine};
  const auto with = waits_and_steps(setting);
  setting.validates = false;
  EXPECT_EQ(with.first, waits_and_steps(setting).first + 4);
}

/// If the host needs no value, one rank's steps follow each other on the device without waits. The host waits
/// for losses once per epoch, or every 64 steps.
TEST(DeviceSteps, RunAheadOfTheDevice) {
  for (Setting setting : {Setting{Kind::refine}, Setting{Kind::given_low_rank, false, 0.9, 2},
                          Setting{.kind = Kind::refine, .fuse = false, .pairs = 5}}) {
    setting.validates = false;
    const auto [waits, steps] = waits_and_steps(setting);
    EXPECT_EQ(waits, (steps + 63) / 64) << steps;
    EXPECT_EQ(steps > 64, setting.pairs > 0);
  }
  // The loss of a fused relation arrives with the waits of its own steps; decoder steps run ahead.
  const auto [waits, steps] = waits_and_steps({.kind = Kind::discover, .beta1 = 0.9, .validates = false});
  EXPECT_EQ(waits, steps / 2);
}

/// A step that runs ahead is a single, uninterrupted graph.
TEST(DeviceSteps, ThatRunAheadAreAGraphEach) {
  for (const Setting& setting : {Setting{Kind::refine}, Setting{Kind::given_low_rank, false, 0.9, 2},
                                 Setting{.kind = Kind::refine, .fuse = false, .pairs = 5}}) {
    Index graphs[2] = {}, steps[2] = {};
    for (const int more : {0, 1}) {  // arrays made in the first steps do not count
      auto driver = std::make_unique<SimulatedDriver>();
      const SimulatedDriver* counter = driver.get();
      Device device(std::move(driver));
      steps[more] = train(setting, &device, Backend::simulated, 2 + more, false).steps;
      graphs[more] = counter->graphs();
    }
    EXPECT_EQ(graphs[1] - graphs[0], steps[1] - steps[0]);
  }
}

/// A GPU that runs steps as graphs equals one that runs single kernels, bit by bit. Steps read different
/// data, and constants change between steps.
TEST_P(DeviceTraining, GraphsGiveTheSameBits) {
  if (GetParam() != Backend::cuda) GTEST_SKIP() << "of GPUs: a simulated device keeps nothing back";
  std::string reason;
  const auto eager = test_device(GetParam(), reason);
  if (!eager) GTEST_SKIP() << "no GPU: " << reason;
  for (Setting setting : {Setting{Kind::refine}, Setting{Kind::discover, true, 0.9},
                          Setting{Kind::given_low_rank}, Setting{.kind = Kind::refine, .pairs = 5}}) {
    setting.fuse = setting.pairs == 0;
    const Result right = train<float>(setting, eager.get(), GetParam());
    auto driver = std::make_unique<CudaDriver>(0, cuda_runtime(), true);
    const CudaDriver* counter = driver.get();
    Device device(std::move(driver));
    const Result got = train<float>(setting, &device, GetParam());
    EXPECT_EQ(got.losses, right.losses) << static_cast<int>(setting.kind);
    EXPECT_EQ(got.parameters, right.parameters) << static_cast<int>(setting.kind);
    EXPECT_GE(std::ssize(got.losses), 1);
    EXPECT_GE(static_cast<Index>(counter->graphs_launched()), got.steps);
    EXPECT_LE(2 * counter->graphs_made(), counter->graphs_launched()) << "steps of one shape share a graph";
  }
}

/// Few steps ahead, so that a clock or a signal takes effect soon.
TEST(DeviceSteps, AreFewUnderWay) {
  auto driver = std::make_unique<SimulatedDriver>();
  const SimulatedDriver* counter = driver.get();
  Device device(std::move(driver));
  Index given = 0, most_of_step = 0, most_left = 0;
  Setting setting{.kind = Kind::refine, .fuse = false, .pairs = 5};
  setting.before_step = [&] {
    if (given > 0) most_of_step = std::max(most_of_step, counter->given() - given);
    given = counter->given();
    most_left = std::max(most_left, counter->left());
  };
  (void)train<float>(setting, &device, Backend::simulated, 1, false);
  EXPECT_LE(most_left, static_cast<Index>(UnderWay::most) * most_of_step);
  EXPECT_GT(most_left, static_cast<Index>(UnderWay::most - 2) * most_of_step);
}

/// Losses and parameters equal those of waiting steps to the bit, however many steps are under way.
TEST(DeviceSteps, RunAheadToTheSameBits) {
  const FlushSubnormals flush;  // the simulated device computes while the host waits
  const auto run = [](const Setting& setting) {
    Device device(std::make_unique<SimulatedDriver>());
    return train<float>(setting, &device, Backend::simulated);
  };
  for (Setting setting : {Setting{Kind::refine}, Setting{Kind::discover, true, 0.9},
                          Setting{Kind::given_low_rank}, Setting{.kind = Kind::refine, .pairs = 5}}) {
    setting.fuse = setting.pairs == 0;
    const Result ahead = run(setting);
    setting.clip = 1e30;  // a factor of one, and a norm to wait for
    const Result waiting = run(setting);
    EXPECT_EQ(ahead.losses, waiting.losses) << static_cast<int>(setting.kind);
    EXPECT_EQ(ahead.parameters, waiting.parameters) << static_cast<int>(setting.kind);
    EXPECT_EQ(ahead.steps, waiting.steps);
  }
}

/// The error of a loss that is not finite names its own step, though other steps have followed.
TEST(DeviceSteps, OfWhichOneHasNoFiniteLossAreNamed) {
  for (const Kind kind : {Kind::refine, Kind::discover})
    for (const Index when : {0, 6, 11}) {
      const Setting setting{.kind = kind, .infinite_step = when};
      const Result host = train(setting, nullptr, Backend::cpu);
      Device device(std::make_unique<SimulatedDriver>());
      const Result there = train(setting, &device, Backend::simulated);
      EXPECT_NE(host.error.find("not finite"), std::string::npos);
      EXPECT_EQ(there.error, host.error);
      EXPECT_EQ(there.steps, host.steps) << "at time step " << when;
    }
}

/// Counts the operations that a step enqueues. Each launch and copy takes host time, and a fast device waits
/// for it. A table's rows go together; short lists go with the launches.
TEST(DeviceSteps, AreOfFewOperations) {
  struct Case {
    Setting setting;
    Index most;
  };
  for (auto [setting, most] :
       {Case{{.kind = Kind::refine, .decay = 1e-4}, 24}, Case{{.kind = Kind::refine, .decay = 0}, 22},
        Case{{.kind = Kind::discover, .decay = 1e-4}, 30},
        Case{{.kind = Kind::given_low_rank, .beta1 = 0.9}, 32},
        // More than fits in a host's cache.
        Case{{.kind = Kind::given_low_rank, .beta1 = 0.9, .rank = 200}, 32}}) {
    setting.validates = false;
    Index given[2] = {}, steps[2] = {};
    for (const int more : {0, 1}) {
      auto driver = std::make_unique<SimulatedDriver>();
      const SimulatedDriver* counter = driver.get();
      Device device(std::move(driver));
      steps[more] = train<float>(setting, &device, Backend::simulated, 3 + 3 * more, false).steps;
      given[more] = counter->given();
    }
    const double mean = static_cast<double>(given[1] - given[0]) / static_cast<double>(steps[1] - steps[0]);
    EXPECT_LE(mean, static_cast<double>(most)) << static_cast<int>(setting.kind);
    EXPECT_GT(mean, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceTraining, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTraining, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
