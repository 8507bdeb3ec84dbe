#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/stnn_task.hpp"
#include "rossby/train/trainer.hpp"
#include "tests/support/test_device.hpp"

// A training whose arrays lie on a device gives the losses and the parameters that the host gives; on a
// simulated device the host touches none of them on the way, or the test dies.

namespace rossby::testing {
namespace {

enum class Kind { refine, given_low_rank, discover, dense_refine };

struct Setting {
  Kind kind;
  bool fuse = true;
  double beta1 = 0;
  int layers = 1;
  double clip = 0;
  double dropout = 0;
};

struct Result {
  std::vector<double> losses;
  std::vector<double> parameters;
  Index steps = 0;
};

/// Epochs of an STNN on a 6 x 7 grid. `device` null: on the host.
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
  auto relations = std::make_unique<Relations<double>>(partition, 0);
  Grid grid{6, 7, {}, false};
  for (Index i = 0; i < n; ++i) grid.node_of_cell.push_back(i);
  GlobalEdges edges = grid_neighbours(grid, GridRelations::directional, partition, 0);
  if (setting.kind == Kind::refine) relations->add_refine(std::move(edges), 0.5);
  if (setting.kind == Kind::given_low_rank) {
    relations->add_given(std::move(edges));
    relations->add_low_rank(3);
  }
  if (setting.kind == Kind::discover) relations->add_discover(0.02);
  if (setting.kind == Kind::dense_refine) relations->add_refine(std::move(edges), 0.5);
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
  Stnn<double> model(options, std::move(relations), rows, nullptr);
  model.start({.seed = 3});
  for (Parameter<double>* parameter : model.parameters()) parameter->decay = 1e-4;
  BatchOptions batches;
  batches.slab_steps = 4;
  StnnTaskOptions task_options;
  task_options.rollout = true;
  StnnTask<double> task(task_options, batches, model, series, scaler, split, partition, 0, reducer, Exec{});
  OptimiserOptions with;
  with.beta1 = setting.beta1;
  with.fuse = setting.fuse;
  std::vector<Device::Copy> kept;
  if (device) {
    kept = model.relations().bank().keep_on(*device);
    kept.push_back(device->keep(series.values.span()));
  }
  Optimiser<double> optimiser(with, model.parameters(), device);
  TrainerOptions trainer_options;
  trainer_options.epochs = epochs;
  trainer_options.clip = setting.clip;
  trainer_options.keep_best = keep_best;
  Trainer<double> trainer(trainer_options, {.lr = 1e-2}, task, optimiser, reducer,
                          device ? Exec{backend, 1, widest_isa(), device} : Exec{});
  Result result;
  const TrainingResult run = trainer.run([&](const EpochReport& report) {
    for (const TermMean& term : report.terms) result.losses.push_back(term.value);
    result.losses.push_back(report.validation);
  });
  result.steps = run.steps;
  for (Parameter<double>* parameter : model.parameters())
    result.parameters.insert(result.parameters.end(), parameter->value.begin(), parameter->value.end());
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
        Setting{Kind::refine, true, 0, 1, 0, 0.3}}) {
    SCOPED_TRACE(static_cast<int>(setting.kind));
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

/// The host waits once a step, for what the ranks share.
TEST(DeviceSteps, WaitOnce) {
  for (const Setting& setting : {Setting{Kind::refine}, Setting{Kind::discover, true, 0.9},
                                 Setting{Kind::given_low_rank, false, 0.9, 2, 0.1}}) {
    Index waits[2] = {}, steps[2] = {};
    for (const int more : {0, 1}) {
      auto driver = std::make_unique<SimulatedDriver>();
      const SimulatedDriver* counter = driver.get();
      Device device(std::move(driver));
      steps[more] = train(setting, &device, Backend::simulated, 2 + more, false).steps;
      waits[more] = counter->waits();
    }
    EXPECT_EQ(waits[1] - waits[0], steps[1] - steps[0] + 1)
        << "one a step, and one an epoch to bring arrays home";
  }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceTraining, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceTraining, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::testing
