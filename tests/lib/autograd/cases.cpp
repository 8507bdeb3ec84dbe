#include <limits>

#include <fmt/core.h>

#include "rossby/autograd/adaptive.hpp"
#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/autograd/table_loss.hpp"
#include "rossby/exchange/one_rank.hpp"
#include "tests/lib/autograd/harness.hpp"

namespace rossby::test {
namespace {

/// A case on one leaf x: the op's output goes into distinct_loss.
template <class T, class Op>
Case<T> unary(const std::string& name, const Op& op) {
  return {name, [op](Bank<T>& bank, Shape s) -> Graph<T> {
            auto& x = bank.make("x", {s.rows, s.cols, s.channels});
            return
                [&x, s, op](Tape<T>& tape) { return distinct_loss(tape, op(tape, packed_leaf(tape, x, s))); };
          }};
}

template <class T, class Op>
Case<T> binary(const std::string& name, const Op& op) {
  return {name, [op](Bank<T>& bank, Shape s) -> Graph<T> {
            auto& a = bank.make("a", {s.rows, s.cols, s.channels});
            auto& b = bank.make("b", {s.rows, s.cols, s.channels});
            return [&a, &b, s, op](Tape<T>& tape) {
              return distinct_loss(tape, op(tape, packed_leaf(tape, a, s), time_major_leaf(tape, b, s)));
            };
          }};
}

template <class T>
std::vector<Case<T>> elementwise_cases() {
  using Tp = Tape<T>;
  using V = Var<T>;
  std::vector<Case<T>> cases;
  cases.push_back(unary<T>("tanh", [](Tp& tape, const V& x) { return tanh(tape, x); }));
  cases.push_back(unary<T>("sigmoid", [](Tp& tape, const V& x) { return sigmoid(tape, x); }));
  cases.push_back(unary<T>("relu", [](Tp& tape, const V& x) { return relu(tape, x); }));
  cases.push_back(binary<T>("add", [](Tp& tape, const V& a, const V& b) { return add(tape, a, b); }));
  cases.push_back(unary<T>("add to itself", [](Tp& tape, const V& x) { return add(tape, x, x); }));
  cases.push_back(
      binary<T>("multiply", [](Tp& tape, const V& a, const V& b) { return multiply(tape, a, b); }));
  cases.push_back(unary<T>("square", [](Tp& tape, const V& x) { return multiply(tape, x, x); }));
  cases.push_back(unary<T>("dropout", [](Tp& tape, const V& x) {
    std::vector<Index> rows(static_cast<std::size_t>(x.rows()));
    std::vector<Index> cols(static_cast<std::size_t>(x.cols()));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<Index>(3 * i + 1);
    for (std::size_t b = 0; b < cols.size(); ++b) cols[b] = static_cast<Index>(b + 7);
    return dropout(tape, x, 0.4, Random(3, "dropout"), rows, cols);
  }));
  cases.push_back(
      {"gru_reset and gru_output", [](Bank<T>& bank, Shape s) -> Graph<T> {
         const Index c = s.channels;
         auto& gates = bank.make("gates", {s.rows, s.cols, 3 * c});
         auto& more = bank.make("more", {s.rows, s.cols, 3 * c});
         auto& h = bank.make("h", {s.rows, s.cols, c});
         auto& w = bank.make("weight", {c, c});
         return [&gates, &more, &h, &w, s, c](Tp& tape) {
           const Shape wide{s.rows, s.cols, 3 * c};
           const V a = tape.make(s.rows, s.cols, 3 * c, true);
           assign(tape, a, add(tape, packed_leaf(tape, gates, wide), packed_leaf(tape, more, wide)));
           const V state = time_major_leaf(tape, h, s);
           const V reset = gru_reset(tape, slice_channels(a, 0, c), state);
           linear_accumulate(tape, slice_channels(a, 2 * c, c), reset, w, 0);
           return distinct_loss(
               tape, gru_output(tape, slice_channels(a, c, c), slice_channels(a, 2 * c, c), state));
         };
       }});
  cases.push_back(
      {"assign of affine_rows", [](Bank<T>& bank, Shape s) -> Graph<T> {
         auto& x = bank.make("x", {s.rows, s.cols, s.channels});
         const auto constants = std::make_shared<std::vector<T>>();
         for (Index k = 0; k < s.rows * s.channels; ++k)
           constants->push_back(static_cast<T>(0.25 * static_cast<double>(k % 7) - 0.5));
         return [&x, constants, s](Tp& tape) {
           const V y = tape.make(s.rows, s.cols, s.channels, true);
           assign(tape, y,
                  affine_rows(tape, time_major_leaf(tape, x, s), constants->data(), constants->data()));
           return distinct_loss(tape, y);
         };
       }});
  return cases;
}

template <class T>
std::vector<Case<T>> linear_cases() {
  using Tp = Tape<T>;
  std::vector<Case<T>> cases;
  for (const bool time_major : {false, true})
    for (const Index out : {1, 3, 6, 37})
      cases.push_back({fmt::format("linear to {}{}", out, time_major ? ", time major" : ""),
                       [out, time_major](Bank<T>& bank, Shape s) -> Graph<T> {
                         auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                         auto& w = bank.make("weight", {out, s.channels});
                         auto& b = bank.make("bias", {out});
                         return [&x, &w, &b, s, time_major](Tp& tape) {
                           const Var<T> in =
                               time_major ? time_major_leaf(tape, x, s) : packed_leaf(tape, x, s);
                           return distinct_loss(tape, linear(tape, in, w, &b));
                         };
                       }});
  for (const Index out : {1, 5}) {
    // Two terms of one wide weight, the second from a slice of channels, then the bias.
    cases.push_back({fmt::format("linear_accumulate to {}", out), [out](Bank<T>& bank, Shape s) -> Graph<T> {
                       auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                       auto& w = bank.make("weight", {out, 2 * s.channels});
                       auto& b = bank.make("bias", {out});
                       return [&x, &w, &b, s, out](Tp& tape) {
                         const Var<T> in = packed_leaf(tape, x, s);
                         const Index half = s.channels / 2;
                         const Var<T> y = zeros(tape, s.rows, s.cols, out, true);
                         linear_accumulate(tape, y, in, w, 0);
                         linear_accumulate(tape, y, slice_channels(in, half, s.channels - half), w,
                                           s.channels + half);
                         bias_accumulate(tape, y, b);
                         return distinct_loss(tape, tanh(tape, y));
                       };
                     }});
    cases.push_back(
        {fmt::format("linear without bias to {}", out), [out](Bank<T>& bank, Shape s) -> Graph<T> {
           auto& x = bank.make("x", {s.rows, s.cols, s.channels});
           auto& w = bank.make("weight", {out, s.channels});
           return [&x, &w, s](Tp& tape) {
             return distinct_loss(tape, linear(tape, packed_leaf(tape, x, s), w, nullptr));
           };
         }});
  }
  return cases;
}

template <class T>
std::vector<Case<T>> embedding_cases() {
  using Tp = Tape<T>;
  return {{"embed_columns",
           [](Bank<T>& bank, Shape s) -> Graph<T> {
             auto& table = bank.make("table", {s.cols + 2, s.rows, s.channels});
             std::vector<Index> times;  // steps 0 and cols + 1 unused, one step twice
             for (Index b = 0; b < s.cols; ++b) times.push_back(b == 0 ? s.cols : b);
             return [&table, times](Tp& tape) {
               auto copy = times;  // destroyed before backward
               return distinct_loss(tape, embed_columns(tape, table, copy));
             };
           }},
          {"embed_columns and add_broadcast",
           [](Bank<T>& bank, Shape s) -> Graph<T> {
             // A table that all rows read by column beside a table that all columns read, sliced and whole.
             auto& of_columns = bank.make("of_columns", {3, s.channels});
             auto& of_rows = bank.make("of_rows", {1, s.rows, s.channels});
             std::vector<Index> times;
             for (Index b = 0; b < s.cols; ++b) times.push_back(b % 2 * 2);
             return [&of_columns, &of_rows, times, s](Tp& tape) {
               auto copy = times;
               const Index zero = 0;
               const Var<T> columns = embed_columns(tape, of_columns, copy),
                            rows = embed_columns(tape, of_rows, std::span<const Index>(&zero, 1));
               const Var<T> y =
                   zeros(tape, s.rows, s.cols, 2 * s.channels, columns.tracked() || rows.tracked());
               add_broadcast(tape, slice_channels(y, 0, s.channels), columns);
               add_broadcast(tape, slice_channels(y, s.channels, s.channels), rows);
               const Var<T> z = tanh(tape, y), once = slice_channels(z, 0, s.channels);
               const Var<T> sum = add(tape, once, slice_channels(z, s.channels, s.channels));
               add_broadcast(tape, sum, rows);
               add_broadcast(tape, sum, columns);
               return distinct_loss(tape, sum);
             };
           }},
          {"embed_pairs", [](Bank<T>& bank, Shape s) -> Graph<T> {
             const Index n = 5;
             auto& table = bank.make("table", {s.cols + 1, n, s.channels});
             std::vector<Index> times, rows;  // repeated pairs wherever rows > 5·(cols + 1)
             for (Index q = 0; q < s.rows; ++q)
               times.push_back(q % (s.cols + 1)), rows.push_back((3 * q + 1) % n);
             return [&table, times, rows](Tp& tape) {
               auto t = times;
               auto i = rows;
               return distinct_loss(tape, embed_pairs(tape, table, t, i));
             };
           }}};
}

template <class T>
std::vector<Case<T>> loss_cases() {
  using Tp = Tape<T>;
  std::vector<Case<T>> cases;
  const std::pair<const char*, MaskedError> errors[] = {{"masked_squared_error", MaskedError::squared},
                                                        {"masked_absolute_error", MaskedError::absolute},
                                                        {"huber error", {MaskedError::huber, 0.4}},
                                                        {"pinball error", {MaskedError::pinball, 0.9}}};
  for (const auto& [name, kind] : errors)
    cases.push_back({name, [kind = kind](Bank<T>& bank, Shape s) -> Graph<T> {
                       auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                       std::vector<float> truth(static_cast<std::size_t>(x.size()));
                       for (std::size_t k = 0; k < truth.size(); ++k)
                         truth[k] = k % 4 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                               : static_cast<float>(Random(2, "truth").uniform(k, -1, 1));
                       return [&x, truth, s, kind](Tp& tape) {
                         const NodeView<const float> target(truth.data(), s.rows, s.cols, s.channels,
                                                            s.channels, s.rows * s.channels);
                         double sum = 0;
                         const Var<T> p = tanh(tape, packed_leaf(tape, x, s));
                         masked_error(tape, kind, p, target, 0.7, &sum);
                         return 0.7 * sum;
                       };
                     }});
  for (const bool through_tanh : {false, true})
    cases.push_back({through_tanh ? "table_difference through tanh" : "table_difference",
                     [through_tanh](Bank<T>& bank, Shape s) -> Graph<T> {
                       auto& table = bank.make("table", {s.cols + 2, s.rows, s.channels});
                       auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                       std::vector<Index> times;  // one step twice, two unused
                       for (Index b = 0; b < s.cols; ++b) times.push_back(b == 0 ? s.cols : b);
                       return [&table, &x, times, s, through_tanh](Tp& tape) {
                         double sum = 0, again = 0;
                         const Var<T> h = sigmoid(tape, packed_leaf(tape, x, s));
                         table_difference(tape, table, times, h, through_tanh, 1.7, &sum);
                         table_difference(tape, table, times, h, false, 0.4, &again);
                         return 1.7 * sum + 0.4 * again;
                       };
                     }});
  for (const Index outputs : {0, 1, 3})
    cases.push_back(
        {fmt::format("table_decoded_error of {} outputs", outputs),
         [outputs](Bank<T>& bank, Shape s) -> Graph<T> {
           const Index m = outputs > 0 ? outputs : s.channels;
           auto& table = bank.make("table", {s.cols + 2, s.rows, s.channels});
           Parameter<T>* weight = outputs > 0 ? &bank.make("weight", {m, s.channels}) : nullptr;
           std::vector<Index> times, places;
           for (Index b = 0; b < s.cols; ++b) times.push_back(b == 0 ? s.cols : b), places.push_back(b % 3);
           std::vector<float> truth(static_cast<std::size_t>(3 * s.rows * m));
           for (std::size_t k = 0; k < truth.size(); ++k)
             truth[k] = k % 4 == 1 ? std::numeric_limits<float>::quiet_NaN()
                                   : static_cast<float>(Random(2, "truth").uniform(k, -1, 1));
           return [&table, weight, times, places, truth](Tp& tape) {
             double sum = 0;
             table_decoded_error(tape, table, times, weight, {truth.data(), 3, places}, 0.7, &sum);
             return 0.7 * sum;
           };
         }});
  cases.push_back({"squared_difference", [](Bank<T>& bank, Shape s) -> Graph<T> {
                     auto& a = bank.make("a", {s.rows, s.cols, s.channels});
                     auto& b = bank.make("b", {s.rows, s.cols, s.channels});
                     return [&a, &b, s](Tp& tape) {
                       double sum = 0;
                       squared_difference(tape, packed_leaf(tape, a, s), time_major_leaf(tape, b, s), 1.7,
                                          &sum);
                       return 1.7 * sum;
                     };
                   }});
  // A value is read whole, twice, and in part: the first writes its gradient, the others add.
  for (const bool part_first : {false, true})
    cases.push_back({"squared_differences_of_one", [part_first](Bank<T>& bank, Shape s) -> Graph<T> {
                       auto& a = bank.make("a", {s.rows, s.cols, s.channels});
                       auto& b = bank.make("b", {s.rows, s.cols, s.channels});
                       return [&a, &b, s, part_first](Tp& tape) {
                         double whole = 0, again = 0, parts = 0;
                         const Var<T> x = tanh(tape, packed_leaf(tape, a, s)),
                                      y = tanh(tape, packed_leaf(tape, b, s));
                         const auto of_parts = [&] {
                           const Index half = (s.channels + 1) / 2;
                           squared_difference(tape, slice_channels(x, 0, half),
                                              slice_channels(y, s.channels - half, half), 0.6, &parts);
                         };
                         if (part_first) of_parts();
                         squared_difference(tape, x, y, 1.7, &whole);
                         squared_difference(tape, sigmoid(tape, y), x, 0.4, &again);
                         if (!part_first) of_parts();
                         return 1.7 * whole + 0.4 * again + 0.6 * parts;
                       };
                     }});
  cases.push_back({"clamp_l1", [](Bank<T>& bank, Shape s) -> Graph<T> {
                     auto& m = bank.make("relation_weight", {s.rows * s.cols * s.channels}, -1, 2);
                     return [&m](Tp& tape) {
                       double sum = 0;
                       clamp_l1(tape, m, 0.9, &sum);
                       return 0.9 * sum;
                     };
                   }});
  return cases;
}

/// Makes a parameter that an op owns stand for a parameter of the bank.
template <class T>
class Into final : public GradientSink<T> {
 public:
  void stand_for(Parameter<T>& parameter, Parameter<T>& original) {
    to_ = &original;
    std::copy(original.value.begin(), original.value.end(), parameter.value.begin());
    parameter.trained = original.trained;
    parameter.sink = this;
  }
  [[nodiscard]] T* accumulate() override { return to_->gradient_target(); }

 private:
  Parameter<T>* to_ = nullptr;
};

template <class T>
Case<T> batch_norm_case(bool training) {
  struct State {
    BatchNorm<T> norm;
    Into<T> gain, bias;
    OneRankReducer reducer;
    explicit State(Index channels) : norm("norm", channels) {
      norm.momentum = 0;  // every run of a case must give the same bits
      norm.epsilon = 1e-2;
      for (Index c = 0; c < channels; ++c) norm.running_mean.value[c] = static_cast<T>(0.1 * double(c) - 0.2);
    }
  };
  return {training ? "batch_norm in training" : "batch_norm in evaluation",
          [training](Bank<T>& bank, Shape s) -> Graph<T> {
            auto& x = bank.make("x", {s.rows, s.cols, s.channels});
            auto& gain = bank.make("gain", {s.channels}, 0.5, 1.5);
            auto& bias = bank.make("bias", {s.channels});
            const auto state = std::make_shared<State>(s.channels);
            return [&x, &gain, &bias, state, s, training](Tape<T>& tape) {
              state->gain.stand_for(state->norm.gain, gain);
              state->bias.stand_for(state->norm.bias, bias);
              const Var<T> in = add(tape, packed_leaf(tape, x, s), packed_leaf(tape, x, s));
              return distinct_loss(tape, batch_norm(tape, in, state->norm, training, state->reducer));
            };
          }};
}

template <class T>
Case<T> layer_norm_case() {
  struct State {
    LayerNorm<T> norm;
    Into<T> gain, bias;
    OneRankReducer reducer;
    explicit State(Shape s) : norm("norm", s.rows, s.channels) { norm.epsilon = 1e-2; }
  };
  return {"layer_norm", [](Bank<T>& bank, Shape s) -> Graph<T> {
            auto& x = bank.make("x", {s.rows, s.cols, s.channels});
            auto& gain = bank.make("gain", {1, s.rows, s.channels}, 0.5, 1.5);
            auto& bias = bank.make("bias", {1, s.rows, s.channels});
            const auto state = std::make_shared<State>(s);
            return [&x, &gain, &bias, state, s](Tape<T>& tape) {
              state->gain.stand_for(state->norm.gain, gain);
              state->bias.stand_for(state->norm.bias, bias);
              const Var<T> in = time_major_leaf(tape, x, s);
              return distinct_loss(tape, add(tape, layer_norm(tape, in, state->norm, state->reducer), in));
            };
          }};
}

/// (P + x) ∘ sigmoid(Q) with P and Q side by side, as in STGCN's temporal convolutions.
template <class T>
Case<T> gated_linear_unit_case() {
  return {"gated linear unit", [](Bank<T>& bank, Shape s) -> Graph<T> {
            auto& x = bank.make("x", {s.rows, s.cols, s.channels});
            auto& w = bank.make("weight", {2 * (s.channels + 1), s.channels});
            auto& b = bank.make("bias", {2 * (s.channels + 1)});
            return [&x, &w, &b, s](Tape<T>& tape) {
              const Var<T> in = packed_leaf(tape, x, s);
              const Var<T> a = column_convolution(tape, in, w, b, 1, 1);
              add_to(tape, slice_channels(a, 0, s.channels), in);
              return distinct_loss(tape, gated_linear_unit(tape, a));
            };
          }};
}

template <class T>
std::vector<Case<T>> convolution_cases() {
  std::vector<Case<T>> cases;
  for (const Index taps : {1, 2, 3})
    for (const Index shift : {1, 4})
      cases.push_back({fmt::format("column_convolution of {} taps {} columns apart", taps, shift),
                       [=](Bank<T>& bank, Shape s) -> Graph<T> {
                         s.cols += (taps - 1) * shift;
                         auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                         auto& w = bank.make("weight", {6, taps * s.channels});
                         auto& b = bank.make("bias", {6});
                         return [&x, &w, &b, s, taps, shift](Tape<T>& tape) {
                           const Var<T> y =
                               column_convolution(tape, packed_leaf(tape, x, s), w, b, taps, shift);
                           const Var<T> y2 =
                               column_convolution(tape, packed_leaf(tape, x, s), w, b, taps, shift);
                           add_to(tape, slice_columns(y, y.cols() / 2, y.cols() - y.cols() / 2),
                                  slice_columns(y2, 0, y.cols() - y.cols() / 2));
                           return distinct_loss(tape, y);
                         };
                       }});
  cases.push_back(layer_norm_case<T>());
  cases.push_back(gated_linear_unit_case<T>());
  cases.push_back(batch_norm_case<T>(true));
  cases.push_back(batch_norm_case<T>(false));
  // Positions in a different order than rows; two powers of the adjacency.
  cases.push_back({"adaptive adjacency", [](Bank<T>& bank, Shape s) -> Graph<T> {
                     auto& x = bank.make("x", {s.rows, s.cols, s.channels});
                     auto& source = bank.make("source", {s.rows, 3});
                     auto& target = bank.make("target", {s.rows, 3});
                     const auto nodes = std::make_shared<AllNodes>();
                     for (Index i = s.rows; i-- > 0;) nodes->global.push_back(i);
                     nodes->owned = s.rows;
                     return [&x, &source, &target, nodes, s](Tape<T>& tape) {
                       const Var<T> a = adaptive_adjacency(tape, *nodes, source, target);
                       const Var<T> once = spread(tape, *nodes, a, packed_leaf(tape, x, s));
                       return distinct_loss(tape, add(tape, once, spread(tape, *nodes, a, once)));
                     };
                   }});
  return cases;
}

}  // namespace

template <class T>
std::vector<Case<T>> all_cases() {
  std::vector<Case<T>> cases;
  for (const auto& group : {elementwise_cases<T>(), linear_cases<T>(), convolution_cases<T>(),
                            embedding_cases<T>(), loss_cases<T>()})
    cases.insert(cases.end(), group.begin(), group.end());
  return cases;
}

template std::vector<Case<float>> all_cases();
template std::vector<Case<double>> all_cases();

}  // namespace rossby::test
