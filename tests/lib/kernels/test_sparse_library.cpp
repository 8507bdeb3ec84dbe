#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/kernels/spmm.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/fake_sparse.hpp"
#include "tests/support/random_edges.hpp"

// Sparse products by a library: a fake one on a simulated device, cuSPARSE on a GPU.

namespace rossby::test {
namespace {

/// Layout of a view's columns.
struct Layout {
  Index cols, channels, gap = 0, row_gap = 0;  // unused values between columns, and between rows
  [[nodiscard]] Index apart() const { return channels + gap; }
  [[nodiscard]] Index row() const { return cols * apart() + row_gap; }
};

CsrBlock block_of(Index n, int relations, int parts = 1) {
  const RowPartition partition = RowPartition::blocks(n, parts);
  const GlobalEdges edges = test::random_edges(n, relations, 5, partition.begin(0), partition.end(0));
  const GlobalEdges* group = &edges;
  return localise(edges, partition, 0, collect_ghosts(partition, 0, {&group, 1}));
}

template <class T>
struct Operands {
  Index n;
  Layout x_layout, y_layout;
  std::vector<T> x, y, minus;

  Operands(Index nodes, const Layout& in, const Layout& out) : n(nodes), x_layout(in), y_layout(out) {
    x = dense_problem::random_values<T>(n * in.row() + 1, "x");
    y = dense_problem::random_values<T>(n * out.row() + 1, "y");
    minus = dense_problem::random_values<T>(n * in.row() + 1, "minus");
  }
  template <class V>
  [[nodiscard]] NodeView<V> view(V* data, const Layout& l) const {
    return {data, n, l.cols, l.channels, l.row(), l.apart()};
  }
};

class SparseProducts : public OnBackend {
 protected:
  void SetUp() override {
    OnBackend::SetUp();
    if (!device_) return;
    api_ = GetParam() == Backend::simulated ? &fake_ : cusparse();
    if (!api_) GTEST_SKIP() << "no cuSPARSE";
  }

  /// Both directions of every relation against the reference, comparing whole arrays including gaps: by the
  /// library, by own kernels, and on some rows, for which own kernels run.
  template <class T>
  void compare(Index n, const Layout& in, const Layout& out, double tolerance) {
    SCOPED_TRACE(::testing::Message() << n << " nodes, " << in.cols << " x " << in.channels);
    const CsrBlock block = block_of(n, 3);
    const std::vector<T> weight = dense_problem::random_values<T>(block.entries(), "w");
    SparseLibrary<T> library(exec(), *api_, block, weight);
    const Device::Copy weights = device_->keep(weight);
    for (int relation = 0; relation < 3; ++relation)
      for (const bool minus : {false, true})
        for (const auto& [adjoint, with, some] :
             {std::tuple{false, true, false}, std::tuple{true, true, false}, std::tuple{false, false, false},
              std::tuple{true, false, false}, std::tuple{false, true, true}}) {
          const auto rows = std::span(block.interior).subspan(some ? block.interior.size() / 2 : 0);
          Operands<T> truth(n, in, out), here(n, in, out);
          const auto run = [&](const Exec& on, Operands<T>& o, SparseMatrix<T> s, T* x, T* y, T* less) {
            const NodeView<T> to = o.view(y, out);
            const NodeView<const T> from = o.view(x, in);
            if (adjoint) return spmm_adjoint<T>(on, to, s, T(1.5), 0, from);
            spmm_forward<T>(on, to, s, T(-0.5),
                            minus ? NodeView<const T>(o.view(less, in)) : NodeView<const T>{}, rows, from,
                            {});
          };
          run({Backend::reference, 1}, truth, {&block, relation, weight.data()}, truth.x.data(),
              truth.y.data(), truth.minus.data());
          OnDevice there(*device_);
          T* x = there(here.x);
          T* y = there(here.y);
          run(exec(), here,
              {&block, relation, device_->on_device(std::span<const T>(weight)), with ? &library : nullptr},
              x, y, there(here.minus));
          there.fetch();
          ASSERT_EQ(here.x, truth.x);
          dense_problem::expect_near(here.y, truth.y, tolerance, adjoint ? "adjoint" : "forward");
        }
  }

  FakeSparse fake_;
  const SparseApi* api_ = nullptr;
};

/// Packed; next to other terms; one column; rows longer than their columns; ends of registers.
const std::vector<std::pair<Layout, Layout>> layouts{
    {{5, 3}, {5, 3}},       {{5, 3, 6}, {5, 3, 6}},   {{4, 8, 8}, {4, 8, 24}}, {{1, 4, 3}, {1, 4, 0}},
    {{3, 2, 0, 5}, {3, 2}}, {{64, 1, 4}, {64, 1, 4}}, {{4, 4, 3}, {4, 4, 3}},  {{4, 6, 2}, {4, 6, 2}},
    {{2, 8, 0, 4}, {2, 8}}, {{4, 6, 2}, {4, 6}}};

TEST_P(SparseProducts, EqualTheReference) {
  for (const Index n : {1, 2, 23, 60})
    for (const auto& [in, out] : layouts) {
      compare<double>(n, in, out, 1e-13);
      compare<float>(n, in, out, 2e-6);
    }
  if (GetParam() != Backend::simulated) return;
  EXPECT_GT(fake_.multiplied, 0);
  EXPECT_TRUE(fake_.alive.empty());
  EXPECT_EQ(fake_.started, fake_.stopped);
}

TEST_P(SparseProducts, ArePreparedOnceAShape) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "counts a fake's calls";
  const CsrBlock block = block_of(23, 2);
  const std::vector<double> weight = dense_problem::random_values<double>(block.entries(), "w");
  SparseLibrary<double> library(exec(), fake_, block, weight);
  const auto batch = [&](Index cols) {
    Buffer<double> x(23 * cols * 6, *device_), y(23 * cols * 6, *device_);
    const NodeView<double> from(x.data(), 23, cols, 3, cols * 6, 6), to(y.data(), 23, cols, 3, cols * 6, 6);
    for (int relation = 0; relation < 2; ++relation) library.multiply(relation, false, to, 1, from, 0);
    device_->wait();
  };
  for (int step = 0; step < 4; ++step) batch(5);
  EXPECT_EQ(fake_.prepared, 2);
  const std::size_t kept = device_->used_bytes();
  batch(5);
  EXPECT_EQ(device_->used_bytes(), kept);
  batch(3);  // the last one of an epoch
  batch(5);
  EXPECT_EQ(fake_.prepared, 4);
}

/// A graph ends before the library has prepared a product; afterwards the graph contains the product.
TEST_P(SparseProducts, PreparationsAreNoPartOfAGraph) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "counts a simulated device's graphs";
  const CsrBlock block = block_of(23, 1);
  const std::vector<double> weight(static_cast<std::size_t>(block.entries()), 1.0);
  SparseLibrary<double> library(exec(), fake_, block, weight);
  Buffer<double> x(23 * 4, *device_), y(23 * 4, *device_);
  auto& driver = static_cast<SimulatedDriver&>(device_->driver());
  const auto graphs = [&] {
    const Index before = driver.graphs();
    driver.begin_graph();
    driver.zero(y.data(), 8);
    library.multiply(0, false, {y.data(), 23, 2, 2}, 1, {x.data(), 23, 2, 2}, 0);
    driver.end_graph();
    return driver.graphs() - before;
  };
  EXPECT_EQ(graphs(), 2) << "what came before, and the product";
  EXPECT_EQ(graphs(), 1);
  device_->wait();
}

TEST_P(SparseProducts, AreOwnOnesWhereTheLibraryCannot) {
  const auto takes = [&](const CsrBlock& block, const NodeView<const float>& y,
                         const NodeView<const float>& x) {
    const std::vector<float> weight(static_cast<std::size_t>(block.entries()), 1.0F);
    return SparseLibrary<float>(exec(), *api_, block, weight).takes(y, x);
  };
  const CsrBlock whole = block_of(12, 1), part = block_of(12, 1, 3);
  ASSERT_GT(part.ghosts, 0);
  std::vector<float> values(1000);
  const auto view = [&](Index rows, const Layout& l) {
    return NodeView<const float>(values.data(), rows, l.cols, l.channels, l.row(), l.apart());
  };
  EXPECT_TRUE(takes(whole, view(12, {4, 3}), view(12, {4, 3})));
  EXPECT_TRUE(takes(whole, view(12, {4, 3, 2}), view(12, {4, 3, 1})));
  EXPECT_TRUE(takes(whole, view(12, {4, 3, 2}), view(12, {4, 3}))) << "(node, column) pairs of a packed one";
  EXPECT_FALSE(takes(part, view(4, {4, 3}), view(4, {4, 3}))) << "ghosts lie elsewhere";
  EXPECT_FALSE(takes(whole, view(7, {4, 3}), view(7, {4, 3}))) << "not all nodes";
  EXPECT_FALSE(takes(whole, view(7, {4, 3}), view(12, {4, 3})));
  EXPECT_FALSE(takes(whole, view(12, {4, 3, 2, 1}), view(12, {4, 3, 2, 1}))) << "two strides";
  EXPECT_FALSE(takes(whole, view(12, {0, 3}), view(12, {0, 3})));
  for (const Index cols : {Index{1} << 31, (Index{1} << 31) / 12 - 1}) {  // too many rows, entries
    const NodeView<const float> huge(nullptr, 12, cols, 3, 5 * cols, 5);
    ASSERT_GT(whole.entries(), 12);
    EXPECT_FALSE(takes(whole, huge, huge)) << "an index of 32 bits";
  }
}

TEST_P(SparseProducts, ErrorsNameTheLibraryAndTheWayOut) {
  if (GetParam() != Backend::simulated) GTEST_SKIP() << "a fake's errors";
  const CsrBlock block = block_of(12, 1);
  const std::vector<float> weight(static_cast<std::size_t>(block.entries()), 1.0F);
  Buffer<float> x(48, *device_), y(48, *device_);
  for (const char* call : {"start", "make", "buffer", "prepare", "multiply"}) {
    fake_.fails = call;
    try {
      SparseLibrary<float> library(exec(), fake_, block, weight);
      library.multiply(0, false, {y.data(), 12, 2, 2}, 1, {x.data(), 12, 2, 2}, 0);
      FAIL() << call;
    } catch (const UserError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("cuSPARSE failed while"), std::string::npos) << text;
      EXPECT_NE(text.find("parallel.sparse_products = \"own\""), std::string::npos) << text;
    }
    device_->wait();
    EXPECT_TRUE(fake_.alive.empty()) << call;
    EXPECT_EQ(fake_.started, fake_.stopped) << call;
  }
}

TEST(SparseChoice, TheLibraryHasToSaveATenth) {
  const auto chosen = [](double own, double library) {
    SparseChoice choice{SparseKernel::own, {own, library}};
    choose(choice);
    return choice.way;
  };
  EXPECT_EQ(chosen(1, 0.95), SparseKernel::own);
  EXPECT_EQ(chosen(1, 0.85), SparseKernel::library);
  EXPECT_EQ(chosen(1, 2), SparseKernel::own);
  EXPECT_EQ(to_string(SparseChoice{SparseKernel::library, {2.1e-5, 1e-5}}),
            "cusparse (own 0.021 ms, cusparse 0.010 ms)");
  EXPECT_EQ(to_string(SparseChoice{}), "own");
}

/// A toolkit with the library has all functions that Rossby needs.
TEST(Cusparse, IsThereWhereItsLibraryIs) {
  if (!::dlopen("libcusparse.so.12", RTLD_NOW | RTLD_LOCAL)) GTEST_SKIP() << "no libcusparse.so.12";
#if defined(ROSSBY_CUDA)
  EXPECT_NE(cusparse(), nullptr);
#endif
}

INSTANTIATE_TEST_SUITE_P(Simulated, SparseProducts, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, SparseProducts, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
