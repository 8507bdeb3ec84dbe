#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "tests/lib/autograd/diffusion_fixture.hpp"

// Sparse products against the reference kernel. Diffusion convolutions against dense matrices and finite
// differences, also in recomputed segments. tests/mpi/test_dcrnn_golden.cpp tests them on several ranks.

namespace rossby {
namespace {

using diffusion_fixture::fill;
using diffusion_fixture::Fixture;
using diffusion_fixture::random_supports;

constexpr double poison = -77.25;

/// The memory layout of operands.
struct Layout {
  Index cols, channels, gap;  // gap: unused values between columns
  bool ghosts;
};

template <class T>
struct Product {
  Index n, ghost_rows;
  CsrBlock block;
  std::vector<T> weight, x, y, minus;
  Layout layout;

  /// With ghosts, another rank owns the last third of the nodes.
  Product(Index nodes, const Layout& l) : n(nodes), ghost_rows(0), layout(l) {
    const RowPartition partition =
        l.ghosts ? RowPartition::from_owners(owners(nodes), 2) : RowPartition::blocks(nodes, 1);
    GlobalEdges edges = random_supports(nodes, 2);
    const Index owned = partition.size(0);
    edges.rows = owned;
    edges.ptr.resize(static_cast<std::size_t>(2 * owned) + 1);
    edges.column.resize(static_cast<std::size_t>(edges.ptr.back()));
    edges.value.resize(static_cast<std::size_t>(edges.ptr.back()));
    const GlobalEdges* groups[] = {&edges};
    const GhostList ghosts = collect_ghosts(partition, 0, groups);
    block = localise(edges, partition, 0, ghosts);
    n = owned;
    ghost_rows = static_cast<Index>(ghosts.size());
    for (const double value : block.value) weight.push_back(static_cast<T>(value));
    x.resize(size(n + ghost_rows));
    y.assign(size(n + ghost_rows), static_cast<T>(poison));
    minus.resize(size(n));
    fill<T>(x, 1);
    fill<T>(minus, 2);
  }
  static std::vector<int> owners(Index nodes) {
    std::vector<int> owner(static_cast<std::size_t>(nodes), 0);
    for (Index i = nodes - nodes / 3; i < nodes; ++i) owner[static_cast<std::size_t>(i)] = 1;
    return owner;
  }
  [[nodiscard]] std::size_t size(Index rows) const {
    return static_cast<std::size_t>(rows * layout.cols * (layout.channels + layout.gap) + 1);
  }
  template <class V>
  [[nodiscard]] NodeView<V> view(V* data, Index first, Index rows) const {
    const Index width = layout.channels + layout.gap;
    return {
        data + first * layout.cols * width, rows, layout.cols, layout.channels, layout.cols * width, width};
  }

  std::vector<T> forward(const Exec& exec, bool with_minus) {
    std::vector<T> out = y;
    const NodeView<const T> less = with_minus ? view<const T>(minus.data(), 0, n) : NodeView<const T>{};
    const SparseMatrix<T> s{&block, 1, weight.data()};
    for (const auto* rows : {&block.interior, &block.boundary})
      spmm_forward<T>(exec, view<T>(out.data(), 0, n), s, T(2), less, *rows, view<const T>(x.data(), 0, n),
                      view<const T>(x.data(), n, ghost_rows));
    return out;
  }
  std::vector<T> adjoint(const Exec& exec) {
    std::vector<T> out = y;
    const SparseMatrix<T> s{&block, 1, weight.data()};
    spmm_adjoint<T>(exec, view<T>(out.data(), 0, n), s, T(2), 0, view<const T>(x.data(), 0, n));
    spmm_adjoint<T>(exec, view<T>(out.data(), n, ghost_rows), s, T(2), n, view<const T>(x.data(), 0, n));
    return out;
  }
};

template <class T>
double worst(const std::vector<T>& a, const std::vector<T>& b) {
  double error = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return error;
}

template <class T>
void compare_products(Index n, const Layout& layout) {
  SCOPED_TRACE(testing::Message() << n << " rows of " << layout.cols << " x " << layout.channels);
  const double allowed = sizeof(T) == 4 ? 5e-6 : 1e-13;
  Product<T> product(n, layout);
  const Exec truth{Backend::reference, 1, Isa::portable};
  for (const Isa isa : supported_isas_of<T>()) {
    const Exec exec{Backend::cpu, 1, isa}, two{Backend::cpu, 2, isa};
    for (const bool minus : {false, true}) {
      const auto got = product.forward(exec, minus);
      EXPECT_LE(worst(got, product.forward(truth, minus)), allowed) << to_string(isa);
      EXPECT_EQ(worst(got, product.forward(two, minus)), 0) << "two threads";
    }
    const auto got = product.adjoint(exec);
    EXPECT_LE(worst(got, product.adjoint(truth)), 20 * allowed) << to_string(isa);
    EXPECT_EQ(worst(got, product.adjoint(two)), 0) << "two threads";
  }
}

template <class T>
void compare_products() {
  for (const Index n : {0, 1, 2, 13, 97})
    for (const auto& layout : {Layout{1, 1, 0, false}, Layout{3, 5, 0, true}, Layout{4, 64, 192, true},
                               Layout{2, 33, 7, false}, Layout{64, 64, 0, true}, Layout{0, 4, 0, false}})
      compare_products<T>(n, layout);
  // Every remainder of the register loops: runs of eight, two and one columns.
  for (Index channels = 1; channels <= 40; ++channels)
    for (const bool ghosts : {false, true}) compare_products<T>(13, {11, channels, 3, ghosts});
}

TEST(Spmm, FloatProductsAgreeWithTheReferenceAndLeaveGapsAlone) {
  compare_products<float>();
}
TEST(Spmm, DoubleProductsAgreeWithTheReferenceAndLeaveGapsAlone) {
  compare_products<double>();
}

TEST(Spmm, ANanReachesTheRowsThatReadItAndNoOthers) {
  Product<float> product(13, {3, 5, 0, false});
  product.x[static_cast<std::size_t>(5 * 3 * 5)] = std::numeric_limits<float>::quiet_NaN();
  const auto got = product.forward(Exec{}, false);
  for (Index i = 0; i < product.n; ++i) {
    bool reads = false;
    for (Index e = product.block.ptr[static_cast<std::size_t>(2 * i + 1)];
         e < product.block.ptr[static_cast<std::size_t>(2 * i + 2)]; ++e)
      reads = reads || product.block.column[static_cast<std::size_t>(e)] == 5;
    EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(i * 15)]), reads) << i;
  }
}

/// The terms by dense matrices, directly from the recursion.
std::vector<std::vector<double>> dense_terms(const Fixture& f, DiffusionVariant variant, int steps) {
  const Index n = f.block.rows, width = f.cols * f.channels;
  const int supports = f.block.relations;
  using Signal = std::vector<double>;
  const auto apply = [&](int s, const Signal& z) {
    Signal y(z.size(), 0.0);
    for (Index i = 0; i < n; ++i)
      for (Index e = f.block.ptr[static_cast<std::size_t>(i * supports + s)];
           e < f.block.ptr[static_cast<std::size_t>(i * supports + s + 1)]; ++e)
        for (Index q = 0; q < width; ++q)
          y[static_cast<std::size_t>(i * width + q)] +=
              f.block.value[static_cast<std::size_t>(e)] *
              z[static_cast<std::size_t>(f.block.column[static_cast<std::size_t>(e)] * width + q)];
    return y;
  };
  std::vector<Signal> terms(static_cast<std::size_t>(1 + supports * steps));
  terms[0].assign(f.x.value.begin(), f.x.value.end());
  Signal start = terms[0];
  for (int s = 0; s < supports; ++s) {
    if (variant != DiffusionVariant::legacy) start = terms[0];
    Signal a = start, b = apply(s, a), before_last = a;
    terms[static_cast<std::size_t>(1 + s)] = b;
    for (int k = 2; k <= steps; ++k) {
      Signal next = apply(s, b);
      for (std::size_t q = 0; variant != DiffusionVariant::powers && q < next.size(); ++q)
        next[q] = 2 * next[q] - a[q];
      a = b;
      b = next;
      terms[static_cast<std::size_t>(1 + (k - 1) * supports + s)] = b;
    }
    start = a;  // the last term but one
  }
  return terms;
}

class DiffusionOf : public testing::TestWithParam<std::tuple<int, int, DiffusionVariant>> {};

TEST_P(DiffusionOf, TermsAreThoseOfTheRecursion) {
  const auto [supports, steps, variant] = GetParam();
  Fixture f(12, supports, steps, variant);
  Tape<double> tape{Exec{}};
  const auto expected = dense_terms(f, variant, steps);
  const NodeView<double> z =
      diffusion_terms<double>(tape, f.diffusion, {f.x.value.data(), 12, f.cols, f.channels});
  ASSERT_EQ(f.diffusion.plan.terms, static_cast<int>(expected.size()));
  for (int k = 0; k < f.diffusion.plan.terms; ++k)
    for (Index i = 0; i < 12; ++i)
      for (Index b = 0; b < f.cols; ++b)
        for (Index c = 0; c < f.channels; ++c)
          EXPECT_NEAR(z.at(i, b)[k * f.channels + c],
                      expected[static_cast<std::size_t>(k)]
                              [static_cast<std::size_t>((i * f.cols + b) * f.channels + c)],
                      1e-13)
              << "term " << k;
}

TEST_P(DiffusionOf, GradientsMatchFiniteDifferences) {
  const auto [supports, steps, variant] = GetParam();
  Fixture f(12, supports, steps, variant);
  Tape<double> tape{Exec{}};
  f.gradients(tape, false);
  const auto error = check_gradients(f.all(), [&] { return f.loss(tape, false); });
  EXPECT_LT(error.relative, 1e-8) << error.parameter << "[" << error.index << "]: " << error.analytic
                                  << " for " << error.numeric;
}

TEST_P(DiffusionOf, ASegmentThatIsComputedAgainGivesTheSameBits) {
  const auto [supports, steps, variant] = GetParam();
  Fixture f(12, supports, steps, variant);
  Tape<double> kept{Exec{}}, again{Exec{}};
  const auto expected = f.gradients(kept, false);
  EXPECT_EQ(f.gradients(again, true), expected);
  EXPECT_EQ(f.gradients(again, true), expected) << "a second step";
  for (int step = 0; step < 2; ++step) f.gradients(again, true);
  const Index before = detail::allocation_count();
  f.gradients(again, true);
  EXPECT_EQ(detail::allocation_count(), before) << "a step of a known shape allocates nothing";
}

TEST_P(DiffusionOf, ColumnsTakenAFewAtATimeGiveTheSameBits) {
  const auto [supports, steps, variant] = GetParam();
  Fixture whole(12, supports, steps, variant), sliced(12, supports, steps, variant);
  for (Fixture* f : {&whole, &sliced}) {  // several slices, the last one smaller
    f->cols = 301;
    f->x = Parameter<double>("x", Placement::rows, {1, 12, 301 * 2});
    fill<double>(f->x.value.span(), 5);
  }
  sliced.diffusion.alone = true;
  Tape<double> a{Exec{}}, b{Exec{}};
  EXPECT_EQ(whole.loss(a, false), sliced.loss(b, false));
  EXPECT_EQ(whole.gradients(a, false), sliced.gradients(b, false));
}

INSTANTIATE_TEST_SUITE_P(Plans, DiffusionOf,
                         testing::Combine(testing::Values(1, 2, 3), testing::Values(1, 2, 3, 4),
                                          testing::Values(DiffusionVariant::paper, DiffusionVariant::legacy,
                                                          DiffusionVariant::powers)));

TEST(DiffusionOf, WithoutSupportsItIsADenseLayer) {
  Fixture f(7, 1, 0, DiffusionVariant::paper);
  EXPECT_EQ(f.diffusion.plan.terms, 1);
  EXPECT_TRUE(f.diffusion.plan.levels.empty());
  Tape<double> tape{Exec{}};
  f.gradients(tape, false);
  EXPECT_LT(check_gradients(f.all(), [&] { return f.loss(tape, false); }).relative, 1e-8);
}

TEST(DiffusionPlan, PaperExchangesOnceAStepAndLegacyOnceAProductThatWaits) {
  EXPECT_EQ(DiffusionPlan(2, 2, DiffusionVariant::paper).levels.size(), 2U);
  EXPECT_EQ(DiffusionPlan(2, 2, DiffusionVariant::powers).levels.size(), 2U);
  EXPECT_EQ(DiffusionPlan(2, 2, DiffusionVariant::legacy).levels.size(), 3U);
  EXPECT_EQ(DiffusionPlan(2, 1, DiffusionVariant::legacy).levels.size(), 1U);
}

}  // namespace
}  // namespace rossby
