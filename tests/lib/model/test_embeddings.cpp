#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/gradient_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/model/noise_windows.hpp"

// Learned vectors of nodes and times as further inputs of models whose inputs are channels of a step. STID's
// vectors: test_stid.cpp. Over ranks: tests/mpi/test_window_ranks.cpp.

namespace rossby {
namespace {

constexpr Index nodes = 3, windows = 4, channels = 2, inputs = 3, outputs = 2;
const std::vector<Index> global_rows = {4, 0, 7};

EmbeddingShape all_tables() {
  EmbeddingShape shape;
  shape.node = 3;
  shape.calendar = {{{6, 2}, {7, 3}, {12, 1}}};
  return shape;
}

struct Gru {
  CsrBlock block = empty();
  OneRankExchange exchange{nodes};
  Dcrnn<double> model;

  Gru(Index of_channels, Index known, const EmbeddingShape& shape, Recompute recompute = Recompute::none)
      : model({inputs, of_channels, 1, 2, 3, recompute, {}, {}, known},
              Diffusion<double>(block, exchange, 0, DiffusionVariant::paper), shape, global_rows) {
    model.start(4);
    for (Parameter<double>* parameter : model.parameters())
      for (Index i = 0; i < parameter->size(); ++i)
        parameter->value[i] += 0.1 * std::cos(static_cast<double>(i));
  }
  static CsrBlock empty() {
    GlobalEdges none;
    none.rows = nodes;
    none.ptr = {0};
    return localise(none, RowPartition::blocks(nodes, 1), 0, {});
  }
  Parameter<double>& parameter(const std::string& name) {
    for (Parameter<double>* each : model.parameters())
      if (each->name == name) return *each;
    bug("no parameter of that name");
  }
  std::vector<Var<double>> predict(Tape<double>& tape, const WindowSource<double>& source) {
    tape.reset();
    std::vector<Var<double>> y(outputs);
    model.predict(tape, source, y);
    return y;
  }
};

/// Noise with the vectors of another model as further input channels, known ahead of the outputs.
class WithVectors final : public WindowSource<double> {
 public:
  explicit WithVectors(Gru& of) : of_(&of) {}
  [[nodiscard]] Index rows() const override { return nodes; }
  [[nodiscard]] Index windows() const override { return rossby::windows; }
  [[nodiscard]] Index channels() const override { return rossby::channels + width; }
  [[nodiscard]] Index features() const override { return 1; }
  [[nodiscard]] bool feeds_truth(Index) const override { return false; }
  [[nodiscard]] Var<double> truth(Tape<double>&, Index) const override { bug("nothing is fed"); }
  [[nodiscard]] Var<double> input(Tape<double>& tape, Index t) const override {
    const Var<double> x = tape.make(nodes, windows(), channels(), false);
    for (Index i = 0; i < nodes; ++i)
      for (Index b = 0; b < windows(); ++b) {
        for (Index c = 0; c < rossby::channels; ++c)
          x.value.at(i, b)[c] = NoiseWindows::value(t, (i * windows() + b) * rossby::channels + c);
        put(x.value.at(i, b) + rossby::channels, i, b, t);
      }
    return x;
  }
  [[nodiscard]] Index known_channels() const override { return width; }
  [[nodiscard]] Var<double> known(Tape<double>& tape, Index h) const override {
    const Var<double> x = tape.make(nodes, windows(), width, false);
    for (Index i = 0; i < nodes; ++i)
      for (Index b = 0; b < windows(); ++b) put(x.value.at(i, b), i, b, inputs + h);
    return x;
  }

 private:
  static constexpr Index width = 9;
  void put(double* to, Index i, Index b, Index t) const {
    const auto append = [&](const std::string& name, Index row) {
      const Parameter<double>& table = of_->parameter(name);
      const Index d = table.shape.back();
      to = std::copy_n(table.value.data() + row * d, d, to);
    };
    append("node_embedding", i);
    for (const CalendarTable table : all_calendar_tables)
      append(std::string(name_of(table)) + "_embedding", DatedNoise::phase(table, b, t));
  }
  Gru* of_;
};

TEST(EmbeddingsOfAGru, AreFurtherChannelsOfItsSteps) {
  Gru apart(channels, 0, all_tables()), joined(channels + 9, 9, {});
  for (Parameter<double>* to : joined.model.parameters()) {
    if (to->name == "encoder0_input_weight") {
      const Parameter<double>&x = apart.parameter("encoder0_input_weight"),
            &e = apart.parameter("encoder0_embedding_weight");
      for (Index row = 0; row < to->shape[0]; ++row) {
        std::copy_n(x.value.data() + row * channels, channels, to->value.data() + row * (channels + 9));
        std::copy_n(e.value.data() + row * 9, 9, to->value.data() + row * (channels + 9) + channels);
      }
      continue;
    }
    const std::string from = to->name == "decoder0_known_weight" ? "decoder0_embedding_weight" : to->name;
    const Parameter<double>& same = apart.parameter(from);
    ASSERT_EQ(same.shape, to->shape) << from;
    std::copy(same.value.begin(), same.value.end(), to->value.begin());
  }
  Tape<double> tape{Exec{}}, other{Exec{}};
  const auto mine = apart.predict(tape, DatedNoise(nodes, windows, channels, 1));
  const auto truth = joined.predict(other, WithVectors(apart));
  for (std::size_t h = 0; h < outputs; ++h)
    for (Index i = 0; i < nodes; ++i)
      for (Index b = 0; b < windows; ++b)
        EXPECT_NEAR(mine[h].value.at(i, b)[0], truth[h].value.at(i, b)[0], 1e-13) << h << i << b;
}

TEST(EmbeddingsOfAGru, HaveTheGradientsOfDifferencesHoweverItIsRecomputed) {
  const std::vector<float> target(nodes * windows, 0.25F);
  std::vector<std::vector<double>> all;
  for (const Recompute recompute : {Recompute::none, Recompute::cell, Recompute::step}) {
    Gru gru(channels, 0, all_tables(), recompute);
    Tape<double> tape{Exec{}};
    const auto loss = [&] {
      double sum = 0;
      for (const Var<double>& step : gru.predict(tape, DatedNoise(nodes, windows, channels, 1)))
        masked_squared_error(tape, step, {target.data(), nodes, windows, 1}, 0.5, &sum);
      return 0.5 * sum;
    };
    all.push_back({loss()});
    tape.backward();
    for (Parameter<double>* parameter : gru.model.parameters())
      all.back().insert(all.back().end(), parameter->gradient.begin(), parameter->gradient.end());
    tape.set_recording(false);
    EXPECT_EQ(loss(), all.back().front());
    tape.set_recording(true);
    const auto error = check_gradients(gru.model.parameters(), loss);
    EXPECT_LT(error.relative, 1e-7) << error.parameter << "[" << error.index << "]";
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);
}

}  // namespace
}  // namespace rossby
