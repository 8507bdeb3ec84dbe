#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/cpu/simd/tall.hpp"

// Products of tall matrices, on every instruction set of this machine, against plain loops in double: sizes
// around those of tiles, panels and the packed part of b, both layouts of both operands, sums and results,
// sentinels around rows of c. Entries do not depend on the number of rows.

namespace rossby {
namespace {

using cpu::Strided;

template <class T>
struct TallProblem {
  Index m, n, k;
  bool a_transposed, b_transposed, add;
  std::vector<T> a, b, c;
  Index stride;

  TallProblem(Index rows, Index cols, Index inner, int layout)
      : m(rows),
        n(cols),
        k(inner),
        a_transposed(layout & 1),
        b_transposed(layout & 2),
        add(layout & 4),
        a(static_cast<std::size_t>(m * k)),
        b(static_cast<std::size_t>(k * n)),
        stride(n + 3) {
    const Random random(3, "tall");
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(random.normal(i));
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(random.at(1).normal(i));
    c.assign(static_cast<std::size_t>(m * stride), T(0.5));
    if (!add)
      for (Index i = 0; i < m; ++i)
        for (Index j = 0; j < n; ++j) c[static_cast<std::size_t>(i * stride + j)] = T(NAN);
  }
  [[nodiscard]] Strided<T> left() const {
    return a_transposed ? Strided<T>{a.data(), 1, m} : Strided<T>{a.data(), k, 1};
  }
  [[nodiscard]] Strided<T> right() const {
    return b_transposed ? Strided<T>{b.data(), 1, k} : Strided<T>{b.data(), n, 1};
  }
};

template <class T>
void check(Isa isa, Index m, Index n, Index k, int layout) {
  TallProblem<T> p(m, n, k, layout);
  cpu::kernels_of<cpu::TallKernels, T>(isa).multiply(m, n, k, p.left(), p.right(), p.c.data(), p.stride,
                                                     p.add);
  const double allowed = (sizeof(T) == 4 ? 1e-6 : 1e-15) * std::sqrt(static_cast<double>(k) + 1) * 4;
  const Strided<T> a = p.left(), b = p.right();
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      double sum = p.add ? 0.5 : 0, size = 1;
      for (Index q = 0; q < k; ++q) {
        const double x = static_cast<double>(a.data[i * a.row_stride + q * a.col_stride]) *
                         static_cast<double>(b.data[q * b.row_stride + j * b.col_stride]);
        sum += x;
        size += std::abs(x);
      }
      const auto found = static_cast<double>(p.c[static_cast<std::size_t>(i * p.stride + j)]);
      ASSERT_LE(std::abs(found - sum), allowed * size) << i << ", " << j;
    }
    for (Index j = n; j < p.stride; ++j)
      ASSERT_EQ(p.c[static_cast<std::size_t>(i * p.stride + j)], T(0.5)) << "behind row " << i;
  }
}

/// All scalar types for which the set has kernels.
void check_scalars(Isa isa, Index m, Index n, Index k, int layout) {
  check<float>(isa, m, n, k, layout);
  if (isa_of<double>(isa) == isa) check<double>(isa, m, n, k, layout);
}

class Tall : public testing::TestWithParam<Isa> {};

TEST_P(Tall, EqualsPlainLoops) {
  for (const Index m : {1, 5, 12, 19, 131})
    for (const Index n : {1, 16, 31, 32, 33, 97})
      for (const Index k : {1, 7, 64, 333})
        for (int layout = 0; layout < 8; ++layout) {
          SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                       ", layout " + std::to_string(layout));
          check_scalars(GetParam(), m, n, k, layout);
          if (HasFatalFailure()) return;
        }
}

TEST_P(Tall, PartsOfBThatAreNotPackedAtOnce) {
  for (const auto& [n, k] : {std::pair<Index, Index>{1200, 40}, {700, 300}, {40, 3000}})
    for (const int layout : {0, 3, 6}) {
      SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k));
      check_scalars(GetParam(), 26, n, k, layout);
      if (HasFatalFailure()) return;
    }
}

TEST_P(Tall, NothingToMultiplyLeavesOrClears) {
  check<float>(GetParam(), 5, 40, 0, 4);
  check<float>(GetParam(), 0, 40, 3, 0);
  check<float>(GetParam(), 5, 0, 3, 0);
}

TEST_P(Tall, RowsDoNotDependOnTheirNumber) {
  constexpr Index n = 72, k = 150, m = 40;
  TallProblem<float> all(m, n, k, 0);
  const auto& kernels = cpu::kernels_of<cpu::TallKernels, float>(GetParam());
  kernels.multiply(m, n, k, all.left(), all.right(), all.c.data(), all.stride, false);
  for (Index i = 0; i < m; ++i) {
    std::vector<float> row(n);
    kernels.multiply(1, n, k, {all.a.data() + i * k, k, 1}, all.right(), row.data(), n, false);
    for (Index j = 0; j < n; ++j)
      ASSERT_EQ(row[static_cast<std::size_t>(j)], all.c[static_cast<std::size_t>(i * all.stride + j)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Tall, testing::ValuesIn(supported_isas()),
                         [](const auto& set) { return std::string(to_string(set.param)); });

}  // namespace
}  // namespace rossby
