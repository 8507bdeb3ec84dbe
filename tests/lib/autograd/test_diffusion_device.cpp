#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/sparse_trial.hpp"
#include "tests/lib/autograd/diffusion_fixture.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/fake_sparse.hpp"

// Diffusion convolutions on devices against the host's, and the trial of sparse products.

namespace rossby::test {
namespace {

using diffusion_fixture::fill;
using diffusion_fixture::Fixture;

/// Results of one convolution, and the calls that a simulated device gets for its terms and for backward.
struct Outcome {
  std::vector<double> y, gradients;
  Index terms = 0, backward = 0;
  Cost cost;  // forward
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
  for (int repeat = 0; repeat < 2; ++repeat) {  // the first one allocates
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

/// All levels are one launch if a block of threads can hold a column.
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
      // The dense layer's own launches depend on its number of rows.
      if (n == 512 && variant == DiffusionVariant::paper) at_once = got.backward;
      EXPECT_TRUE(n < 512 || got.backward - at_once == (whole ? 0 : levels - 1));
    }
}

class SparseTrials : public OnBackend {
 protected:
  void SetUp() override {
    OnBackend::SetUp();
    if (!device_) return;
    api_ = GetParam() == Backend::simulated ? &fake_ : cusparse();
    if (!api_) GTEST_SKIP() << "no cuSPARSE";
  }
  [[nodiscard]] const SimulatedDriver& driver() const {
    return static_cast<const SimulatedDriver&>(device_->driver());
  }

  FakeSparse fake_;
  const SparseApi* api_ = nullptr;
};

template <class T>
std::vector<T> weights_of(const CsrBlock& block) {
  return {block.value.begin(), block.value.end()};
}

TEST_P(SparseTrials, TimeBothAsTrainingsRunThem) {
  const CsrBlock block = diffusion_fixture::random_block(60, 2);
  SparseLibrary<float> library(exec(), *api_, block, weights_of<float>(block));
  using enum DiffusionVariant;
  for (const auto& [trial, products] : {std::pair{SparseTrial{5, 8, 2, paper}, 8},
                                        {{5, 8, 2, powers}, 8},
                                        {{5, 8, 3, legacy}, 12},
                                        {{4, 3, 0, paper}, 2}}) {
    SCOPED_TRACE(::testing::Message() << trial.steps << " steps, " << static_cast<int>(trial.variant));
    fake_.seconds = 2e-3;
    const bool simulated = GetParam() == Backend::simulated;
    const Index copies = simulated ? driver().copied_in() : 0;
    const int multiplied = fake_.multiplied;
    SparseChoice choice = try_sparse_products<float>(exec(), library, block, trial);
    EXPECT_GT(choice.seconds[0], 0);
    EXPECT_GT(choice.seconds[1], 0);
    if (!simulated) continue;
    EXPECT_LE(driver().copied_in() - copies, 24)
        << "graph, weights and the library's, once: no launch waits for lists";
    EXPECT_GE(choice.seconds[1], products * fake_.seconds);
    EXPECT_EQ((fake_.multiplied - multiplied) % products, 0);
    choose(choice);
    EXPECT_EQ(choice.way, SparseKernel::own);
  }
  EXPECT_EQ(try_sparse_products<float>(exec(), library, block, {0, 8, 2}).seconds[0], 0) << "nothing to try";
  CsrBlock ghosts = block;
  ghosts.ghosts = 1;
  SparseLibrary<float> other(exec(), *api_, ghosts, weights_of<float>(ghosts));
  EXPECT_EQ(try_sparse_products<float>(exec(), other, ghosts, {5, 8, 2}).seconds[0], 0) << "ghosts";
}

/// With the library, a convolution also packs its signal, copies operands, and adds the term without a
/// relation: six launches beside eight products. Own kernels need two launches, or one per level and
/// direction.
TEST_P(SparseTrials, CountWhatStandsBesideProducts) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "counts what a simulated device is given";
  const CsrBlock block = diffusion_fixture::random_block(40, 2);
  SparseLibrary<float> library(exec(), fake_, block, weights_of<float>(block));
  const auto given = [&](const SparseTrial& trial) {
    (void)try_sparse_products<float>(exec(), library, block, trial);  // prepares
    const Index before = driver().given();
    (void)try_sparse_products<float>(exec(), library, block, trial);
    return driver().given() - before;
  };
  constexpr Index times = 6;  // one that is not counted, five that are
  const Index paper = given({2, 4, 2, DiffusionVariant::paper});
  // One step along the graph is one launch each way for both; terms need memory that it does not.
  EXPECT_EQ(paper - given({2, 4, 0, DiffusionVariant::paper}), times * ((2 - 2) + (8 + 6 - 2)) + 1);
  EXPECT_EQ(paper - given({2, 4, 2, DiffusionVariant::powers}), times * 4) << "nothing is taken away";
  EXPECT_EQ(given({2, 4, 2, DiffusionVariant::legacy}) - paper, times * (6 - 2)) << "three levels";
}

TEST_P(SparseTrials, AreLeftOutWhereMemoryIsShort) {
  const CsrBlock block = diffusion_fixture::random_block(60, 2);
  std::string reason;
  const auto small = test_device(GetParam(), reason, {.limit = std::size_t{30} << 20});
  const Exec there{GetParam(), 1, widest_isa(), small.get()};
  SparseLibrary<float> library(there, *api_, block, weights_of<float>(block));
  const auto tried = [&](const SparseTrial& trial) {
    return try_sparse_products<float>(there, library, block, trial).seconds[0] > 0;
  };
  EXPECT_TRUE(tried({100, 8, 1}));
  EXPECT_TRUE(tried({1000, 8, 0}));
  EXPECT_FALSE(tried({3000, 8, 0})) << "three values of 5.8 MB";
  EXPECT_FALSE(tried({1000, 1, 1})) << "as many indices as columns";
}

INSTANTIATE_TEST_SUITE_P(Simulated, SparseTrials, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, SparseTrials, ::testing::Values(Backend::cuda));
INSTANTIATE_TEST_SUITE_P(Simulated, DiffusionOnDevice, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DiffusionOnDevice, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
