#include <fmt/core.h>
#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/kernels/table_loss.hpp"
#include "tests/lib/kernels/compare.hpp"
#include "tests/lib/kernels/sum_of.hpp"

namespace rossby::test {
namespace {

template <class T>
void test_one(const Case<T>& test, const Shape& shape, Layout layout, double tolerance) {
  SCOPED_TRACE(fmt::format("{} ({}, {}, {}) layout {}", test.name, shape.rows, shape.cols, shape.channels,
                           static_cast<int>(layout)));
  Rig<T> reference(layout);
  test.run({Backend::reference, 1}, reference, shape);
  EXPECT_EQ(reference.damaged(), 0);
  EXPECT_EQ(reference.unwritten(), 0);
  for (const Isa isa : supported_isas_of<T>()) {
    SCOPED_TRACE(to_string(isa));
    Rig<T> cpu(layout), three(layout);
    test.run({Backend::cpu, 1, isa}, cpu, shape);
    test.run({Backend::cpu, 3, isa}, three, shape);
    EXPECT_EQ(cpu.damaged(), 0);
    EXPECT_EQ(cpu.unwritten(), 0);
    const auto got = cpu.everything();
    expect_near(got, reference.everything(), static_cast<double>(shape.rows * shape.cols), tolerance);
    expect_same(three.everything(), got, "three threads and one");
  }
}

template <class T>
void test_all(double tolerance) {
  for (const auto& test : all_cases<T>()) {
    for (const Shape& shape : small_shapes)
      for (const Layout layout : layouts) test_one(test, shape, layout, tolerance);
    for (const Shape& shape : large_shapes) test_one(test, shape, Layout::packed, tolerance);
    test_one(test, large_shapes[0], Layout::gapped, tolerance);
  }
  for (const auto& test : host_cases<T>()) {
    for (const Shape& shape : small_shapes) test_one(test, shape, Layout::packed, tolerance);
    for (const Shape& shape : large_shapes) test_one(test, shape, Layout::packed, tolerance);
    // Remaining blocks of nodes and groups of columns; more than one block per partial sum.
    for (const Shape& shape : {Shape{131, 8, 4}, Shape{4099, 9, 1}, Shape{77, 19, 3}, Shape{3, 8, 256}})
      test_one(test, shape, Layout::packed, tolerance);
  }
}

TEST(Kernels, CpuEqualsReferenceInsideItsOutputsFloat) {
  test_all<float>(1e-5);
}
TEST(Kernels, CpuEqualsReferenceInsideItsOutputsDouble) {
  test_all<double>(2e-14);
}

/// Rows that fill registers and remaining rows, for every width with a kernel of its own.
template <class T>
void test_few_channels(double tolerance) {
  for (Index out = 1; out <= 9; ++out)
    for (const auto& test : linear_cases<T>(out))
      for (Index in = 1; in <= 9; ++in)
        for (const Index rows : {32, 47, 1061})
          for (const Layout layout : {Layout::packed, Layout::gapped})
            test_one(test, Shape{rows, 1, in}, layout, tolerance);
}
TEST(Kernels, LayersOfFewChannelsEqualReferenceFloat) {
  test_few_channels<float>(1e-5);
}
TEST(Kernels, LayersOfFewChannelsEqualReferenceDouble) {
  test_few_channels<double>(2e-14);
}

TEST(Kernels, WrongShapesAreRefused) {
  Rig<float> rig(Layout::packed);
  const Exec exec;
  EXPECT_THROW(activation_forward(exec, Activation::tanh, rig.output({2, 3, 4}), read(rig.input({2, 4, 3}))),
               BugError);
  EXPECT_THROW(
      linear_forward<float>(exec, rig.matrix(3, 2), rig.matrix(3, 4), rig.matrix(4, 2), nullptr, false),
      BugError);
  const std::vector<Index> beyond{0, 5};
  EXPECT_THROW(embed_columns_forward<float>(exec, rig.output({3, 2, 1}), rig.vector(15).data(), 5, beyond),
               BugError);
  const std::vector<Index> negative{-1};
  const std::vector<Index> zero{0};
  double sum = 0;
  const auto difference = [&](std::span<const Index> times, Shape s) {
    table_difference<float>(exec, {}, {}, {rig.vector(15).data(), 5, times}, read(rig.input(s)), false, 1,
                            &sum);
  };
  EXPECT_THROW(difference(beyond, {3, 2, 1}), BugError);
  EXPECT_THROW(difference(zero, {3, 2, 1}), BugError);
  EXPECT_THROW(difference(zero, {1, 1, most_table_loss_width + 1}), BugError);
  EXPECT_THROW(
      embed_pairs_forward<float>(exec, rig.output({1, 1, 1}), rig.vector(15).data(), 5, 3, zero, negative),
      BugError);
  AdamStep step;
  step.beta1 = 0.9;
  EXPECT_THROW(adam_update<float>(exec, rig.vector(3), {}, rig.vector(3), {}, step), BugError);
}

TEST(Kernels, MissingTargetsHideEvenNaNPredictions) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> target{1, nan, 3};
  const std::vector<double> prediction{2, static_cast<double>(nan), 5};
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const Exec exec{backend, 1};
    const NodeView<const double> p(prediction.data(), 1, 1, 3);
    const NodeView<const float> x(target.data(), 1, 1, 3);
    EXPECT_EQ(sum_of(exec, [&](double* sum) { masked_error_sum(exec, MaskedError::squared, p, x, sum); }), 5);
    EXPECT_EQ(sum_of(exec, [&](double* sum) { masked_error_sum(exec, MaskedError::absolute, p, x, sum); }),
              3);
    std::vector<double> gradient(3, 0);
    masked_error_backward(exec, MaskedError::squared, NodeView<double>(gradient.data(), 1, 1, 3), p, x, 0.5);
    EXPECT_EQ(gradient, (std::vector<double>{1, 0, 2}));
  }
}

TEST(Kernels, NonFiniteValuesAreFoundAndNotHidden) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Backend backend : {Backend::reference, Backend::cpu})
    for (const double bad :
         {nan, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      const Exec exec{backend, 1};
      std::vector<double> x(10007, 1e300);
      EXPECT_EQ(first_non_finite<double>(exec, x), -1);
      x[9001] = bad;
      EXPECT_EQ(first_non_finite<double>(exec, x), 9001);
      x[3] = bad;
      EXPECT_EQ(first_non_finite<double>(exec, x), 3);
    }
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const Exec exec{backend, 1};
    std::vector<double> x{nan}, y{0};
    activation_forward<double>(exec, Activation::relu, {y.data(), 1, 1, 1}, {x.data(), 1, 1, 1});
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_TRUE(std::isnan(sum_of(exec, [&](double* sum) { clamp_l1_sum<double>(exec, x, sum); })));
  }
}

TEST(Kernels, ClampPassesNoGradientAtItsEdges) {
  for (const Backend backend : {Backend::reference, Backend::cpu}) {
    const std::vector<double> m{-0.5, 0, 1e-300, 0.5, 1, 1.5};
    std::vector<double> dm(6, 0);
    clamp_l1_backward<double>({backend, 1}, dm, m, 0.25);
    EXPECT_EQ(dm, (std::vector<double>{0, 0, 0.25, 0.25, 0, 0}));
  }
}

TEST(Kernels, SumsOfFloatsAreTakenInDouble) {
  const std::vector<float> x(1 << 21, 0.1f);
  const double expected = 2097152.0 * (double{0.1f} * double{0.1f});
  EXPECT_NEAR(sum_of(Exec{}, [&](double* sum) { sum_of_squares<float>({}, x, sum); }), expected,
              1e-12 * expected);
}

TEST(Dropout, MaskDependsOnGlobalKeysAloneAndKeepsTheMean) {
  const Index rows = 211, cols = 5, channels = 7;
  std::vector<float> x(static_cast<std::size_t>(rows * cols * channels), 1), y(x.size());
  std::vector<std::uint8_t> keep(x.size());
  std::vector<Index> row_keys, col_keys;
  for (Index i = 0; i < rows; ++i) row_keys.push_back(1000 + i);
  for (Index b = 0; b < cols; ++b) col_keys.push_back(40 + b);
  const Random random(9, "dropout");
  dropout_forward<float>({}, {y.data(), rows, cols, channels}, keep, {x.data(), rows, cols, channels}, 0.25,
                         random, row_keys, col_keys);
  double mean = 0;
  for (const float v : y) mean += v / static_cast<double>(y.size());
  EXPECT_NEAR(mean, 1, 4 * std::sqrt(0.25 / 0.75 / static_cast<double>(y.size())));

  // Columns as steps of windows: the columns of three windows, from the second of seven steps on.
  const std::vector<Index> windows{4, 0, 9};
  std::vector<Index> listed;
  for (Index b = 0; b < 6; ++b) listed.push_back(windows[static_cast<std::size_t>(b % 3)] * 7 + 1 + b / 3);
  std::vector<float> ones(static_cast<std::size_t>(6 * channels), 1), drawn(ones.size()), again(ones.size());
  const NodeView<const float> one_row(ones.data(), 1, 6, channels);
  dropout_forward<float>({}, {drawn.data(), 1, 6, channels}, std::span(keep).first(ones.size()), one_row, 0.5,
                         random, std::span(row_keys).first(1), listed);
  dropout_forward<float>({}, {again.data(), 1, 6, channels}, std::span(keep).first(ones.size()), one_row, 0.5,
                         random, std::span(row_keys).first(1), {windows, 7, 1});
  EXPECT_EQ(again, drawn);

  // The last rows and columns alone get the same mask, as on another rank.
  const Index first = 100, column = 2;
  const Index few_rows = rows - first, few_cols = cols - column;
  std::vector<float> part(static_cast<std::size_t>(few_rows * few_cols * channels));
  std::vector<std::uint8_t> part_keep(part.size());
  dropout_forward<float>(
      {}, {part.data(), few_rows, few_cols, channels}, part_keep, {x.data(), few_rows, few_cols, channels},
      0.25, random, std::span(row_keys).subspan(first), std::span<const Index>(col_keys).subspan(column));
  for (Index i = 0; i < few_rows; ++i)
    for (Index b = 0; b < few_cols; ++b)
      for (Index c = 0; c < channels; ++c)
        ASSERT_EQ(part[static_cast<std::size_t>((i * few_cols + b) * channels + c)],
                  y[static_cast<std::size_t>(((i + first) * cols + b + column) * channels + c)]);
}

}  // namespace
}  // namespace rossby::test
