#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/relate.hpp"
#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/train/step.hpp"

// A dense relation updated in backward, inside a training step.

namespace rossby {
namespace {

struct Problem {
  static constexpr Index n = 9, cols = 2, d = 2;
  OneRankExchange exchange{n};
  OneRankReducer reducer;
  Parameter<double> z{"z", Placement::rows, {cols, n, d}};
  Parameter<double> m{"m", Placement::rows, {1, n, n}, true};
  Parameter<double> a{"a", Placement::replicated, {d, 2 * d}};
  RelationBank<double> bank;
  std::vector<float> target;
  std::vector<Parameter<double>*> parameters{&z, &m, &a};
  Tape<double> tape{Exec{}};
  Losses losses;

  Problem() {
    bank.nodes = bank.rows = n;
    bank.exchange = &exchange;
    bank.reducer = &reducer;
    RelationTerm<double> term;
    term.kind = RelationTerm<double>::Kind::dense;
    term.weight = &m;
    bank.terms.push_back(std::move(term));
    bank.classify_rows();
    std::uint64_t seed = 1;
    for (Parameter<double>* parameter : parameters)
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] =
            Random(seed, "value").at(static_cast<std::uint64_t>(i)).uniform(seed, -0.3, 1.2);
    for (Index i = 0; i < n * cols * d; ++i) target.push_back(static_cast<float>(i % 5));
  }

  void record(int layers = 1, double l1 = 0.01) {
    const std::vector<Index> times{0, 1};
    const Var<double> x = embed_columns(tape, z, std::span<const Index>(times));
    for (int layer = 0; layer < layers; ++layer) {
      const Var<double> h = relate_linear<double>(tape, bank, x, a, nullptr);
      masked_squared_error(tape, h, NodeView<const float>(target.data(), n, cols, d), 1,
                           losses.add("error", 1));
    }
    if (l1 > 0) clamp_l1(tape, m, l1, losses.add("l1", l1));
  }
};

struct LowRankProblem {
  Index n;
  OneRankExchange exchange;
  OneRankReducer reducer;
  Parameter<double> z, u, v, a;
  RelationBank<double> bank;
  std::vector<float> target;
  std::vector<Parameter<double>*> parameters{&z, &u, &v, &a};
  Tape<double> tape{Exec{}};
  Losses losses;
  double norm = 0;

  LowRankProblem(Index rows, Index rank)
      : n(rows),
        exchange(rows),
        z("z", Placement::rows, {2, rows, 2}),
        u("u", Placement::rows, {1, rows, rank}, true),
        v("v", Placement::rows, {1, rows, rank}, true),
        a("a", Placement::replicated, {2, 4}) {
    bank.nodes = bank.rows = n;
    bank.exchange = &exchange;
    bank.reducer = &reducer;
    RelationTerm<double> term;
    term.kind = RelationTerm<double>::Kind::low_rank;
    term.u = &u;
    term.v = &v;
    bank.terms.push_back(std::move(term));
    bank.classify_rows();
    std::uint64_t seed = 1;
    for (Parameter<double>* parameter : parameters) {
      parameter->decay = 1e-3;
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] =
            Random(seed, "value").at(static_cast<std::uint64_t>(i)).uniform(seed, -0.6, 1.2);
      ++seed;
    }
    for (Index i = 0; i < n * 4; ++i) target.push_back(static_cast<float>(i % 5));
  }

  void record() {
    const std::vector<Index> times{0, 1};
    const Var<double> x = embed_columns(tape, z, std::span<const Index>(times));
    const Var<double> h = relate_linear<double>(tape, bank, x, a, nullptr);
    masked_squared_error(tape, h, NodeView<const float>(target.data(), n, 2, 2), 1, losses.add("error", 1));
  }
};

TEST(Fused, ClipsOneStepLateByTheCompleteNorm) {
  constexpr double clip = 0.5;
  Problem plain, fused;
  Optimiser<double> plain_optimiser({}, plain.parameters), fused_optimiser({.fuse = true}, fused.parameters);
  Step<double> plain_step(plain.parameters, plain_optimiser, plain.reducer, clip);
  Step<double> fused_step(fused.parameters, fused_optimiser, fused.reducer, clip);
  const auto run = [](Problem& p, Step<double>& step) {
    return step.run(p.tape, 1e-3, false, p.losses, [&] { p.record(); });
  };
  const auto expected = run(plain, plain_step), result = run(fused, fused_step);
  EXPECT_NEAR(result.gradient_norm, expected.gradient_norm, 1e-12 * expected.gradient_norm);
  EXPECT_NEAR(result.loss, expected.loss, 1e-12 * expected.loss);
  const double scale = clip / (expected.gradient_norm + 1e-6);
  ASSERT_LT(scale, 0.5);
  // The first step of M was not scaled; the steps of all other parameters were.
  const auto& v_plain = plain_optimiser.states()[1].second.host();
  const auto& v_fused = fused_optimiser.states()[1].second.host();
  for (Index e = 0; e < v_plain.size(); ++e)
    EXPECT_NEAR(v_fused[e] * scale * scale, v_plain[e], 1e-12 * (1 + v_plain[e])) << e;
  const auto& v_z = fused_optimiser.states()[0].second.host();
  for (Index e = 0; e < v_z.size(); ++e)
    EXPECT_NEAR(v_z[e], plain_optimiser.states()[0].second.host()[e], 1e-12 * (1 + v_z[e])) << e;
  // The second step of M is scaled by the first step's factor.
  std::vector<double> before(v_fused.begin(), v_fused.end());
  Problem twin;  // computes the second step's gradient from the same state
  for (std::size_t p = 0; p < twin.parameters.size(); ++p)
    std::copy(fused.parameters[p]->value.begin(), fused.parameters[p]->value.end(),
              twin.parameters[p]->value.begin());
  twin.record();
  twin.tape.backward();
  run(fused, fused_step);
  for (Index e = 0; e < v_fused.size(); ++e) {
    const double g = scale * twin.m.gradient[e];
    EXPECT_NEAR(v_fused[e], 0.999 * before[static_cast<std::size_t>(e)] + 0.001 * g * g, 1e-12) << e;
  }
}

TEST(Fused, KeepsNoGradientAndAllocatesNothingAfterTheSecondStep) {
  Problem p;
  Optimiser<double> optimiser({.beta1 = 0.9, .fuse = true}, p.parameters);
  Step<double> step(p.parameters, optimiser, p.reducer, 1.0);
  Index before = 0;
  for (int s = 0; s < 8; ++s) {
    if (s == 3) before = detail::allocation_count();
    step.run(p.tape, 1e-3, false, p.losses, [&] { p.record(); });
  }
  EXPECT_EQ(detail::allocation_count(), before);
  EXPECT_EQ(p.m.gradient.size(), 0);
  EXPECT_EQ(optimiser.states()[1].count, 8);
}

TEST(Fused, ALossThatIsNotFiniteIsAnError) {
  Problem p;
  p.z.value[3] = std::numeric_limits<double>::infinity();
  Optimiser<double> optimiser({.fuse = true}, p.parameters);
  Step<double> step(p.parameters, optimiser, p.reducer, 0);
  EXPECT_THROW(step.run(p.tape, 1e-3, false, p.losses, [&] { p.record(); }), UserError);
}

TEST(Fused, AnAbsentRelationIsUpdatedWithGradientZero) {
  Problem plain, fused;
  Optimiser<double> plain_optimiser({.beta1 = 0.9}, plain.parameters),
      fused_optimiser({.beta1 = 0.9, .fuse = true}, fused.parameters);
  Step<double> plain_step(plain.parameters, plain_optimiser, plain.reducer, 0),
      fused_step(fused.parameters, fused_optimiser, fused.reducer, 0);
  for (int s = 0; s < 5; ++s) {
    plain_step.run(plain.tape, 1e-2, false, plain.losses, [&] { s % 2 ? (void)0 : plain.record(); });
    fused_step.run(fused.tape, 1e-2, false, fused.losses, [&] { s % 2 ? (void)0 : fused.record(); });
  }
  for (Index e = 0; e < plain.m.size(); ++e) EXPECT_NEAR(fused.m.value[e], plain.m.value[e], 1e-12) << e;
  EXPECT_EQ(fused_optimiser.states()[1].count, 5);
}

/// Compares several steps with U and V updated in backward against steps with gradients of their own.
void check_low_rank(Index n, Index rank, const OptimiserOptions& options, bool clipped) {
  const auto make = [&](bool fuse) {
    auto p = std::make_unique<LowRankProblem>(n, rank);
    OptimiserOptions with = options;
    with.fuse = fuse;
    Optimiser<double> optimiser(with, p->parameters);
    Step<double> step(p->parameters, optimiser, p->reducer, clipped ? 1e9 : 0);
    for (int s = 0; s < 6; ++s)
      p->norm =
          step.run(p->tape, 1e-2, false, p->losses, [&] { s == 3 ? (void)0 : p->record(); }).gradient_norm;
    return p;
  };
  const auto plain = make(false), fused = make(true);
  EXPECT_NEAR(fused->norm, plain->norm, 1e-12 * (1 + plain->norm));
  for (std::size_t q = 0; q < plain->parameters.size(); ++q)
    for (Index e = 0; e < plain->parameters[q]->size(); ++e)
      EXPECT_NEAR(fused->parameters[q]->value[e], plain->parameters[q]->value[e], 1e-12)
          << plain->parameters[q]->name << " " << e;
  EXPECT_EQ(fused->u.gradient.size(), 0);
  EXPECT_EQ(fused->v.gradient.size(), 0);
}

TEST(Fused, LowRankFactorsEqualThoseWithGradients) {
  for (const Index rank : {1, 3, 20})
    for (const Index n : {Index{1}, 2560 / rank, 2560 / rank + 1, Index{700}})  // whole tiles and not
      for (const auto kind : {OptimiserKind::adam, OptimiserKind::adamw})
        check_low_rank(n, rank, {.kind = kind, .beta1 = kind == OptimiserKind::adam ? 0 : 0.9}, n == 700);
}

/// Along a random direction in each parameter, because many tiles of rows have too many entries to check
/// each.
TEST(LowRank, GradientsOverManyTilesMatchFiniteDifferences) {
  LowRankProblem p(700, 20);
  const auto loss = [&] {
    p.tape.reset();
    p.losses.clear();
    p.record();
    return p.losses.total();
  };
  loss();
  p.tape.backward();
  std::uint64_t seed = 77;
  for (Parameter<double>* parameter : p.parameters) {
    std::vector<double> direction;
    double slope = 0;
    for (Index e = 0; e < parameter->size(); ++e) {
      direction.push_back(Random(seed, "direction").at(static_cast<std::uint64_t>(e)).uniform(seed, -1, 1));
      slope += direction.back() * parameter->gradient[e];
    }
    const auto along = [&](double length) {
      for (Index e = 0; e < parameter->size(); ++e)
        parameter->value[e] += length * direction[static_cast<std::size_t>(e)];
      return loss();
    };
    constexpr double h = 1e-5;
    const double above = along(h), below = along(-2 * h);
    along(h);
    EXPECT_GT(std::abs(slope), 1e-3) << parameter->name;
    EXPECT_NEAR((above - below) / (2 * h), slope, 1e-6 * (1 + std::abs(slope))) << parameter->name;
    ++seed;
  }
}

TEST(Fused, ServesOneLayerAStepAndNoPairs) {
  Problem p;
  Optimiser<double> optimiser({.fuse = true}, p.parameters);
  Step<double> step(p.parameters, optimiser, p.reducer, 0);
  EXPECT_THROW(step.run(p.tape, 1e-3, false, p.losses, [&] { p.record(2); }), BugError);
  const std::vector<Sample> samples{{0, 0}};
  p.tape.reset();
  optimiser.begin_step(1e-3, 1);
  EXPECT_THROW(
      (void)relate_linear_sampled<double>(p.tape, p.bank, whole_table(p.tape, p.z), samples, p.a, nullptr),
      BugError);
}

TEST(Fused, EndsWithItsOptimiser) {
  Problem p;
  { const Optimiser<double> optimiser({.fuse = true}, p.parameters); }
  p.record();
  p.tape.backward();
  EXPECT_EQ(p.m.gradient.size(), p.m.size());
}

}  // namespace
}  // namespace rossby
