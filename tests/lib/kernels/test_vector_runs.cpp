// Vector kernels at critical points: ends of registers, special values, the last bits of tanh.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/reductions.hpp"
#include "tests/lib/kernels/harness.hpp"
#include "tests/lib/kernels/sum_of.hpp"

namespace rossby::test {
namespace {

std::vector<float> apply(Isa isa, Activation f, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const auto size = static_cast<Index>(x.size());
  activation_forward<float>({Backend::cpu, 1, isa}, f, {y.data(), size, 1, 1}, {x.data(), size, 1, 1});
  return y;
}

/// Distance to the true value in units of the last place of the float nearest to it.
double ulps(float got, double truth) {
  const float near = std::abs(static_cast<float>(truth));
  const double unit =
      static_cast<double>(std::nextafter(near, std::numeric_limits<float>::infinity())) - double{near};
  return std::abs(double{got} - truth) / unit;
}

/// Every 997th bit pattern of the finite numbers >= 0, denormal ones included, and the largest.
std::vector<float> floats_of_every_size() {
  std::vector<float> x;
  for (std::uint32_t bits = 0; bits < 0x7F800000U; bits += 997) x.push_back(std::bit_cast<float>(bits));
  x.push_back(std::numeric_limits<float>::max());
  return x;
}

TEST(VectorRuns, TanhIsWithinTwoUnitsOddAndBounded) {
  const std::vector<float> x = floats_of_every_size();
  std::vector<float> minus(x);
  for (float& v : minus) v = -v;
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    const auto y = apply(isa, Activation::tanh, x), odd = apply(isa, Activation::tanh, minus);
    double worst = 0;
    Index not_odd = 0, beyond = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      worst = std::max(worst, ulps(y[k], std::tanh(double{x[k]})));
      not_odd += std::bit_cast<std::uint32_t>(odd[k]) != (std::bit_cast<std::uint32_t>(y[k]) ^ 0x80000000U);
      beyond += !(y[k] <= 1);
    }
    EXPECT_LE(worst, 2);
    EXPECT_EQ(not_odd, 0);
    EXPECT_EQ(beyond, 0);
  }
}

TEST(VectorRuns, SigmoidIsWithinThreeUnits) {
  std::vector<float> x;
  for (const float v : floats_of_every_size())
    for (const float w : {v, -v})
      if (w > -87) x.push_back(w);
  for (const Isa isa : supported_isas()) {
    const auto y = apply(isa, Activation::sigmoid, x);
    double worst = 0;
    for (std::size_t k = 0; k < x.size(); ++k)
      worst = std::max(worst, ulps(y[k], 1 / (1 + std::exp(-double{x[k]}))));
    EXPECT_LE(worst, 3) << to_string(isa);
  }
}

TEST(VectorRuns, SpecialValuesOfActivations) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  // NaN of every sign and payload, the quiet bit alone, all bits.
  std::vector<float> nan;
  for (const std::uint32_t bits : {0x7FC00000U, 0xFFC00000U, 0x7FC001FFU, 0x7FFFFFFFU, 0xFFFFFFFFU})
    nan.push_back(std::bit_cast<float>(bits));
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    for (const Activation f : {Activation::tanh, Activation::sigmoid, Activation::relu})
      for (const float y : apply(isa, f, nan)) EXPECT_TRUE(std::isnan(y)) << static_cast<int>(f);
    const auto t = apply(isa, Activation::tanh, {inf, -inf, 0.0F, -0.0F, 20, -1e30F});
    EXPECT_EQ(t, (std::vector<float>{1, -1, 0, 0, 1, -1}));
    EXPECT_FALSE(std::signbit(t[2]));
    EXPECT_TRUE(std::signbit(t[3]));
    EXPECT_EQ(apply(isa, Activation::sigmoid, {inf, -inf, 0.0F, -1000, 1000}),
              (std::vector<float>{1, 0, 0.5, 0, 1}));
  }
}

TEST(VectorRuns, EveryKernelAtEveryLengthAroundARegister) {
  // Runs end inside, at and after a register; the sentinels follow immediately.
  const auto check = []<class T>(const std::vector<Case<T>>& cases, double tolerance) {
    for (const auto& test : cases)
      for (const Index size : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129}) {
        SCOPED_TRACE(fmt::format("{} of {}", test.name, size));
        Rig<T> reference(Layout::packed);
        const Shape shape{1, 1, size};
        test.run({Backend::reference, 1}, reference, shape);
        const auto expected = reference.everything();
        for (const Isa isa : supported_isas_of<T>()) {
          Rig<T> cpu(Layout::packed);
          test.run({Backend::cpu, 1, isa}, cpu, shape);
          EXPECT_EQ(cpu.damaged(), 0);
          const auto got = cpu.everything();
          ASSERT_EQ(got.size(), expected.size());
          for (std::size_t k = 0; k < got.size(); ++k)
            if (!std::isnan(expected[k]) || !std::isnan(got[k])) {
              ASSERT_NEAR(got[k], expected[k], tolerance * (1 + std::abs(expected[k]))) << to_string(isa);
            }
        }
      }
  };
  check(run_cases<float>(), 1e-5);
  check(run_cases<double>(), 1e-13);
}

/// Integers, so that sums are exact: embed_columns and its adjoint entry by entry.
template <class T>
void check_columns(const Exec& exec, Index n, Index columns, Index d, Index gap) {
  SCOPED_TRACE(fmt::format("n {} B {} d {} gap {} {}", n, columns, d, gap, to_string(exec.isa)));
  constexpr Index steps = 5;
  std::vector<T> table(static_cast<std::size_t>(steps * n * d));
  for (std::size_t k = 0; k < table.size(); ++k) table[k] = static_cast<T>(k + 1);
  std::vector<Index> times;
  for (Index b = 0; b < columns; ++b) times.push_back(b * b % steps);  // repeated
  const Index row = columns * d + gap;
  std::vector<T> out(static_cast<std::size_t>(n * row), T(-1));
  const NodeView<T> view(out.data(), n, columns, d, row, d);
  embed_columns_forward<T>(exec, view, table.data(), steps, times);
  const auto at = [&](Index b, Index i, Index c) {
    return static_cast<std::size_t>((times[static_cast<std::size_t>(b)] * n + i) * d + c);
  };
  std::vector<T> sum(table);
  Index wrong = 0;
  for (Index i = 0; i < n; ++i) {
    for (Index b = 0; b < columns; ++b)
      for (Index c = 0; c < d; ++c) {
        wrong += view.at(i, b)[c] != table[at(b, i, c)];
        sum[at(b, i, c)] += table[at(b, i, c)];
      }
    for (Index k = columns * d; k < row; ++k) wrong += view.row(i)[k] != -1;
  }
  EXPECT_EQ(wrong, 0);
  std::vector<T> anew(table.size(), std::numeric_limits<T>::quiet_NaN());
  embed_columns_backward<T>(exec, table.data(), steps, view, times);
  EXPECT_EQ(table, sum);
  // Each step's first column starts its sum: previous values are not read.
  std::vector<Index> begins;
  for (std::size_t b = 0; b < times.size(); ++b)
    begins.push_back(std::find(times.begin(), times.begin() + b, times[b]) == times.begin() + b ? 1 : 0);
  embed_columns_backward<T>(exec, anew.data(), steps, view, times, begins);
  for (Index b = 0; b < columns; ++b)
    for (Index i = 0; i < n; ++i)
      for (Index c = 0; c < d; ++c) {
        T expected = 0;
        for (Index other = 0; other < columns; ++other)
          if (times[static_cast<std::size_t>(other)] == times[static_cast<std::size_t>(b)])
            expected += view.at(i, other)[c];
        wrong += anew[at(b, i, c)] != expected;
      }
  EXPECT_EQ(wrong, 0);
}

template <class T>
void check_columns_of_every_width() {
  for (const Isa isa : supported_isas_of<T>())
    for (const Index n : {1, 15, 16, 33, 67})
      for (const Index columns : {1, 2, 3, 4, 7, 8, 9, 15, 16})
        for (const Index d : {1, 2, 3, 4, 8, 16})
          for (const Index gap : {0, 3}) check_columns<T>({Backend::cpu, 1, isa}, n, columns, d, gap);
}

TEST(VectorRuns, ColumnsOfEveryWidth) {
  check_columns_of_every_width<float>();
  check_columns_of_every_width<double>();
}

TEST(VectorRuns, OneGradientMayBeBothOfADifference) {
  for (const Isa isa : supported_isas()) {
    for (const bool add : {true, false}) {
      std::vector<float> a(37, 3), b(37, 1), d(37, 5);
      const NodeView<float> gradient(d.data(), 37, 1, 1);
      double sum = 1;
      squared_difference_gradients<float>({Backend::cpu, 1, isa}, {gradient, add}, {gradient, true},
                                          {a.data(), 37, 1, 1}, {b.data(), 37, 1, 1}, 0.5, &sum);
      EXPECT_EQ(d, std::vector<float>(37, add ? 5 : 0));
      EXPECT_EQ(sum, 1 + 37 * 4);
    }
  }
}

TEST(VectorRuns, MissingTargetsAndBadPredictionsInEveryLane) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : supported_isas())
    for (std::size_t at = 0; at < 37; ++at) {
      const Exec exec{Backend::cpu, 1, isa};
      std::vector<float> p(37, 2), x(37, 1), d(37, 0);
      p[at] = nan;
      const NodeView<const float> prediction(p.data(), 37, 1, 1), target(x.data(), 37, 1, 1);
      for (const MaskedError kind : {MaskedError::squared, MaskedError::absolute}) {
        x[at] = 1;
        EXPECT_TRUE(std::isnan(
            sum_of(exec, [&](double* sum) { masked_error_sum(exec, kind, prediction, target, sum); })));
        x[at] = nan;
        EXPECT_EQ(sum_of(exec, [&](double* sum) { masked_error_sum(exec, kind, prediction, target, sum); }),
                  36);
        std::fill(d.begin(), d.end(), 0.0F);
        masked_error_backward(exec, kind, {d.data(), 37, 1, 1}, prediction, target, 0.5);
        for (std::size_t k = 0; k < 37; ++k)
          EXPECT_EQ(d[k], k == at ? 0.0F : kind == MaskedError::squared ? 1.0F : 0.5F);
      }
      EXPECT_EQ(first_non_finite<float>(exec, p), static_cast<Index>(at));
    }
}

}  // namespace
}  // namespace rossby::test
