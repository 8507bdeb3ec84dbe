#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/base/random.hpp"
#include "rossby/exchange/one_rank.hpp"

// Random supports and a diffusion over them on one rank, shared by tests.

namespace rossby::diffusion_fixture {

/// Random supports with empty rows and columns. One row has more entries than one kernel call takes.
inline GlobalEdges random_supports(Index n, int supports) {
  const Random random(6, "supports");
  GlobalEdges edges;
  edges.rows = n;
  edges.relations = supports;
  edges.ptr = {0};
  for (Index i = 0; i < n; ++i)
    for (int k = 0; k < supports; ++k) {
      for (Index j = 0; j < n; ++j) {
        const auto key = static_cast<std::uint64_t>((i * supports + k) * n + j);
        if (i % 5 == 3 || j % 7 == 4 || (i != 2 && random.uniform(key) > 0.3)) continue;
        edges.column.emplace_back(j);
        edges.value.push_back(random.at(1).uniform(key, -0.5, 0.5));
      }
      edges.ptr.push_back(edges.entries());
    }
  return edges;
}

inline CsrBlock random_block(Index n, int supports) {
  return localise(random_supports(n, supports), RowPartition::blocks(n, 1), 0, {});
}

template <class T>
void fill(std::span<T> values, std::uint64_t seed) {
  const Random random(seed, "fill");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(random.uniform(i, -1, 1));
}

/// A diffusion on one rank with all objects that it needs.
struct Fixture {
  CsrBlock block;
  OneRankExchange exchange;
  Diffusion<double> diffusion;
  Parameter<double> x, weight, bias, gate;
  Index cols, channels, out;

  Fixture(Index n, int supports, int steps, DiffusionVariant variant)
      : block(random_block(n, supports)),
        exchange(n),
        diffusion(block, exchange, steps, variant),
        x("x", Placement::rows, {1, n, 3 * 2}),
        weight("weight", Placement::replicated, {4, diffusion.plan.terms * 2}),
        bias("bias", Placement::replicated, {4}),
        gate("gate", Placement::replicated, {2, diffusion.plan.terms * 2}),
        cols(3),
        channels(2),
        out(4) {
    std::uint64_t seed = 5;
    for (Parameter<double>* parameter : all()) fill<double>(parameter->value.span(), seed++);
  }
  std::vector<Parameter<double>*> all() { return {&x, &weight, &bias, &gate}; }

  Var<double> leaf(Tape<double>& tape) {
    Var<double> var = Tape<double>::constant({x.value.data(), block.rows, cols, channels});
    if (tape.recording()) var.gradient = {x.gradient_target(), block.rows, cols, channels};
    return var;
  }
  /// Two convolutions: one of the input, and one of a function of its result with half as many channels.
  Var<double> layers(Tape<double>& tape) {
    const Var<double> in = leaf(tape);
    const Var<double> y = diffusion_linear(tape, diffusion, in, weight, &bias);
    const Var<double> h = tanh(tape, in);
    diffusion_linear_accumulate(tape, slice_channels(y, 1, 2), diffusion, h, gate);
    return y;
  }
  double loss(Tape<double>& tape, bool again) {
    tape.reset();
    std::vector<float> target(static_cast<std::size_t>(block.rows * cols * out));
    fill<float>(target, 77);
    Var<double> y;
    if (again) {
      y = tape.make(block.rows, cols, out, true);
      tape.recomputed("layers", std::span<const Var<double>>(&y, 1),
                      [this](Tape<double>& inner, std::span<const Var<double>> outputs) {
                        assign(inner, outputs[0], layers(inner));
                      });
    } else {
      y = layers(tape);
    }
    double sum = 0;
    kept = std::move(target);
    masked_squared_error(tape, tanh(tape, y), {kept.data(), block.rows, cols, out}, 0.5, &sum);
    return 0.5 * sum;
  }
  std::vector<double> gradients(Tape<double>& tape, bool again) {
    for (Parameter<double>* parameter : all())
      std::fill(parameter->gradient.begin(), parameter->gradient.end(), 0.0);
    loss(tape, again);
    tape.backward();
    std::vector<double> values;
    for (Parameter<double>* parameter : all())
      values.insert(values.end(), parameter->gradient.begin(), parameter->gradient.end());
    return values;
  }
  std::vector<float> kept;
};

}  // namespace rossby::diffusion_fixture
