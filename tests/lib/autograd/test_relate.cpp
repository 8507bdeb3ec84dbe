#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/support/random_edges.hpp"

// The relation layer on one rank: kernels against the reference, gradients of every kind of term, sampled
// against whole. tests/mpi compares the layer on several ranks with one rank.

namespace rossby {
namespace {

constexpr double sentinel = 1234.5;

template <class T>
void fill_between(std::span<T> values, std::uint64_t seed, double low = -1, double high = 1) {
  const Random random(seed, "fill");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.uniform(i, low, high));
}

/// A bank with every kind of term; weights lie away from the kinks of the clamp, some outside, some inside.
template <class T>
struct Everything {
  Index n;
  Index d;
  Index w;
  OneRankExchange exchange;
  OneRankReducer reducer;
  CsrBlock given, refine;
  Parameter<T> m, s, u, v, dense, z, weight, bias;
  RelationBank<T> bank;

  Everything(Index rows, Index channels, Index width, Index steps)
      : n(rows),
        d(channels),
        w(width),
        exchange(rows),
        given(localise(test::random_edges(rows, 2, 1, 0, rows), RowPartition::blocks(rows, 1), 0, {})),
        refine(localise(test::random_edges(rows, 3, 2, 0, rows), RowPartition::blocks(rows, 1), 0, {})),
        m("m", Placement::entries, {refine.entries()}),
        s("s", Placement::rows, {1, rows, 1}),
        u("u", Placement::rows, {1, rows, 2}),
        v("v", Placement::rows, {1, rows, 2}),
        dense("dense", Placement::rows, {1, rows, rows}),
        z("z", Placement::rows, {steps, rows, channels}),
        weight("weight", Placement::replicated, {width, (1 + 2 + 3 + 1 + 1 + 1) * channels}),
        bias("bias", Placement::replicated, {width}) {
    bank.nodes = bank.rows = n;
    bank.exchange = &exchange;
    bank.reducer = &reducer;
    using Kind = typename RelationTerm<T>::Kind;
    RelationTerm<T> term;
    term.relations = 2;
    term.sparse = &given;
    term.fixed = Buffer<T>(given.entries());
    for (Index e = 0; e < given.entries(); ++e)
      term.fixed[e] = static_cast<T>(given.value[static_cast<std::size_t>(e)]);
    bank.terms.push_back(std::move(term));
    term = {};
    term.relations = 3;
    term.sparse = &refine;
    term.weight = &m;
    bank.terms.push_back(std::move(term));
    for (const auto& [kind, parameter] : {std::pair{Kind::self, &s}, std::pair{Kind::dense, &dense}}) {
      term = {};
      term.kind = kind;
      term.weight = parameter;
      bank.terms.push_back(std::move(term));
    }
    term = {};
    term.kind = Kind::low_rank;
    term.u = &u;
    term.v = &v;
    bank.terms.push_back(std::move(term));
    bank.classify_rows();
    std::uint64_t seed = 10;
    for (Parameter<T>* parameter : parameters()) fill_between<T>(parameter->value.span(), seed++);
    for (Parameter<T>* clamped : {&m, &s, &dense})
      for (T& value : clamped->value)  // none within 0.05 of a kink
        value = std::abs(value) < T(0.05) ? T(0.3) : value > T(0.9) ? T(1.2) : value;
  }

  std::vector<Parameter<T>*> parameters() { return {&m, &s, &u, &v, &dense, &z, &weight, &bias}; }
};

/// Loss Σ (layer − target)² over all steps of z, as one slab or as samples.
template <class T>
double layer_loss(Everything<T>& all, Tape<T>& tape, bool sampled, const std::vector<float>& target) {
  tape.reset();
  const Index steps = all.z.shape[0];
  double sum = 0;
  if (sampled) {
    std::vector<Sample> samples;
    for (Index i = 0; i < all.n; ++i)
      for (Index t = 0; t < steps; ++t) samples.push_back({i, t});
    const Var<T> h = relate_linear_sampled(tape, all.bank, whole_table(tape, all.z),
                                           std::span<const Sample>(samples), all.weight, &all.bias);
    masked_squared_error(tape, h, NodeView<const float>(target.data(), all.n * steps, 1, all.w), 0.5, &sum);
  } else {
    std::vector<Index> times(static_cast<std::size_t>(steps));
    for (Index t = 0; t < steps; ++t) times[static_cast<std::size_t>(t)] = t;
    const Var<T> z = embed_columns(tape, all.z, std::span<const Index>(times));
    const Var<T> h = relate_linear(tape, all.bank, z, all.weight, &all.bias);
    masked_squared_error(tape, h, NodeView<const float>(target.data(), all.n, steps, all.w), 0.5, &sum);
  }
  return 0.5 * sum;
}

class Relate : public testing::TestWithParam<bool> {};

TEST_P(Relate, GradientsOfEveryTermMatchFiniteDifferences) {
  Everything<double> all(11, 3, 2, 4);
  Tape<double> tape{Exec{}};
  std::vector<float> target(static_cast<std::size_t>(11 * 4 * 2));
  fill_between<float>(target, 99);
  layer_loss(all, tape, GetParam(), target);
  tape.backward();
  const auto parameters = all.parameters();
  const auto error = check_gradients(parameters, [&] { return layer_loss(all, tape, GetParam(), target); });
  EXPECT_LT(error.relative, 1e-8) << error.parameter << "[" << error.index << "]: " << error.analytic
                                  << " for " << error.numeric;
  double magnitude = 0;
  for (const auto* parameter : parameters)
    for (const double g : parameter->gradient) magnitude += std::abs(g);
  EXPECT_GT(magnitude, 1.0);
}
INSTANTIATE_TEST_SUITE_P(SlabAndSampled, Relate, testing::Values(false, true));

TEST(RelateLayer, SampledEqualsSlab) {
  Everything<double> all(13, 2, 3, 5);
  Tape<double> tape{Exec{}};
  std::vector<float> target(static_cast<std::size_t>(13 * 5 * 3));
  fill_between<float>(target, 5);
  const double slab = layer_loss(all, tape, false, target);
  tape.backward();
  std::vector<std::vector<double>> gradients;
  for (auto* parameter : all.parameters()) {
    gradients.emplace_back(parameter->gradient.begin(), parameter->gradient.end());
    std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0);
  }
  EXPECT_NEAR(layer_loss(all, tape, true, target), slab, 1e-12 * slab);
  tape.backward();
  std::size_t number = 0;
  for (auto* parameter : all.parameters()) {
    const auto& expected = gradients[number++];
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(parameter->gradient[static_cast<Index>(i)], expected[i], 1e-11)
          << parameter->name << "[" << i << "]";
  }
}

TEST(RelateLayer, NoRowsIsFine) {
  Everything<float> all(0, 2, 3, 4);
  Tape<float> tape{Exec{}};
  for (const bool sampled : {false, true}) {
    EXPECT_EQ(layer_loss(all, tape, sampled, {}), 0.0);
    tape.backward();
  }
}

/// Shapes at which kernels are compared with the reference.
struct Shape {
  Index n, cols, d, w;
};
class RelateKernels : public testing::TestWithParam<Shape> {};

template <class T>
struct Problem {
  Shape shape;
  CsrBlock block;
  std::vector<T> m, z, delta, a, self, bias;

  explicit Problem(const Shape& s)
      : Problem(s, localise(test::random_edges(s.n, 3, 7, 0, s.n), RowPartition::blocks(s.n, 1), 0, {})) {}
  Problem(const Shape& s, CsrBlock relations) : shape(s), block(std::move(relations)) {
    m.resize(block.column.size());
    z.resize(static_cast<std::size_t>(s.n * s.cols * s.d));
    delta.resize(static_cast<std::size_t>(s.n * s.cols * s.w));
    a.resize(static_cast<std::size_t>(s.w * block.relations * s.d));
    fill_between<T>(m, 1, -0.3, 1.3);
    fill_between<T>(z, 2);
    fill_between<T>(delta, 3);
    fill_between<T>(a, 4);
    self.resize(static_cast<std::size_t>(s.w * s.d));
    bias.resize(static_cast<std::size_t>(s.w));
    fill_between<T>(self, 5);
    fill_between<T>(bias, 6);
    if (m.size() > 1) {  // exactly on the kinks
      m[0] = T(0);
      m[1] = T(1);
    }
  }
  [[nodiscard]] SparseRelate<T> sparse() const {
    return {&block, m.data(), true, {a.data(), shape.w, block.relations * shape.d}};
  }
  [[nodiscard]] NodeView<const T> z_view() const {
    return {z_elsewhere ? z_elsewhere : z.data(), shape.n, shape.cols, shape.d};
  }
  [[nodiscard]] NodeView<const T> delta_view() const {
    return {delta_elsewhere ? delta_elsewhere : delta.data(), shape.n, shape.cols, shape.w};
  }
  const T *z_elsewhere = nullptr, *delta_elsewhere = nullptr;
};

/// A copy that ends at the end of a page, so that reading past it faults.
template <class T>
class AtPageEnd {
 public:
  explicit AtPageEnd(const std::vector<T>& values) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t bytes = values.size() * sizeof(T), pages = (bytes + page - 1) / page;
    size_ = (pages + 1) * page;
    memory_ =
        static_cast<char*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + pages * page, page, PROT_NONE) != 0)
      throw std::bad_alloc();
    data_ = reinterpret_cast<T*>(memory_ + pages * page - bytes);
    std::copy(values.begin(), values.end(), data_);
  }
  AtPageEnd(const AtPageEnd&) = delete;
  AtPageEnd& operator=(const AtPageEnd&) = delete;
  ~AtPageEnd() { munmap(memory_, size_); }
  [[nodiscard]] const T* data() const { return data_; }

 private:
  char* memory_;
  std::size_t size_;
  T* data_;
};

/// Output buffers with a sentinel at both ends.
template <class T>
struct Guarded {
  std::vector<T> memory;
  explicit Guarded(std::size_t size) : memory(size + 2, T(0.25)) {
    memory.front() = memory.back() = T(sentinel);
  }
  T* data() { return memory.data() + 1; }
  void expect_ends(const char* what) const {
    EXPECT_EQ(memory.front(), T(sentinel)) << what;
    EXPECT_EQ(memory.back(), T(sentinel)) << what;
  }
  void expect_near(const Guarded& other, double tolerance, const char* what) const {
    expect_ends(what);
    for (std::size_t i = 1; i + 1 < memory.size(); ++i)
      EXPECT_NEAR(memory[i], other.memory[i],
                  tolerance * (1 + std::abs(static_cast<double>(other.memory[i]))))
          << what << " " << i;
  }
  void expect_equal(const Guarded& other, const char* what) const { EXPECT_EQ(memory, other.memory) << what; }
};

template <class T>
struct SparseOutputs {
  Guarded<T> h, dz, da, dm, dself, dbias;
  SparseOutputs(const Problem<T>& p, const Exec& exec, bool identity)
      : h(p.delta.size()),
        dz(p.z.size()),
        da(p.a.size()),
        dm(p.m.size()),
        dself(p.self.size()),
        dbias(p.bias.size()) {
    const Shape& s = p.shape;
    Guarded<T> memory(static_cast<std::size_t>(relate_sparse_workspace(exec, p.sparse(), s.cols, s.w)));
    const std::span<T> workspace(memory.data(), memory.memory.size() - 2);
    // A second call computes every third row, like boundary rows.
    std::vector<LocalColumn> rows, others;
    for (Index i = 0; i < s.n; ++i) (i % 3 == 1 ? others : rows).push_back(static_cast<LocalColumn>(i));
    IdentityBlock<T> block;
    IdentityGradient<T> gradient;
    if (identity) {
      block = {{p.self.data(), s.w, s.d}, p.bias.data()};
      gradient = {{dself.data(), s.w, s.d}, dbias.data()};
    }
    for (const auto& some : {rows, others})
      relate_sparse_forward<T>(exec, {h.data(), s.n, s.cols, s.w}, p.sparse(), block, some, p.z_view(), {},
                               workspace);
    relate_sparse_backward<T>(exec, {dz.data(), s.n, s.cols, s.d}, {da.data(), s.w, p.block.relations * s.d},
                              dm.data(), p.sparse(), block, gradient, 0, p.delta_view(), p.z_view(),
                              workspace);
    memory.expect_ends("workspace");
  }
  void expect_near(const SparseOutputs& truth, double tolerance) const {
    h.expect_near(truth.h, tolerance, "h");
    dz.expect_near(truth.dz, tolerance, "dz");
    da.expect_near(truth.da, 10 * tolerance, "da");
    dm.expect_near(truth.dm, tolerance, "dm");
    dself.expect_near(truth.dself, 10 * tolerance, "dself");
    dbias.expect_near(truth.dbias, 10 * tolerance, "dbias");
  }
  void expect_equal(const SparseOutputs& other) const {
    h.expect_equal(other.h, "h");
    dz.expect_equal(other.dz, "dz");
    da.expect_equal(other.da, "da");
    dm.expect_equal(other.dm, "dm");
    dself.expect_equal(other.dself, "dself");
    dbias.expect_equal(other.dbias, "dbias");
  }
};

template <class T>
void check_sparse(const Shape& shape, double tolerance) {
  for (const bool identity : {false, true})
    for (const Isa isa : supported_isas_of<T>()) {
      SCOPED_TRACE(std::string(to_string(isa)) + (identity ? " with identity" : ""));
      const Problem<T> p(shape);
      const SparseOutputs<T> truth(p, {Backend::reference, 1, isa}, identity),
          one(p, {Backend::cpu, 1, isa}, identity), three(p, {Backend::cpu, 3, isa}, identity);
      one.expect_near(truth, tolerance);
      three.expect_equal(one);
    }
}

TEST_P(RelateKernels, SparseEqualsReferenceOnEveryInstructionSetAtAnyThreadCount) {
  check_sparse<double>(GetParam(), 1e-13);
  check_sparse<float>(GetParam(), 1e-4);
}

TEST_P(RelateKernels, ANanWeightReachesItsRowOnEveryInstructionSet) {
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(to_string(isa));
    Problem<float> p(GetParam());
    if (p.m.empty() || p.z.empty()) continue;
    p.m[p.m.size() / 2] = std::numeric_limits<float>::quiet_NaN();
    const SparseOutputs<float> out(p, {Backend::cpu, 1, isa}, true),
        truth(p, {Backend::reference, 1, isa}, true);
    Index count = 0;
    for (std::size_t i = 0; i < out.h.memory.size(); ++i) {
      EXPECT_EQ(std::isnan(out.h.memory[i]), std::isnan(truth.h.memory[i])) << "h " << i;
      count += std::isnan(out.h.memory[i]) ? 1 : 0;
    }
    EXPECT_EQ(count, GetParam().cols * GetParam().w);
  }
}

/// The remainder of a row or of channels has code of its own for each width.
template <class T>
void check_columns(double tolerance) {
  struct Channels {
    Index in, out;
  };
  for (const auto& [d, w] :
       {Channels{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}, {8, 8}, {2, 5}, {7, 3}, {8, 1}})
    for (Index cols = 1; cols <= (d == 1 ? 70 : 20); cols += cols < 36 ? 1 : 11)
      for (const Isa isa : supported_isas_of<T>())
        for (const bool identity : {false, true}) {
          SCOPED_TRACE(std::string(to_string(isa)) + ", " + std::to_string(cols) + " columns of " +
                       std::to_string(d) + " and " + std::to_string(w) + (identity ? ", with identity" : ""));
          const Problem<T> p(Shape{11, cols, d, w});
          ASSERT_NE(p.block.entries() % 8, 0);  // a remainder after groups of eight
          const SparseOutputs<T> truth(p, {Backend::reference, 1, isa}, identity);
          SparseOutputs<T>(p, {Backend::cpu, 1, isa}, identity).expect_near(truth, tolerance);
        }
}

TEST(RelateColumns, EveryNumberOfThemEqualsReference) {
  check_columns<double>(1e-13);
  check_columns<float>(1e-4);
}

TEST(RelateColumns, MemoryBehindTheLastRowIsNotRead) {
  for (const auto& [d, w] :
       {std::pair<Index, Index>{1, 1}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {2, 5}, {7, 3}, {8, 8}})
    for (const Index cols : {1, 2, 3, 5, 7, 8, 9, 14})
      for (const Isa isa : supported_isas()) {
        SCOPED_TRACE(std::string(to_string(isa)) + ", " + std::to_string(cols) + " columns of " +
                     std::to_string(d) + " and " + std::to_string(w));
        Problem<float> p(Shape{11, cols, d, w});
        const SparseOutputs<float> right(p, {Backend::cpu, 1, isa}, true);
        const AtPageEnd<float> z(p.z), delta(p.delta);
        p.z_elsewhere = z.data();
        p.delta_elsewhere = delta.data();
        SparseOutputs<float>(p, {Backend::cpu, 1, isa}, true).expect_equal(right);
      }
}

/// Vector lanes past a row's end belong to the next row: a NaN there must not spread.
TEST(RelateColumns, ANanNodeReachesItsNeighboursAlone) {
  for (const Shape& shape :
       {Shape{13, 1, 1, 1}, Shape{13, 3, 1, 1}, Shape{13, 5, 1, 1}, Shape{13, 7, 1, 1}, Shape{13, 9, 1, 1},
        Shape{13, 21, 1, 1}, Shape{13, 7, 2, 2}, Shape{13, 6, 3, 3}, Shape{13, 5, 4, 4}, Shape{13, 4, 6, 6}})
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(to_string(isa)) + ", " + std::to_string(shape.cols) + " columns of " +
                   std::to_string(shape.d));
      Problem<float> p(shape);
      const Index width = shape.cols * shape.d;
      for (Index b = 0; b < width; ++b)
        p.z[static_cast<std::size_t>(6 * width + b)] = p.delta[static_cast<std::size_t>(8 * width + b)] =
            std::numeric_limits<float>::quiet_NaN();
      const SparseOutputs<float> out(p, {Backend::cpu, 1, isa}, true),
          truth(p, {Backend::reference, 1, isa}, true);
      const auto same = [](const Guarded<float>& got, const Guarded<float>& right, const char* what) {
        Index bad = 0;
        for (std::size_t i = 0; i < got.memory.size(); ++i) {
          EXPECT_EQ(std::isnan(got.memory[i]), std::isnan(right.memory[i])) << what << " " << i;
          bad += std::isnan(got.memory[i]) ? 1 : 0;
        }
        EXPECT_GT(bad, 0) << what;
        EXPECT_LT(bad, static_cast<Index>(got.memory.size())) << what;
      };
      same(out.h, truth.h, "h");
      same(out.dz, truth.dz, "dz");
      same(out.dm, truth.dm, "dm");
    }
}

TEST(RelateGrid, LargeGridsUseAllGroupsInsideTheWorkspace) {
  Grid grid{48, 53, {}, false};
  for (Index i = 0; i < 48 * 53; ++i) grid.node_of_cell.push_back(i);
  const RowPartition partition = RowPartition::blocks(48 * 53, 1);
  const GlobalEdges edges = grid_neighbours(grid, GridRelations::directional, partition, 0);
  ASSERT_EQ(edges.relations, 8);
  for (const Shape& shape :
       {Shape{48 * 53, 8, 8, 8}, Shape{48 * 53, 8, 1, 1}, Shape{48 * 53, 3, 4, 4}, Shape{48 * 53, 16, 4, 4},
        Shape{48 * 53, 8, 2, 2}, Shape{48 * 53, 8, 4, 8}, Shape{48 * 53, 8, 8, 4}})
    for (const bool identity : {false, true})
      for (const Isa isa : supported_isas()) {
        SCOPED_TRACE(to_string(isa));
        const Problem<float> p(shape, localise(edges, partition, 0, {}));
        const SparseOutputs<float> truth(p, {Backend::reference, 1, isa}, identity),
            one(p, {Backend::cpu, 1, isa}, identity), three(p, {Backend::cpu, 3, isa}, identity);
        one.h.expect_near(truth.h, 1e-5, "h");
        one.dz.expect_near(truth.dz, 1e-5, "dz");
        one.dm.expect_near(truth.dm, 1e-5, "dm");
        one.da.expect_near(truth.da, 1e-3, "da");
        one.dself.expect_near(truth.dself, 1e-3, "dself");
        one.dbias.expect_near(truth.dbias, 1e-3, "dbias");
        three.expect_equal(one);
      }
}

template <class T>
struct DenseOutputs {
  Guarded<T> h, dz, da, dm;
  DenseOutputs(const Shape& s, const Exec& exec, bool patterned)
      : h(static_cast<std::size_t>(s.n * s.cols * s.w)),
        dz(static_cast<std::size_t>((s.n + 3) * s.cols * s.d)),
        da(static_cast<std::size_t>(s.w * 2 * s.d)),
        dm(static_cast<std::size_t>(2 * s.n * (s.n + 3))) {
    std::vector<T> m(dm.memory.size() - 2), a(da.memory.size() - 2), z(dz.memory.size() - 2),
        delta(h.memory.size() - 2);
    fill_between<T>(m, 1, -0.3, 1.3);
    fill_between<T>(a, 2);
    fill_between<T>(z, 3);
    fill_between<T>(delta, 4);
    std::vector<std::uint8_t> pattern(m.size());
    for (std::size_t e = 0; e < m.size(); ++e) pattern[e] = e % 3 != 0;
    const DenseRelate<T> relate{
        s.n, s.n + 3, 2, m.data(), patterned ? pattern.data() : nullptr, true, {a.data(), s.w, 2 * s.d}};
    const NodeView<const T> z_view(z.data(), s.n + 3, s.cols, s.d),
        delta_view(delta.data(), s.n, s.cols, s.w);
    std::vector<T> workspace(static_cast<std::size_t>(relate_dense_workspace(exec, relate, s.cols, s.w)));
    relate_dense_forward<T>(exec, {h.data(), s.n, s.cols, s.w}, relate, z_view, workspace);
    relate_dense_backward<T>(exec, {dz.data(), s.n + 3, s.cols, s.d}, {da.data(), s.w, 2 * s.d}, dm.data(),
                             relate, delta_view, z_view, workspace);
  }
};

TEST_P(RelateKernels, DenseEqualsReference) {
  for (const bool patterned : {false, true}) {
    const DenseOutputs<double> truth(GetParam(), {Backend::reference, 1}, patterned),
        cpu(GetParam(), {Backend::cpu, 1}, patterned);
    cpu.h.expect_near(truth.h, 1e-13, "h");
    cpu.dz.expect_near(truth.dz, 1e-13, "dz");
    cpu.da.expect_near(truth.da, 1e-12, "da");
    cpu.dm.expect_near(truth.dm, 1e-13, "dm");
  }
}
INSTANTIATE_TEST_SUITE_P(Shapes, RelateKernels,
                         testing::Values(Shape{1, 1, 1, 1}, Shape{2, 3, 1, 1}, Shape{17, 1, 1, 1},
                                         Shape{67, 5, 1, 1}, Shape{131, 2, 3, 5}, Shape{40, 7, 8, 8},
                                         Shape{300, 8, 1, 1}, Shape{33, 79, 1, 1}, Shape{150, 8, 4, 4},
                                         Shape{61, 8, 2, 2}, Shape{29, 3, 1, 32}, Shape{19, 4, 6, 40},
                                         Shape{21, 5, 16, 2}, Shape{37, 8, 8, 8}, Shape{23, 3, 9, 11},
                                         Shape{0, 2, 2, 2}),
                         [](const auto& shape) {
                           const Shape& s = shape.param;
                           return "n" + std::to_string(s.n) + "B" + std::to_string(s.cols) + "d" +
                                  std::to_string(s.d) + "w" + std::to_string(s.w);
                         });

}  // namespace
}  // namespace rossby
