#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/kernels/diffuse.hpp"
#include "rossby/kernels/spmm.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/random_edges.hpp"

// Several products and gradients of a block's relations at once, and all of a diffusion: on devices one
// launch, against a sequence in double.

namespace rossby::test {
namespace {

constexpr Index guard = 3;  // values before and after every array

/// A rank's block among three, with several terms side by side per node, for owned and ghost nodes. A term
/// may start at an odd channel, so that its runs are not aligned to 16 bytes.
template <class T>
struct Terms {
  CsrBlock block;
  Index cols, channels, terms, apart;
  std::vector<T> weight, owned, ghost, extra;

  Terms(Index n, int relations, Index b, Index c, Index count, Index gap, int parts)
      : cols(b), channels(c), terms(count), apart(c * count + gap) {
    const RowPartition partition = RowPartition::blocks(n, parts);
    const int part = parts / 2;
    const GlobalEdges edges = test::random_edges(n, relations, 5, partition.begin(part), partition.end(part));
    const GlobalEdges* group = &edges;
    block = localise(edges, partition, part, collect_ghosts(partition, part, {&group, 1}));
    weight = dense_problem::random_values<T>(block.entries(), "w");
    owned = dense_problem::random_values<T>(block.rows * cols * apart + 2 * guard, "owned");
    ghost = dense_problem::random_values<T>(block.ghosts * cols * apart + 2 * guard, "ghost");
    extra = dense_problem::random_values<T>(block.rows * cols * channels + 2 * guard, "extra");
  }
  [[nodiscard]] NodeView<T> term(T* data, Index rows, Index k) const {
    return {data + guard + k * channels, rows, cols, channels, cols * apart, apart};
  }
};

class SparseAtOnce : public OnBackend {
 protected:
  /// Runs work(exec, terms, their owned, ghost and extra values) with the reference and on the device.
  template <class T, class Work>
  void compare(const Terms<T>& problem, double tolerance, const Work& work) {
    Terms<T> truth = problem, here = problem;
    const Exec reference{Backend::reference, 1};
    work(reference, truth, SparseMatrix<T>{&truth.block, 0, truth.weight.data()}, truth.owned.data(),
         truth.ghost.data(), truth.extra.data());
    OnDevice there(*device_);
    const T* weight = there(here.weight);
    T *owned = there(here.owned), *ghost = there(here.ghost), *extra = there(here.extra);
    work(exec(), here, SparseMatrix<T>{&here.block, 0, weight}, owned, ghost, extra);
    there.fetch();
    dense_problem::expect_near(here.owned, truth.owned, tolerance, "owned");
    dense_problem::expect_near(here.ghost, truth.ghost, tolerance, "ghosts");
    dense_problem::expect_near(here.extra, truth.extra, tolerance, "extra");
  }
};

/// Products of `extra` and ghosts, for some rows at a time.
template <class T>
void products(const Exec& exec, const Terms<T>& t, const SparseMatrix<T>& s, T* owned, T* ghost, T* extra) {
  const Index rows = t.block.rows, ghosts = t.block.ghosts;
  const auto term = [&](Index k) { return t.term(owned, rows, k); };
  const NodeView<const T> x(extra + guard, rows, t.cols, t.channels), g = t.term(ghost, ghosts, 0);
  std::vector<SparseProduct<T>> list;
  for (int k = 0; k < 3; ++k) list.push_back({k, T(1), term(1 + k), x, g, {}});
  const auto first = std::span<const LocalColumn>(t.block.boundary), second = std::span(t.block.interior);
  for (const auto rows_of : {first, second}) {
    spmm_products<T>(exec, s, list, rows_of.subspan(0, rows_of.size() / 2));
    spmm_products<T>(exec, s, list, rows_of.subspan(rows_of.size() / 2));
  }
}

/// Five products, two launches; some subtract a term, one has no relation.
template <class T>
void more_products(const Exec& exec, const Terms<T>& t, const SparseMatrix<T>& s, T* owned, T* ghost,
                   T* extra) {
  std::vector<LocalColumn> all;
  for (Index i = 0; i < t.block.rows; ++i) all.push_back(static_cast<LocalColumn>(i));
  const auto term = [&](Index k) { return t.term(owned, t.block.rows, k); };
  const NodeView<const T> x(extra + guard, t.block.rows, t.cols, t.channels);
  std::vector<SparseProduct<T>> list{{-1, T(0.5), term(0), x, {}, NodeView<const T>(term(6))}};
  for (int k = 0; k < 3; ++k)
    list.push_back({k, T(2), term(3 + k), NodeView<const T>(term(1)),
                    NodeView<const T>(t.term(ghost, t.block.ghosts, k)), NodeView<const T>(term(2))});
  list.push_back(
      {1, T(-1), NodeView<T>(term(7)), x, NodeView<const T>(t.term(ghost, t.block.ghosts, 5)), {}});
  spmm_products<T>(exec, s, list, all);
}

/// Owned rows, with a start, with more shares than a launch takes, and ghosts.
template <class T>
void gradients(const Exec& exec, const Terms<T>& t, const SparseMatrix<T>& s, T* owned, T* ghost, T* extra) {
  const Index rows = t.block.rows;
  const auto term = [&](Index k) { return t.term(owned, rows, k); };
  const auto read = [&](Index k) { return NodeView<const T>(term(k)); };
  const NodeView<T> dx(extra + guard, rows, t.cols, t.channels);
  using Share = SparseShare<T>;
  const std::vector<Share> one{{2, T(2), read(7)}},
      three{{0, T(1), read(6)}, {-1, T(-1), read(7)}, {1, T(1), read(7)}},
      many{{0, T(1), read(6)},
           {1, T(2), read(7)},
           {2, T(1), read(6)},
           {-1, T(-1), read(6)},
           {0, T(3), read(7)}},
      none;
  const std::vector<SparseGradient<T>> few{{term(1), {}, one},
                                           {dx, read(0), three},
                                           {term(2), {}, three},
                                           {term(3), {}, none},
                                           {term(4), {}, one}};
  spmm_gradients<T>(exec, s, few, 0);
  const std::vector<SparseGradient<T>> longer{{term(5), read(0), many}};
  spmm_gradients<T>(exec, s, longer, 0);
  // Ghosts.
  const std::vector<Share> away{{0, T(1), read(6)}, {2, T(2), read(7)}};
  const std::vector<SparseGradient<T>> theirs{{t.term(ghost, t.block.ghosts, 1), {}, away},
                                              {t.term(ghost, t.block.ghosts, 2), {}, one}};
  spmm_gradients<T>(exec, s, theirs, rows);
}

template <class T, class Test>
void every_shape(const Test& test) {
  for (const Index n : {1, 2, 23, 61})
    for (const auto& [cols, channels, gap] : {std::tuple{1, 1, 0}, std::tuple{5, 3, 0}, std::tuple{3, 8, 0},
                                              std::tuple{4, 8, 5}, std::tuple{2, 64, 4}})
      for (const int parts : {1, 3}) {
        SCOPED_TRACE(::testing::Message() << n << " nodes in " << parts << ", " << cols << " x " << channels);
        test(Terms<T>(n, 3, cols, channels, 8, gap, parts));
      }
}

TEST_P(SparseAtOnce, ProductsEqualTheReference) {
  every_shape<double>([&](const Terms<double>& t) {
    compare(t, 1e-13, products<double>);
    compare(t, 1e-13, more_products<double>);
  });
  every_shape<float>([&](const Terms<float>& t) { compare(t, 2e-6, more_products<float>); });
}

TEST_P(SparseAtOnce, GradientsEqualTheReference) {
  every_shape<double>([&](const Terms<double>& t) { compare(t, 1e-12, gradients<double>); });
  every_shape<float>([&](const Terms<float>& t) { compare(t, 1e-5, gradients<float>); });
}

TEST_P(SparseAtOnce, FourAreALaunch) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "counts what a simulated device is given";
  const Terms<double> t(23, 3, 5, 3, 8, 0, 1);
  auto& driver = static_cast<SimulatedDriver&>(device_->driver());
  std::vector<Device::Copy> kept;
  keep_on(*device_, t.block, kept);
  Terms<double> here = t;
  OnDevice there(*device_);
  double *owned = there(here.owned), *extra = there(here.extra);
  const SparseMatrix<double> s{&t.block, 0, there(here.weight)};
  const auto term = [&](Index k) { return t.term(owned, t.block.rows, k); };
  const NodeView<const double> x(extra + guard, t.block.rows, t.cols, t.channels);
  const auto launches = [&](std::size_t count) {
    std::vector<SparseProduct<double>> list;
    for (std::size_t k = 0; k < count; ++k)
      list.push_back({static_cast<int>(k % 3), 1.0, term(static_cast<Index>(k)), x, {}, {}});
    const Index before = driver.given();
    spmm_products<double>(exec(), s, list, t.block.interior);
    return driver.given() - before;
  };
  EXPECT_EQ(launches(4), 1);
  EXPECT_EQ(launches(5), 2);
  there.fetch();
}

/// A diffusion over a few neighbours per node; `gap` unused values after every column.
struct Diffusing {
  Index n, cols, channels;
  int relations;
  DiffusionSteps recursion;
  Index gap = 0;
  static constexpr Index margin = 4;  // around every array: 16 bytes, so that runs may be aligned

  [[nodiscard]] Index terms() const { return 1 + Index{relations} * recursion.steps; }
  [[nodiscard]] Index term(int k, int s) const { return k == 0 ? 0 : 1 + Index{k - 1} * relations + s; }
  template <class V>
  [[nodiscard]] NodeView<V> view(V* data, Index width) const {
    return {data + margin, n, cols, width, cols * (width + gap), width + gap};
  }
  template <class T>
  [[nodiscard]] std::vector<T> values(Index width, const char* name) const {
    return dense_problem::random_values<T>(n * cols * (width + gap) + 2 * margin, name);
  }
  /// Up to six columns a row; some rows and column 3 are empty.
  [[nodiscard]] CsrBlock block() const {
    const Random random(11, "neighbours");
    GlobalEdges edges;
    edges.rows = n;
    edges.relations = relations;
    edges.ptr = {0};
    for (Index i = 0; i < n; ++i)
      for (int s = 0; s < relations; ++s) {
        std::set<Index> columns;
        for (Index q = 0; q < 6 && (i + s) % 9 != 4; ++q) columns.insert((i * (s + 2) + 7 * q * q) % n);
        if (n > 3) columns.erase(3);
        for (const Index j : columns) {
          const auto key = static_cast<std::uint64_t>((i * relations + s) * n + j);
          edges.column.emplace_back(j);
          edges.value.push_back(random.uniform(key, -0.2, 0.3));
        }
        edges.ptr.push_back(edges.entries());
      }
    return localise(edges, RowPartition::blocks(n, 1), 0, {});
  }
};

/// z = the terms of x, by the plain recursion.
void terms_of(const Diffusing& d, const CsrBlock& block, std::span<const double> weight, NodeView<double> z,
              NodeView<const double> x) {
  const Index c = d.channels;
  const auto each = [&](const auto& f) {
    for (Index i = 0; i < d.n; ++i)
      for (Index b = 0; b < d.cols; ++b)
        for (Index k = 0; k < c; ++k) f(i, b, k);
  };
  each([&](Index i, Index b, Index k) { z.at(i, b)[k] = x.at(i, b)[k]; });
  for (int s = 0; s < d.relations; ++s)
    for (int step = 1; step <= d.recursion.steps; ++step) {
      const Index from = c * d.term(step - 1, s), to = c * d.term(step, s);
      const bool twice = d.recursion.chebyshev && step > 1;
      each([&](Index i, Index b, Index k) {
        const auto list = static_cast<std::size_t>(i * d.relations + s);
        double sum = 0;
        for (auto e = static_cast<std::size_t>(block.ptr[list]);
             e < static_cast<std::size_t>(block.ptr[list + 1]); ++e)
          sum += weight[e] * z.at(block.column[e], b)[from + k];
        z.at(i, b)[to + k] = twice ? 2 * sum - z.at(i, b)[c * d.term(step - 2, s) + k] : sum;
      });
    }
}

/// dx += the adjoint, product by product in reverse.
void adjoint_of(const Diffusing& d, const CsrBlock& block, std::span<const double> weight,
                NodeView<double> dx, NodeView<double> dz) {
  const Index c = d.channels;
  for (int s = 0; s < d.relations; ++s)
    for (int step = d.recursion.steps; step >= 1; --step)
      for (Index i = 0; i < d.n; ++i)
        for (Index b = 0; b < d.cols; ++b)
          for (Index k = 0; k < c; ++k) {
            const bool twice = d.recursion.chebyshev && step > 1;
            const double g = dz.at(i, b)[c * d.term(step, s) + k];
            const auto list = static_cast<std::size_t>(i * d.relations + s);
            for (auto e = static_cast<std::size_t>(block.ptr[list]);
                 e < static_cast<std::size_t>(block.ptr[list + 1]); ++e)
              dz.at(block.column[e], b)[c * d.term(step - 1, s) + k] += (twice ? 2 : 1) * weight[e] * g;
            if (twice) dz.at(i, b)[c * d.term(step - 2, s) + k] -= g;
          }
  for (Index i = 0; i < d.n; ++i)
    for (Index b = 0; b < d.cols; ++b)
      for (Index k = 0; k < c; ++k) dx.at(i, b)[k] += dz.at(i, b)[k];
}

class Diffuses : public OnBackend {
 protected:
  /// The results of both directions, as whole arrays including gaps.
  template <class T>
  struct Both {
    std::vector<T> x, z, dz, dx;
  };
  template <class T>
  static Both<T> operands(const Diffusing& d) {
    const Index width = d.terms() * d.channels;
    return {d.values<T>(d.channels, "x"), d.values<T>(width, "z"), d.values<T>(width, "dz"),
            d.values<T>(d.channels, "dx")};
  }
  template <class T>
  Both<T> on_device(const Diffusing& d, const CsrBlock& block, std::vector<T> weight) {
    Both<T> here = operands<T>(d);
    const Index width = d.terms() * d.channels;
    OnDevice there(*device_);
    const SparseMatrix<T> s{&block, 0, there(weight)};
    T *x = there(here.x), *z = there(here.z), *dz = there(here.dz), *dx = there(here.dx);
    diffuse_forward<T>(exec(), d.view(z, width), s, d.recursion, d.view(x, d.channels));
    diffuse_adjoint<T>(exec(), d.view(dx, d.channels), s, d.recursion, d.view(dz, width));
    there.fetch();
    return here;
  }
  template <class T>
  void compare(const Diffusing& d, double tolerance) {
    SCOPED_TRACE(::testing::Message()
                 << d.n << " nodes, " << d.cols << " x " << d.channels << ", " << d.relations
                 << " relations, " << d.recursion.steps << (d.recursion.chebyshev ? " steps" : " powers"));
    const CsrBlock block = d.block();
    ASSERT_TRUE(diffuses_at_once(block));
    const Index width = d.terms() * d.channels;
    const auto weight = dense_problem::random_values<T>(block.entries(), "w", -0.2, 0.3);
    const Both<T> given = operands<T>(d);
    const auto wide = [](const std::vector<T>& v) { return std::vector<double>(v.begin(), v.end()); };
    Both<double> truth{wide(given.x), wide(given.z), wide(given.dz), wide(given.dx)};
    std::vector<double> moved = truth.dz;
    terms_of(d, block, wide(weight), d.view(truth.z.data(), width),
             d.view(std::as_const(truth.x).data(), d.channels));
    adjoint_of(d, block, wide(weight), d.view(truth.dx.data(), d.channels), d.view(moved.data(), width));
    const Both<T> here = on_device<T>(d, block, weight);
    EXPECT_EQ(here.x, given.x);
    EXPECT_EQ(here.dz, given.dz);
    dense_problem::expect_near(wide(here.z), truth.z, tolerance, "terms");
    dense_problem::expect_near(wide(here.dx), truth.dx, tolerance, "gradient");
    const Both<T> again = on_device<T>(d, block, weight);
    EXPECT_EQ(again.z, here.z) << "two runs";
    EXPECT_EQ(again.dx, here.dx) << "two runs";
  }
};

TEST_P(Diffuses, AsTheRecursionDoes) {
  for (const int relations : {1, 2, 3})
    for (const int steps : {1, 2, 3, 4})
      for (const bool chebyshev : {true, false})
        for (const Index channels : {3, 8}) {
          const Diffusing d{31, 3, channels, relations, {steps, chebyshev}};
          compare<double>(d, 1e-13);
          compare<float>(d, 2e-6);
        }
}

TEST_P(Diffuses, AnySize) {
  int steps = 1, relations = 1;
  for (const Index n : {1, 2, 31, 207, 256, 257, 512})
    for (const Index channels : {1, 2, 5, 16, 17, 64})
      for (const Index cols : {1, 3}) {
        steps = steps % 4 + 1;
        relations = relations % 3 + 1;
        const Diffusing d{n, cols, channels, relations, {steps, (n + channels) % 3 != 0}};
        compare<float>(d, 2e-6);
        if (channels < 64) compare<double>(d, 1e-13);
      }
}

/// Views with gaps between columns, in aligned runs of 16 bytes and otherwise.
TEST_P(Diffuses, StridedViews) {
  for (const Index gap : {3, 4})
    for (const Index channels : {4, 16, 24}) {
      const Diffusing d{43, 2, channels, 2, {3, true}, gap};
      compare<float>(d, 2e-6);
      compare<double>(d, 1e-13);
    }
}

/// ⟨y, A x⟩ = ⟨Aᵀ y, x⟩ for the kernels themselves.
TEST_P(Diffuses, WithItsAdjoint) {
  for (const Index n : {31, 207, 300})
    for (const bool chebyshev : {true, false}) {
      const Diffusing d{n, 3, 17, 2, {3, chebyshev}};
      const CsrBlock block = d.block();
      const auto weight = dense_problem::random_values<double>(block.entries(), "w", -0.2, 0.3);
      Both<double> out = on_device<double>(d, block, weight);
      Both<double> in = operands<double>(d);
      const auto inner = [&](std::vector<double>& a, std::vector<double>& b, Index width) {
        double sum = 0;
        for (Index i = 0; i < n; ++i)
          for (Index c = 0; c < d.cols; ++c)
            for (Index k = 0; k < width; ++k)
              sum += d.view(a.data(), width).at(i, c)[k] * d.view(b.data(), width).at(i, c)[k];
        return sum;
      };
      const double forward = inner(in.dz, out.z, d.terms() * d.channels);
      const double backward = inner(out.dx, in.x, d.channels) - inner(in.dx, in.x, d.channels);
      EXPECT_NEAR(forward, backward, 1e-10 * static_cast<double>(n));
      EXPECT_GT(std::abs(forward), 1e-3);
    }
}

TEST_P(Diffuses, InALaunchWhereABlockHoldsAColumn) {
  const auto block_of = [](Index n) { return Diffusing{n, 1, 1, 1, {}}.block(); };
  EXPECT_TRUE(diffuses_at_once(block_of(512)));
  EXPECT_FALSE(diffuses_at_once(block_of(513)));
  CsrBlock ghosts = block_of(12);
  ghosts.ghosts = 1;
  EXPECT_FALSE(diffuses_at_once(ghosts));
  if (GetParam() != Backend::simulated) return;
  const auto& driver = static_cast<SimulatedDriver&>(device_->driver());
  const Diffusing d{31, 3, 5, 2, {4, true}};
  const CsrBlock block = d.block();
  std::vector<Device::Copy> kept;
  keep_on(*device_, block, kept);
  Both<float> here = operands<float>(d);
  auto weight = dense_problem::random_values<float>(block.entries(), "w");
  OnDevice there(*device_);
  const SparseMatrix<float> s{&block, 0, there(weight)};
  float *x = there(here.x), *z = there(here.z);
  const Index before = driver.given();
  diffuse_forward<float>(exec(), d.view(z, d.terms() * d.channels), s, d.recursion, d.view(x, d.channels));
  EXPECT_EQ(driver.given() - before, 1);
  diffuse_adjoint<float>(exec(), d.view(x, d.channels), s, d.recursion, d.view(z, d.terms() * d.channels));
  EXPECT_EQ(driver.given() - before, 2);
  there.fetch();
}

INSTANTIATE_TEST_SUITE_P(Simulated, Diffuses, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, Diffuses, ::testing::Values(Backend::cuda));
INSTANTIATE_TEST_SUITE_P(Simulated, SparseAtOnce, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, SparseAtOnce, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
