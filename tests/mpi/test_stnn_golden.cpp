#include <gtest/gtest.h>

#include "rossby/model/stnn/forecaster.hpp"
#include "tests/mpi/stnn_golden.hpp"

// Every STNN file of reference numbers, in double and float, at the rank counts that CTest starts. Storage is
// sparse or dense, row blocks are contiguous or shuffled. The README of the reference numbers gives the
// tolerances.

namespace rossby::test {
namespace {

struct Tolerance {
  double loss_early, loss, gradient, parameter, forecast;
};
template <class T>
constexpr Tolerance tolerance() {
  if constexpr (std::is_same_v<T, double>) return {1e-12, 1e-12, 1e-12, 1e-12, 1e-12};
  return {5e-6, 2e-5, 5e-6, 1e-5, 2e-6};
}

/// Largest |a − b|, and the largest |b|, over all ranks.
struct Difference {
  double absolute = 0;
  double scale = 0;
};
template <class Values>
Difference difference(const Values& values, const std::vector<double>& expected, Reducer& reducer) {
  double worst[2] = {0, 0};
  if (static_cast<std::size_t>(values.size()) != expected.size()) worst[0] = INFINITY;
  for (std::size_t i = 0; i < expected.size() && worst[0] < INFINITY; ++i) {
    const double error = std::abs(static_cast<double>(values[static_cast<Index>(i)]) - expected[i]);
    worst[0] = std::isnan(error) ? INFINITY : std::max(worst[0], error);
    worst[1] = std::max(worst[1], std::abs(expected[i]));
  }
  reducer.max(worst);
  return {worst[0], worst[1]};
}

void expect_relative(double value, double expected, double allowed, const std::string& what) {
  EXPECT_LE(std::abs(value - expected), allowed * std::abs(expected) + 1e-300)
      << what << ": " << value << " for " << expected;
}

template <class T>
void check_gradients(const Golden& golden, GoldenStnn<T>& stnn, const std::string& group) {
  int compared = 0;
  for (const Parameter<T>* parameter : stnn.model().parameters()) {
    const std::string name = group + "/" + stnn.golden_name(*parameter);
    if (!golden.has(name)) continue;
    const Difference d = difference(parameter->gradient, stnn.expected(group, *parameter), stnn.reducer());
    EXPECT_LE(d.absolute, tolerance<T>().gradient * d.scale + 1e-300) << name;
    ++compared;
  }
  EXPECT_GT(compared, 0) << group;
}

template <class T>
void check_state(GoldenStnn<T>& stnn, const std::string& group) {
  for (const Parameter<T>* parameter : stnn.model().parameters()) {
    const Difference d = difference(parameter->value, stnn.expected(group, *parameter), stnn.reducer());
    EXPECT_LE(d.absolute, tolerance<T>().parameter) << group << "/" << parameter->name;
  }
}

template <class T>
void check_forecast(const Golden& golden, GoldenStnn<T>& stnn, const std::string& group) {
  const StnnOptions& options = stnn.model().options();
  const auto horizons = static_cast<Index>(golden.shape(group + "/forecast_x")[0]);
  const auto expected = stnn.slice(golden.array(group + "/forecast_x"), horizons, options.features);
  std::vector<bool> learned(static_cast<std::size_t>(options.steps), true);
  Tape<T> tape{Exec{}};
  Forecaster<T> forecaster(tape, stnn.model(), stnn.series(), learned, 0);
  const std::vector<Index> origins{options.steps - 1};
  std::vector<T> values;
  forecaster.run(origins, horizons, [&](Index, Index, NodeView<const T> x) {
    values.insert(values.end(), x.data, x.data + x.size());
  });
  const Difference d = difference(values, expected, stnn.reducer());
  EXPECT_LE(d.absolute, tolerance<T>().forecast * std::max(1.0, d.scale)) << group << "/forecast_x";
}

template <class T>
void check_init_forward(const Golden& golden, GoldenStnn<T>& stnn) {
  const StnnOptions& options = stnn.model().options();
  Tape<T> tape{Exec{}};
  tape.set_recording(false);
  const auto rows = stnn.series().rows;
  NodeView<T> z(stnn.model().factors().value.data(), rows, options.steps, options.latent, options.latent,
                rows * options.latent);
  std::vector<T> packed;
  for (Index i = 0; i < rows; ++i)
    for (Index t = 0; t < options.steps; ++t)
      packed.insert(packed.end(), z.at(i, t), z.at(i, t) + options.latent);
  const Var<T> var = Tape<T>::constant({packed.data(), rows, options.steps, options.latent});
  const auto check = [&](const Var<T>& y, const std::string& name) {
    const auto expected = stnn.slice(golden.array("init_forward/" + name), options.steps, y.channels());
    std::vector<T> values;
    for (Index t = 0; t < options.steps; ++t)
      for (Index i = 0; i < rows; ++i)
        values.insert(values.end(), y.value.at(i, t), y.value.at(i, t) + y.channels());
    const Difference d = difference(values, expected, stnn.reducer());
    EXPECT_LE(d.absolute, tolerance<T>().gradient * d.scale) << name;
  };
  check(stnn.model().advance(tape, var), "predicted");
  check(stnn.model().decode(tape, var), "reconstruction");
}

template <class T>
void check_full_batch(const Golden& golden, GoldenStnn<T>& stnn, bool slab) {
  Tape<T> tape{Exec{}};
  Losses losses = stnn.gradients(tape, stnn.full(Pass::decoder, slab));
  expect_relative(losses.total(), golden.array("full_batch/decoder_loss")[0], tolerance<T>().loss,
                  "full batch decoder loss");
  check_gradients(golden, stnn, "full_batch/decoder_gradient");
  losses = stnn.gradients(tape, stnn.full(Pass::dynamics, slab));
  expect_relative(losses.total(), golden.array("full_batch/dynamics_loss")[0], tolerance<T>().loss,
                  "full batch dynamics loss");
  for (const char* term : {"l2_z", "l1_rel"})
    if (const std::string name = std::string("full_batch/dynamics_") + term; golden.has(name))
      expect_relative(losses.value(term), golden.array(name)[0], tolerance<T>().loss, name);
  check_gradients(golden, stnn, "full_batch/dynamics_gradient");
}

template <class T>
OptimiserOptions optimiser_options(const Golden& golden, Absent absent) {
  OptimiserOptions options;
  options.beta1 = golden.number("beta1");
  options.beta2 = golden.number("beta2");
  options.epsilon = golden.number("epsilon");
  options.absent = absent;
  return options;
}

template <class T>
void check_training(const Golden& golden, GoldenStnn<T>& stnn, Absent absent) {
  const std::string prefix = absent == Absent::skip ? "skip_absent/" : "";
  stnn.load("init");
  Optimiser<T> optimiser(optimiser_options<T>(golden, absent), stnn.model().parameters());
  Step<T> step(stnn.model().parameters(), optimiser, stnn.reducer(), 0);
  Tape<T> tape{Exec{}};
  const auto expected = golden.array(prefix + "loss");
  const auto states = golden.integers("states_after_steps");
  Losses losses;
  for (std::size_t s = 0; s < expected.size(); ++s) {
    const Batch batch = stnn.batch(static_cast<Index>(s));
    const auto result = step.run(tape, golden.number("learning_rate"), false, losses, [&] {
      stnn.model().losses(tape, batch, stnn.series(), static_cast<Index>(s), losses);
    });
    expect_relative(result.loss, expected[s], s < 20 ? tolerance<T>().loss_early : tolerance<T>().loss,
                    prefix + "loss of step " + std::to_string(s));
    if (absent == Absent::skip ||
        std::find(states.begin(), states.end(), static_cast<long>(s + 1)) == states.end())
      continue;
    optimiser.settle(Exec{});
    check_state(stnn, "step" + std::to_string(s + 1));
    for (const auto& state : optimiser.states()) {
      const std::string count =
          "step" + std::to_string(s + 1) + "/adam_count/" + stnn.golden_name(*state.parameter);
      EXPECT_EQ(static_cast<double>(state.count), golden.array(count)[0]) << count;
    }
  }
  const std::string last = prefix + "step" + std::to_string(expected.size());
  optimiser.settle(Exec{});
  check_state(stnn, last);
  if (absent == Absent::zero) check_forecast(golden, stnn, last);
}

class StnnGolden : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StnnGolden);

template <class T>
void check_all(const std::string& path, const Setting& setting) {
  const Golden golden(path);
  if (setting.dense && golden.text("mode") == "discover") return;  // always dense
  if (setting.shuffled && golden.text("mode") == "discover")
    return;  // dense relations have contiguous blocks
  SCOPED_TRACE(path + (setting.dense ? ", dense storage" : "") + (setting.shuffled ? ", shuffled rows" : ""));
  GoldenStnn<T> stnn(golden, Communicator::world(), setting);
  check_init_forward(golden, stnn);
  check_full_batch(golden, stnn, false);
  check_full_batch(golden, stnn, true);
  check_forecast(golden, stnn, "init");
  Tape<T> tape{Exec{}};
  stnn.gradients(tape, stnn.batch(0));
  check_gradients(golden, stnn, "first_decoder_gradient");
  stnn.gradients(tape, stnn.batch(golden.integer("first_dynamics_step")));
  check_gradients(golden, stnn, "first_dynamics_gradient_at_init");
  for (Parameter<T>* parameter : stnn.model().parameters()) {
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), T(0));
    parameter->live = parameter->in_step = false;
  }
  check_training(golden, stnn, Absent::zero);
  for (Parameter<T>* parameter : stnn.model().parameters()) parameter->live = parameter->in_step = false;
  check_training(golden, stnn, Absent::skip);
}

TEST_P(StnnGolden, Double) {
  check_all<double>(GetParam(), {});
}
TEST_P(StnnGolden, DoubleDenseStorage) {
  check_all<double>(GetParam(), {.dense = true});
}
TEST_P(StnnGolden, DoubleShuffledRows) {
  check_all<double>(GetParam(), {.shuffled = true});
}
TEST_P(StnnGolden, Float) {
  check_all<float>(GetParam(), {});
}

INSTANTIATE_TEST_SUITE_P(Files, StnnGolden, testing::ValuesIn(Golden::files("stnn_")),
                         [](const auto& file) { return std::filesystem::path(file.param).stem().string(); });

TEST(StnnGoldenFolder, Exists) {
  if (Golden::files("stnn_").empty())
    GTEST_SKIP() << "no reference numbers: set ROSSBY_GOLDEN to the folder with stnn_*.nc";
}

}  // namespace
}  // namespace rossby::test
