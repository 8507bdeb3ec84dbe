#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/bf16.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/cpu/simd/bf16_product.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/product.hpp"

// Products of floats rounded to bf16, against sums of the rounded operands in double. Sentinels surround the
// rows of c. All instruction sets give the same bits. The last tests check which products of the CPU back end
// round.

namespace rossby {
namespace {

using cpu::Strided;

struct Set {
  std::string name;
  const cpu::Bf16Products* products;
  bool fused;  // fused multiply-add
};

std::vector<Set> sets() {
  std::vector<Set> list;
  for (const Isa isa : supported_isas())
    list.push_back({std::string(to_string(isa)), &cpu::bf16_products(isa, true), isa != Isa::portable});
  if (has_bf16_products()) list.push_back({"instructions", &cpu::bf16_products(Isa::avx512), true});
  return list;
}

float rounded(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : widen(round_nearest(value));
}

struct Problem {
  Index m, n, k, stride;
  bool a_transposed, b_transposed, add;
  std::vector<float> a, b, c;

  /// Fills the operands by `value(index)`.
  template <class Value>
  Problem(Index rows, Index cols, Index inner, int layout, const Value& value)
      : m(rows),
        n(cols),
        k(inner),
        stride(n + 3),
        a_transposed(layout & 1),
        b_transposed(layout & 2),
        add(layout & 4),
        c(static_cast<std::size_t>(m * stride), 0.5F) {
    std::uint64_t index = 0;
    for (Index i = 0; i < m * k; ++i) a.push_back(value(index++));
    for (Index i = 0; i < k * n; ++i) b.push_back(value(index++));
    for (Index i = 0; i < m; ++i)
      for (Index j = 0; j < n; ++j) at(c, i, j) = add ? value(index++) : NAN;
  }
  template <class Values>
  [[nodiscard]] auto& at(Values& values, Index i, Index j) const {
    return values[static_cast<std::size_t>(i * stride + j)];
  }
  [[nodiscard]] Strided<float> left() const {
    return a_transposed ? Strided<float>{a.data(), 1, m} : Strided<float>{a.data(), k, 1};
  }
  [[nodiscard]] Strided<float> right() const {
    return b_transposed ? Strided<float>{b.data(), 1, k} : Strided<float>{b.data(), n, 1};
  }
  [[nodiscard]] std::vector<float> by(const cpu::Bf16Products& products) const {
    std::vector<float> result = c;
    products.multiply(m, n, k, left(), right(), result.data(), stride, add);
    return result;
  }
};

float usual(std::uint64_t index) {
  static const Random random(3, "bf16 products");
  return static_cast<float>(random.normal(index));
}

/// Any bit pattern: infinities, NaN and subnormal numbers too.
float any_bits(std::uint64_t index) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(Random(4, "bits").bits(index)));
}

/// Values whose products lie around the smallest normal number.
float tiny(std::uint64_t index) {
  const int exponent = static_cast<int>(Random(5, "exponents").bits(index) % 60) - 93;
  return std::ldexp(usual(index), exponent);
}

/// Compares all instruction sets with sums in double.
void check(const Problem& p) {
  std::vector<float> a = p.a, b = p.b;
  for (std::vector<float>* operand : {&a, &b})
    for (float& value : *operand) value = rounded(value);
  const Index a_row = p.left().row_stride, a_col = p.left().col_stride, b_row = p.right().row_stride,
              b_col = p.right().col_stride;
  std::vector<double> sums, sizes;
  for (Index i = 0; i < p.m; ++i)
    for (Index j = 0; j < p.n; ++j) {
      double sum = p.add ? p.c[static_cast<std::size_t>(i * p.stride + j)] : 0.0, size = std::abs(sum);
      for (Index q = 0; q < p.k; ++q) {
        const double x = double{a.data()[i * a_row + q * a_col]} * b.data()[q * b_row + j * b_col];
        sum += x;
        size += std::abs(x);
      }
      sums.push_back(sum);
      sizes.push_back(size);
    }
  const double allowed = 1e-6 * std::sqrt(static_cast<double>(p.k) + 1) * 4;
  for (const Set& set : sets()) {
    const std::vector<float> found = p.by(*set.products);
    for (Index i = 0; i < p.m; ++i) {
      for (Index j = 0; j < p.n; ++j) {
        const auto at = static_cast<std::size_t>(i * p.n + j);
        ASSERT_LE(std::abs(p.at(found, i, j) - sums[at]), allowed * sizes[at])
            << set.name << " " << i << ", " << j;
      }
      for (Index j = p.n; j < p.stride; ++j)
        ASSERT_EQ(p.at(found, i, j), 0.5F) << set.name << " behind row " << i;
    }
  }
}

TEST(Bf16Product, EqualsSumsOfRoundedOperands) {
  for (const Index m : {1, 5, 12, 19, 65})
    for (const Index n : {1, 16, 31, 32, 33, 97})
      for (const Index k : {1, 2, 7, 64, 333})
        for (int layout = 0; layout < 8; ++layout) {
          SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k) +
                       ", layout " + std::to_string(layout));
          check(Problem(m, n, k, layout, usual));
          if (HasFatalFailure()) return;
        }
}

TEST(Bf16Product, PartsOfBThatAreNotPackedAtOnce) {
  for (const auto& [n, k] : {std::pair<Index, Index>{1200, 41}, {700, 301}, {40, 3001}})
    for (const int layout : {0, 3, 5, 6}) {
      SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k));
      check(Problem(13, n, k, layout, usual));
      if (HasFatalFailure()) return;
    }
}

TEST(Bf16Product, NothingToMultiplyLeavesOrClears) {
  check(Problem(5, 40, 0, 4, usual));
  check(Problem(5, 40, 0, 0, usual));
  check(Problem(0, 40, 3, 0, usual));
  check(Problem(5, 0, 3, 0, usual));
}

/// Compares two results bit by bit; any NaN equals any other.
void expect_same(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  Index different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    different += std::isnan(a[i]) ? !std::isnan(b[i])
                                  : std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i]);
  EXPECT_EQ(different, 0) << what;
}

TEST(Bf16Product, AllSetsGiveTheSameBits) {
  const std::vector<Set> all = sets();
  for (const auto& [m, n, k] : {std::array<Index, 3>{40, 72, 301}, {13, 340, 1000}, {65, 33, 2}})
    for (const int layout : {0, 1, 2, 7}) {
      const Problem moderate(m, n, k, layout, usual);
      for (const Set& set : all)
        expect_same(moderate.by(*all[0].products), moderate.by(*set.products), set.name);
      const Problem bits(m, n, k > 2 ? 8 : k, layout, any_bits), small(m, n, k, layout, tiny);
      for (const Problem* p : {&bits, &small}) {
        const std::vector<float> truth = p->by(*all.back().products);
        if (p == &bits) {
          EXPECT_TRUE(std::any_of(truth.begin(), truth.end(), [](float x) { return std::isfinite(x); }));
          EXPECT_TRUE(std::any_of(truth.begin(), truth.end(), [](float x) { return !std::isfinite(x); }));
        }
        for (const Set& set : all)
          if (set.fused) expect_same(truth, p->by(*set.products), set.name + " of odd numbers");
      }
    }
}

/// Without fused multiply-add, subnormal products are lost; each is below 2⁻¹²⁶.
TEST(Bf16Product, PortableLosesSubnormalProductsAlone) {
  const std::vector<Set> all = sets();
  const Problem p(13, 33, 301, 0, tiny);
  const std::vector<float> truth = p.by(*all.back().products), found = p.by(*all[0].products);
  for (std::size_t i = 0; i < truth.size(); ++i)
    ASSERT_LE(std::abs(truth[i] - found[i]), 301 * 0x1p-126F + 1e-5F * std::abs(truth[i]));
}

TEST(Bf16Product, NotANumberAndInfinityPassThrough) {
  for (const Set& set : sets())
    for (const float odd : {NAN, INFINITY, -INFINITY, std::bit_cast<float>(0x7F800001U)}) {
      Problem p(14, 40, 9, 0, usual);
      p.a[3 * 9 + 8] = odd;
      const std::vector<float> found = p.by(*set.products);
      for (Index i = 0; i < p.m; ++i)
        for (Index j = 0; j < p.n; ++j) {
          const float value = found[static_cast<std::size_t>(i * p.stride + j)];
          if (i != 3)
            ASSERT_TRUE(std::isfinite(value)) << set.name;
          else if (std::isnan(odd))
            ASSERT_TRUE(std::isnan(value)) << set.name;
          else
            ASSERT_TRUE(std::isinf(value)) << set.name;
        }
    }
}

TEST(Bf16Product, RowsDoNotDependOnTheirNumber) {
  for (const Set& set : sets()) {
    const Problem all(40, 72, 151, 0, usual);
    const std::vector<float> found = all.by(*set.products);
    for (Index i = 0; i < all.m; ++i) {
      std::vector<float> row(72);
      set.products->multiply(1, 72, 151, {all.a.data() + i * 151, 151, 1}, all.right(), row.data(), 72,
                             false);
      for (Index j = 0; j < all.n; ++j)
        ASSERT_EQ(row[static_cast<std::size_t>(j)], found[static_cast<std::size_t>(i * all.stride + j)]);
    }
  }
}

/// y, dx and dW of a layer. Floats hold the products of its rounded operands exactly.
template <class T>
std::vector<T> layer(const Exec& exec, Index m, Index in, Index out, bool round) {
  std::uint64_t index = 0;
  const auto values = [&](Index size) {
    std::vector<T> list;
    for (Index i = 0; i < size; ++i) {
      const float value = usual(index++);
      list.push_back(static_cast<T>(round ? rounded(value) : value));
    }
    return list;
  };
  const std::vector<T> x = values(m * in), w = values(out * in), dy = values(m * out);
  std::vector<T> y(static_cast<std::size_t>(m * out)), dx(static_cast<std::size_t>(m * in)),
      dw(static_cast<std::size_t>(out * in)), bias(static_cast<std::size_t>(out), T(0.25)),
      scratch(static_cast<std::size_t>(linear_scratch_size(m, out, in)));
  const MatrixView<const T> weight(w.data(), out, in), delta(dy.data(), m, out), from(x.data(), m, in);
  linear_forward<T>(exec, {y.data(), m, out}, from, weight, bias.data(), false);
  linear_backward_input<T>(exec, {dx.data(), m, in}, delta, weight);
  linear_backward_weight<T>(exec, {dw.data(), out, in}, delta, from, scratch);
  std::vector<T> all = y;
  all.insert(all.end(), dx.begin(), dx.end());
  all.insert(all.end(), dw.begin(), dw.end());
  return all;
}

TEST(Bf16Product, LayersRoundByTheirWidth) {
  const Exec model{Backend::cpu, 1};
  Exec bf16 = model, two = model;
  bf16.products = two.products = Products::bf16;
  two.threads = 2;
  struct Layer {
    Index m, in, out;
    bool rounds;
  };
  for (const Layer& l : {Layer{1, 128, 64, true},
                         {3, 33, 32, true},
                         {70, 328, 131, true},
                         {1100, 66, 96, true},
                         {30, 520, 523, true},
                         {300, 32, 32, true},
                         {40, 16, 64, true},
                         {2000, 8, 9, false},
                         {700, 8, 300, false},
                         {300, 16, 63, false},
                         {700, 2, 640, false},
                         {700, 640, 4, false}}) {
    SCOPED_TRACE(std::to_string(l.m) + " x " + std::to_string(l.in) + " x " + std::to_string(l.out));
    const std::vector<float> found = layer<float>(bf16, l.m, l.in, l.out, false);
    expect_same(found, layer<float>(two, l.m, l.in, l.out, false), "two threads");
    if (!l.rounds) {
      expect_same(found, layer<float>(model, l.m, l.in, l.out, false), "not rounded");
      continue;
    }
    const std::vector<double> truth = layer<double>(model, l.m, l.in, l.out, true);
    const double size = std::sqrt(static_cast<double>(std::max(l.m, std::max(l.in, l.out))));
    for (std::size_t i = 0; i < truth.size(); ++i)
      ASSERT_NEAR(found[i], truth[i], 2e-6 * size * (5 + size)) << i;
    // Compared with unrounded operands, the result shows rounding, but no more than that of bf16.
    const std::vector<double> exact = layer<double>(model, l.m, l.in, l.out, false);
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < truth.size(); ++i) {
      error += (found[i] - exact[i]) * (found[i] - exact[i]);
      norm += exact[i] * exact[i];
    }
    EXPECT_GT(std::sqrt(error / norm), 1e-3);
    EXPECT_LT(std::sqrt(error / norm), 0x1p-8);
  }
  // Doubles are never rounded.
  EXPECT_EQ(layer<double>(bf16, 70, 128, 64, false), layer<double>(model, 70, 128, 64, false));
}

TEST(Bf16Product, ProductsOfMatricesRoundIfAllSizesAreWide) {
  for (const Index inner : {31, 32, 207})
    for (const bool flip : {false, true}) {
      constexpr Index rows = 300, cols = 2100;
      std::vector<float> a, b, got(rows * cols, 1.0F), truth = got;
      for (Index i = 0; i < rows * inner; ++i) a.push_back(usual(static_cast<std::uint64_t>(i)));
      for (Index i = 0; i < inner * cols; ++i) b.push_back(usual(static_cast<std::uint64_t>(i + 7)));
      const auto view = [&](const std::vector<float>& v, Index r, Index c) {
        return flip ? MatrixView<const float>(v.data(), c, r) : MatrixView<const float>(v.data(), r, c);
      };
      const auto multiply = [&](Products products, std::vector<float>& to) {
        Exec exec{Backend::cpu, 2};
        exec.products = products;
        const Operand op = flip ? Operand::transposed : Operand::plain;
        matrix_product<float>(exec, {to.data(), rows, cols}, op, view(a, rows, inner), op,
                              view(b, inner, cols), true);
      };
      multiply(Products::bf16, got);
      if (inner >= 32)
        for (std::vector<float>* operand : {&a, &b})
          for (float& value : *operand) value = rounded(value);
      multiply(Products::model, truth);
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], truth[i], 1e-4) << inner;
    }
}

}  // namespace
}  // namespace rossby
