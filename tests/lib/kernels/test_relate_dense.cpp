#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/kernels/dense_choice.hpp"
#include "rossby/kernels/reductions.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/lib/kernels/sum_of.hpp"

// Dense relations against the reference, for every instruction set, both products and odd sizes; the fused
// update against backward into a buffer followed by an update.

namespace rossby {
namespace {

using namespace dense_problem;

template <class T>
void check_against_reference(const Shape& shape, double tolerance) {
  for (const Weights kind : {Weights::given, Weights::clamped, Weights::patterned}) {
    Problem<double> truth(shape, kind);
    truth.run({Backend::reference, 1});
    for (const DenseProduct product : {DenseProduct::own, DenseProduct::blas})
      for (const Isa isa : supported_isas_of<T>()) {
        SCOPED_TRACE(std::string(to_string(isa)) + " " + std::string(to_string(product)) + " kind " +
                     std::to_string(static_cast<int>(kind)));
        Problem<T> one(shape, kind), three(shape, kind), remade(shape, kind);
        for (Problem<T>* problem : {&one, &three, &remade}) problem->relate.product = product;
        one.run({Backend::cpu, 1, isa});
        expect_near(one, truth, tolerance);
        three.run({Backend::cpu, 3, isa});
        expect_equal(three, one);
        remade.relate.context = nullptr;  // backward computes W z itself
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

/// Several steps of both: the fused update, and backward into a buffer followed by everything else.
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
    const double squares = sum_of(exec, [&](double* sum) { sum_of_squares<T>(exec, dm, sum); });
    EXPECT_NEAR(update.squares, squares, tolerance * (1 + squares));
    adam_update<T>(exec, plain.weight, m[1], v[1], dm, adam, decoupled);
    expect_near(fused.weight, plain.weight, tolerance, "theta");
  }
  expect_near(v[0], v[1], tolerance, "v");
  expect_near(m[0], m[1], tolerance, "m");
  expect_near(fused.dz, plain.dz, tolerance, "dz");
  EXPECT_EQ(fused.dm, Problem<T>(shape, kind).dm);
}

template <class T>
void check_fused_of_every_set(const Shape& shape, double tolerance, double blas_tolerance) {
  for (const Isa isa : supported_isas_of<T>())
    for (const double beta1 : {0.0, 0.9})
      for (const bool decoupled : {false, true}) {
        SCOPED_TRACE(std::string(to_string(isa)) + " beta1 " + std::to_string(beta1));
        const Exec one{Backend::cpu, 1, isa}, three{Backend::cpu, 3, isa};
        check_fused<T>(shape, Weights::clamped, beta1, decoupled, 0.02, one, DenseProduct::own, tolerance);
        check_fused<T>(shape, Weights::patterned, beta1, decoupled, 0, three, DenseProduct::own, tolerance);
        check_fused<T>(shape, Weights::clamped, beta1, decoupled, 0.02, one, DenseProduct::blas,
                       blas_tolerance);
      }
}

TEST_P(DenseShapes, FusedUpdateEqualsBackwardAndUpdate) {
  check_fused_of_every_set<double>(GetParam(), 1e-13, 1e-12);
  check_fused_of_every_set<float>(GetParam(), 1e-3, 1e-3);
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
  check_against_reference<float>({211, 1003, 1, 2, 3, 2}, 2e-5);
}

TEST(Dense, ChoiceIsMeasuredOrOwn) {
  const DenseChoice choice = choose_dense_product<float>({Backend::cpu, 1}, 700, 701, 72);
  EXPECT_GT(choice.seconds[0], 0);
  EXPECT_GT(choice.seconds[1], 0);
  EXPECT_EQ(choice.way == DenseProduct::blas, choice.seconds[1] < 0.85 * choice.seconds[0]);
  const DenseChoice small = choose_dense_product<double>({Backend::cpu, 1}, 40, 130, 24);
  EXPECT_EQ(small.way, DenseProduct::own);
  EXPECT_EQ(to_string(small), "own");
  EXPECT_EQ(to_string(DenseChoice{DenseProduct::blas, {2e-3, 1e-3}}), "blas (own 2.000 ms, blas 1.000 ms)");
}

}  // namespace
}  // namespace rossby
