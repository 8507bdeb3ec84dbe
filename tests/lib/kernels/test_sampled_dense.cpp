#include <gtest/gtest.h>

#include "rossby/kernels/sampled.hpp"
#include "tests/lib/kernels/dense_problem.hpp"

// Rows of dense relations that a batch of pairs reads: vector kernels against plain loops in double.

namespace rossby::test {
namespace {

using dense_problem::random_values;
using dense_problem::Weights;

/// Layout of latents: contiguous steps of a node (ghosts), or contiguous nodes of a step (Z itself).
enum class Layout { nodes, steps };

/// A dense problem with samples. Its contexts have sentinels around them, too.
template <class T>
struct Sampled : dense_problem::Problem<T> {
  using Base = dense_problem::Problem<T>;
  Layout layout;
  std::vector<Sample> samples;
  std::vector<Index> order;
  std::vector<T> g, out;

  Sampled(const dense_problem::Shape& shape, Weights kind, Layout lies, Index count)
      : Base(shape, kind), layout(lies) {
    const Random draw(3, "samples");
    const auto pick = [&](Index key, Index among) {
      return static_cast<Index>(draw.uniform(static_cast<std::uint64_t>(key)) * static_cast<double>(among));
    };
    for (Index q = 0; q < count; ++q)
      samples.push_back({pick(2 * q, shape.rows), pick(2 * q + 1, shape.cols)});
    order.resize(samples.size());
    std::vector<Index> counts(static_cast<std::size_t>(shape.cols + 1));
    order_by_column(samples, order, counts);
    g = random_values<T>(count * shape.relations * shape.d, "g");
    out.assign(g.size() + 2 * Base::guard, T(1234.5));
  }

  template <class V>
  [[nodiscard]] NodeView<V> view(V* values) const {
    const dense_problem::Shape& of = this->s;
    if (layout == Layout::nodes) return {values, of.columns, of.cols, of.d};
    return {values, of.columns, of.cols, of.d, of.d, of.columns * of.d};
  }

  void run(const Exec& exec, bool latents = true, bool weights = true) {
    const dense_problem::Shape& of = this->s;
    const auto count = static_cast<Index>(samples.size());
    const Index wide = of.relations * of.d;
    std::vector<T> scratch(static_cast<std::size_t>(sampled_dense_workspace(exec, this->relate, of.d, count)),
                           T(NAN));
    const SampledWork<T> work{order, scratch};
    const NodeView<const T> seen = view(static_cast<const T*>(this->z.data()));
    sampled_dense_forward<T>(exec, {out.data() + Base::guard, count, wide}, this->relate, samples, seen,
                             work);
    std::fill(scratch.begin(), scratch.end(), T(NAN));
    sampled_dense_backward<T>(exec, latents ? view(this->dz.data() + Base::guard) : NodeView<T>{},
                              weights ? this->dm.data() + Base::guard : nullptr, this->relate, samples,
                              {g.data(), count, wide}, seen, work);
  }
};

const dense_problem::Shape shapes[] = {{1, 1, 1, 1, 1, 1},    {3, 7, 2, 3, 1, 1},    {5, 64, 1, 2, 2, 1},
                                       {4, 65, 3, 5, 3, 1},   {7, 131, 1, 4, 4, 1},  {6, 100, 2, 3, 8, 1},
                                       {3, 77, 1, 6, 13, 1},  {2, 2048, 1, 3, 1, 1}, {3, 2049, 2, 2, 2, 1},
                                       {5, 4133, 1, 7, 3, 1}, {2, 2111, 1, 2, 16, 1}};

template <class T>
void expect_like_reference(double tolerance) {
  for (const auto& shape : shapes)
    for (const Weights kind : {Weights::given, Weights::clamped, Weights::patterned})
      for (const Layout layout : {Layout::nodes, Layout::steps})
        for (const Index count : {1, 3, 40}) {
          Sampled<double> truth(shape, kind, layout, count);
          truth.run({.backend = Backend::reference});
          for (const Isa isa : supported_isas_of<T>()) {
            SCOPED_TRACE(std::string(to_string(isa)) + " n = " + std::to_string(shape.columns) +
                         " d = " + std::to_string(shape.d) + " samples " + std::to_string(count));
            Sampled<T> here(shape, kind, layout, count);
            here.run({.isa = isa});
            dense_problem::expect_near(here.out, truth.out, tolerance, "context");
            dense_problem::expect_near(here.dz, truth.dz, tolerance, "dz");
            dense_problem::expect_near(here.dm, truth.dm, tolerance, "dm");
          }
        }
}

TEST(SampledDense, EqualsPlainLoops) {
  expect_like_reference<double>(1e-13);
  expect_like_reference<float>(2e-6);
}

TEST(SampledDense, GivesOnlyTheGradientsThatAreWanted) {
  const dense_problem::Shape shape{5, 2100, 2, 4, 3, 1};
  for (const Isa isa : supported_isas()) {
    Sampled<float> both(shape, Weights::clamped, Layout::steps, 30), latents = both, weights = both;
    const std::vector<float> untouched_dz = both.dz, untouched_dm = both.dm;
    // Copies keep pointing to their own arrays.
    latents.relate.weight = latents.weight.data();
    weights.relate.weight = weights.weight.data();
    both.run({.isa = isa});
    latents.run({.isa = isa}, true, false);
    weights.run({.isa = isa}, false, true);
    EXPECT_EQ(latents.dz, both.dz);
    EXPECT_EQ(latents.dm, untouched_dm);
    EXPECT_EQ(weights.dm, both.dm);
    EXPECT_EQ(weights.dz, untouched_dz);
  }
}

TEST(SampledDense, ThreadsChangeNoBit) {
  for (const Isa isa : supported_isas()) {
    Sampled<float> one({9, 6500, 2, 5, 3, 1}, Weights::clamped, Layout::steps, 60), four = one;
    four.relate.weight = four.weight.data();
    one.run({.threads = 1, .isa = isa});
    four.run({.threads = 4, .isa = isa});
    EXPECT_EQ(one.out, four.out);
    EXPECT_EQ(one.dz, four.dz);
    EXPECT_EQ(one.dm, four.dm);
  }
}

TEST(SampledDense, ValuesThatAreNotNumbersReachEveryResultTheyShould) {
  Sampled<float> p({4, 70, 1, 3, 2, 1}, Weights::clamped, Layout::nodes, 12);
  p.weight[static_cast<std::size_t>(p.samples[0].row * 70 + 69)] = NAN;
  p.run({});
  EXPECT_TRUE(std::isnan(p.out[Sampled<float>::guard]));
  for (std::size_t q = 0; q < p.samples.size(); ++q)
    EXPECT_EQ(std::isnan(p.out[Sampled<float>::guard + 2 * q]), p.samples[q].row == p.samples[0].row) << q;
  // A NaN weight passes no gradient, like any weight outside (0, 1).
  for (const float gradient : p.dm) EXPECT_FALSE(std::isnan(gradient));
}

TEST(SampledDense, SamplesAreOrderedByColumnAndStayInOrderWithinOne) {
  const std::vector<Sample> samples{{0, 2}, {1, 0}, {2, 2}, {3, 1}, {4, 0}};
  std::vector<Index> order(5), counts(4);
  order_by_column(samples, order, counts);
  EXPECT_EQ(order, (std::vector<Index>{1, 4, 3, 0, 2}));
}

}  // namespace
}  // namespace rossby::test
