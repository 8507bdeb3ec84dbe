#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/stgcn/stgcn.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/model/noise_windows.hpp"

// STGCN against an independent implementation (tests/golden/stgcn/make.py), and its gradients against finite
// differences, on one rank. Over ranks: tests/mpi/test_window_ranks.cpp.

namespace rossby {
namespace {

/// Reads lines of a name and its values.
class Golden {
 public:
  explicit Golden(const std::string& name) {
    std::ifstream file(ROSSBY_STGCN_GOLDEN "/" + name + ".txt");
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string key;
      words >> key;
      for (std::string word; words >> word;) values_[key].push_back(std::stod(word));
    }
  }
  [[nodiscard]] const std::vector<double>& operator[](const std::string& key) const {
    return values_.at(key);
  }

 private:
  std::map<std::string, std::vector<double>> values_;
};

/// Returns the graph of a file as a support.
CsrBlock support(const std::vector<double>& list, Index nodes, bool first_order) {
  std::vector<Edge> edges;
  for (std::size_t k = 0; k < list.size(); k += 3)
    edges.push_back({static_cast<Index>(list[k]), static_cast<Index>(list[k + 1]), 0, list[k + 2]});
  const RowPartition partition = RowPartition::blocks(nodes, 1);
  OneMailbox mailbox;
  const GlobalEdges graph = from_edge_list(edges, 1, partition, mailbox);
  if (!first_order) return localise(scaled_laplacian(graph, partition, mailbox), partition, 0, {});
  const GlobalEdges loops = with_self_loops(undirected(graph, partition, mailbox), 1, partition, 0);
  return localise(normalise_symmetrically(loops, partition, mailbox), partition, 0, {});
}

class GoldenWindows final : public WindowSource<double> {
 public:
  static constexpr Index nodes = 7, all = 2, steps = 12, features_in = 2, outputs = 3;
  explicit GoldenWindows(const std::vector<double>& x) : x_(&x) {}
  [[nodiscard]] Index rows() const override { return nodes; }
  [[nodiscard]] Index windows() const override { return all; }
  [[nodiscard]] Index channels() const override { return features_in; }
  [[nodiscard]] Index features() const override { return 1; }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    const Var<double> x = tape.make(nodes, all, features_in, false);
    for (Index i = 0; i < nodes; ++i)
      for (Index b = 0; b < all; ++b)
        for (Index c = 0; c < features_in; ++c)
          x.value.at(i, b)[c] =
              (*x_)[static_cast<std::size_t>(((b * steps + t) * nodes + i) * features_in + c)];
    return x;
  }

 private:
  const std::vector<double>* x_;
};

std::vector<Index> all_rows(Index count) {
  std::vector<Index> rows(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
  return rows;
}

void compare_with_file(bool first_order, Recompute recompute, Backend backend) {
  using Windows = GoldenWindows;
  const Golden golden(first_order ? "first_order" : "chebyshev");
  const CsrBlock block = support(golden["edges"], Windows::nodes, first_order);
  OneRankExchange exchange{Windows::nodes};
  OneRankReducer reducer;
  StgcnOptions options;
  options.outputs = Windows::outputs;
  options.channels = Windows::features_in;
  options.block_channels = {3, 2, 4};
  options.first_order = first_order;
  options.recompute = recompute;
  Stgcn<double> model(options, Diffusion<double>(block, exchange, 2, DiffusionVariant::paper),
                      all_rows(Windows::nodes), reducer);
  for (Parameter<double>* parameter : model.parameters()) {
    const auto& values = golden["p/" + parameter->name];
    ASSERT_EQ(std::ssize(values), parameter->size()) << parameter->name;
    std::copy(values.begin(), values.end(), parameter->value.begin());
  }
  Tape<double> tape{Exec{backend, 1}};
  std::vector<Var<double>> y(Windows::outputs);
  model.predict(tape, Windows(golden["x"]), y);
  double sum = 0, count = 0;
  for (const double value : golden["target"]) count += std::isnan(value) ? 0 : 1;
  std::vector<std::vector<float>> targets;
  for (Index h = 0; h < Windows::outputs; ++h) {
    auto& target = targets.emplace_back();
    for (Index i = 0; i < Windows::nodes; ++i)
      for (Index b = 0; b < Windows::all; ++b) {
        const auto place = static_cast<std::size_t>((b * Windows::outputs + h) * Windows::nodes + i);
        const double got = y[static_cast<std::size_t>(h)].value.at(i, b)[0];
        EXPECT_NEAR(got, golden["output"][place], 1e-12) << h << " " << i << " " << b;
        target.push_back(static_cast<float>(golden["target"][place]));
      }
    masked_absolute_error(tape, y[static_cast<std::size_t>(h)],
                          {target.data(), Windows::nodes, Windows::all, 1}, 1 / count, &sum);
  }
  EXPECT_NEAR(sum / count, golden["loss"][0], 1e-12);
  tape.backward();
  for (const Parameter<double>* parameter : model.parameters()) {
    const auto& values = golden["g/" + parameter->name];
    ASSERT_EQ(std::ssize(values), parameter->gradient.size());
    for (Index k = 0; k < parameter->gradient.size(); ++k)
      EXPECT_NEAR(parameter->gradient[k], values[static_cast<std::size_t>(k)], 1e-12)
          << parameter->name << "[" << k << "]";
  }
}

TEST(Stgcn, IsThatOfTheScriptWithChebyshevPolynomials) {
  for (const Backend backend : {Backend::reference, Backend::cpu})
    compare_with_file(false, Recompute::none, backend);
  compare_with_file(false, Recompute::cell, Backend::cpu);
}

TEST(Stgcn, IsThatOfTheScriptOfFirstOrder) {
  for (const Backend backend : {Backend::reference, Backend::cpu})
    compare_with_file(true, Recompute::none, backend);
}

struct Fixture {
  static constexpr Index nodes = 5, windows = 3, outputs = 2, features = 2;
  StgcnOptions options;
  CsrBlock block;
  OneRankExchange exchange{nodes};
  OneRankReducer reducer;
  Stgcn<double> model;
  std::vector<float> target = std::vector<float>(nodes * windows * features, 0.25F);

  explicit Fixture(const StgcnOptions& o)
      : options(o),
        block(support({0, 1, 0.5, 1, 2, 0.7, 3, 2, 1.5, 4, 0, 1}, nodes, o.first_order)),
        model(o, Diffusion<double>(block, exchange, 2, DiffusionVariant::paper), all_rows(nodes), reducer) {
    model.start(4);
    for (Parameter<double>* parameter : model.parameters())
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] += 0.1 * std::cos(static_cast<double>(i));
  }
  double loss(Tape<double>& tape) {
    tape.reset();
    std::vector<Var<double>> y(outputs);
    model.predict(tape, NoiseWindows(nodes, windows, options.channels, features), y);
    double sum = 0;
    for (const Var<double>& step : y)
      masked_squared_error(tape, step, {target.data(), nodes, windows, features}, 0.5, &sum);
    return 0.5 * sum;
  }
};

StgcnOptions small() {
  StgcnOptions options;
  options.inputs = 7;
  options.outputs = Fixture::outputs;
  options.channels = 3;
  options.features = Fixture::features;
  options.blocks = 1;
  options.block_channels = {4, 3, 5};
  options.dropout = 0.3;
  return options;
}

TEST(Stgcn, GradientsMatchFiniteDifferencesAndRecomputingChangesNothing) {
  std::vector<StgcnOptions> cases(4, small());
  cases[1].first_order = true;
  cases[2].block_channels = {2, 4, 3};  // fewer channels than x: the gate leaves x out
  cases[3].blocks = 2, cases[3].inputs = 5, cases[3].taps = 2;
  for (const StgcnOptions& options : cases) {
    std::vector<std::vector<double>> all;
    std::vector<std::size_t> kept;
    for (const Recompute recompute : {Recompute::none, Recompute::cell}) {
      StgcnOptions o = options;
      o.recompute = recompute;
      Fixture f(o);
      Tape<double> tape{Exec{}};
      all.push_back({f.loss(tape)});
      kept.push_back(tape.kept_bytes());
      tape.backward();
      for (Parameter<double>* parameter : f.model.parameters())
        all.back().insert(all.back().end(), parameter->gradient.begin(), parameter->gradient.end());
      // The tape records, because dropout is only part of training.
      const auto error = check_gradients(f.model.parameters(), [&] { return f.loss(tape); });
      EXPECT_LT(error.relative, 1e-7) << error.parameter << "[" << error.index << "]";
    }
    EXPECT_EQ(all[0], all[1]);
    EXPECT_LT(kept[1], kept[0]);
  }
}

TEST(Stgcn, ForecastsWithoutDropout) {
  Fixture with(small());
  StgcnOptions options = small();
  options.dropout = 0;
  Fixture without(options);
  Tape<double> tape{Exec{}};
  EXPECT_NE(with.loss(tape), without.loss(tape));
  tape.set_recording(false);
  const double forecast = with.loss(tape);
  EXPECT_EQ(forecast, without.loss(tape));
}

/// Returns the number of parameters, counted as in the paper.
Index expected_size(const StgcnOptions& o, Index nodes, Index terms) {
  const auto [first, middle, last] = o.block_channels;
  Index size = 0, channels = o.channels;
  for (Index b = 0; b < o.blocks; ++b, channels = last)
    size += 2 * first * (o.taps * channels + 1) + middle * (terms * first + 1) +
            2 * last * (o.taps * middle + 1) + 2 * nodes * last;
  size += 2 * last * (o.steps_left() * last + 1) + 2 * nodes * last;
  return size + last * (last + 1) + o.outputs * o.features * (last + 1);
}

TEST(Stgcn, HasTheParametersOfItsFormula) {
  for (const bool first_order : {false, true}) {
    StgcnOptions options = small();
    options.first_order = first_order;
    Fixture f(options);
    Index size = 0;
    for (const Parameter<double>* parameter : f.model.parameters()) size += parameter->size();
    EXPECT_EQ(size, expected_size(options, Fixture::nodes, first_order ? 1 : 3));
  }
  // The paper's model for 207 nodes: 4 of 12 steps are left.
  EXPECT_EQ(StgcnOptions{}.steps_left(), 4);
  EXPECT_EQ(expected_size({}, 207, 3), 161260);
}

std::shared_ptr<const Architecture> configured(const std::string& lines) {
  return model_settings(KeyValues::parse(model_keys(), "[model]\nname = 'stgcn'\n" + lines, "run.toml", {}))
      .architecture;
}

TEST(Stgcn, TakesTheSupportsOfItsGraphConvolution) {
  const auto chebyshev = configured("diffusion_steps = 3");
  EXPECT_EQ(chebyshev->windows()->supports().kind, Supports::Kind::laplacian);
  EXPECT_EQ(chebyshev->windows()->convolution().steps, 3);
  const auto first_order = configured("graph_convolution = 'first_order'");
  EXPECT_EQ(first_order->windows()->supports().kind, Supports::Kind::symmetric);
  EXPECT_TRUE(first_order->windows()->supports().undirected);
}

TEST(Stgcn, RefusesSettingsThatDoNotGoTogether) {
  const auto refusal = [](const std::string& lines, Index inputs = 12,
                          Recompute recompute = Recompute::none) {
    return testing_support::user_message([&] {
      configured(lines)->windows()->check({{inputs, 12}, "grid", recompute, true});
    });
  };
  EXPECT_NO_THROW(configured("")->windows()->check({{9, 12}, "grid", Recompute::none, true}));
  EXPECT_HAS(refusal("", 8),
             "window.inputs = 8 is too short: model.st_blocks = 2 and model.temporal_kernel = 3 consume 8");
  EXPECT_HAS(refusal("block_channels = [4, 4]"), "model.block_channels has 2 numbers");
  EXPECT_HAS(refusal("", 12, Recompute::step), "train.recompute");
  EXPECT_HAS(refusal("diffusion_steps = 0"), "see no neighbours");
  EXPECT_HAS(refusal("diffusion_steps = 1\ngraph_convolution = 'first_order'"), "Leave the key out");
}

TEST(Stgcn, RefusesWindowsThatItsBlocksUseUp) {
  StgcnOptions options = small();
  options.inputs = 4;
  EXPECT_THROW(Fixture{options}, BugError);
}

}  // namespace
}  // namespace rossby
