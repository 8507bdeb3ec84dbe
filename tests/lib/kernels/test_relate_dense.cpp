#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/dense_choice.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/kernels/relate_dense.hpp"

// Dense relations against the reference, for every instruction set, both products, odd sizes; the fused
// update against backward into a buffer and an update after it.

namespace rossby {
namespace {

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

/// Inputs and outputs of one forward and backward; outputs start at 0.25, with sentinels around them.
template <class T>
struct Problem {
  static constexpr Index guard = 5;
  Shape s;
  std::vector<T> weight, a, z, delta, context;
  std::vector<std::uint8_t> pattern;
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
  [[nodiscard]] NodeView<const T> z_view() const { return {z.data(), s.columns, s.cols, s.d}; }
  [[nodiscard]] NodeView<const T> delta_view() const { return {delta.data(), s.rows, s.cols, s.w}; }

  void run(const Exec& exec, DenseGradient<T> sink) {
    std::vector<T> workspace(static_cast<std::size_t>(relate_dense_workspace(relate, s.cols, s.w)), T(NAN));
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

template <class T>
void check_against_reference(const Shape& shape, double tolerance) {
  for (const Weights kind : {Weights::given, Weights::clamped, Weights::patterned}) {
    Problem<double> truth(shape, kind);
    truth.run({Backend::reference, 1});
    for (const DenseProduct product : {DenseProduct::own, DenseProduct::blas})
      for (const Isa isa : supported_isas()) {
        SCOPED_TRACE(std::string(to_string(isa)) + " " + std::string(to_string(product)) + " kind " +
                     std::to_string(static_cast<int>(kind)));
        Problem<T> one(shape, kind), three(shape, kind), remade(shape, kind);
        for (Problem<T>* problem : {&one, &three, &remade}) problem->relate.product = product;
        one.run({Backend::cpu, 1, isa});
        expect_near(one, truth, tolerance);
        three.run({Backend::cpu, 3, isa});
        expect_equal(three, one);
        remade.relate.context = nullptr;  // backward makes W z itself
        remade.run({Backend::cpu, 1, isa});
        expect_equal(remade, one);
      }
  }
}

class DenseShapes : public testing::TestWithParam<Shape> {};

TEST_P(DenseShapes, DoubleEqualsReference) {
  check_against_reference<double>(GetParam(), 1e-13);
}
TEST_P(DenseShapes, FloatEqualsReference) {
  check_against_reference<float>(GetParam(), 2e-5);
}

/// Several steps of both: the fused update, and backward into a buffer with everything after it.
template <class T>
void check_fused(const Shape& shape, Weights kind, double beta1, bool decoupled, double l1, const Exec& exec,
                 DenseProduct product, double tolerance) {
  Problem<T> fused(shape, kind), plain(shape, kind);
  fused.relate.product = plain.relate.product = product;
  const std::size_t size = fused.weight.size();
  std::vector<T> m[2], v[2];
  for (int q : {0, 1}) {
    m[q].assign(beta1 == 0 ? 0 : size, T(0));
    v[q].assign(size, T(0));
  }
  for (Index step = 1; step <= 4; ++step) {
    const AdamStep adam{3e-2, beta1, 0.99, 1e-9, 1e-2, 0.5, step};
    DenseUpdate<T> update;
    update.theta = fused.weight.data();
    update.m = m[0].empty() ? nullptr : m[0].data();
    update.v = v[0].data();
    update.step = adam;
    update.decoupled = decoupled;
    update.l1 = l1;
    fused.run(exec, &update);
    EXPECT_TRUE(update.applied);

    std::fill(plain.dm.begin(), plain.dm.end(), T(0));
    plain.run(exec);
    const std::span<T> dm(plain.dm.data() + Problem<T>::guard, size);
    clamp_l1_backward<T>(exec, dm, plain.weight, l1);
    const double squares = sum_of_squares<T>(exec, dm);
    EXPECT_NEAR(update.squares, squares, tolerance * (1 + squares));
    const auto apply = decoupled ? adamw_update<T> : adam_update<T>;
    apply(exec, plain.weight, m[1], v[1], dm, adam);
    expect_near(fused.weight, plain.weight, tolerance, "theta");
  }
  expect_near(v[0], v[1], tolerance, "v");
  expect_near(m[0], m[1], tolerance, "m");
  expect_near(fused.dz, plain.dz, tolerance, "dz");
  EXPECT_EQ(fused.dm, Problem<T>(shape, kind).dm);
}

TEST_P(DenseShapes, FusedUpdateEqualsBackwardAndUpdate) {
  for (const Isa isa : supported_isas())
    for (const double beta1 : {0.0, 0.9})
      for (const bool decoupled : {false, true}) {
        SCOPED_TRACE(std::string(to_string(isa)) + " beta1 " + std::to_string(beta1));
        const Exec exec{Backend::cpu, 1, isa};
        check_fused<double>(GetParam(), Weights::clamped, beta1, decoupled, 0.02, exec, DenseProduct::own,
                            1e-13);
        check_fused<double>(GetParam(), Weights::patterned, beta1, decoupled, 0, {Backend::cpu, 3, isa},
                            DenseProduct::own, 1e-13);
        check_fused<double>(GetParam(), Weights::clamped, beta1, decoupled, 0.02, exec, DenseProduct::blas,
                            1e-12);
        check_fused<float>(GetParam(), Weights::clamped, beta1, decoupled, 0.02, exec, DenseProduct::own,
                           1e-3);
      }
  check_fused<double>(GetParam(), Weights::patterned, 0.9, false, 0, {Backend::reference, 1},
                      DenseProduct::own, 1e-13);
}

INSTANTIATE_TEST_SUITE_P(Sizes, DenseShapes,
                         testing::Values(Shape{0, 7, 1, 1, 2, 2}, Shape{7, 0, 1, 1, 2, 2},
                                         Shape{1, 1, 1, 1, 1, 1}, Shape{7, 33, 3, 1, 1, 1},
                                         Shape{33, 7, 1, 2, 1, 1}, Shape{50, 149, 1, 3, 1, 2},
                                         Shape{33, 101, 3, 1, 5, 3}, Shape{97, 101, 1, 8, 1, 1},
                                         Shape{37, 257, 1, 1, 8, 8}, Shape{64, 49, 1, 2, 8, 8},
                                         Shape{61, 67, 1, 3, 8, 4}, Shape{70, 150, 1, 8, 8, 8},
                                         Shape{65, 77, 3, 13, 5, 5}, Shape{29, 31, 1, 20, 16, 3}),
                         [](const auto& shape) {
                           const Shape& s = shape.param;
                           std::string name;
                           for (const Index x : {s.rows, s.columns, Index{s.relations}, s.cols, s.d, s.w})
                             name += (name.empty() ? "" : "_") + std::to_string(x);
                           return name;
                         });

// Large enough for several blocks of columns, tiles of rows and threads.
TEST(Dense, LargeEqualsReference) {
  check_against_reference<double>({211, 1003, 1, 2, 3, 2}, 1e-12);
}

TEST(Dense, ChoiceIsMeasuredOrOwn) {
  const DenseChoice choice = choose_dense_product<float>({Backend::cpu, 1}, 700, 701, 72);
  EXPECT_GT(choice.own_seconds, 0);
  EXPECT_GT(choice.blas_seconds, 0);
  EXPECT_EQ(choice.product == DenseProduct::blas, choice.blas_seconds < 0.85 * choice.own_seconds);
  const DenseChoice small = choose_dense_product<double>({Backend::cpu, 1}, 40, 130, 24);
  EXPECT_EQ(small.product, DenseProduct::own);
  EXPECT_EQ(to_string(small), "own");
  EXPECT_EQ(to_string(DenseChoice{DenseProduct::blas, 2e-3, 1e-3}), "blas (own 2.00 ms, blas 1.00 ms)");
}

}  // namespace
}  // namespace rossby
