#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/relate_dense.hpp"

// A dense relation with inputs and outputs, shared by the tests of its kernels.

namespace rossby::dense_problem {

struct Shape {
  Index rows, columns;
  int relations;
  Index cols, d, w;
};

enum class Weights { given, clamped, patterned };

template <class T>
std::vector<T> random_values(Index size, const char* stream, double low = -1, double high = 1) {
  std::vector<T> values(static_cast<std::size_t>(size));
  const Random random(7, stream);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.uniform(i, low, high));
  return values;
}

/// Inputs and outputs of one forward and backward pass. Outputs start at 0.25 and have sentinels around them.
template <class T>
struct Problem {
  static constexpr Index guard = 5;
  Shape s;
  std::vector<T> weight, a, z, delta, context;
  std::vector<std::uint8_t> pattern;
  std::vector<Bf16> bf16;
  std::vector<T> h, dz, da, dm;
  double weight_sum = 0;
  DenseRelate<T> relate;

  Problem(const Shape& shape, Weights kind) : s(shape) {
    const Index entries = s.relations * s.rows * s.columns;
    weight = random_values<T>(entries, "weight", -0.3, 1.3);
    for (std::size_t e = 0; e < weight.size(); e += 11) weight[e] = T(e % 2);  // exactly 0 and exactly 1
    a = random_values<T>(s.w * s.relations * s.d, "a");
    z = random_values<T>(s.columns * s.cols * s.d, "z");
    delta = random_values<T>(s.rows * s.cols * s.w, "delta");
    context.resize(static_cast<std::size_t>(s.relations * s.rows * s.cols * s.d));
    if (kind == Weights::patterned)
      for (Index e = 0; e < entries; ++e) pattern.push_back(e % 3 != 0);
    const auto output = [](std::size_t size) {
      std::vector<T> values(size + 2 * guard, T(0.25));
      std::fill_n(values.begin(), guard, T(1234.5));
      std::fill_n(values.end() - guard, guard, T(1234.5));
      return values;
    };
    h = output(delta.size());
    dz = output(z.size());
    da = output(a.size());
    dm = output(weight.size());
    relate = {s.rows,
              s.columns,
              s.relations,
              weight.data(),
              pattern.empty() ? nullptr : pattern.data(),
              kind != Weights::given,
              {a.data(), s.w, s.relations * s.d},
              context.data(),
              &weight_sum};
  }
  /// Rounds weights to values that bf16 holds exactly. Some of them are 0 and 1.
  void round_weights() {
    for (T& value : weight) value = static_cast<T>(widen(round_nearest(static_cast<float>(value))));
  }
  /// Holds W in bf16 and empties `weight`.
  void hold_in_bf16() {
    for (const T value : weight) bf16.push_back(round_nearest(static_cast<float>(value)));
    weight.clear();
    relate.weight = nullptr;
    relate.bf16 = bf16.data();
  }

  [[nodiscard]] NodeView<const T> z_view() const { return {z.data(), s.columns, s.cols, s.d}; }
  [[nodiscard]] NodeView<const T> delta_view() const { return {delta.data(), s.rows, s.cols, s.w}; }

  void run(const Exec& exec, DenseGradient<T> sink) {
    std::vector<T> workspace(static_cast<std::size_t>(relate_dense_workspace(exec, relate, s.cols, s.w)),
                             T(NAN));
    relate_dense_forward<T>(exec, {h.data() + guard, s.rows, s.cols, s.w}, relate, z_view(), workspace);
    relate_dense_backward<T>(exec, {dz.data() + guard, s.columns, s.cols, s.d},
                             {da.data() + guard, s.w, s.relations * s.d}, sink, relate, delta_view(),
                             z_view(), workspace);
  }
  void run(const Exec& exec) { run(exec, dm.data() + guard); }
};

template <class T, class Truth>
void expect_near(const std::vector<T>& values, const std::vector<Truth>& truth, double tolerance,
                 const char* what) {
  ASSERT_EQ(values.size(), truth.size());
  double scale = 1;
  for (const Truth x : truth)
    if (x != Truth(1234.5)) scale = std::max(scale, std::abs(static_cast<double>(x)));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], truth[i], truth[i] == Truth(1234.5) ? 0 : tolerance * scale) << what << " " << i;
}

template <class T>
void expect_near(const Problem<T>& problem, const Problem<double>& truth, double tolerance) {
  expect_near(problem.h, truth.h, tolerance, "h");
  expect_near(problem.context, truth.context, tolerance, "context");
  expect_near(problem.dz, truth.dz, tolerance, "dz");
  expect_near(problem.da, truth.da, tolerance, "da");
  expect_near(problem.dm, truth.dm, tolerance, "dm");
  EXPECT_NEAR(problem.weight_sum, truth.weight_sum, tolerance * (1 + std::abs(truth.weight_sum)));
}

template <class T>
void expect_equal(const Problem<T>& x, const Problem<T>& y) {
  EXPECT_EQ(x.h, y.h);
  EXPECT_EQ(x.dz, y.dz);
  EXPECT_EQ(x.da, y.da);
  EXPECT_EQ(x.dm, y.dm);
  EXPECT_EQ(x.weight_sum, y.weight_sum);
}

}  // namespace rossby::dense_problem
