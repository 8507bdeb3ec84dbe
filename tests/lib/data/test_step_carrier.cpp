#include <array>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/data/step_carrier.hpp"
#include "rossby/kernels/steps.hpp"
#include "tests/support/test_device.hpp"

// Steps go to a device one batch ahead of their kernels, for every order of its queues.

namespace rossby::test {
namespace {

using Queue = DeviceDriver::Queue;

constexpr Index width = 5;

/// Steps of a batch; their values and number differ from batch to batch.
std::vector<Index> steps_of(Index batch) {
  std::vector<Index> steps;
  for (Index k = 0; k < 3 + batch * 5 % 7; ++k) steps.push_back(batch * 3 + 2 * k);
  return steps;
}

class Carried : public ::testing::TestWithParam<Backend> {
 protected:
  /// Values that kernels read in some batches; -1 for null pointers.
  std::vector<std::vector<float>> read(Device& device, Index batches, bool ahead) {
    const Exec exec{GetParam(), 1, widest_isa(), &device};
    std::vector<float> series(1000 * width);
    std::iota(series.begin(), series.end(), 0.0F);
    StepCarrier carrier(device, width);
    std::vector<Buffer<float>> outs;
    const auto bring = [&](Index batch) {
      std::vector<float> moving = series;  // destroyed after the copy
      carrier.bring(steps_of(batch), [&](Index step) { return moving.data() + step * width; });
    };
    std::vector<std::vector<float>> values;
    if (ahead) bring(0);
    for (Index batch = 0; batch < batches; ++batch) {
      if (!ahead) bring(batch);
      carrier.turn();
      if (ahead) bring(batch + 1);
      const std::vector<Index> steps = steps_of(batch);
      std::vector<const float*> there;
      for (const Index step : steps) there.push_back(carrier.at(step));
      EXPECT_EQ(carrier.at(steps.back() + 1), nullptr);
      EXPECT_EQ(carrier.at(steps.front() + 1), nullptr);
      Buffer<float>& out = outs.emplace_back(std::ssize(steps) * width, device);
      copy_steps<float>(exec, {out.data(), width, std::ssize(steps), 1}, there);
    }
    for (const Buffer<float>& out : outs) {
      values.emplace_back(static_cast<std::size_t>(out.size()));
      device.download(std::span(values.back()), out.data());
    }
    device.wait();
    return values;
  }
  static void expect_right(const std::vector<std::vector<float>>& values) {
    for (std::size_t batch = 0; batch < values.size(); ++batch) {
      const std::vector<Index> steps = steps_of(static_cast<Index>(batch));
      ASSERT_EQ(values[batch].size(), steps.size() * width);
      for (std::size_t b = 0; b < steps.size(); ++b)
        for (Index i = 0; i < width; ++i)
          ASSERT_EQ(values[batch][static_cast<std::size_t>(i) * steps.size() + b],
                    static_cast<float>(steps[b] * width + i))
              << "batch " << batch << ", step " << steps[b];
    }
  }
};

TEST_P(Carried, AreThereWhenTheirKernelsRead) {
  if (GetParam() != Backend::simulated) {
    std::string reason;
    const auto device = test_device(GetParam(), reason);
    if (!device) GTEST_SKIP() << "no GPU: " << reason;
    for (const bool ahead : {false, true}) expect_right(read(*device, 30, ahead));
    return;
  }
  std::array<Queue, 3> order{Queue::in, Queue::out, Queue::compute};
  std::sort(order.begin(), order.end());
  do {
    for (const bool ahead : {false, true}) {
      Device device(std::make_unique<SimulatedDriver>(std::size_t{1} << 30, order));
      expect_right(read(device, 30, ahead));
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

/// The next batch's copies are enqueued before the host waits, except for copies of two batches ago.
TEST_P(Carried, TravelBesideTheKernels) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "looks into a simulated device";
  Device device(std::make_unique<SimulatedDriver>());
  StepCarrier carrier(device, width);
  std::vector<float> series(1000 * width, 1.0F);
  const std::vector<Index> steps{1, 2, 3};
  const auto bring = [&] { carrier.bring(steps, [&](Index step) { return series.data() + step * width; }); };
  const auto& driver = static_cast<const SimulatedDriver&>(device.driver());
  for (int batch = 0; batch < 3; ++batch) {  // allocates memory
    bring();
    carrier.turn();
  }
  device.wait();
  bring();
  carrier.turn();
  bring();
  EXPECT_GT(driver.left(), 0) << "neither batch's copies have been waited for";
}

INSTANTIATE_TEST_SUITE_P(Simulated, Carried, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, Carried, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
