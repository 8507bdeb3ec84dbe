#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/lib/autograd/diffusion_fixture.hpp"
#include "tests/support/device_fixture.hpp"

// Diffusion convolutions on devices against the host's.

namespace rossby::testing {
namespace {

using diffusion_fixture::fill;
using diffusion_fixture::Fixture;

/// What one convolution leaves, and what a simulated device is given for its terms and for backward.
struct Outcome {
  std::vector<double> y, gradients;
  Index terms = 0, backward = 0;
  Cost cost;  // of forward
};

/// `device` null: on the host.
Outcome convolve(Fixture& f, Backend backend, Device* device) {
  const Exec exec{backend, 1, widest_isa(), device};
  f.diffusion.alone = true;
  std::vector<Device::Copy> kept;
  if (device) kept = f.diffusion.keep_on(*device);
  const auto on_host = [&](const double* from, Index size) {
    std::vector<double> values(static_cast<std::size_t>(size));
    if (!device) return std::vector<double>(from, from + size);
    device->download(std::span<double>(values), from);
    device->wait();
    return values;
  };
  for (Parameter<double>* parameter : f.all()) {
    if (device) parameter->move_to(*device);
    clear(exec, parameter->gradient_target(), parameter->size());
  }
  const auto given = [&] {
    return backend == Backend::simulated ? static_cast<const SimulatedDriver&>(device->driver()).given() : 0;
  };
  Tape<double> tape(exec);
  Var<double> x = Tape<double>::constant({f.x.data(device), f.block.rows, f.cols, f.channels});
  x.gradient = {f.x.gradient_target(), f.block.rows, f.cols, f.channels};
  Outcome out;
  for (int repeat = 0; repeat < 2; ++repeat) {  // the first one takes memory
    const auto mark = tape.mark();
    const Index before = given();
    (void)diffusion_terms<double>(tape, f.diffusion, x.value);
    out.terms = given() - before;
    tape.rewind(mark);
  }
  const Var<double> y = diffusion_linear(tape, f.diffusion, x, f.weight, &f.bias);
  out.cost = tape.totals().front().cost;
  EXPECT_TRUE(tape.claim_gradient(y));
  std::vector<double> dy(static_cast<std::size_t>(y.value.size()));
  fill<double>(dy, 31);
  if (device)
    device->upload(y.gradient.data, std::span<const double>(dy));
  else
    std::copy(dy.begin(), dy.end(), y.gradient.data);
  const Index between = given();
  tape.backward();
  out.backward = given() - between;
  out.y = on_host(y.value.data, y.value.size());
  for (Parameter<double>* parameter : {&f.x, &f.weight, &f.bias}) {
    const auto values = on_host(parameter->gradient_target(), parameter->size());
    out.gradients.insert(out.gradients.end(), values.begin(), values.end());
  }
  return out;
}

void expect_near(const std::vector<double>& values, const std::vector<double>& truth) {
  ASSERT_EQ(values.size(), truth.size());
  double scale = 1;
  for (const double value : truth) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(values[i], truth[i], 1e-12 * scale) << i;
}

class DiffusionOnDevice : public OnBackend {};

/// All levels are one where a block of threads holds a column of them.
TEST_P(DiffusionOnDevice, IsALaunchOrOneALevel) {
  constexpr int steps = 3;
  Index at_once = 0;
  for (const DiffusionVariant variant :
       {DiffusionVariant::paper, DiffusionVariant::powers, DiffusionVariant::legacy})
    for (const Index n : {1, 12, 512, 513}) {
      SCOPED_TRACE(::testing::Message() << n << " nodes, variant " << static_cast<int>(variant));
      Fixture here(n, 2, steps, variant), there(n, 2, steps, variant);
      const Outcome truth = convolve(here, Backend::cpu, nullptr);
      const Outcome got = convolve(there, GetParam(), device_.get());
      expect_near(got.y, truth.y);
      expect_near(got.gradients, truth.gradients);
      const bool whole = n <= 512 && variant != DiffusionVariant::legacy;
      EXPECT_EQ(got.cost.flops, truth.cost.flops);
      EXPECT_EQ(got.cost.bytes < truth.cost.bytes, whole) << "terms are not read again";
      if (GetParam() != Backend::simulated) continue;
      const Index levels = std::ssize(here.diffusion.plan.levels);
      EXPECT_EQ(got.terms, whole ? 1 : levels);
      // The dense layer's own launches depend on the number of its rows.
      if (n == 512 && variant == DiffusionVariant::paper) at_once = got.backward;
      EXPECT_TRUE(n < 512 || got.backward - at_once == (whole ? 0 : levels - 1));
    }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DiffusionOnDevice, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DiffusionOnDevice, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::testing
