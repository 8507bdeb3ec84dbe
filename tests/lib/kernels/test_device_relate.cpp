#include <gtest/gtest.h>

#include "rossby/kernels/reductions.hpp"
#include "rossby/kernels/relate.hpp"
#include "rossby/kernels/spmm.hpp"
#include "rossby/relation/edges.hpp"
#include "tests/lib/kernels/dense_problem.hpp"
#include "tests/lib/kernels/sum_of.hpp"
#include "tests/support/device_fixture.hpp"
#include "tests/support/random_edges.hpp"

// Relations on a device: dense and sparse against the reference, and the fused update against backward
// followed by an update.

namespace rossby::test {
namespace {

using dense_problem::Problem;
using dense_problem::Shape;
using dense_problem::Weights;

class DeviceRelate : public OnBackend {
 protected:
  /// Problem::run with everything on the device.
  template <class T>
  void run(Problem<T>& p, DenseUpdate<T>* update, bool keep_context = true) {
    constexpr Index guard = Problem<T>::guard;
    const Shape& s = p.s;
    OnDevice there(*device_);
    DenseRelate<T> relate = p.relate;
    relate.weight = p.relate.weight ? there(p.weight) : nullptr;
    relate.bf16 = p.relate.bf16 ? there(p.bf16) : nullptr;
    relate.a.data = there(p.a);
    relate.context = keep_context ? there(p.context) : nullptr;
    const NodeView<const T> z(there(p.z), s.columns, s.cols, s.d), delta(there(p.delta), s.rows, s.cols, s.w);
    const std::span<T> workspace = there.scratch<T>(relate_dense_workspace(exec(), relate, s.cols, s.w));
    DenseGradient<T> sink = there(p.dm) + guard;
    if (update) {
      update->theta = const_cast<T*>(relate.weight);
      update->bf16.theta = const_cast<Bf16*>(relate.bf16);
      sink = update;
    }
    relate_dense_forward<T>(exec(), {there(p.h) + guard, s.rows, s.cols, s.w}, relate, z, workspace);
    relate_dense_backward<T>(exec(), {there(p.dz) + guard, s.columns, s.cols, s.d},
                             {there(p.da) + guard, s.w, s.relations * s.d}, sink, relate, delta, z,
                             workspace);
    there.fetch();
  }

  /// `steps` fused updates against backward followed by an update.
  void expect_fused(const Shape& shape, double beta1, bool decoupled, Index steps) {
    Problem<double> fused(shape, Weights::clamped), plain(shape, Weights::clamped);
    const std::size_t size = fused.weight.size();
    std::vector<double> m[2], v[2];
    for (int q : {0, 1}) {
      m[q].assign(beta1 == 0 ? 0 : size, 0.0);
      v[q].assign(size, 0.0);
    }
    for (Index step = 1; step <= steps; ++step) {
      const AdamStep adam{3e-2, beta1, 0.99, 1e-9, 1e-2, 0.5, step};
      DenseUpdate<double> update;
      OnDevice moments(*device_);
      update.m = moments(m[0]);
      update.v = moments(v[0]);
      update.step = adam;
      update.decoupled = decoupled;
      update.l1 = 0.02;
      if (size > 0) run<double>(fused, &update);
      moments.fetch();
      std::fill(plain.dm.begin(), plain.dm.end(), 0.0);
      const Exec reference{Backend::reference, 1};
      plain.run(reference);
      const std::span<double> dm(plain.dm.data() + Problem<double>::guard, size);
      clamp_l1_backward<double>(reference, dm, plain.weight, 0.02);
      const double squares =
          sum_of(reference, [&](double* sum) { sum_of_squares<double>(reference, dm, sum); });
      EXPECT_NEAR(update.squares, squares, 1e-13 * (1 + squares));
      adam_update<double>(reference, plain.weight, m[1], v[1], dm, adam, decoupled);
      dense_problem::expect_near(fused.dz, plain.dz, 1e-13, "dz");
      dense_problem::expect_near(fused.weight, plain.weight, 1e-12, "theta");
    }
    dense_problem::expect_near(v[0], v[1], 1e-12, "v");
    dense_problem::expect_near(m[0], m[1], 1e-12, "m");
  }
};

const std::vector<Shape> shapes{{0, 7, 1, 1, 2, 2},    {1, 1, 1, 1, 1, 1},    {7, 33, 3, 1, 1, 1},
                                {33, 7, 1, 2, 1, 1},   {33, 101, 3, 1, 5, 3}, {97, 101, 1, 8, 1, 1},
                                {70, 150, 1, 8, 8, 8}, {65, 77, 3, 13, 5, 5}, {29, 31, 1, 20, 16, 3},
                                {5, 1300, 1, 2, 1, 1}, {1300, 5, 1, 1, 3, 2}, {300, 130, 2, 3, 7, 2}};

TEST_P(DeviceRelate, DenseEqualsReference) {
  for (const Shape& shape : shapes)
    for (const Weights kind : {Weights::given, Weights::clamped, Weights::patterned}) {
      SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns));
      Problem<double> truth(shape, kind), here(shape, kind), remade(shape, kind);
      truth.run({Backend::reference, 1});
      run<double>(here, nullptr);
      expect_near(here, truth, 1e-13);
      run<double>(remade, nullptr, false);
      remade.context = truth.context;
      expect_near(remade, truth, 1e-13);
      Problem<float> narrow(shape, kind);
      run<float>(narrow, nullptr);
      expect_near(narrow, truth, 2e-5);
    }
}

/// More blocks than have sums in the scratch, down and across.
TEST_P(DeviceRelate, DenseOfManyBlocksEqualsReference) {
  for (const Shape& shape : {Shape{262200, 1, 1, 1, 1, 1}, Shape{1, 262200, 1, 1, 1, 1}}) {
    Problem<double> truth(shape, Weights::clamped), here(shape, Weights::clamped);
    truth.run({Backend::reference, 1});
    run<double>(here, nullptr);
    expect_near(here, truth, 1e-9);
  }
}

TEST_P(DeviceRelate, FusedUpdateEqualsBackwardAndUpdate) {
  for (const Shape& shape : shapes)
    for (const double beta1 : {0.0, 0.9})
      for (const bool decoupled : {false, true}) expect_fused(shape, beta1, decoupled, 3);
  // Blocks that go down several tiles.
  expect_fused({900, 2600, 1, 1, 1, 1}, 0.9, false, 1);
}

/// The update from a complete gradient, on a device as in the reference.
TEST_P(DeviceRelate, UpdateOfAGradientEqualsReference) {
  for (const Shape& shape : shapes)
    for (const double beta1 : {0.0, 0.9}) {
      Problem<double> here(shape, Weights::patterned), truth(shape, Weights::patterned);
      const std::size_t size = here.weight.size();
      std::vector<double> gradient =
          dense_problem::random_values<double>(std::ssize(here.weight), "gradient");
      std::vector<double> m[2], v[2];
      for (int q : {0, 1}) {
        m[q].assign(beta1 == 0 ? 0 : size, 0.0);
        v[q].assign(size, 0.0);
      }
      for (Index count = 1; count <= 2; ++count) {
        DenseUpdate<double> update;
        update.step = {3e-2, beta1, 0.99, 1e-9, 1e-2, 0.5, count};
        update.l1 = 0.02;
        DenseUpdate<double> right = update;
        right.theta = truth.weight.data();
        right.m = m[1].empty() ? nullptr : m[1].data();
        right.v = v[1].data();
        relate_dense_update<double>({Backend::reference, 1}, right, truth.relate, gradient.data());
        OnDevice there(*device_);
        DenseRelate<double> relate = here.relate;
        relate.weight = update.theta = there(here.weight);
        update.m = there(m[0]);
        update.v = there(v[0]);
        relate_dense_update<double>(exec(), update, relate, there(gradient));
        there.fetch();
        EXPECT_NEAR(update.squares, right.squares, 1e-12 * (1 + right.squares));
      }
      dense_problem::expect_near(here.weight, truth.weight, 1e-12, "theta");
      dense_problem::expect_near(v[0], v[1], 1e-12, "v");
      dense_problem::expect_near(m[0], m[1], 1e-12, "m");
    }
}

/// One update in bf16: the float result, rounded with the same bits.
TEST_P(DeviceRelate, UpdatesInBf16AreRoundedByGlobalPlace) {
  for (const Shape& shape : {Shape{33, 101, 1, 1, 5, 3}, Shape{97, 101, 1, 8, 1, 1}}) {
    Problem<float> here(shape, Weights::clamped), truth(shape, Weights::clamped);
    std::vector<Bf16> v[2];
    for (int q : {0, 1}) v[q].assign(here.weight.size(), round_nearest(0.01F));
    for (Problem<float>* p : {&here, &truth}) {
      p->round_weights();
      p->hold_in_bf16();
    }
    const StochasticRounding rounding{77, 5};
    DenseUpdate<float> update;
    update.step = {1e-2, 0, 0.999, 1e-8, 0, 1, 1};
    update.bf16.rounding = rounding;
    DenseUpdate<float> reference = update;
    reference.bf16.theta = truth.bf16.data();
    reference.bf16.v = v[1].data();
    truth.run({Backend::reference, 1}, &reference);
    OnDevice moments(*device_);
    update.bf16.v = moments(v[0]);
    run<float>(here, &update);
    moments.fetch();
    // The last bit of the arithmetic occasionally changes a rounding.
    std::size_t different = 0;
    for (std::size_t e = 0; e < here.bf16.size(); ++e)
      different += here.bf16[e] != truth.bf16[e] || v[0][e] != v[1][e];
    EXPECT_LT(different, here.bf16.size() / 100);
  }
}

/// A rank's block among three, with ghosts; its inputs and outputs.
template <class T>
struct SparseProblem {
  CsrBlock block;
  Index cols, d, w;
  std::vector<T> weight, a, self, bias, owned, ghost, delta, h, dz, d_ghost, da, dm, d_self, dbias, y, x;
  std::vector<LocalColumn> rows;

  SparseProblem(Index n, int relations, Index b, Index in, Index out, int part) : cols(b), d(in), w(out) {
    const RowPartition partition = RowPartition::blocks(n, 3);
    const GlobalEdges edges = test::random_edges(n, relations, 5, partition.begin(part), partition.end(part));
    const GlobalEdges* group = &edges;
    block = localise(edges, partition, part, collect_ghosts(partition, part, {&group, 1}));
    const auto values = [](Index size, const char* name, double low = -1, double high = 1) {
      return dense_problem::random_values<T>(size, name, low, high);
    };
    weight = values(block.entries(), "w", -0.3, 1.3);
    a = values(w * relations * d, "a");
    self = values(w * d, "self");
    bias = values(w, "bias");
    owned = values(block.rows * cols * d, "owned");
    ghost = values(block.ghosts * cols * d, "ghost");
    delta = values(block.rows * cols * w, "delta");
    h = values(block.rows * cols * w, "h");
    dz = values(block.rows * cols * d, "dz");
    d_ghost = values(block.ghosts * cols * d, "dg");
    da = values(w * relations * d, "da");
    dm = values(block.entries(), "dm");
    d_self = values(w * d, "ds");
    dbias = values(w, "db");
    y = values(block.rows * cols * d, "y");
    for (Index i = 0; i < block.rows; ++i) rows.push_back(static_cast<LocalColumn>(i));
  }

  /// `at` returns the place of a vector.
  template <class At>
  void run(const Exec& exec, bool with_identity, At&& at, std::span<T> workspace) {
    const SparseRelate<T> relate{&block, at(weight), true, {at(a), w, block.relations * d}};
    const NodeView<T> z(at(owned), block.rows, cols, d), g(at(ghost), block.ghosts, cols, d);
    const NodeView<const T> dh(at(delta), block.rows, cols, w);
    IdentityBlock<T> identity;
    IdentityGradient<T> d_identity;
    if (with_identity) {
      identity = {{at(self), w, d}, at(bias)};
      d_identity = {{at(d_self), w, d}, at(dbias)};
    }
    const MatrixView<T> d_a(at(da), w, block.relations * d);
    T* d_m = at(dm);
    relate_sparse_forward<T>(exec, {at(h), block.rows, cols, w}, relate, identity, rows, z, g, workspace);
    relate_sparse_backward<T>(exec, {at(dz), block.rows, cols, d}, d_a, d_m, relate, identity, d_identity, 0,
                              dh, z, workspace);
    relate_sparse_backward<T>(exec, {at(d_ghost), block.ghosts, cols, d}, d_a, d_m, relate, {}, {},
                              block.rows, dh, g, workspace);
    const SparseMatrix<T> matrix{&block, block.relations - 1, relate.weight};
    const NodeView<T> out(at(y), block.rows, cols, d);
    spmm_adjoint<T>(exec, z, matrix, T(1.5), 0, out);
    spmm_forward<T>(exec, out, matrix, T(-0.5), z,
                    std::span<const LocalColumn>(rows).subspan(rows.size() / 2), z, g);
  }
};

TEST_P(DeviceRelate, SparseEqualsReference) {
  struct Size {
    Index n;
    int relations;
    Index cols, d, w;
  };
  for (const Size& s :
       {Size{2, 1, 1, 1, 1}, Size{23, 3, 2, 1, 1}, Size{41, 2, 5, 3, 2}, Size{60, 1, 3, 8, 8}})
    for (int part = 0; part < 3; ++part)
      for (const bool with_identity : {false, true})
        for (const bool kept : {false, true}) {
          SCOPED_TRACE(std::to_string(s.n) + " part " + std::to_string(part));
          SparseProblem<double> truth(s.n, s.relations, s.cols, s.d, s.w, part);
          SparseProblem<double> here(s.n, s.relations, s.cols, s.d, s.w, part);
          truth.run({Backend::reference, 1}, with_identity, [](auto& v) { return v.data(); }, {});
          Device::Copy copies[2];
          if (kept) {
            copies[0] = device_->keep(here.block.ptr);
            copies[1] = device_->keep(here.rows);
          }
          OnDevice there(*device_);
          here.run(exec(), with_identity, there, {});
          there.fetch();
          const auto expect = [](const std::vector<double>& got, const std::vector<double>& right,
                                 const char* what) { dense_problem::expect_near(got, right, 1e-13, what); };
          expect(here.h, truth.h, "h");
          expect(here.dz, truth.dz, "dz");
          expect(here.d_ghost, truth.d_ghost, "ghosts");
          expect(here.da, truth.da, "da");
          expect(here.dm, truth.dm, "dm");
          expect(here.d_self, truth.d_self, "identity");
          expect(here.dbias, truth.dbias, "bias");
          expect(here.y, truth.y, "spmm");
          expect(here.owned, truth.owned, "spmm adjoint");
        }
}

INSTANTIATE_TEST_SUITE_P(Simulated, DeviceRelate, ::testing::Values(Backend::simulated));
INSTANTIATE_TEST_SUITE_P(Gpu, DeviceRelate, ::testing::Values(Backend::cuda));

}  // namespace
}  // namespace rossby::test
