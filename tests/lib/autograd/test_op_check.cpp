#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/op_check.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/autograd/time_halo.hpp"
#include "rossby/exchange/one_rank.hpp"

namespace rossby {
namespace {

using D = double;
constexpr D nan_value = std::numeric_limits<D>::quiet_NaN();
constexpr Index rows = 3, cols = 2, channels = 4;
constexpr Index bad_place = cols * channels + channels + 2;  // row 1, column 1, channel 2

/// A checked tape, with the values and parameters of an op. One of them may hold a NaN.
struct Bench {
  Exec exec;
  Tape<D> tape{exec};
  OpCheck<D> check{exec};
  OneRankReducer alone;
  std::vector<std::unique_ptr<Parameter<D>>> parameters;
  std::unique_ptr<BatchNorm<D>> norm;
  std::unique_ptr<LayerNorm<D>> layer;
  std::vector<float> truth = std::vector<float>(rows * cols * channels, 1);
  std::vector<D> ones = std::vector<D>(rows * channels, 1);
  double scale = 1;  // factor of the values
  double loss = 0;
  int made = 0;     // arrays filled so far
  int spoilt = -1;  // number of the array with a NaN

  explicit Bench(int with_nan = -1) : spoilt(with_nan) {
    tape.set_check(&check);
    tape.reset();
  }
  /// A tracked value of small, different numbers.
  Var<D> input(bool tracked = true) {
    const Var<D> x = tape.make(rows, cols, channels, tracked);
    fill(x.value.data, x.value.size());
    return x;
  }
  Parameter<D>& parameter(std::vector<Index> shape, Placement placement = Placement::replicated) {
    auto& one = parameters.emplace_back(
        std::make_unique<Parameter<D>>("p" + std::to_string(parameters.size()), placement, std::move(shape)));
    fill(one->value.data(), one->size());
    return *one;
  }

 private:
  void fill(D* values, Index size) {
    for (Index i = 0; i < size; ++i) values[i] = scale * (0.2 + 0.01 * static_cast<double>(i % 13));
    if (made++ == spoilt) values[size > bad_place ? bad_place : 0] = nan_value;
  }
};

struct Case {
  const char* op;
  std::function<Var<D>(Bench&)> make;  // returns no value if the op is a loss
};

Var<D> no_value() {
  return {};
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const auto add_case = [&](const char* op, std::function<Var<D>(Bench&)> make) {
    all.push_back({op, std::move(make)});
  };
  add_case("tanh", [](Bench& b) { return tanh(b.tape, b.input()); });
  add_case("sigmoid", [](Bench& b) { return sigmoid(b.tape, b.input()); });
  add_case("relu", [](Bench& b) { return relu(b.tape, b.input()); });
  add_case("add", [](Bench& b) { return add(b.tape, b.input(), b.input()); });
  add_case("multiply", [](Bench& b) { return multiply(b.tape, b.input(), b.input()); });
  add_case("linear", [](Bench& b) {
    return linear(b.tape, b.input(), b.parameter({5, channels}), &b.parameter({5}));
  });
  add_case("linear_accumulate", [](Bench& b) {
    const Var<D> y = zeros(b.tape, rows, cols, 5, true);
    linear_accumulate(b.tape, y, b.input(), b.parameter({5, channels}), 0);
    return y;
  });
  add_case("bias_accumulate", [](Bench& b) {
    const Var<D> y = zeros(b.tape, rows, cols, 5, true);
    bias_accumulate(b.tape, y, b.parameter({5}));
    return y;
  });
  add_case("embed", [](Bench& b) {
    return embed_columns(b.tape, b.parameter({4, rows, channels}, Placement::rows), std::vector<Index>{1, 3});
  });
  add_case("dropout", [](Bench& b) {
    return dropout(b.tape, b.input(), 0.01, Random(1, "test"), std::vector<Index>{0, 1, 2},
                   std::vector<Index>{0, 1});
  });
  add_case("layer_norm", [](Bench& b) {
    b.layer = std::make_unique<LayerNorm<D>>("layer", rows, channels);
    return layer_norm(b.tape, b.input(), *b.layer, b.alone);
  });
  add_case("gru_reset", [](Bench& b) { return gru_reset<D>(b.tape, b.input(), b.input(), nullptr); });
  add_case("gru_output",
           [](Bench& b) { return gru_output<D>(b.tape, b.input(), b.input(), b.input(), nullptr, nullptr); });
  add_case("assign", [](Bench& b) {
    const Var<D> y = zeros(b.tape, rows, cols, channels, true);
    assign(b.tape, y, b.input());
    return y;
  });
  add_case("affine_rows",
           [](Bench& b) { return affine_rows(b.tape, b.input(), b.ones.data(), b.ones.data()); });
  add_case("column_convolution", [](Bench& b) {
    return column_convolution(b.tape, b.input(), b.parameter({5, 2 * channels}), b.parameter({5}), 2, 1);
  });
  add_case("add_to", [](Bench& b) {
    const Var<D> y = zeros(b.tape, rows, cols, channels, true);
    add_to(b.tape, y, b.input());
    return y;
  });
  add_case("batch_norm", [](Bench& b) {
    b.norm = std::make_unique<BatchNorm<D>>("norm", channels);
    return batch_norm(b.tape, b.input(), *b.norm, true, b.alone);
  });
  add_case("join", [](Bench& b) { return join_columns(b.tape, b.input(), b.input()); });
  add_case("squared_difference", [](Bench& b) {
    squared_difference(b.tape, b.input(), b.input(), 0.5, &b.loss);
    return no_value();
  });
  add_case("masked_squared_error", [](Bench& b) {
    masked_squared_error(b.tape, b.input(), NodeView<const float>(b.truth.data(), rows, cols, channels), 0.5,
                         &b.loss);
    return no_value();
  });
  return all;
}

void seed(const Var<D>& y, double value) {
  std::fill_n(y.gradient.data, y.gradient.size(), value);
}

/// Runs the op forward, then backward with the gradient `value`. `found` is the message of the check.
void run(Bench& bench, const Case& of, double value) {
  const Block<D> block(bench.tape, "cell");
  const Var<D> y = of.make(bench);
  if (y.value.data && bench.tape.claim_gradient(y)) seed(y, value);
  bench.tape.backward();
}

TEST(OpCheck, FiniteStepsAreFine) {
  for (const Case& of : cases()) {
    Bench bench;
    run(bench, of, 0.5);
    EXPECT_FALSE(bench.check.found()) << of.op << ": " << bench.check.found()->op;
  }
}

TEST(OpCheck, NamesTheOpThatReadsABadNumber) {
  for (const Case& of : cases()) {
    Bench all;
    run(all, of, 0.5);
    ASSERT_GT(all.made, 0) << of.op;
    for (int spoilt = 0; spoilt < all.made; ++spoilt) {
      Bench bench(spoilt);
      run(bench, of, 0.5);
      ASSERT_TRUE(bench.check.found()) << of.op << ", input " << spoilt;
      EXPECT_EQ(bench.check.found()->op, of.op) << "input " << spoilt;
      EXPECT_EQ(bench.check.found()->block, "cell") << of.op;
    }
  }
}

TEST(OpCheck, SaysWhere) {
  Bench bench(0);
  (void)sigmoid(bench.tape, bench.input());
  ASSERT_TRUE(bench.check.found());
  const NotFiniteOp found = *bench.check.found();
  EXPECT_FALSE(found.gradient);
  EXPECT_EQ(found.block, "");
  EXPECT_EQ(found.rows, rows);
  EXPECT_EQ(found.row, 1);
  EXPECT_EQ(found.column, 1);
  EXPECT_EQ(found.channel, 2);
  (void)tanh(bench.tape, bench.input());
  EXPECT_EQ(bench.check.found()->op, "sigmoid") << "the first one stays";
  bench.tape.reset();
  EXPECT_FALSE(bench.check.found());
}

TEST(OpCheck, NamesTheOpAtWhichABadGradientArrives) {
  for (const Case& of : cases()) {
    Bench bench;
    const Block<D> block(bench.tape, "cell");
    const Var<D> y = of.make(bench);
    if (!y.value.data) continue;  // a loss receives no gradient
    ASSERT_TRUE(bench.tape.claim_gradient(y)) << of.op;
    seed(y, 0.5);
    y.gradient.data[y.gradient.size() - 1] = nan_value;
    bench.tape.backward();
    ASSERT_TRUE(bench.check.found()) << of.op;
    EXPECT_EQ(bench.check.found()->op, of.op);
    EXPECT_TRUE(bench.check.found()->arrives) << of.op;
    EXPECT_EQ(bench.check.found()->row, y.rows() - 1) << of.op;
  }
}

TEST(OpCheck, NamesTheOpWhoseBackwardOverflows) {
  constexpr double large = 1e308;
  Bench product;
  product.scale = 100;
  run(product, {"multiply", [](Bench& b) { return multiply(b.tape, b.input(), b.input()); }}, large);
  ASSERT_TRUE(product.check.found());
  EXPECT_EQ(product.check.found()->op, "multiply");
  EXPECT_TRUE(product.check.found()->gradient);
  EXPECT_FALSE(product.check.found()->arrives);
  EXPECT_EQ(product.check.found()->parameter, "");

  Bench layer;
  layer.scale = 100;
  const auto of_parameter = [](Bench& b) {
    return linear(b.tape, b.input(false), b.parameter({5, channels}), nullptr);
  };
  run(layer, {"linear", of_parameter}, large);
  ASSERT_TRUE(layer.check.found());
  EXPECT_EQ(layer.check.found()->op, "linear");
  EXPECT_EQ(layer.check.found()->parameter, "p0");
}

TEST(OpCheck, LooksAgainAtWhatIsComputedAgain) {
  for (const bool spoilt : {false, true}) {
    Bench bench(spoilt ? 1 : -1);
    const Var<D> x = bench.input();
    Parameter<D>& weight = bench.parameter({channels, channels});
    const Var<D> y = bench.tape.make(rows, cols, channels, true);
    const Var<D> outputs[] = {y};
    bench.tape.recomputed("cell", std::span<const Var<D>>(outputs),
                          [x, &weight](Tape<D>& tape, std::span<const Var<D>> to) {
                            assign(tape, to[0], tanh(tape, linear(tape, x, weight, nullptr)));
                          });
    if (spoilt) {
      ASSERT_TRUE(bench.check.found());
      EXPECT_EQ(bench.check.found()->op, "linear");
    }
    ASSERT_TRUE(bench.tape.claim_gradient(y));
    seed(y, 0.5);
    bench.tape.backward();
    EXPECT_EQ(bench.check.found().has_value(), spoilt);
  }
}

/// Views that are not packed: some columns of a value, and a table with gaps between its rows.
TEST(OpCheck, SeesPartsOfValues) {
  for (const bool table : {false, true}) {
    std::vector<D> values(static_cast<std::size_t>(rows * cols * channels), 1);
    const NodeView<D> whole(values.data(), rows, cols, channels);
    const NodeView<D> part = table
                                 ? NodeView<D>(values.data(), rows, cols, channels, channels, rows * channels)
                                 : NodeView<D>(whole.at(0, 1), rows, 1, channels, whole.row_stride, channels);
    OpCheck<D> check{Exec{}};
    check.makes(part, {});
    check.computed("first", false);
    EXPECT_FALSE(check.found());
    values[0] = nan_value;  // outside the second view
    *(part.at(2, part.cols - 1) + 3) = nan_value;
    if (table) values[0] = 1;
    check.makes(part, {});
    check.computed("second", false);
    ASSERT_TRUE(check.found()) << table;
    EXPECT_EQ(check.found()->row, 2);
    EXPECT_EQ(check.found()->column, part.cols - 1);
    EXPECT_EQ(check.found()->channel, 3);
  }
}

TEST(OpCheck, RefusesAnOpThatDoesNotSayWhatItMakes) {
  Bench bench;
  (void)bench.input();
  EXPECT_THROW(bench.tape.record("mute", Cost{}, Cost{}, [] {}), BugError);
  bench.tape.set_check(nullptr);
  EXPECT_NO_THROW(bench.tape.record("mute", Cost{}, Cost{}, [] {}));
}

TEST(OpCheck, ChangesNoBit) {
  for (const Case& of : cases()) {
    std::vector<double> with, without;
    for (auto* bits : {&with, &without}) {
      Bench bench;
      if (bits == &without) bench.tape.set_check(nullptr);
      run(bench, of, 0.5);
      for (const auto& parameter : bench.parameters)
        bits->insert(bits->end(), parameter->gradient.begin(), parameter->gradient.end());
      bits->push_back(bench.loss);
    }
    EXPECT_EQ(with, without) << of.op;
  }
}

}  // namespace
}  // namespace rossby
