#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/tgcn/tgcn.hpp"
#include "tests/lib/model/noise_windows.hpp"

// T-GCN against its equations, and its gradients against finite differences, on one rank. Over ranks:
// tests/mpi/test_window_ranks.cpp.

namespace rossby {
namespace {

constexpr Index nodes = 5, windows = 3, inputs = 4, outputs = 2, channels = 3, features = 2, units = 4;

using Noise = NoiseWindows;

struct Fixture {
  CsrBlock block;
  OneRankExchange exchange{nodes};
  Tgcn<double> model;

  explicit Fixture(Recompute recompute)
      : block(ring()),
        model({inputs, outputs, rossby::channels, rossby::features, units, recompute},
              Diffusion<double>(block, exchange, 1, DiffusionVariant::paper)) {
    model.start(4);
    for (Parameter<double>* parameter : model.parameters())
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] += 0.1 * std::cos(static_cast<double>(i));
  }

  /// Node i reads itself and the next node.
  static double weight(Index i, Index j) { return i == j ? 0.6 : (i + 1) % nodes == j ? 0.3 : 0; }
  static CsrBlock ring() {
    GlobalEdges edges;
    edges.rows = nodes;
    edges.relations = 1;
    edges.ptr = {0};
    for (Index i = 0; i < nodes; ++i) {
      for (Index j = 0; j < nodes; ++j)
        if (weight(i, j) != 0) edges.column.emplace_back(j), edges.value.push_back(weight(i, j));
      edges.ptr.push_back(edges.entries());
    }
    return localise(edges, RowPartition::blocks(nodes, 1), 0, {});
  }

  double loss(Tape<double>& tape) {
    tape.reset();
    std::vector<Var<double>> y(outputs);
    model.predict(tape, Noise(nodes, rossby::windows, rossby::channels, rossby::features), y);
    double sum = 0;
    for (const Var<double>& step : y)
      masked_squared_error(tape, step, {target.data(), nodes, rossby::windows, rossby::features}, 0.5, &sum);
    return 0.5 * sum;
  }
  std::vector<float> target = std::vector<float>(nodes * rossby::windows * rossby::features, 0.25F);
};

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Computes the equations of the class scalar by scalar.
std::vector<double> by_hand(const Fixture& f, Index window) {
  const auto p = f.model.parameters();
  const auto weight = [&](std::size_t k, Index row, Index column) {
    return p[k]->value[row * p[k]->shape[1] + column];
  };
  using Nodes = std::vector<std::vector<double>>;
  const auto along = [](const Nodes& z) {
    Nodes y(nodes, std::vector<double>(z[0].size(), 0.0));
    for (Index i = 0; i < nodes; ++i)
      for (Index j = 0; j < nodes; ++j)
        for (std::size_t q = 0; q < z[0].size(); ++q)
          y[static_cast<std::size_t>(i)][q] += Fixture::weight(i, j) * z[static_cast<std::size_t>(j)][q];
    return y;
  };
  const auto product = [&](std::size_t k, Index row, const std::vector<double>& z) {
    double sum = 0;
    for (std::size_t q = 0; q < z.size(); ++q) sum += weight(k, row, static_cast<Index>(q)) * z[q];
    return sum;
  };
  Nodes h(nodes, std::vector<double>(units, 0.0));
  for (Index t = 0; t < inputs; ++t) {
    Nodes x(nodes);
    for (Index i = 0; i < nodes; ++i)
      for (Index c = 0; c < rossby::channels; ++c)
        x[static_cast<std::size_t>(i)].push_back(
            Noise::value(t, (i * rossby::windows + window) * rossby::channels + c));
    const Nodes sx = along(x), sh = along(h);
    Nodes r(h), u(h);
    for (std::size_t i = 0; i < nodes; ++i)
      for (Index q = 0; q < units; ++q) {
        const auto k = static_cast<std::size_t>(q);
        r[i][k] = logistic(product(0, q, sx[i]) + p[3]->value[q] + product(1, q, sh[i]));
        u[i][k] =
            logistic(product(0, units + q, sx[i]) + p[3]->value[units + q] + product(1, units + q, sh[i]));
      }
    Nodes rh(h);
    for (std::size_t i = 0; i < nodes; ++i)
      for (std::size_t q = 0; q < units; ++q) rh[i][q] *= r[i][q];
    const Nodes srh = along(rh);
    for (std::size_t i = 0; i < nodes; ++i)
      for (Index q = 0; q < units; ++q) {
        const auto k = static_cast<std::size_t>(q);
        const double c =
            std::tanh(product(0, 2 * units + q, sx[i]) + p[3]->value[2 * units + q] + product(2, q, srh[i]));
        h[i][k] = u[i][k] * h[i][k] + (1 - u[i][k]) * c;
      }
  }
  std::vector<double> y;
  for (std::size_t i = 0; i < nodes; ++i)
    for (Index o = 0; o < outputs * rossby::features; ++o) y.push_back(product(4, o, h[i]) + p[5]->value[o]);
  return y;
}

TEST(Tgcn, IsItsEquations) {
  Fixture f(Recompute::none);
  Tape<double> tape{Exec{}};
  tape.set_recording(false);
  std::vector<Var<double>> y(outputs);
  f.model.predict(tape, Noise(nodes, rossby::windows, rossby::channels, rossby::features), y);
  for (Index b = 0; b < rossby::windows; ++b) {
    const auto expected = by_hand(f, b);
    for (Index i = 0; i < nodes; ++i)
      for (Index o = 0; o < outputs; ++o)
        for (Index c = 0; c < rossby::features; ++c)
          EXPECT_NEAR(y[static_cast<std::size_t>(o)].value.at(i, b)[c],
                      expected[static_cast<std::size_t>((i * outputs + o) * rossby::features + c)], 1e-13);
  }
}

TEST(Tgcn, GradientsMatchFiniteDifferencesAndRecomputingChangesNothing) {
  std::vector<std::vector<double>> all;
  for (const Recompute recompute : {Recompute::none, Recompute::cell}) {
    Fixture f(recompute);
    Tape<double> tape{Exec{}};
    f.loss(tape);
    tape.backward();
    all.emplace_back();
    for (Parameter<double>* parameter : f.model.parameters())
      all.back().insert(all.back().end(), parameter->gradient.begin(), parameter->gradient.end());
    const auto error = check_gradients(f.model.parameters(), [&] { return f.loss(tape); });
    EXPECT_LT(error.relative, 1e-8) << error.parameter << "[" << error.index << "]";
  }
  EXPECT_EQ(all[0], all[1]);
}

}  // namespace
}  // namespace rossby
