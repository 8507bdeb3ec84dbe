#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/stid/stid.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/model/noise_windows.hpp"

// STID against its equations in plain loops, and its gradients against finite differences, on one rank. Over
// ranks: tests/mpi/test_window_ranks.cpp.

namespace rossby {
namespace {

const std::vector<Index> global_rows = {4, 0, 7, 2, 11};

struct Fixture {
  static constexpr Index nodes = 5, windows = 3, outputs = 2, features = 2;
  StidOptions options;
  EmbeddingShape shape;
  OneRankReducer alone;
  OneRankExchange no_ghosts{nodes};
  CsrBlock graph;
  Stid<double> model;
  std::vector<float> target = std::vector<float>(nodes * windows * features, 0.25F);

  /// `supports`: number of supports of a graph.
  Fixture(const StidOptions& o, const EmbeddingShape& s, int supports = 0)
      : options(o),
        shape(s),
        graph(ring(supports)),
        model(o, s, global_rows, &alone, Diffusion<double>(graph, no_ghosts, 0, DiffusionVariant::paper)) {
    model.start(4);
    for (Parameter<double>* parameter : model.parameters())
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] += 0.1 * std::cos(static_cast<double>(i));
  }
  static double weight(int support, Index i, Index j) {
    return (i + 1 + support) % nodes == j ? 0.7 : i == j ? 0.2 * support : 0;
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
    model.predict(tape, DatedNoise(nodes, windows, options.channels, features), y);
    return y;
  }
  double loss(Tape<double>& tape) {
    double sum = 0;
    for (const Var<double>& step : predict(tape))
      masked_squared_error(tape, step, {target.data(), nodes, windows, features}, 0.5, &sum);
    return 0.5 * sum;
  }
};

StidOptions small() {
  StidOptions options;
  options.inputs = 4;
  options.outputs = Fixture::outputs;
  options.channels = 3;
  options.features = Fixture::features;
  options.width = 4;
  options.layers = 2;
  options.dropout = 0.3;
  return options;
}

/// Options with a relation between all nodes.
StidOptions related() {
  StidOptions options = small();
  options.rank = 2;
  options.nodes = Fixture::nodes;
  return options;
}

/// The layers read a relation of this rank and a graph; with `rank` 0, only a graph.
StidOptions deep(Index rank) {
  StidOptions options = related();
  options.rank = rank;
  options.deep = true;
  return options;
}

EmbeddingShape all_tables() {
  EmbeddingShape shape;
  shape.node = 3;
  shape.calendar = {{{6, 2}, {7, 3}, {12, 1}}};
  return shape;
}

/// The equations of stid.hpp for one window, all nodes.
struct ByHand {
  using Values = std::vector<std::vector<double>>;  // (nodes, channels)
  const Fixture& f;
  std::map<std::string, const Parameter<double>*> p;

  explicit ByHand(const Fixture& fixture) : f(fixture) {
    for (const Parameter<double>* parameter : f.model.parameters()) p[parameter->name] = parameter;
  }

  [[nodiscard]] Values dense(const std::string& name, const Values& x) const {
    const Parameter<double>&w = *p.at(name + "_weight"), &a = *p.at(name + "_bias");
    Values y;
    for (const std::vector<double>& row : x) {
      EXPECT_EQ(w.shape[1], std::ssize(row)) << name;
      std::vector<double>& to = y.emplace_back();
      for (Index o = 0; o < w.shape[0]; ++o) {
        double sum = a.value[o];
        for (Index k = 0; k < w.shape[1]; ++k)
          sum += w.value[o * w.shape[1] + k] * row[static_cast<std::size_t>(k)];
        to.push_back(sum);
      }
    }
    return y;
  }

  /// Returns x, followed by each relation's product with x.
  [[nodiscard]] Values with_relations(const Values& x) const {
    Values all = x;
    const auto append = [&](const auto& weight) {
      for (Index i = 0; i < Fixture::nodes; ++i) {
        std::vector<double> sum(x[0].size());
        for (Index j = 0; j < Fixture::nodes; ++j)
          for (std::size_t c = 0; c < sum.size(); ++c)
            sum[c] += weight(i, j) * x[static_cast<std::size_t>(j)][c];
        std::vector<double>& to = all[static_cast<std::size_t>(i)];
        to.insert(to.end(), sum.begin(), sum.end());
      }
    };
    for (int s = 0; s < f.graph.relations; ++s)
      append([s](Index i, Index j) { return Fixture::weight(s, i, j); });
    if (const Index k = f.options.rank; k > 0)
      append([&](Index i, Index j) {
        double weight = 0;
        for (Index q = 0; q < k; ++q)
          weight += p.at("low_rank_u")->value[i * k + q] * p.at("low_rank_v")->value[j * k + q];
        return weight / Fixture::nodes;
      });
    return all;
  }

  [[nodiscard]] Values forecast(Index b) const {
    Values x(Fixture::nodes);
    for (Index i = 0; i < Fixture::nodes; ++i)
      for (Index t = 0; t < f.options.inputs; ++t)
        for (Index c = 0; c < f.options.channels; ++c)
          x[static_cast<std::size_t>(i)].push_back(
              NoiseWindows::value(t, (i * Fixture::windows + b) * f.options.channels + c));
    Values z = dense("input", f.options.deep ? x : with_relations(x));
    const auto append = [&](const std::string& name, const auto& row) {
      if (p.count(name) == 0) return;
      const Index d = p.at(name)->shape.back();
      for (Index i = 0; i < Fixture::nodes; ++i)
        for (Index c = 0; c < d; ++c)
          z[static_cast<std::size_t>(i)].push_back(p.at(name)->value[row(i) * d + c]);
    };
    append("node_embedding", [](Index i) { return i; });
    for (const CalendarTable table : all_calendar_tables)
      append(std::string(name_of(table)) + "_embedding",
             [&](Index) { return DatedNoise::phase(table, b, f.options.inputs - 1); });
    for (Index l = 0; l < f.options.layers; ++l) {
      Values h = dense("layer" + std::to_string(l) + "_hidden", f.options.deep ? with_relations(z) : z);
      for (std::vector<double>& row : h)
        for (double& value : row) value = std::max(value, 0.0);
      const Values y = dense("layer" + std::to_string(l) + "_output", h);
      for (std::size_t i = 0; i < z.size(); ++i)
        for (std::size_t c = 0; c < z[i].size(); ++c) z[i][c] += y[i][c];
    }
    return dense("projection", z);
  }
};

struct Variant {
  StidOptions options;
  EmbeddingShape shape;
  int supports = 0;
};

TEST(Stid, IsThatOfItsEquations) {
  EmbeddingShape only_nodes, only_days;
  only_nodes.node = 2;
  only_days.calendar[1] = {7, 2};
  for (const auto& [options, shape, supports] : {Variant{small(), all_tables()},
                                                 {small(), only_nodes},
                                                 {small(), only_days},
                                                 {small(), EmbeddingShape{}},
                                                 {related(), all_tables()},
                                                 {related(), EmbeddingShape{}},
                                                 {deep(0), all_tables(), 2},
                                                 {deep(2), all_tables(), 2},
                                                 {deep(2), EmbeddingShape{}},
                                                 {deep(0), all_tables()}}) {
    Fixture f(options, shape, supports);
    for (const Backend backend : {Backend::reference, Backend::cpu}) {
      Tape<double> tape{Exec{backend, 1}};
      tape.set_recording(false);
      const std::vector<Var<double>> y = f.predict(tape);
      for (Index b = 0; b < Fixture::windows; ++b) {
        const ByHand::Values expected = ByHand(f).forecast(b);
        for (Index i = 0; i < Fixture::nodes; ++i)
          for (std::size_t h = 0; h < y.size(); ++h)
            for (Index c = 0; c < Fixture::features; ++c)
              EXPECT_NEAR(
                  y[h].value.at(i, b)[c],
                  expected[static_cast<std::size_t>(i)][h * Fixture::features + static_cast<std::size_t>(c)],
                  1e-13);
      }
    }
  }
}

TEST(Stid, GradientsMatchFiniteDifferencesAndRecomputingChangesNothing) {
  EmbeddingShape only_nodes;
  only_nodes.node = 2;
  for (const auto& [chosen, shape, supports] : {Variant{small(), all_tables()},
                                                {small(), EmbeddingShape{}},
                                                {related(), all_tables()},
                                                {related(), EmbeddingShape{}},
                                                {deep(0), only_nodes, 2},
                                                {deep(2), EmbeddingShape{}, 1}}) {
    std::vector<std::vector<double>> all;
    std::vector<std::size_t> kept;
    for (const Recompute recompute : {Recompute::none, Recompute::cell}) {
      StidOptions options = chosen;
      options.recompute = recompute;
      Fixture f(options, shape, supports);
      Tape<double> tape{Exec{}};
      all.push_back({f.loss(tape)});
      kept.push_back(tape.kept_bytes());
      tape.backward();
      for (Parameter<double>* parameter : f.model.parameters())
        all.back().insert(all.back().end(), parameter->gradient.begin(), parameter->gradient.end());
      // Recording, because dropout is only part of training.
      const auto error = check_gradients(f.model.parameters(), [&] { return f.loss(tape); });
      EXPECT_LT(error.relative, 1e-7) << error.parameter << "[" << error.index << "]";
    }
    EXPECT_EQ(all[0], all[1]);
    EXPECT_LT(kept[1], kept[0]);
  }
}

TEST(Stid, ForecastsWithoutDropout) {
  Fixture with(small(), all_tables());
  StidOptions options = small();
  options.dropout = 0;
  Fixture without(options, all_tables());
  Tape<double> tape{Exec{}};
  EXPECT_NE(with.loss(tape), without.loss(tape));
  tape.set_recording(false);
  const double forecast = with.loss(tape);
  EXPECT_EQ(forecast, without.loss(tape));
}

TEST(Stid, StartsNodesByTheirGlobalRows) {
  Stid<double> some(small(), all_tables(), {7, 4}), others(small(), all_tables(), global_rows);
  some.start(4);
  others.start(4);
  const auto node = [](Stid<double>& model, Index row, Index c) {
    for (Parameter<double>* parameter : model.parameters())
      if (parameter->name == "node_embedding") return parameter->value[row * 3 + c];
    return 0.0;
  };
  for (Index c = 0; c < 3; ++c) {
    EXPECT_EQ(node(some, 0, c), node(others, 2, c));
    EXPECT_EQ(node(some, 1, c), node(others, 0, c));
    EXPECT_NE(node(some, 0, c), node(some, 1, c));
  }
}

std::shared_ptr<const Architecture> configured(const std::string& lines) {
  return model_settings(KeyValues::parse(model_keys(), "[model]\nname = 'stid'\n" + lines, "run.toml", {}))
      .architecture;
}

TEST(Stid, HasTheParametersOfThePaper) {
  // As in the published code: 207 nodes, 288 times a day, three channels, width 32, three layers.
  StidOptions options;
  options.channels = 3;
  const auto architecture = configured("");
  CalendarTables calendar;
  const EmbeddingShape shape = embeddings_on(TimeAxis::regular(300, "minutes since 2012-03-01", 0, 5),
                                             architecture->windows()->embeddings(), 0, calendar);
  std::vector<Index> rows(207);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(i);
  const Stid<float> model(options, shape, rows);
  Index size = 0;
  for (const Parameter<float>* parameter : model.parameters()) size += parameter->size();
  EXPECT_EQ(size, (36 * 32 + 32) + (207 + 288 + 7) * 32 + 3 * 2 * (128 * 128 + 128) + 12 * (128 + 1));
}

TEST(Stid, ReadsWhatTheTimeAxisHas) {
  const auto shape_on = [](const TimeAxis& axis, const std::string& lines) {
    CalendarTables calendar;
    const EmbeddingShape shape = embeddings_on(axis, configured(lines)->windows()->embeddings(), 0, calendar);
    return std::array{shape.node, shape.calendar[0].width, shape.calendar[1].width, shape.calendar[2].width};
  };
  const TimeAxis hours = TimeAxis::regular(30, "hours since 2001-01-01", 0, 1),
                 days = TimeAxis::regular(30, "days since 2001-01-01", 0, 1);
  EXPECT_EQ(shape_on(hours, ""), (std::array<Index, 4>{32, 32, 32, 0}));
  EXPECT_EQ(shape_on(days, ""), (std::array<Index, 4>{32, 0, 32, 32}));
  EXPECT_EQ(shape_on(TimeAxis::monthly(30, "2001-01"), ""), (std::array<Index, 4>{32, 0, 0, 32}));
  EXPECT_EQ(shape_on(TimeAxis::counter(30), ""), (std::array<Index, 4>{32, 0, 0, 0}));
  EXPECT_EQ(shape_on(hours, "node_embedding = 0\ntime_of_day_embedding = 8\nday_of_week_embedding = 0"),
            (std::array<Index, 4>{0, 8, 0, 0}));
  EXPECT_HAS(testing_support::user_message([&] { shape_on(days, "time_of_day_embedding = 8"); }),
             "model.time_of_day_embedding = 8: the time axis has one step a day");
  EXPECT_HAS(testing_support::user_message([&] { shape_on(TimeAxis::counter(30), "month_embedding = 8"); }),
             "model.month_embedding = 8: the time axis counts steps and has no dates");
}

TEST(Stid, RefusesToComputeStepsAgain) {
  const auto refusal = testing_support::user_message([&] {
    configured("")->windows()->check({{12, 12}, "none", Recompute::step, true});
  });
  EXPECT_HAS(refusal, "train.recompute");
}

}  // namespace
}  // namespace rossby
