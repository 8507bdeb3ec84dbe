#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "rossby/base/bf16.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/batch_norm.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/occupy.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/queue_clock.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/kernels/steps.hpp"
#include "tests/lib/kernels/compare.hpp"
#include "tests/lib/kernels/sum_of.hpp"
#include "tests/support/device_fixture.hpp"

// The kernels of lib/rossby/kernels/device, on a simulated device anywhere and on a GPU if there is one
// (label gpu).

namespace rossby::test {
namespace {

class DeviceKernels : public OnBackend {
 protected:
  template <class T>
  void test_one(const Case<T>& test, const Shape& shape, Layout layout, double tolerance) {
    SCOPED_TRACE(fmt::format("{} ({}, {}, {}) layout {}", test.name, shape.rows, shape.cols, shape.channels,
                             static_cast<int>(layout)));
    Rig<T> reference(layout), there(layout, device_.get()), again(layout, device_.get());
    test.run({Backend::reference, 1}, reference, shape);
    begin_with_next_order();
    test.run(exec(), there, shape);
    test.run(exec(), again, shape);
    EXPECT_EQ(there.damaged(), 0);
    EXPECT_EQ(there.unwritten(), 0);
    const auto got = there.everything();
    expect_near(got, reference.everything(), static_cast<double>(shape.rows * shape.cols), tolerance);
    expect_same(again.everything(), got, "a second run");
  }

  template <class T>
  void test_all(double tolerance) {
    for (const auto& test : all_cases<T>()) {
      for (const Shape& shape : small_shapes)
        for (const Layout layout : layouts) test_one(test, shape, layout, tolerance);
      for (const Shape& shape : large_shapes) test_one(test, shape, Layout::packed, tolerance);
      test_one(test, large_shapes[0], Layout::gapped, tolerance);
    }
  }
};

TEST_P(DeviceKernels, EqualReferenceInsideTheirOutputsFloat) {
  test_all<float>(1e-5);
}
TEST_P(DeviceKernels, EqualReferenceInsideTheirOutputsDouble) {
  test_all<double>(2e-14);
}

/// Operands of float products are rounded as set on the device; nothing else is, and neither are operands of
/// double products.
TEST_P(DeviceKernels, ProductsRoundTheirOperands) {
  constexpr Index rows = 37, inputs = 70, outputs = 5;
  const auto tf32 = [](float value) {  // 10 bits of fraction, to nearest
    int exponent = 0;
    const float fraction = std::frexp(value, &exponent);
    return std::ldexp(std::round(std::ldexp(fraction, 11)), exponent - 11);
  };
  const auto bf16 = [](float value) { return widen(round_nearest(value)); };
  const auto same = [](float value) { return value; };
  std::vector<float> x(rows * inputs), weight(outputs * inputs);
  const Random random(5, "products");
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(random.uniform(k, -1, 1));
  for (std::size_t k = 0; k < weight.size(); ++k)
    weight[k] = static_cast<float>(random.uniform(x.size() + k, -1, 1));
  // y and the gradient of the weight (from y in the layout of x), rounded by `round`, in double.
  const auto truth = [&](const auto& round) {
    std::vector<double> result(rows * outputs + outputs * inputs, 0.0);
    std::vector<float> y(rows * outputs);
    for (Index i = 0; i < rows; ++i)
      for (Index o = 0; o < outputs; ++o)
        for (Index k = 0; k < inputs; ++k)
          result[i * outputs + o] += double{round(x[i * inputs + k])} * round(weight[o * inputs + k]);
    for (std::size_t k = 0; k < y.size(); ++k) y[k] = weight[k];
    for (Index o = 0; o < outputs; ++o)
      for (Index k = 0; k < inputs; ++k)
        for (Index i = 0; i < rows; ++i)
          result[rows * outputs + o * inputs + k] +=
              double{round(y[i * outputs + o])} * round(x[i * inputs + k]);
    return result;
  };
  const auto largest = [](const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    for (std::size_t k = 0; k < a.size(); ++k) most = std::max(most, std::abs(a[k] - b[k]));
    return most;
  };
  const std::vector<double> plain = truth(same);
  for (const Products products : {Products::model, Products::tf32, Products::bf16}) {
    std::string reason;
    DeviceOptions options;
    options.products = products;
    const auto device = test_device(GetParam(), reason, options);
    const Exec how{GetParam(), 1, widest_isa(), device.get()};
    const auto run = [&]<class T>(T) {
      std::vector<T> inside(x.begin(), x.end()), w(weight.begin(), weight.end()), y(rows * outputs);
      std::vector<T> dy(weight.begin(), weight.begin() + rows * outputs), dw(w.size(), T(0));
      OnDevice there(*device);
      const MatrixView<const T> on_x(there(inside), rows, inputs);
      linear_forward<T>(how, MatrixView<T>(there(y), rows, outputs), on_x,
                        MatrixView<const T>(there(w), outputs, inputs), nullptr, false);
      linear_backward_weight<T>(how, MatrixView<T>(there(dw), outputs, inputs),
                                MatrixView<const T>(there(dy), rows, outputs), on_x,
                                there.scratch<T>(linear_scratch_size(rows, outputs, inputs)));
      there.fetch();
      std::vector<double> result(y.begin(), y.end());
      result.insert(result.end(), dw.begin(), dw.end());
      return result;
    };
    EXPECT_LT(largest(run(0.0), plain), 1e-13) << "doubles";
    const std::vector<double> got = run(0.0F);
    if (products == Products::model) {
      EXPECT_LT(largest(got, plain), 1e-5);
      continue;
    }
    const double unit = products == Products::tf32 ? 0x1p-11 : 0x1p-8;
    EXPECT_GT(largest(got, plain), 0.5 * unit) << "they are rounded";
    EXPECT_LT(largest(got, plain), 8 * unit);
    if (GetParam() == Backend::simulated) {  // a library may round in another way
      EXPECT_LT(largest(got, products == Products::tf32 ? truth(tf32) : truth(bf16)), 1e-5);
    }
  }
}

/// Gradients of weights of a tall layer: the terms are cut into pieces.
TEST_P(DeviceKernels, LongSumsAreCutIntoPieces) {
  for (const Index rows : {511, 512, 5000, 20011}) {
    Rig<double> reference(Layout::packed), there(Layout::gapped, device_.get());
    const auto run = [&](const Exec& how, Rig<double>& rig) {
      linear_backward_weight<double>(how, rig.matrix(3, 70), rig.matrix(rows, 3), rig.matrix(rows, 70),
                                     rig.scratch(linear_scratch_size(rows, 3, 70)));
      column_sum<double>(how, rig.vector(3).data(), rig.matrix(rows, 3),
                         rig.scratch(linear_scratch_size(rows, 3, 1)));
      rig.result(sum_of(how, [&](double* sum) { sum_of_squares<double>(how, rig.vector(rows), sum); }));
    };
    Rig<double> packed(Layout::packed, device_.get());
    run({Backend::reference, 1}, reference);
    run(exec(), packed);
    expect_near(packed.everything(), reference.everything(), static_cast<double>(rows), 1e-14);
    run(exec(), there);
    EXPECT_EQ(there.damaged(), 0);
  }
}

/// Rows of a table, each with its own updates, against the rows one by one.
TEST_P(DeviceKernels, RowsOfATableAreReplayedEachWithItsOwn) {
  constexpr Index rows = 9, columns = 37;
  std::vector<AdamConstants<double>> steps;
  for (Index s = 1; s <= 6; ++s)
    steps.push_back(adam_constants<double>({.beta1 = 0.9, .decay = 1e-3, .count = s}, false));
  const auto values = [](double scale) {
    std::vector<double> v;
    for (Index k = 0; k < rows * columns; ++k) v.push_back(scale * (1 + std::sin(static_cast<double>(k))));
    return v;
  };
  for (const bool moment : {true, false})
    for (const bool slopes : {true, false})
      for (const std::vector<RowUpdates>& list :
           {std::vector<RowUpdates>{{7, 0, 6}, {2, 5, 6}, {0, 3, 3}, {8, 1, 4}}, {{4, 2, 3}}, {}}) {
        if (!moment)
          for (auto& constants : steps) constants.beta1 = 0, constants.rest1 = 1;
        const auto run = [&](const Exec& exec, Device* device) {
          std::vector<double> theta = values(1), m = values(0.1), v = values(0.01), g = values(0.3);
          OnDevice there(*device_);
          const auto place = [&](std::vector<double>& of) { return device ? there(of) : of.data(); };
          const auto table = [&](std::vector<double>& of) {
            return MatrixView<double>(place(of), rows, columns);
          };
          const MatrixView<const double> gradient(slopes ? place(g) : nullptr, slopes ? rows : 0, columns);
          const MatrixView<double> none(nullptr, rows, columns);
          adam_replay_rows<double>(exec, table(theta), moment ? table(m) : none, table(v), gradient, list,
                                   steps);
          if (device) there.fetch();
          theta.insert(theta.end(), m.begin(), m.end());
          theta.insert(theta.end(), v.begin(), v.end());
          return theta;
        };
        const auto host = run({Backend::reference, 1}, nullptr), device = run(exec(), device_.get());
        expect_near(device, host, 1, 1e-14);
        const std::vector<double> before = values(1);
        EXPECT_EQ(host[6 * columns], before[6 * columns]) << "not in the list";
        if (!list.empty()) {
          EXPECT_NE(host[list[0].row * columns + 1], before[list[0].row * columns + 1]);
        }
      }
  std::vector<double> theta = values(1), v = values(1);
  const MatrixView<double> table(theta.data(), rows, columns), second(v.data(), rows, columns);
  for (const RowUpdates& wrong : {RowUpdates{rows, 0, 1}, {-1, 0, 1}, {0, 0, 7}, {0, 3, 2}})
    EXPECT_THROW(adam_replay_rows<double>({}, table, {}, second, {}, std::vector{wrong}, steps), BugError);
}

/// Up to 128 updates that differ only in time-dependent numbers travel with the launch, others in a list.
TEST_P(DeviceKernels, UpdatesOfAnyNumberAndKindAreReplayed) {
  using Change = std::function<void(AdamConstants<double>&)>;
  const Change none = [](auto&) {};
  const std::vector<std::pair<Index, Change>> all{{0, none},
                                                  {1, none},
                                                  {128, none},
                                                  {129, none},
                                                  {300, none},
                                                  {3, [](auto& s) { s.beta1 = 0.5; }},
                                                  {3, [](auto& s) { s.beta2 = 0.5; }},
                                                  {3, [](auto& s) { s.epsilon = 0.3; }},
                                                  {3, [](auto& s) { s.scale = 3; }},
                                                  {3, [](auto& s) { s.decay = 0.2; }},
                                                  {3, [](auto& s) { s.keep = 0.9; }}};
  for (const auto& [count, change] : all) {
    std::vector<AdamConstants<double>> steps;
    for (Index s = 1; s <= count; ++s)
      steps.push_back(adam_constants<double>(
          {.lr = 1e-2 / static_cast<double>(s), .beta1 = 0.9, .decay = 1e-3, .count = s}, false));
    if (count > 0) change(steps.back());
    const auto run = [&](const Exec& exec, Device* device) {
      std::vector<double> theta{1, -2, 0.5}, m{0.1, 0, -0.2}, v{0.01, 0.3, 0}, g{0.3, -1, 2};
      OnDevice there(*device_);
      const auto place = [&](std::vector<double>& of) {
        return std::span(device ? there(of) : of.data(), of.size());
      };
      adam_replay<double>(exec, place(theta), place(m), place(v), place(g), steps);
      if (device) there.fetch();
      theta.insert(theta.end(), m.begin(), m.end());
      theta.insert(theta.end(), v.begin(), v.end());
      return theta;
    };
    expect_near(run(exec(), device_.get()), run({Backend::reference, 1}, nullptr), 1, 1e-14);
  }
}

TEST_P(DeviceKernels, AGradientThatIsTakenIsZeroAfterwards) {
  for (const bool moment : {true, false})
    for (const bool decoupled : {true, false}) {
      const AdamStep step{.beta1 = moment ? 0.9 : 0, .decay = 0.1, .gradient_scale = 0.5, .count = 3};
      const auto start = [] {
        std::vector<std::vector<double>> arrays(4);
        for (std::size_t a = 0; a < arrays.size(); ++a)
          for (int k = 0; k < 1000; ++k) arrays[a].push_back(0.1 + 0.01 * static_cast<double>(a) * (k % 7));
        return arrays;
      };
      auto right = start(), host = start(), device = start();
      const auto first = [&](std::vector<double>& m) { return moment ? std::span(m) : std::span<double>(); };
      adam_update<double>({Backend::reference, 1}, right[0], first(right[1]), right[2], right[3], step,
                          decoupled);
      right[3].assign(right[3].size(), 0);
      adam_take<double>({Backend::reference, 1}, host[0], first(host[1]), host[2], host[3], step, decoupled);
      OnDevice there(*device_);
      const auto place = [&](std::vector<double>& of) { return std::span(there(of), of.size()); };
      const auto theta = place(device[0]), m = place(device[1]), v = place(device[2]), g = place(device[3]);
      adam_take<double>(exec(), theta, moment ? m : std::span<double>(), v, g, step, decoupled);
      there.fetch();
      for (std::size_t a = 0; a < right.size(); ++a) {
        expect_same(host[a], right[a], "the host's");
        expect_near(device[a], right[a], 1, 1e-14);
      }
      EXPECT_EQ(device[3][999], 0);
    }
}

/// Statistics that stay on the device equal those that a host computes from the sums.
TEST_P(DeviceKernels, NormaliseByStatisticsThatStayThere) {
  constexpr Index channels = 5, rows = 37, cols = 3;
  constexpr double momentum = 0.1, epsilon = 1e-5, more = 2;  // factor of values on all ranks
  const auto numbers = [](Index count, double by) {
    std::vector<double> all;
    for (Index k = 0; k < count; ++k) all.push_back(0.3 + std::sin(by * static_cast<double>(k)));
    return all;
  };
  for (const bool constants : {false, true}) {
    std::vector<double> x = numbers(rows * cols * channels, 0.7), dy = numbers(rows * cols * channels, 1.1),
                        gain = numbers(channels, 0.5), mean = numbers(channels, 0.2),
                        variance = numbers(channels, 0.1), sums(2 * channels + 1), back(2 * channels);
    std::vector<double> factors(3 * channels), slopes(2 * channels), dgain(channels, 1.0),
        dbias(channels, 2.0);
    const Exec host{Backend::reference, 1};
    std::vector<double> right_sums(2 * channels + 1), right_back(2 * channels),
        scratch(static_cast<std::size_t>(batch_norm_scratch_size(host, rows, channels)));
    const NodeView<const double> in(x.data(), rows, cols, channels), slope(dy.data(), rows, cols, channels);
    batch_norm_sums<double>(host, right_sums.data(), in, mean.data(), scratch);
    const double values = more * rows * cols;
    std::vector<double> right_mean = mean, right_variance = variance, average(channels), inverse(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double distance = more * right_sums[c] / values;
      const double of_batch = more * right_sums[channels + c] / values - distance * distance;
      average[c] = constants ? mean[c] : mean[c] + distance;
      inverse[c] = 1 / std::sqrt((constants ? variance[c] : of_batch) + epsilon);
      if (constants) continue;
      right_mean[c] += momentum * distance;
      right_variance[c] = 0.9 * variance[c] + momentum * of_batch * values / (values - 1);
    }
    batch_norm_backward_sums<double>(host, right_back.data(), slope, in, average.data(), inverse.data(),
                                     scratch);

    OnDevice there(*device_);
    const NodeView<const double> in_there(there(x), rows, cols, channels),
        dy_there(there(dy), rows, cols, channels);
    double *sum = there(sums), *factor = there(factors), *sum_back = there(back),
           *slopes_there = there(slopes);
    const BatchNormRunning<double> running{there(mean), there(variance), momentum, epsilon};
    const BatchNormFactors<double> of{factor, factor + channels, factor + 2 * channels};
    batch_norm_sums<double>(exec(), sum, in_there, running.mean, {});
    const NodeView<double> all(sum, 1, 1, 2 * channels + 1);
    scale<double>(exec(), all, more, all);  // another rank's sums, equal to these
    batch_norm_factors<double>(exec(), channels, of, constants ? nullptr : sum, there(gain), running);
    batch_norm_backward_sums<double>(exec(), sum_back, dy_there, in_there, of.mean, of.inverse_deviation, {});
    batch_norm_backward_parameters<double>(exec(), channels, there(dgain), constants ? nullptr : there(dbias),
                                           sum_back);
    batch_norm_slopes<double>(exec(), channels, slopes_there, slopes_there + channels, sum_back,
                              constants ? nullptr : sum + 2 * channels, of.inverse_deviation);
    there.fetch();
    EXPECT_EQ(sums[2 * channels], values);
    expect_near(mean, right_mean, 1, 1e-13);
    expect_near(variance, right_variance, 1, 1e-13);
    expect_near(back, right_back, rows * cols, 1e-13);
    for (std::size_t c = 0; c < channels; ++c) {
      EXPECT_NEAR(factors[c], average[c], 1e-13);
      EXPECT_NEAR(factors[channels + c], inverse[c], 1e-12 * inverse[c]);
      EXPECT_NEAR(factors[2 * channels + c], gain[c] * inverse[c], 1e-12 * inverse[c]);
      EXPECT_NEAR(dgain[c], 1 + back[channels + c], 1e-12);
      EXPECT_NEAR(dbias[c], constants ? 2 : 2 + back[c], 1e-12);
      EXPECT_NEAR(slopes[c], constants ? 0 : back[c] / values, 1e-13);
      EXPECT_NEAR(slopes[channels + c], constants ? 0 : inverse[c] * back[channels + c] / values, 1e-12);
    }
  }
}

TEST_P(DeviceKernels, NonFiniteValuesAreFound) {
  std::vector<double> values(100003, 1.0);
  const auto find = [&] {
    Buffer<double> x(std::ssize(values), *device_);
    device_->upload(x.data(), std::span<const double>(values));
    const Index found = first_non_finite<double>(exec(), x.span());
    return found;
  };
  EXPECT_EQ(find(), -1);
  values[90001] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(find(), 90001);
  values[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(find(), 3);
}

TEST_P(DeviceKernels, AQueueIsTimedWithoutTheGapsThatTheHostLeaves) {
  QueueClock clock(exec());
  Buffer<float> values(1000, *device_);
  device_->wait();
  double busy = 1, kernel = 1;  // quickest rounds: others may be disturbed
  for (int round = 0; round < 5; ++round) {
    clock.start_anew();
    const std::size_t begin = clock.mark(), held = clock.hold(0.02);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    double sum = 0;
    sum_of_squares<float>(exec(), values.span(), &sum);
    const std::size_t end = clock.mark();
    EXPECT_EQ(end, begin + 2) << "marks are made anew";
    device_->settle();
    EXPECT_GE(clock.seconds(begin, held), 0.019);
    EXPECT_GE(clock.seconds(held, end), 0);
    busy = std::min(busy, clock.seconds(begin, held));
    kernel = std::min(kernel, clock.seconds(held, end));
  }
  EXPECT_LT(busy, 0.1);
  EXPECT_LT(kernel, 0.004) << "the host slept while the queue was busy";
  EXPECT_THROW((void)clock.seconds(0, 3), BugError) << "no such mark";
  EXPECT_GE(clock.seconds_of_a_mark(), 0);
  EXPECT_LT(clock.seconds_of_a_mark(), 1e-4);
  EXPECT_EQ(clock.mark(), 0U);
  occupy(Exec{}, 10);  // on a host: does nothing
}

/// Empty arrays, ends of blocks, more arrays than a launch takes; memory in between stays unchanged.
TEST_P(DeviceKernels, ArraysAreClearedTogether) {
  std::vector<Index> sizes{0, 1, 255, 4095, 4096, 4097, 0, 20000};
  for (Index k = 0; k < 60; ++k) sizes.push_back(k);
  Index all = 1;
  for (const Index size : sizes) all += size + 1;
  std::vector<float> values(static_cast<std::size_t>(all), 7.0F), right = values;
  OnDevice there(*device_);
  float* const data = there(values);
  std::vector<std::span<float>> arrays;
  Index at = 1;
  for (const Index size : sizes) {
    arrays.emplace_back(data + at, static_cast<std::size_t>(size));
    std::fill_n(right.begin() + at, size, 0.0F);
    at += size + 1;
  }
  clear_arrays<float>(exec(), arrays);
  there.fetch();
  EXPECT_EQ(values, right);
  clear_arrays<float>(exec(), {});
}

/// Lists that travel with the launch, and longer ones.
TEST_P(DeviceKernels, StepsOfManyWindowsAreFound) {
  for (const Index cols : {1, 127, 128, 129, 300}) {
    std::vector<float> series(static_cast<std::size_t>(3 * (cols + 1))),
        out(static_cast<std::size_t>(3 * cols));
    for (std::size_t k = 0; k < series.size(); ++k) series[k] = static_cast<float>(k);
    OnDevice there(*device_);
    const float* const data = there(series);
    std::vector<const float*> steps;
    for (Index b = 0; b < cols; ++b) steps.push_back(data + 3 * (cols - b));
    float* const to = there(out);
    copy_steps<float>(exec(), {to, 3, cols, 1}, steps);
    there.fetch();
    for (Index i = 0; i < 3; ++i)
      for (Index b = 0; b < cols; ++b)
        ASSERT_EQ(out[static_cast<std::size_t>(i * cols + b)], static_cast<float>(3 * (cols - b) + i))
            << cols;
  }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceKernels, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceKernels, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
