#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/bf16.hpp"
#include "tests/lib/kernels/dense_problem.hpp"

// Values in bf16: rounding, and dense relations that store W and its moments in bf16, against the same in
// float and double.

namespace rossby {
namespace {

using namespace dense_problem;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// One unit in the last place of a value in bf16.
double ulp(double value) {
  return std::ldexp(1.0, std::max(std::ilogb(std::max(std::abs(value), 1e-38)), -126) - 7);
}

TEST(Bf16, EveryValueRoundsToItself) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    const float wide = widen(value);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(widen(round_stochastic(wide, 0xFFFF)))) << bits;
      continue;
    }
    ASSERT_EQ(round_nearest(wide), value);
    ASSERT_EQ(round_stochastic(wide, 0), value);
    ASSERT_EQ(round_stochastic(wide, 0xFFFF), value);
  }
}

TEST(Bf16, NearestTiesToEven) {
  EXPECT_EQ(widen(round_nearest(1.0F + 0x1p-8F)), 1.0F);
  EXPECT_EQ(widen(round_nearest(1.0F + 3 * 0x1p-8F)), 1.0F + 2 * 0x1p-7F);
  EXPECT_EQ(widen(round_nearest(1.0F + 0x1p-8F + 0x1p-20F)), 1.0F + 0x1p-7F);
  EXPECT_EQ(widen(round_nearest(-1.0F - 0x1p-8F - 0x1p-20F)), -1.0F - 0x1p-7F);
  EXPECT_EQ(widen(round_nearest(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(std::isnan(widen(round_nearest(NAN))));
}

// Over rows, columns and updates, for each of the three values of an entry.
TEST(Bf16, StochasticRoundingHasNoBias) {
  constexpr int draws = 1 << 14;
  for (const double value : {1.0 + 0x1p-10, 0.3, -0.7001, 9.9e-5, -3e-20, 1 - 0x1p-9})
    for (int along = 0; along < 3; ++along) {
      double sums[3] = {};
      for (int i = 0; i < draws; ++i) {
        const StochasticRounding rounding{Random(3, "round").at(along == 0 ? 1 + i : 1).bits(0), 5};
        const RoundingBits random(rounding.row(0, along == 1 ? i : 2), along == 2 ? i : 3);
        const std::uint32_t bits[] = {random.theta, random.m, random.v};
        for (int q = 0; q < 3; ++q) {
          ASSERT_LT(bits[q], 0x10000U);
          sums[q] += widen(round_stochastic(static_cast<float>(value), bits[q]));
        }
      }
      for (const double sum : sums)  // the mean's deviation is at most half a unit over √draws
        EXPECT_NEAR(sum / draws, static_cast<float>(value), 4 * 0.5 * ulp(value) / std::sqrt(draws))
            << value << " along " << along;
    }
}

/// W and its moments in bf16, updated together.
struct Updated {
  Problem<float> problem;
  std::vector<Bf16> m, v;

  Updated(const Shape& shape, Weights kind, bool with_m) : problem(shape, kind) {
    problem.round_weights();
    problem.hold_in_bf16();
    m.assign(with_m ? problem.bf16.size() : 0, {});
    v.assign(problem.bf16.size(), {});
  }
  DenseUpdate<float> update(const AdamStep& step, bool decoupled, double l1, Index first_row = 0) {
    DenseUpdate<float> all;
    all.step = step;
    all.decoupled = decoupled;
    all.l1 = l1;
    all.bf16 = {problem.bf16.data(),
                m.empty() ? nullptr : m.data(),
                v.data(),
                {Random(1, "round").at(static_cast<std::uint64_t>(step.count)).bits(0), first_row}};
    return all;
  }
};

class Bf16Shapes : public testing::TestWithParam<Shape> {};

TEST_P(Bf16Shapes, ProductsEqualReference) {
  for (const Weights kind : {Weights::given, Weights::clamped, Weights::patterned}) {
    Problem<double> truth(GetParam(), kind);
    truth.round_weights();
    truth.run({Backend::reference, 1});
    Problem<float> reference(GetParam(), kind);
    reference.hold_in_bf16();
    reference.run({Backend::reference, 1});
    expect_near(reference, truth, 2e-5);
    for (const DenseProduct product : {DenseProduct::own, DenseProduct::blas})
      for (const Isa isa : supported_isas()) {
        SCOPED_TRACE(std::string(to_string(isa)) + " " + std::string(to_string(product)));
        Problem<float> one(GetParam(), kind), three(GetParam(), kind);
        for (Problem<float>* problem : {&one, &three}) {
          problem->hold_in_bf16();
          problem->relate.product = product;
        }
        one.run({Backend::cpu, 1, isa});
        expect_near(one, truth, 2e-5);
        three.run({Backend::cpu, 3, isa});
        expect_equal(three, one);
      }
  }
}

/// Every value is within a unit of the other (a step may differ by 2⁻¹³ of itself, which matters near zero).
/// If both use the same random bits, nearly all are equal.
void expect_rounded(const std::vector<Bf16>& values, const std::vector<Bf16>& others, const char* what) {
  ASSERT_EQ(values.size(), others.size());
  double different = 0;
  for (std::size_t e = 0; e < values.size(); ++e) {
    const double a = widen(values[e]), b = widen(others[e]);
    ASSERT_LE(std::abs(a - b), 1.001 * ulp(std::max(std::abs(a), std::abs(b))) + 4e-6) << what << " " << e;
    different += values[e] == others[e] ? 0 : 1;
  }
  EXPECT_LE(different, 2 + 0.02 * static_cast<double>(values.size())) << what;
}

// One step against the reference kernel with the same random bits, and against the update in float: the
// stored value is one of the two neighbours.
TEST_P(Bf16Shapes, UpdateIsTheRoundedUpdate) {
  const AdamStep step{3e-2, 0.9, 0.99, 1e-3, 1e-2, 0.5, 1};
  for (const Weights kind : {Weights::clamped, Weights::patterned})
    for (const bool with_m : {false, true})
      for (const bool decoupled : {false, true}) {
        AdamStep adam = step;
        if (!with_m) adam.beta1 = 0;
        Updated truth(GetParam(), kind, with_m);
        DenseUpdate<float> expected = truth.update(adam, decoupled, 0.02);
        truth.problem.run({Backend::reference, 1}, &expected);
        Problem<float> wide(GetParam(), kind);
        wide.round_weights();
        std::vector<float> m(truth.m.size()), v(truth.v.size());
        DenseUpdate<float> plain;
        plain.theta = wide.weight.data();
        plain.m = with_m ? m.data() : nullptr;
        plain.v = v.data();
        plain.step = adam;
        plain.decoupled = decoupled;
        plain.l1 = 0.02;
        wide.run({Backend::cpu, 1}, &plain);
        for (const DenseProduct product : {DenseProduct::own, DenseProduct::blas})
          for (const Isa isa : supported_isas()) {
            SCOPED_TRACE(std::string(to_string(isa)) + " " + std::string(to_string(product)) +
                         (with_m ? " m" : ""));
            Updated one(GetParam(), kind, with_m), three(GetParam(), kind, with_m);
            one.problem.relate.product = three.problem.relate.product = product;
            DenseUpdate<float> update = one.update(adam, decoupled, 0.02);
            one.problem.run({Backend::cpu, 1, isa}, &update);
            EXPECT_TRUE(update.applied);
            EXPECT_NEAR(update.squares, expected.squares, 1e-4 * (1 + expected.squares));
            expect_rounded(one.problem.bf16, truth.problem.bf16, "theta");
            expect_rounded(one.v, truth.v, "v");
            expect_rounded(one.m, truth.m, "m");
            expect_near(one.problem.dz, wide.dz, 2e-5, "dz");
            for (std::size_t e = 0; e < wide.weight.size(); ++e) {
              const double slack = 1e-5;
              ASSERT_NEAR(widen(one.problem.bf16[e]), wide.weight[e], ulp(wide.weight[e]) + slack) << e;
              ASSERT_NEAR(widen(one.v[e]), v[e], ulp(v[e]) + slack) << e;
            }
            update = three.update(adam, decoupled, 0.02);
            three.problem.run({Backend::cpu, 3, isa}, &update);
            EXPECT_EQ(three.problem.bf16, one.problem.bf16);
            EXPECT_EQ(three.v, one.v);
            EXPECT_EQ(three.m, one.m);
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Bf16Shapes,
                         testing::Values(Shape{0, 7, 1, 1, 2, 2}, Shape{7, 0, 1, 1, 2, 2},
                                         Shape{1, 1, 1, 1, 1, 1}, Shape{7, 33, 3, 1, 1, 1},
                                         Shape{50, 149, 1, 3, 1, 2}, Shape{33, 101, 3, 1, 5, 3},
                                         Shape{37, 257, 1, 1, 8, 8}, Shape{70, 150, 1, 8, 8, 8},
                                         Shape{65, 77, 3, 13, 5, 5}));

// Rows that another rank would own are rounded in the same way.
TEST(Bf16, RowBlocksHaveTheBitsOfTheWhole) {
  const Shape shape{11, 61, 2, 2, 3, 3};
  const AdamStep step{3e-2, 0.9, 0.99, 1e-3, 0, 1, 7};
  for (const DenseProduct product : {DenseProduct::own, DenseProduct::blas}) {
    Updated whole(shape, Weights::clamped, true);
    whole.problem.relate.product = product;
    const std::vector<Bf16> start = whole.problem.bf16;
    DenseUpdate<float> update = whole.update(step, false, 0);
    whole.problem.run({Backend::cpu, 1}, &update);
    for (const auto& [first, count] : {std::pair<Index, Index>{0, 4}, {4, 7}}) {
      Updated part({count, 61, 2, 2, 3, 3}, Weights::clamped, true);
      part.problem.relate.product = product;
      const auto rows_of = [&](const std::vector<Bf16>& from) {
        std::vector<Bf16> rows;
        for (Index k = 0; k < 2; ++k)
          rows.insert(rows.end(), from.begin() + (k * 11 + first) * 61,
                      from.begin() + (k * 11 + first + count) * 61);
        return rows;
      };
      part.problem.bf16 = rows_of(start);
      part.problem.relate.bf16 = part.problem.bf16.data();
      std::copy_n(whole.problem.delta.begin() + first * 6, count * 6, part.problem.delta.begin());
      update = part.update(step, false, 0, first);
      part.problem.run({Backend::cpu, 1}, &update);
      EXPECT_EQ(part.problem.bf16, rows_of(whole.problem.bf16));
      EXPECT_EQ(part.v, rows_of(whole.v));
      EXPECT_EQ(part.m, rows_of(whole.m));
    }
  }
}

/// Mean of values that are equal in float.
double mean(const std::vector<Bf16>& values) {
  double sum = 0;
  for (const Bf16 value : values) sum += widen(value);
  return sum / static_cast<double>(values.size());
}

// Both would stand still if rounded to nearest.
TEST(Bf16, SmallStepsArriveAndSecondMomentsDecay) {
  Updated updated({40, 50, 1, 1, 1, 1}, Weights::given, false);
  std::fill(updated.problem.bf16.begin(), updated.problem.bf16.end(), round_nearest(0.5F));
  std::fill(updated.v.begin(), updated.v.end(), round_nearest(4.0F));
  std::fill(updated.problem.delta.begin(), updated.problem.delta.end(), 0.0F);
  constexpr int steps = 1500;
  double expected = 0.5, v = 4;
  for (int t = 1; t <= steps; ++t) {
    const AdamStep step{1e-4, 0, 0.999, 1, 0, 1, t};
    DenseUpdate<float> update = updated.update(step, false, 0.5);
    updated.problem.run({Backend::cpu, 1}, &update);
    v = 0.999 * v + 0.001 * 0.25;
    expected -= 1e-4 * 0.5 / (std::sqrt(v / (1 - std::pow(0.999, t))) + 1);
  }
  EXPECT_LT(v, 1.2);
  EXPECT_LT(expected, 0.49);
  EXPECT_NEAR(mean(updated.v), v, 0.01 * v);
  EXPECT_NEAR(mean(updated.problem.bf16), expected, 2e-3);
}

// Postponed updates: one after the other in float, then one rounding.
TEST(Bf16, ReplayRoundsOnce) {
  constexpr Index relations = 2, rows = 9, columns = 613;
  const std::size_t size = relations * rows * columns;
  for (const bool with_m : {false, true}) {
    std::vector<Bf16> theta, m, v;
    std::vector<float> wide_theta, wide_m, wide_v;
    for (std::size_t e = 0; e < size; ++e) {
      const Random random(5, "values");
      theta.push_back(round_nearest(static_cast<float>(random.uniform(e))));
      v.push_back(round_nearest(static_cast<float>(random.at(1).uniform(e))));
      if (with_m) m.push_back(round_nearest(static_cast<float>(random.at(2).uniform(e, -1, 1))));
    }
    for (const Bf16 x : theta) wide_theta.push_back(widen(x));
    for (const Bf16 x : m) wide_m.push_back(widen(x));
    for (const Bf16 x : v) wide_v.push_back(widen(x));
    std::vector<AdamConstants<float>> steps;
    for (Index t = 3; t < 8; ++t)
      steps.push_back(adam_constants<float>({1e-2, with_m ? 0.9 : 0, 0.999, 1e-9, 1e-3, 1, t}, false));
    adam_replay<float>({}, wide_theta, wide_m, wide_v, {}, steps);
    const auto replayed = [&](const Exec& exec, Index first, Index count) {
      std::vector<Bf16> t = theta, f = m, s = v;
      const Bf16Arrays arrays{t.data() + first * columns,
                              with_m ? f.data() + first * columns : nullptr,
                              s.data() + first * columns,
                              {77, first}};
      adam_replay_bf16(exec, arrays, first == 0 && count == rows ? relations : 1, count, columns, steps);
      t.insert(t.end(), f.begin(), f.end());
      t.insert(t.end(), s.begin(), s.end());
      return t;
    };
    const auto all = replayed({Backend::cpu, 1}, 0, rows);
    EXPECT_EQ(replayed({Backend::cpu, 3}, 0, rows), all);
    for (std::size_t e = 0; e < size; ++e) {
      const auto i = static_cast<Index>(e);
      const std::uint32_t row = StochasticRounding{77, 0}.row(i / columns / rows, i / columns % rows);
      const RoundingBits random(row, i % columns);
      ASSERT_EQ(all[e], round_stochastic(wide_theta[e], random.theta)) << e;
      ASSERT_EQ(all[all.size() - size + e], round_stochastic(wide_v[e], random.v)) << e;
      if (with_m) {
        ASSERT_EQ(all[size + e], round_stochastic(wide_m[e], random.m)) << e;
      }
    }
    const auto part = replayed({Backend::cpu, 1}, 3, 4);  // rows 3 to 6 of relation 0
    EXPECT_TRUE(
        std::equal(part.begin() + 3 * columns, part.begin() + 7 * columns, all.begin() + 3 * columns));
    EXPECT_NE(part, all);
  }
}

TEST(Bf16, NotANumberStaysOne) {
  Updated updated({3, 40, 1, 1, 1, 1}, Weights::given, true);
  updated.problem.z[7] = std::bit_cast<float>(0x7FFFFFFFU);
  DenseUpdate<float> update = updated.update({1e-3, 0.9, 0.999, 1e-9, 0, 1, 1}, false, 0);
  updated.problem.run({Backend::cpu, 1}, &update);
  for (std::size_t e = 0; e < updated.v.size(); ++e)
    for (const std::vector<Bf16>* values : {&updated.problem.bf16, &updated.m, &updated.v})
      EXPECT_EQ(std::isnan(widen((*values)[e])), e % 40 == 7) << e;
}

}  // namespace
}  // namespace rossby
