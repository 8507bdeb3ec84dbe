#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/graph_wavenet/graph_wavenet.hpp"
#include "tests/lib/model/dual.hpp"
#include "tests/lib/model/noise_windows.hpp"

// Graph WaveNet against its equations, written out scalar by scalar. Numbers carry a derivative, so that
// gradients are compared with exact ones. On one rank; over ranks and time groups:
// tests/mpi/test_window_ranks.cpp.

namespace rossby {
namespace {

constexpr Index nodes = 5, windows = 3, outputs = 2, channels = 3, features = 2;
constexpr std::array<Index, nodes> global{2, 0, 1, 4, 3};  // rows in the order of positions

using Noise = NoiseWindows;

struct Variant {
  const char* name;
  int supports;
  bool adaptive;
  Index inputs, blocks, block_layers, powers;
  double dropout;
};

struct Fixture {
  GraphWavenetOptions options;
  CsrBlock block;
  OneRankExchange exchange{nodes};
  OneRankReducer reducer;
  std::unique_ptr<GraphWavenet<double>> model;
  std::vector<float> target = std::vector<float>(nodes * windows * features, 0.25F);

  explicit Fixture(const Variant& v, Recompute recompute = Recompute::none) : block(ring(v.supports)) {
    options = {v.inputs, outputs,    channels, features,  v.blocks, v.block_layers, 4, 5, 6,
               v.powers, v.adaptive, 3,        v.dropout, 9,        recompute};
    AllNodes all;
    all.global.assign(global.begin(), global.end());
    all.owned = nodes;
    model = std::make_unique<GraphWavenet<double>>(
        options, Diffusion<double>(block, exchange, static_cast<int>(v.powers), DiffusionVariant::powers),
        all, reducer);
    model->start(4);
    for (Parameter<double>* parameter : model->parameters())
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] += 0.1 * std::cos(static_cast<double>(3 * i + 1));
  }

  static double weight(int support, Index i, Index j) {
    const Index to = support == 0 ? i + 1 : i + nodes - 2;
    return to % nodes == j ? 0.7 : i == j ? 0.2 * support : 0;
  }
  static CsrBlock ring(int supports) {
    GlobalEdges edges;
    edges.rows = nodes;
    edges.relations = supports;
    edges.ptr = {0};
    for (Index i = 0; i < nodes; ++i)
      for (int s = 0; s < supports; ++s) {
        for (Index j = 0; j < nodes; ++j)
          if (weight(s, i, j) != 0) edges.column.emplace_back(j), edges.value.push_back(weight(s, i, j));
        edges.ptr.push_back(edges.entries());
      }
    return localise(edges, RowPartition::blocks(nodes, 1), 0, {});
  }

  std::vector<Var<double>> predict(Tape<double>& tape) {
    tape.reset();
    std::vector<Var<double>> y(outputs);
    model->predict(tape, Noise(nodes, windows, channels, features), y);
    return y;
  }
  double loss(Tape<double>& tape) {
    double sum = 0;
    for (const Var<double>& step : predict(tape))
      masked_squared_error(tape, step, {target.data(), nodes, windows, features}, 0.5, &sum);
    return 0.5 * sum;
  }
};

/// The equations of the class; parameters are read by name.
struct ByHand {
  const Fixture& f;
  bool training;
  std::string moved;  // name of the parameter whose entry `entry` has slope 1
  Index entry = 0;
  std::map<std::string, std::pair<double, double>> running;  // after the step, of channel 0 of each norm

  using Steps = std::vector<Dual>;  // (steps, nodes, windows, c)

  [[nodiscard]] const Parameter<double>& parameter(const std::string& name) const {
    for (const Parameter<double>* p : f.model->parameters())
      if (p->name == name) return *p;
    bug("no parameter " + name);
  }
  [[nodiscard]] Dual at(const std::string& name, Index i) const {
    return {parameter(name).value[i], name == moved && i == entry ? 1.0 : 0.0};
  }
  [[nodiscard]] static std::size_t place(Index t, Index i, Index b, Index c, Index size) {
    return static_cast<std::size_t>(((t * nodes + i) * windows + b) * size + c);
  }
  [[nodiscard]] static Index steps_of(const Steps& x, Index size) {
    return std::ssize(x) / (nodes * windows * size);
  }
  template <class F>
  static void each(Index steps, Index size, const F& g) {
    for (Index t = 0; t < steps; ++t)
      for (Index i = 0; i < nodes; ++i)
        for (Index b = 0; b < windows; ++b)
          for (Index c = 0; c < size; ++c) g(t, i, b, c);
  }

  [[nodiscard]] Steps linear(const std::string& name, const Steps& x, Index in, Index out) const {
    const Index steps = steps_of(x, in);
    Steps y(static_cast<std::size_t>(steps * nodes * windows * out));
    each(steps, out, [&](Index t, Index i, Index b, Index o) {
      Dual sum = at(name + "_bias", o);
      for (Index k = 0; k < in; ++k) sum = sum + at(name + "_weight", o * in + k) * x[place(t, i, b, k, in)];
      y[place(t, i, b, o, out)] = sum;
    });
    return y;
  }

  [[nodiscard]] Steps gated(const std::string& name, const Steps& x, Index dilation) const {
    const Index u = f.options.width, steps = steps_of(x, u) - dilation;
    Steps y(static_cast<std::size_t>(steps * nodes * windows * u));
    each(steps, u, [&](Index t, Index i, Index b, Index c) {
      Dual sum[2];
      for (Index half = 0; half < 2; ++half) {
        const Index row = half * u + c;
        sum[half] = at(name + "_gate_bias", row);
        for (Index k = 0; k < u; ++k)
          sum[half] = sum[half] + at(name + "_gate_weight", row * 2 * u + k) * x[place(t, i, b, k, u)] +
                      at(name + "_gate_weight", row * 2 * u + u + k) * x[place(t + dilation, i, b, k, u)];
      }
      y[place(t, i, b, c, u)] = hyperbolic_tangent(sum[0]) * logistic(sum[1]);
    });
    return y;
  }

  /// Returns A of the tables: (A y)_w = Σ_v A[v, w] y_v.
  [[nodiscard]] std::vector<Dual> adjacency() const {
    const Index k = f.options.adaptive_width;
    std::vector<Dual> a(nodes * nodes);
    for (Index v = 0; v < nodes; ++v) {
      Dual sum;
      for (Index w = 0; w < nodes; ++w) {
        Dual score;
        for (Index c = 0; c < k; ++c)
          score = score + at("source_factors", global[static_cast<std::size_t>(v)] * k + c) *
                              at("target_factors", global[static_cast<std::size_t>(w)] * k + c);
        a[static_cast<std::size_t>(v * nodes + w)] = exp(positive_part(score));
        sum = sum + a[static_cast<std::size_t>(v * nodes + w)];
      }
      for (Index w = 0; w < nodes; ++w)
        a[static_cast<std::size_t>(v * nodes + w)] = a[static_cast<std::size_t>(v * nodes + w)] / sum;
    }
    return a;
  }

  /// Applies m[i, j] of a support, or the transposed adjacency.
  template <class M>
  [[nodiscard]] static Steps along(const Steps& x, Index size, const M& m) {
    Steps y(x.size());
    each(steps_of(x, size), size, [&](Index t, Index i, Index b, Index c) {
      Dual sum;
      for (Index j = 0; j < nodes; ++j) sum = sum + m(i, j) * x[place(t, j, b, c, size)];
      y[place(t, i, b, c, size)] = sum;
    });
    return y;
  }

  [[nodiscard]] Steps graph_convolution(const std::string& name, const Steps& y) const {
    const Index u = f.options.width, terms = 1 + f.block.relations * f.options.powers;
    Steps h(y.size());
    const auto add = [&](const std::string& weight, Index width, Index term, const Steps& z) {
      each(steps_of(y, u), u, [&](Index t, Index i, Index b, Index o) {
        Dual& to = h[place(t, i, b, o, u)];
        for (Index k = 0; k < u; ++k)
          to = to + at(weight, o * width + term * u + k) * z[place(t, i, b, k, u)];
      });
    };
    each(steps_of(y, u), u,
         [&](Index t, Index i, Index b, Index o) { h[place(t, i, b, o, u)] = at(name + "_graph_bias", o); });
    add(name + "_graph_weight", terms * u, 0, y);
    for (int s = 0; s < f.block.relations; ++s) {
      Steps z = y;
      for (Index k = 1; k <= f.options.powers; ++k) {
        z = along(z, u, [&](Index i, Index j) { return Dual(Fixture::weight(s, i, j)); });
        add(name + "_graph_weight", terms * u, 1 + (k - 1) * f.block.relations + s, z);
      }
    }
    if (!f.options.adaptive) return h;
    const auto a = adjacency();
    Steps z = y;
    for (Index k = 1; k <= f.options.powers; ++k) {
      z = along(z, u, [&](Index i, Index j) { return a[static_cast<std::size_t>(j * nodes + i)]; });
      add(name + "_adaptive_weight", f.options.powers * u, k - 1, z);
    }
    return h;
  }

  void normalise(const std::string& name, Steps& x) {
    const Index u = f.options.width, steps = steps_of(x, u);
    for (Index c = 0; c < u; ++c) {
      const double count = static_cast<double>(steps * nodes * windows);
      Dual mean = at(name + "_running_mean", c), variance = at(name + "_running_variance", c);
      if (training) {
        mean = variance = Dual();
        each(steps, 1,
             [&](Index t, Index i, Index b, Index) { mean = mean + x[place(t, i, b, c, u)] / count; });
        each(steps, 1, [&](Index t, Index i, Index b, Index) {
          const Dual distance = x[place(t, i, b, c, u)] - mean;
          variance = variance + distance * distance / count;
        });
        if (c == 0)
          running[name] = {
              0.9 * at(name + "_running_mean", c).value + 0.1 * mean.value,
              0.9 * at(name + "_running_variance", c).value + 0.1 * variance.value * count / (count - 1)};
      }
      each(steps, 1, [&](Index t, Index i, Index b, Index) {
        Dual& to = x[place(t, i, b, c, u)];
        to = (to - mean) / sqrt(variance + 1e-5) * at(name + "_gain", c) + at(name + "_bias", c);
      });
    }
  }

  void drop(Steps& h, Index layer, Index first_step) const {
    const Index u = f.options.width;
    if (!training || f.options.dropout == 0) return;
    const Random random = Random(9, "dropout").at(6).at(static_cast<std::uint64_t>(layer));
    each(steps_of(h, u), u, [&](Index t, Index i, Index b, Index c) {
      const Index column = (10 * b + 3) * f.options.receptive_steps() + first_step + t;
      const bool kept = random.at(static_cast<std::uint64_t>(global[static_cast<std::size_t>(i)]))
                            .uniform(static_cast<std::uint64_t>(column * u + c)) >= f.options.dropout;
      Dual& to = h[place(t, i, b, c, u)];
      to = kept ? to / Dual(1 - f.options.dropout) : Dual();
    });
  }

  /// Returns (nodes, windows, outputs·features).
  [[nodiscard]] Steps outputs_of() {
    const GraphWavenetOptions& o = f.options;
    const Index all = o.receptive_steps(), padding = all - o.inputs;
    Steps x(static_cast<std::size_t>(all * nodes * windows * channels));
    each(o.inputs, channels, [&](Index t, Index i, Index b, Index c) {
      x[place(padding + t, i, b, c, channels)] = Noise::value(t, (i * windows + b) * channels + c);
    });
    x = linear("start", x, channels, o.width);
    Steps skip(static_cast<std::size_t>(nodes * windows * o.skip));
    Index first_step = 0;
    for (Index l = 0; l < o.layers(); ++l) {
      const std::string name = "layer" + std::to_string(l);
      const Index dilation = Index{1} << l % o.block_layers;
      first_step += dilation;
      const Steps y = gated(name, x, dilation);
      const Steps last(y.end() - nodes * windows * o.width, y.end());
      const Steps more = linear(name + "_skip", last, o.width, o.skip);
      for (std::size_t k = 0; k < skip.size(); ++k) skip[k] = skip[k] + more[k];
      if (l + 1 == o.layers()) break;
      Steps h = graph_convolution(name, y);
      drop(h, l, first_step);
      for (std::size_t k = 0; k < h.size(); ++k) h[k] = h[k] + x[k + x.size() - h.size()];
      normalise(name + "_norm", h);
      x = h;
    }
    for (Dual& value : skip) value = positive_part(value);
    Steps hidden = linear("hidden", skip, o.skip, o.end);
    for (Dual& value : hidden) value = positive_part(value);
    return linear("projection", hidden, o.end, outputs * features);
  }
  [[nodiscard]] Dual loss() {
    Dual sum;
    for (const Dual y : outputs_of()) sum = sum + (y - Dual(0.25)) * (y - Dual(0.25));
    return Dual(0.5) * sum;
  }
};

class GraphWavenetOf : public testing::TestWithParam<Variant> {};

void expect_equal(const std::vector<Var<double>>& y, const std::vector<Dual>& expected) {
  for (Index i = 0; i < nodes; ++i)
    for (Index b = 0; b < windows; ++b)
      for (Index o = 0; o < outputs; ++o)
        for (Index c = 0; c < features; ++c)
          EXPECT_NEAR(
              y[static_cast<std::size_t>(o)].value.at(i, b)[c],
              expected[static_cast<std::size_t>(((i * windows + b) * outputs + o) * features + c)].value,
              1e-12);
}

TEST_P(GraphWavenetOf, IsItsEquationsInTrainingAndEvaluation) {
  Fixture f(GetParam());
  Tape<double> tape{Exec{}};
  ByHand training{f, true, "", 0, {}};
  const auto expected = training.outputs_of();
  expect_equal(f.predict(tape), expected);
  EXPECT_EQ(training.running.size(), static_cast<std::size_t>(f.options.layers() - 1));
  for (const auto& [name, statistics] : training.running) {
    EXPECT_NEAR(training.parameter(name + "_running_mean").value[0], statistics.first, 1e-13);
    EXPECT_NEAR(training.parameter(name + "_running_variance").value[0], statistics.second, 1e-13);
  }
  tape.set_recording(false);
  ByHand evaluation{f, false, "", 0, {}};
  const auto scored = evaluation.outputs_of();
  expect_equal(f.predict(tape), scored);
  expect_equal(f.predict(tape), scored);  // running statistics have not changed
}

TEST_P(GraphWavenetOf, GradientsAreThoseOfItsEquations) {
  Fixture f(GetParam());
  Tape<double> tape{Exec{}};
  const double loss = f.loss(tape);
  tape.backward();
  ByHand hand{f, true, "", 0, {}};
  EXPECT_NEAR(loss, hand.loss().value, 1e-12 * loss);
  for (const Parameter<double>* parameter : f.model->parameters()) {
    if (!parameter->trained) continue;
    hand.moved = parameter->name;
    double largest = 0;
    for (const double g : parameter->gradient) largest = std::max(largest, std::abs(g));
    // A normalisation removes the effect of a bias. A single layer has no graph convolution.
    const bool matters = !parameter->name.ends_with("graph_bias") &&
                         (f.options.layers() > 1 || !parameter->name.ends_with("factors"));
    EXPECT_TRUE(!matters || largest > 1e-9) << parameter->name;
    const Index stride = std::max<Index>(1, parameter->size() / 17);
    for (hand.entry = 0; hand.entry < parameter->size(); hand.entry += stride)
      EXPECT_NEAR(parameter->gradient[hand.entry], hand.loss().slope, 1e-11 * std::max(largest, 1.0))
          << parameter->name << "[" << hand.entry << "]";
  }
}

TEST_P(GraphWavenetOf, GradientsMatchFiniteDifferencesAndRecomputingChangesNothing) {
  std::vector<std::vector<double>> all;
  for (const Recompute recompute : {Recompute::none, Recompute::cell}) {
    Fixture f(GetParam(), recompute);
    Tape<double> tape{Exec{}};
    f.loss(tape);
    tape.backward();
    all.emplace_back();
    for (Parameter<double>* parameter : f.model->parameters()) {
      all.back().insert(all.back().end(), parameter->gradient.begin(), parameter->gradient.end());
      all.back().insert(all.back().end(), parameter->value.begin(), parameter->value.end());
    }
    if (recompute != Recompute::none) continue;
    std::vector<Parameter<double>*> trained;
    for (Parameter<double>* parameter : f.model->parameters())
      if (parameter->trained) trained.push_back(parameter);
    const auto error = check_gradients(
        trained, [&] { return f.loss(tape); }, 1e-4, 7, 1e-2);
    EXPECT_LT(error.relative, 1e-7) << error.parameter << "[" << error.index << "]: " << error.analytic
                                    << " for " << error.numeric;
  }
  EXPECT_EQ(all[0], all[1]) << "gradients, and running statistics that moved once";
}

INSTANTIATE_TEST_SUITE_P(Variants, GraphWavenetOf,
                         testing::Values(Variant{"Whole", 2, true, 4, 2, 2, 2, 0.4},
                                         Variant{"AdaptiveAlone", 0, true, 7, 2, 2, 2, 0},
                                         Variant{"GraphAlone", 1, false, 1, 1, 3, 1, 0.2},
                                         Variant{"OneLayer", 1, true, 2, 1, 1, 2, 0.2},
                                         Variant{"ThreePowers", 2, true, 3, 3, 1, 3, 0}),
                         [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(GraphWavenet, HasThePublishedShape) {
  // METR-LA: 309,400 parameters in the published code, less those that it never uses: eight residual
  // convolutions, the last graph convolution and the last normalisation.
  CsrBlock block = Fixture::ring(2);
  OneRankExchange exchange(nodes);
  OneRankReducer reducer;
  AllNodes all;
  for (Index i = 0; i < 207; ++i) all.global.push_back(i);
  all.owned = 207;
  GraphWavenet<float> model({}, Diffusion<float>(block, exchange, 2, DiffusionVariant::powers), all, reducer);
  Index count = 0;
  for (const Parameter<float>* parameter : model.parameters())
    count += parameter->trained ? parameter->size() : 0;
  EXPECT_EQ(GraphWavenetOptions{}.receptive_steps(), 13);
  EXPECT_EQ(count, 309400 - 8 * (32 * 32 + 32) - (7 * 32 * 32 + 32) - 2 * 32);
}

}  // namespace
}  // namespace rossby
