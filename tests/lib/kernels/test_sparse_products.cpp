#include <vector>

#include <gtest/gtest.h>

#include "rossby/kernels/spmm.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/random_edges.hpp"

// Several products and gradients of a block's relations at once: on devices a launch, against one after the
// other in double.

namespace rossby::testing {
namespace {

constexpr Index guard = 3;  // values before and behind every array

/// A rank's block among three; as many values a node as there are terms, side by side, of owned and of ghost
/// nodes. A term may be any number of a term's channels behind an odd one, so that no 16 bytes hold its runs.
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
  /// work(exec, terms, its owned, ghost and extra values) by the reference and on the device.
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

/// Of `extra` and ghosts, for some rows at a time.
template <class T>
void products(const Exec& exec, const Terms<T>& t, const SparseMatrix<T>& s, T* owned, T* ghost, T* extra) {
  const Index rows = t.block.rows, ghosts = t.block.ghosts;
  const auto term = [&](Index k) { return t.term(owned, rows, k); };
  const NodeView<const T> x(extra + guard, rows, t.cols, t.channels), g = t.term(ghost, ghosts, 0);
  std::vector<SparseProduct<T>> list;
  for (int k = 0; k < 3; ++k) list.push_back({k, T(1), term(1 + k), x, g, {}});
  const auto first = std::span<const LocalColumn>(t.block.boundary), second = std::span(t.block.interior);
  for (const auto rows_of : {first, second}) {
    spmm_forward<T>(exec, s, list, rows_of.subspan(0, rows_of.size() / 2));
    spmm_forward<T>(exec, s, list, rows_of.subspan(rows_of.size() / 2));
  }
}

/// Five, two launches; some take a term away, one has no relation.
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
  spmm_forward<T>(exec, s, list, all);
}

/// Of owned rows, from a start, of more shares than a launch takes, and of ghosts.
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
  spmm_adjoint<T>(exec, s, few, 0);
  const std::vector<SparseGradient<T>> longer{{term(5), read(0), many}};
  spmm_adjoint<T>(exec, s, longer, 0);
  // Of ghosts.
  const std::vector<Share> away{{0, T(1), read(6)}, {2, T(2), read(7)}};
  const std::vector<SparseGradient<T>> theirs{{t.term(ghost, t.block.ghosts, 1), {}, away},
                                              {t.term(ghost, t.block.ghosts, 2), {}, one}};
  spmm_adjoint<T>(exec, s, theirs, rows);
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
    spmm_forward<double>(exec(), s, list, t.block.interior);
    return driver.given() - before;
  };
  EXPECT_EQ(launches(4), 1);
  EXPECT_EQ(launches(5), 2);
  there.fetch();
}

INSTANTIATE_TEST_SUITE_P(Simulated, SparseAtOnce, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, SparseAtOnce, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::testing
