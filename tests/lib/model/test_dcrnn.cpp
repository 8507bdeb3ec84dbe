#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "tests/lib/model/noise_windows.hpp"
#include "tests/support/random_edges.hpp"
#include "tests/support/test_device.hpp"

// A DCRNN on a device gives the host's results in few launches. Over ranks: tests/mpi/test_dcrnn_golden.cpp.

namespace rossby::test {
namespace {

constexpr Index nodes = 9, windows = 2, channels = 2, inputs = 12, outputs = 12, units = 4;

/// The same windows on a device.
class DeviceWindows final : public WindowSource<double> {
 public:
  explicit DeviceWindows(Index rows) : noise_(rows, rossby::test::windows, rossby::test::channels, 1) {}
  [[nodiscard]] Index rows() const override { return noise_.rows(); }
  [[nodiscard]] Index windows() const override { return noise_.windows(); }
  [[nodiscard]] Index channels() const override { return noise_.channels(); }
  [[nodiscard]] Index features() const override { return noise_.features(); }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    if (!tape.exec().device) return noise_.input(tape, t);
    const Var<double> x = tape.make(rows(), windows(), channels(), false);
    std::vector<double> values(static_cast<std::size_t>(x.value.size()));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = NoiseWindows::value(t, static_cast<Index>(k));
    tape.exec().device->upload(x.value.data, std::span<const double>(values));
    tape.exec().device->wait();  // before the values are freed
    return x;
  }

 private:
  NoiseWindows noise_;
};

struct Outcome {
  std::vector<double> outputs, gradients;
  Index given = 0;  // calls of a second step on a simulated device
};

/// Forward, and backward from gradients of 0.5. `device` null: on the host.
Outcome step(Index rows, Recompute recompute, Device* device) {
  const Exec exec{device ? Backend::simulated : Backend::cpu, 1, widest_isa(), device};
  const CsrBlock block =
      localise(test::random_edges(rows, 2, 5, 0, rows), RowPartition::blocks(rows, 1), 0, {});
  OneRankExchange exchange(rows);
  Diffusion<double> diffusion(block, exchange, 2, DiffusionVariant::paper);
  diffusion.alone = true;
  for (double& value : diffusion.weight) value *= 0.5;
  std::vector<Device::Copy> kept;
  if (device) kept = diffusion.keep_on(*device);
  Dcrnn<double> model({inputs, channels, 1, 2, units, recompute}, std::move(diffusion));
  model.start(4);
  for (Parameter<double>* parameter : model.parameters()) {
    for (Index i = 0; i < parameter->size(); ++i)
      parameter->value[i] += 0.1 * std::cos(static_cast<double>(i));
    if (device) parameter->move_to(*device);
    clear(exec, parameter->gradient_target(), parameter->size());
  }
  const auto on_host = [&](std::vector<double>& to, const double* from, Index size) {
    std::vector<double> values(static_cast<std::size_t>(size));
    if (device)
      device->download(std::span<double>(values), from), device->wait();
    else
      std::copy_n(from, size, values.begin());
    to.insert(to.end(), values.begin(), values.end());
  };
  Tape<double> tape(exec);
  const DeviceWindows source(rows);
  const std::vector<double> half(static_cast<std::size_t>(rows * windows), 0.5);
  Outcome out;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the first one allocates
    tape.reset();
    std::vector<Var<double>> y(outputs);
    const auto given = [&] {
      return device ? static_cast<const SimulatedDriver&>(device->driver()).given() : 0;
    };
    const Index before = given();
    model.predict(tape, source, y);
    for (const Var<double>& each : y) {
      EXPECT_TRUE(tape.claim_gradient(each));
      if (device)
        device->upload(each.gradient.data, std::span<const double>(half));
      else
        std::copy(half.begin(), half.end(), each.gradient.data);
    }
    tape.backward();
    // Operations of this test itself: inputs and the outputs' gradients.
    out.given = given() - before - inputs - outputs;
    out.outputs.clear();
    for (const Var<double>& each : y) on_host(out.outputs, each.value.data, each.value.size());
  }
  for (Parameter<double>* parameter : model.parameters())
    on_host(out.gradients, parameter->gradient_target(), parameter->size());
  return out;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& truth) {
  ASSERT_EQ(values.size(), truth.size());
  double scale = 1;
  for (const double value : truth) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(values[i], truth[i], 1e-11 * scale) << i;
}

TEST(DcrnnOnDevices, GivesWhatTheHostGives) {
  for (const Recompute recompute : {Recompute::none, Recompute::cell, Recompute::step}) {
    Device device(simulated_driver());
    const Outcome truth = step(nodes, recompute, nullptr), got = step(nodes, recompute, &device);
    expect_near(got.outputs, truth.outputs);
    expect_near(got.gradients, truth.gradients);
  }
}

/// Two layers, 12 + 12 steps, two supports of two orders. The count does not depend on sizes, except that a
/// diffusion is one launch if shared memory holds a column.
TEST(DcrnnOnDevices, StepIsOfFewOperations) {
  const auto given = [](Index rows) {
    Device device(simulated_driver());
    return step(rows, Recompute::none, &device).given;
  };
  const Index at_once = given(nodes);
  EXPECT_LE(at_once, 1106 - 48);  // gates add one bias per cell and step
  EXPECT_GT(at_once, 500);
  // One launch less per diffusion forward. Backward too, except for inputs of the encoder, the first input of
  // the decoder, and zero states.
  EXPECT_EQ(given(513) - given(512), 2 * 3 * 48 - 12 - 1 - 2);
}

/// A model of two layers on the host, two inputs and two outputs; `known` channels are known ahead.
struct Knowing {
  CsrBlock block = localise(test::random_edges(nodes, 2, 5, 0, nodes), RowPartition::blocks(nodes, 1), 0, {});
  OneRankExchange exchange{nodes};
  Dcrnn<double> model;

  Knowing(Index features, Index known, Recompute recompute)
      : model({2, channels, features, 2, units, recompute, {}, {}, known}, diffusion()) {
    model.start(4);
  }
  Diffusion<double> diffusion() {
    Diffusion<double> made(block, exchange, 2, DiffusionVariant::paper);
    for (double& value : made.weight) value *= 0.5;
    return made;
  }
  Parameter<double>& parameter(const std::string& name) {
    for (Parameter<double>* each : model.parameters())
      if (each->name == name) return *each;
    bug("no parameter of that name");
  }
};

/// Noise, some of it known ahead.
class KnownNoise final : public WindowSource<double> {
 public:
  [[nodiscard]] Index rows() const override { return nodes; }
  [[nodiscard]] Index windows() const override { return rossby::test::windows; }
  [[nodiscard]] Index channels() const override { return rossby::test::channels; }
  [[nodiscard]] Index features() const override { return 1; }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    return noise(tape, channels(), t);
  }
  [[nodiscard]] Index known_channels() const override { return 2; }
  [[nodiscard]] Var<double> known(Tape<double>& tape, Index h) const override {
    return noise(tape, 2, 100 + h);
  }
  static Var<double> noise(Tape<double>& tape, Index of, Index t) {
    const Var<double> x = tape.make(nodes, rossby::test::windows, of, false);
    for (Index k = 0; k < x.value.size(); ++k) x.value.data[k] = NoiseWindows::value(t, k);
    return x;
  }
};

// The weight of known inputs is a part of the paper's matrix, whose signal is [x, known].
TEST(Dcrnn, WhatIsKnownAheadIsMoreOfTheDecodersSignal) {
  Knowing apart(1, 2, Recompute::none), joined(3, 0, Recompute::none);
  const Parameter<double>&x_weight = apart.parameter("decoder0_input_weight"),
        &known_weight = apart.parameter("decoder0_known_weight");
  Parameter<double>& weight = joined.parameter("decoder0_input_weight");
  const Index terms = x_weight.shape[1];
  ASSERT_EQ(known_weight.shape[1], 2 * terms);
  for (Index row = 0; row < 3 * units; ++row)
    for (Index term = 0; term < terms; ++term) {
      double* to = &weight.value[(row * terms + term) * 3];
      to[0] = x_weight.value[row * terms + term];
      for (Index f = 0; f < 2; ++f) to[1 + f] = known_weight.value[(row * terms + term) * 2 + f];
    }
  for (const char* name : {"decoder0_gates_weight", "decoder0_candidate_weight"})
    std::copy(apart.parameter(name).value.begin(), apart.parameter(name).value.end(),
              joined.parameter(name).value.begin());
  Tape<double> tape{Exec{}};
  const Var<double> x = KnownNoise::noise(tape, 1, 1), known = KnownNoise::noise(tape, 2, 2),
                    h = KnownNoise::noise(tape, units, 3), all = tape.make(nodes, windows, 3, false);
  for (Index i = 0; i < nodes; ++i)
    for (Index b = 0; b < windows; ++b) {
      all.value.at(i, b)[0] = x.value.at(i, b)[0];
      for (Index f = 0; f < 2; ++f) all.value.at(i, b)[1 + f] = known.value.at(i, b)[f];
    }
  const Var<double> mine = apart.model.cell(tape, true, 0, {x, known}, h),
                    truth = joined.model.cell(tape, true, 0, {all}, h);
  for (Index k = 0; k < truth.value.size(); ++k)
    EXPECT_NEAR(mine.value.data[k], truth.value.data[k], 1e-13) << k;
}

TEST(Dcrnn, GradientsOfWhatIsKnownAheadAreThoseOfDifferences) {
  for (const Recompute recompute : {Recompute::none, Recompute::cell, Recompute::step}) {
    Knowing of(1, 2, recompute);
    const KnownNoise source;
    Tape<double> tape{Exec{}};
    std::vector<Var<double>> y(2);
    const auto sum = [&] {  // weighted sum of outputs
      double total = 0;
      tape.reset();
      of.model.predict(tape, source, y);
      for (const Var<double>& each : y)
        for (Index k = 0; k < each.value.size(); ++k) total += std::cos(double(k)) * each.value.data[k];
      return total;
    };
    for (Parameter<double>* parameter : of.model.parameters())
      clear(Exec{}, parameter->gradient_target(), parameter->size());
    (void)sum();
    for (const Var<double>& each : y) {
      ASSERT_TRUE(tape.claim_gradient(each));
      for (Index k = 0; k < each.value.size(); ++k) each.gradient.data[k] = std::cos(double(k));
    }
    tape.backward();
    for (const char* name : {"decoder0_known_weight", "decoder0_input_weight", "encoder0_input_weight"}) {
      Parameter<double>& weight = of.parameter(name);
      const std::vector<double> gradient(weight.gradient_target(), weight.gradient_target() + weight.size());
      for (Index k = 0; k < weight.size(); k += 7) {
        constexpr double step = 1e-5;
        const double value = weight.value[k];
        weight.value[k] = value + step;
        const double above = sum();
        weight.value[k] = value - step;
        const double below = sum();
        weight.value[k] = value;
        EXPECT_NEAR(gradient[static_cast<std::size_t>(k)], (above - below) / (2 * step), 1e-7)
            << name << "[" << k << "]";
      }
    }
  }
}

}  // namespace
}  // namespace rossby::test
