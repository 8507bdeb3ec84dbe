#include <fmt/core.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/batch_norm.hpp"
#include "rossby/kernels/broadcast.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/gru.hpp"
#include "rossby/kernels/layer_norm.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/kernels/rows.hpp"
#include "rossby/kernels/softmax.hpp"
#include "rossby/kernels/steps.hpp"
#include "rossby/kernels/table_loss.hpp"
#include "tests/lib/kernels/harness.hpp"
#include "tests/lib/kernels/sum_of.hpp"

namespace rossby::test {
namespace {

template <class T>
std::vector<Case<T>> elementwise_cases() {
  using R = Rig<T>;
  std::vector<Case<T>> cases;
  for (const Activation f : {Activation::tanh, Activation::sigmoid, Activation::relu}) {
    const std::string name = f == Activation::tanh ? "tanh" : f == Activation::sigmoid ? "sigmoid" : "relu";
    cases.push_back({name, [f](const Exec& exec, R& rig, Shape s) {
                       activation_forward(exec, f, rig.output(s), read(rig.input(s, -4, 4)));
                     }});
    cases.push_back({name + " backward", [f](const Exec& exec, R& rig, Shape s) {
                       activation_backward(exec, f, rig.input(s), read(rig.input(s)), read(rig.input(s)));
                     }});
  }
  cases.push_back({"pack", [](const Exec& exec, R& rig, Shape s) {
                     const NodeView<T> view = rig.output(s);
                     pack(exec, view, read(rig.input(s)));
                   }});
  cases.push_back({"add", [](const Exec& exec, R& rig, Shape s) {
                     add(exec, rig.output(s), read(rig.input(s)), read(rig.input(s)));
                   }});
  cases.push_back({"scale", [](const Exec& exec, R& rig, Shape s) {
                     scale(exec, rig.output(s), static_cast<T>(-1.7), read(rig.input(s)));
                   }});
  cases.push_back({"accumulate", [](const Exec& exec, R& rig, Shape s) {
                     accumulate(exec, rig.input(s), static_cast<T>(0.3), read(rig.input(s)));
                   }});
  cases.push_back({"multiply", [](const Exec& exec, R& rig, Shape s) {
                     multiply(exec, rig.output(s), read(rig.input(s)), read(rig.input(s)));
                   }});
  cases.push_back({"multiply_accumulate", [](const Exec& exec, R& rig, Shape s) {
                     multiply_accumulate(exec, rig.input(s), read(rig.input(s)), read(rig.input(s)));
                   }});
  cases.push_back({"affine_rows", [](const Exec& exec, R& rig, Shape s) {
                     const auto values = [&](double by) {
                       std::vector<T> list(static_cast<std::size_t>(s.rows * s.channels));
                       for (std::size_t k = 0; k < list.size(); ++k)
                         list[k] = static_cast<T>(std::sin(by * static_cast<double>(k)));
                       return list;
                     };
                     const std::vector<T> scale = values(1), shift = values(2);
                     affine_rows_forward<T>(exec, rig.output(s), scale, shift, read(rig.input(s)));
                     affine_rows_backward<T>(exec, rig.input(s), scale, read(rig.input(s)));
                   }});
  for (const bool all : {true, false})
    cases.push_back({all ? "weigh_rows" : "weigh_rows, ds alone", [all](const Exec& exec, R& rig, Shape s) {
                       // Below, inside and above the unit interval.
                       const std::span<T> weight = rig.vector(s.rows), ds = rig.vector(s.rows);
                       weigh_rows_forward<T>(exec, rig.output(s), weight.data(), read(rig.input(s)));
                       weigh_rows_backward<T>(exec, all ? rig.input(s) : NodeView<T>{}, ds.data(),
                                              weight.data(), read(rig.input(s)), read(rig.input(s)));
                     }});
  cases.push_back({"sums over rows and columns", [](const Exec& exec, R& rig, Shape s) {
                     sum_over_rows(exec, rig.input({1, s.cols, s.channels}), read(rig.input(s)));
                     sum_over_columns(exec, rig.input({s.rows, 1, s.channels}), read(rig.input(s)));
                   }});
  cases.push_back({"accumulate of values of all rows or columns", [](const Exec& exec, R& rig, Shape s) {
                     NodeView<const T> a = read(rig.input({1, s.cols, s.channels})),
                                       b = read(rig.input({s.rows, 1, s.channels}));
                     a.rows = s.rows, a.row_stride = 0;
                     b.cols = s.cols, b.col_stride = 0;
                     accumulate(exec, rig.input(s), T{1}, a);
                     accumulate(exec, rig.input(s), T{1}, b);
                   }});
  cases.push_back(
      {"clear_view", [](const Exec& exec, R& rig, Shape s) { clear_view<T>(exec, rig.input(s)); }});
  cases.push_back({"rows", [](const Exec& exec, R& rig, Shape s) {
                     std::vector<LocalColumn> named, unique;
                     std::vector<LocalEntry> ptr{0}, position;
                     for (Index i = 0; i < s.rows; i += 2) {
                       unique.push_back(static_cast<LocalColumn>(s.rows - 1 - i));
                       for (Index twice = 0; twice <= i % 3; ++twice) {
                         named.push_back(unique.back());
                         position.push_back(static_cast<LocalEntry>(position.size()));
                       }
                       ptr.push_back(static_cast<LocalEntry>(position.size()));
                     }
                     const auto size = static_cast<Index>(named.size()) * s.cols * s.channels;
                     const std::span<T> message = rig.vector(size);
                     gather_rows<T>(exec, message.data(), read(rig.input(s)), named);
                     scatter_add_rows<T>(exec, rig.input(s), message.data(), {unique, ptr, position});
                   }});
  cases.push_back({"steps", [](const Exec& exec, R& rig, Shape s) {
                     // Two features, and the other channels as further ones; a step may repeat.
                     const Index m = std::min<Index>(s.channels, 2);
                     const auto list = [](Index size, double by) {
                       std::vector<T> values(static_cast<std::size_t>(size));
                       for (std::size_t k = 0; k < values.size(); ++k)
                         values[k] = static_cast<T>(1.5 + std::sin(by * static_cast<double>(k)));
                       return values;
                     };
                     const std::vector<T> shift = list(s.rows * m, 1), inverse = list(s.rows * m, 2),
                                          fill = list(s.rows * m, 3);
                     std::vector<float> extra(static_cast<std::size_t>(s.cols * (s.channels - m)));
                     for (std::size_t k = 0; k < extra.size(); ++k) extra[k] = static_cast<float>(k % 7);
                     const NodeView<float> series = rig.target({5, 1, s.rows * s.channels});
                     std::vector<const float*> steps;
                     for (Index b = 0; b < s.cols; ++b) steps.push_back(series.row(b * b % 5));
                     read_steps<T>(exec, rig.output(s), steps, {m, shift, inverse, fill}, extra);
                     if constexpr (std::is_same_v<T, float>) {
                       for (const float*& step : steps) step = rig.vector(s.rows * s.channels).data();
                       copy_steps(exec, rig.output(s), steps);
                     }
                   }});
  cases.push_back({"softmax_relu", [](const Exec& exec, R& rig, Shape s) {
                     const Index m = s.rows, n = s.cols * s.channels;
                     const MatrixView<T> a(rig.vector(m * n, -2, 3).data(), m, n),
                         d(rig.vector(m * n).data(), m, n);
                     const std::span<std::uint8_t> positive = rig.bytes(m * n);
                     softmax_relu_forward<T>(exec, a, positive);
                     softmax_relu_backward<T>(exec, d, read(a), positive);
                   }});
  for (const bool biased : {false, true})
    cases.push_back(
        {biased ? "gru gates biased" : "gru gates", [biased](const Exec& exec, R& rig, Shape s) {
           const auto bias = [&]() -> const T* { return biased ? rig.vector(s.channels).data() : nullptr; };
           gru_reset_forward(exec, rig.input(s, -4, 4), rig.output(s), read(rig.input(s)), bias());
           gru_output_forward(exec, rig.input(s, -4, 4), rig.input(s, -4, 4), rig.output(s),
                              read(rig.input(s)), bias(), bias());
         }});
  for (const bool to_state : {false, true})
    cases.push_back({to_state ? "gru gates backward" : "gru gates backward without the state's",
                     [to_state](const Exec& exec, R& rig, Shape s) {
                       const auto dh = [&] { return to_state ? rig.input(s) : NodeView<T>{}; };
                       gru_reset_backward(exec, rig.input(s), dh(), read(rig.input(s)), read(rig.input(s)),
                                          read(rig.input(s)));
                       gru_output_backward(exec, rig.input(s), rig.input(s), dh(), read(rig.input(s)),
                                           read(rig.input(s)), read(rig.input(s)), read(rig.input(s)));
                     }});
  return cases;
}

/// Rows of a dense layer: enough for several blocks, but few enough for a quick test of wide layers.
Index layer_rows(Shape s) {
  return std::min<Index>(s.rows * s.cols, 1201);
}

}  // namespace

template <class T>
std::vector<Case<T>> linear_cases(Index out) {
  using R = Rig<T>;
  std::vector<Case<T>> cases;
  for (const bool accumulate : {false, true})
    for (const bool bias : {false, true})
      cases.push_back(
          {fmt::format("linear_forward to {}{}{}", out, accumulate ? " +=" : "", bias ? " biased" : ""),
           [=](const Exec& exec, R& rig, Shape s) {
             const Index m = layer_rows(s);
             const T* values = bias ? rig.vector(out).data() : nullptr;
             linear_forward(exec, rig.matrix(m, out, !accumulate), read(rig.matrix(m, s.channels)),
                            read(rig.matrix(out, s.channels)), values, accumulate);
           }});
  cases.push_back({fmt::format("linear_backward_input from {}", out), [=](const Exec& exec, R& rig, Shape s) {
                     const Index m = layer_rows(s);
                     linear_backward_input(exec, rig.matrix(m, s.channels), read(rig.matrix(m, out)),
                                           read(rig.matrix(out, s.channels)));
                   }});
  cases.push_back({fmt::format("linear_backward_weight of {}", out), [=](const Exec& exec, R& rig, Shape s) {
                     const Index m = layer_rows(s);
                     linear_backward_weight(exec, rig.matrix(out, s.channels), read(rig.matrix(m, out)),
                                            read(rig.matrix(m, s.channels)),
                                            rig.scratch(linear_scratch_size(m, out, s.channels)));
                   }});
  cases.push_back({fmt::format("column_sum of {}", out), [=](const Exec& exec, R& rig, Shape s) {
                     const Index m = layer_rows(s);
                     column_sum(exec, rig.vector(out).data(), read(rig.matrix(m, out)),
                                rig.scratch(linear_scratch_size(m, out, 1)));
                   }});
  cases.push_back({fmt::format("bias_add of {}", out), [=](const Exec& exec, R& rig, Shape s) {
                     bias_add(exec, rig.matrix(layer_rows(s), out),
                              static_cast<const T*>(rig.vector(out).data()));
                   }});
  return cases;
}

namespace {

/// `count` numbers in [0, bound), with repetitions.
std::vector<Index> draw(Index count, Index bound, std::uint64_t key) {
  std::vector<Index> values(static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < values.size(); ++k)
    values[k] = static_cast<Index>(Random(4, "draw").at(key).uniform(k) * static_cast<double>(bound));
  return values;
}

template <class T>
std::vector<Case<T>> row_cases() {
  using R = Rig<T>;
  std::vector<Case<T>> cases;
  constexpr Index steps = 5;
  cases.push_back({"embed_columns_forward", [](const Exec& exec, R& rig, Shape s) {
                     const T* table = rig.vector(steps * s.rows * s.channels).data();
                     embed_columns_forward(exec, rig.output(s), table, steps, draw(s.cols, steps, 0));
                   }});
  cases.push_back({"embed_columns_backward", [](const Exec& exec, R& rig, Shape s) {
                     T* table = rig.vector(steps * s.rows * s.channels).data();
                     embed_columns_backward(exec, table, steps, read(rig.input(s)), draw(s.cols, steps, 0));
                   }});
  cases.push_back({"embed_columns_backward anew", [](const Exec& exec, R& rig, Shape s) {
                     T* table = rig.vector(steps * s.rows * s.channels).data();
                     embed_columns_backward(exec, table, steps, read(rig.input(s)), draw(s.cols, steps, 0),
                                            draw(s.cols, 2, 3));
                   }});
  // As many pairs as the shape has rows and columns, among 41 nodes.
  cases.push_back({"embed_pairs_forward", [](const Exec& exec, R& rig, Shape s) {
                     const Index pairs = s.rows * s.cols;
                     const T* table = rig.vector(steps * 41 * s.channels).data();
                     embed_pairs_forward(exec, rig.output({pairs, 1, s.channels}), table, steps, 41,
                                         draw(pairs, steps, 1), draw(pairs, 41, 2));
                   }});
  cases.push_back({"embed_pairs_backward", [](const Exec& exec, R& rig, Shape s) {
                     const Index pairs = s.rows * s.cols;
                     T* table = rig.vector(steps * 41 * s.channels).data();
                     embed_pairs_backward(exec, table, steps, 41, read(rig.input({pairs, 1, s.channels})),
                                          draw(pairs, steps, 1), draw(pairs, 41, 2));
                   }});
  cases.push_back({"dropout", [](const Exec& exec, R& rig, Shape s) {
                     const std::span<std::uint8_t> keep = rig.bytes(s.rows * s.cols * s.channels);
                     const auto rows = draw(s.rows, 1000, 3);
                     const auto cols = draw(s.cols, Index{1} << 40, 4);
                     const NodeView<T> y = rig.output(s);
                     dropout_forward(exec, y, keep, read(rig.input(s)), 0.3, Random(1, "d"), rows, cols);
                     dropout_backward(exec, rig.input(s), read(y), std::span<const std::uint8_t>(keep), 0.3);
                   }});
  cases.push_back({"dropout_of_windows", [](const Exec& exec, R& rig, Shape s) {
                     for (const Index windows : {Index{2}, Index{130}}) {
                       s.cols *= windows;
                       if (s.cols == 0) return;
                       const std::span<std::uint8_t> keep = rig.bytes(s.rows * s.cols * s.channels);
                       const auto keys = draw(windows, Index{1} << 30, 4);
                       dropout_forward(exec, rig.output(s), keep, read(rig.input(s)), 0.3, Random(1, "d"),
                                       draw(s.rows, 1000, 3), {keys, 13, 5});
                       s.cols /= windows;
                     }
                   }});
  for (const bool trained : {true, false})
    cases.push_back({trained ? "layer_norm" : "layer_norm, dx alone", [=](const Exec& exec, R& rig, Shape s) {
                       std::vector<double> scratch(
                           static_cast<std::size_t>(layer_norm_scratch_size(exec, s.rows, s.cols)), NAN);
                       const auto table = [&] { return rig.vector(s.rows * s.channels).data(); };
                       const NodeView<T> x = rig.input(s), dy = rig.input(s);
                       double *sums = rig.sums(2 * s.cols + 1), *back = rig.sums(2 * s.cols);
                       T *mean = rig.output_vector(s.cols), *inverse = rig.output_vector(s.cols);
                       const T* gain = table();
                       layer_norm_sums<T>(exec, sums, x, scratch);
                       layer_norm_moments<T>(exec, s.cols, mean, inverse, sums, 1e-2);
                       layer_norm_forward<T>(exec, rig.output(s), x, mean, inverse, gain, table());
                       layer_norm_backward_sums<T>(exec, back, dy, x, mean, inverse, gain, scratch);
                       layer_norm_backward_parameters<T>(exec, trained ? table() : nullptr,
                                                         trained ? table() : nullptr, dy, x, mean, inverse);
                       layer_norm_backward_input<T>(exec, rig.input(s), dy, x, mean, inverse, gain, back,
                                                    sums + 2 * s.cols);
                     }});
  for (const bool constants : {false, true})
    cases.push_back(
        {constants ? "batch_norm of constants" : "batch_norm", [=](const Exec& exec, R& rig, Shape s) {
           std::vector<double> scratch(
               static_cast<std::size_t>(batch_norm_scratch_size(exec, s.rows, s.channels)), NAN);
           const auto vector = [&] { return rig.vector(s.channels).data(); };
           const auto output = [&] { return rig.output_vector(s.channels); };
           const NodeView<T> x = rig.input(s), dy = rig.input(s);
           double *sums = rig.sums(2 * s.channels + 1), *back = rig.sums(2 * s.channels);
           const BatchNormRunning<T> running{vector(), rig.vector(s.channels, 0.1, 1).data(), 0.3, 1e-2};
           const BatchNormFactors<T> of{output(), output(), output()};
           batch_norm_sums<T>(exec, sums, x, running.mean, scratch);
           batch_norm_factors<T>(exec, s.channels, of, constants ? nullptr : sums, vector(), running);
           batch_norm_forward<T>(exec, rig.output(s), x, of.mean, of.factor, vector());
           batch_norm_backward_sums<T>(exec, back, dy, x, of.mean, of.inverse_deviation, scratch);
           batch_norm_backward_parameters<T>(exec, s.channels, vector(), constants ? nullptr : vector(),
                                             back);
           T *offset = output(), *slope = output();
           batch_norm_slopes<T>(exec, s.channels, offset, slope, back,
                                constants ? nullptr : sums + 2 * s.channels, of.inverse_deviation);
           batch_norm_backward_input<T>(exec, rig.input(s), dy, x, of.mean, of.factor, offset, slope);
         }});
  return cases;
}

/// Products of matrices in all four ways, into partial tiles and into single ones.
template <class T>
std::vector<Case<T>> product_cases() {
  using R = Rig<T>;
  std::vector<Case<T>> cases;
  for (const Operand a : {Operand::plain, Operand::transposed})
    for (const Operand b : {Operand::plain, Operand::transposed})
      for (const bool accumulate : {false, true})
        cases.push_back({fmt::format("matrix_product {}{}{}", int(a), int(b), accumulate ? " +=" : ""),
                         [=](const Exec& exec, R& rig, Shape s) {
                           // Several tiles in each direction, yet quick under sanitizers.
                           const Index k = s.channels, q = std::min<Index>(s.cols * 129, 2500);
                           const Index m = q > 1000 ? std::min<Index>(s.rows, 301) : s.rows;
                           const auto operand = [&](Operand op, Index rows, Index cols) {
                             return read(op == Operand::plain ? rig.matrix(rows, cols)
                                                              : rig.matrix(cols, rows));
                           };
                           matrix_product(exec, rig.matrix(m, q, !accumulate), a, operand(a, m, k), b,
                                          operand(b, k, q), accumulate);
                         }});
  return cases;
}

template <class T>
std::vector<Case<T>> loss_cases() {
  using R = Rig<T>;
  std::vector<Case<T>> cases;
  const std::pair<const char*, MaskedError> errors[] = {
      {"masked squared error", MaskedError::squared},
      {"masked absolute error", MaskedError::absolute},
      {"masked huber error", {MaskedError::huber, 0.3}},
      {"masked pinball error", {MaskedError::pinball, 0.1}}};
  for (const auto& [name, error] : errors)
    cases.push_back({name, [kind = error](const Exec& exec, R& rig, Shape s) {
                       const NodeView<T> prediction = rig.input(s);
                       const NodeView<T> gradient = rig.input(s);
                       const NodeView<const float> target = rig.target(s);
                       rig.result(sum_of(exec, [&](double* sum) {
                         masked_error_sum(exec, kind, read(prediction), target, sum);
                       }));
                       masked_error_backward(exec, kind, gradient, read(prediction), target, -0.7);
                     }});
  for (const int skipped : {-1, 0, 1, 2})
    for (const bool add_a : {false, true})
      for (const bool add_b : {false, true})
        cases.push_back({fmt::format("squared difference without {}, {} {}", skipped, add_a ? "+=" : "=",
                                     add_b ? "+=" : "="),
                         [=](const Exec& exec, R& rig, Shape s) {
                           const NodeView<T> a = rig.input(s);
                           const NodeView<T> b = rig.input(s);
                           rig.result(sum_of(exec, [&](double* sum) {
                             squared_difference_sum(exec, read(a), read(b), sum);
                           }));
                           const auto out = [&](int side, bool add) -> GradientOut<T> {
                             if (skipped == side || skipped == 2) return {};
                             return {add ? rig.input(s) : rig.output(s), add};
                           };
                           const GradientOut<T> da = out(0, add_a), db = out(1, add_b);
                           double sum = 0.5;
                           squared_difference_gradients(exec, da, db, read(a), read(b), 0.3, &sum);
                           settle(exec);
                           rig.result(sum);
                         }});
  return cases;
}

template <class T>
std::vector<Case<T>> vector_cases() {
  using R = Rig<T>;
  const auto size = [](Shape s) { return s.rows * s.cols * s.channels; };
  std::vector<Case<T>> cases;
  cases.push_back(
      {"sum_of_squares", [=](const Exec& exec, R& rig, Shape s) {
         rig.result(sum_of(exec, [&](double* sum) { sum_of_squares(exec, read(rig.vector(size(s))), sum); }));
       }});
  for (const double most : {0.01, 1e3})
    cases.push_back({fmt::format("clip_by_norm {}", most), [=](const Exec& exec, R& rig, Shape s) {
                       const auto x = rig.vector(size(s)), more = rig.vector(3);
                       double squares = 0;
                       sum_of_squares(exec, read(x), &squares);
                       sum_of_squares(exec, read(more), &squares);
                       clip_by_norm(exec, x, &squares, most);
                       settle(exec);
                       rig.result(squares);
                     }});
  cases.push_back({"first_non_finite", [=](const Exec& exec, R& rig, Shape s) {
                     rig.result(static_cast<double>(first_non_finite(exec, read(rig.vector(size(s))))));
                   }});
  cases.push_back({"clamp", [=](const Exec& exec, R& rig, Shape s) {
                     const auto m = rig.vector(size(s), -1, 2);
                     rig.result(sum_of(exec, [&](double* sum) { clamp_l1_sum(exec, read(m), sum); }));
                     clamp_l1_backward(exec, rig.vector(size(s)), read(m), 0.9);
                   }});
  for (const bool decoupled : {false, true})
    for (const bool first_moment : {false, true})
      for (const bool gradient : {false, true})
        cases.push_back({fmt::format("adam{}{}{}", decoupled ? "w" : "", first_moment ? " with m" : "",
                                     gradient ? " with gradient" : ""),
                         [=](const Exec& exec, R& rig, Shape s) {
                           const auto theta = rig.vector(size(s));
                           const auto v = rig.vector(size(s), 0, 1);
                           const auto m = first_moment ? rig.vector(size(s)) : std::span<T>{};
                           const std::span<const T> g = gradient ? rig.vector(size(s)) : std::span<T>{};
                           const AdamStep step{1e-2, first_moment ? 0.9 : 0.0, 0.99, 1e-3, 0.1, 0.5, 3};
                           adam_update<T>(exec, theta, m, v, g, step, decoupled);
                         }});
  for (const bool gradient : {false, true})
    cases.push_back(
        {gradient ? "adam of rows" : "adam of rows, what is owed", [=](const Exec& exec, R& rig, Shape s) {
           const Index columns = s.cols * s.channels;
           const auto array = [&](double low) {
             return MatrixView<T>(rig.vector(size(s), low, 1).data(), s.rows, columns);
           };
           const MatrixView<T> theta = array(-1), v = array(0);
           const MatrixView<T> g = gradient ? array(-1) : MatrixView<T>{};
           // Every other row, the last first.
           std::vector<Index> rows, done;
           for (Index i = s.rows - 1; i >= 0; i -= 2) rows.push_back(i);
           for (const Index i : rows) done.push_back(i % 4);
           const std::vector<T> factors{T(0.5), T(0.875), T(0.75)};
           const AdamStep step{1e-2, 0, 0.99, 1e-3, 0, 0.5, 3};
           adam_update_rows<T>(exec, theta, v, g, rows, done, factors, adam_constants<T>(step, false));
         }});
  for (const bool momentum : {false, true})
    cases.push_back({momentum ? "sgd with momentum" : "sgd", [=](const Exec& exec, R& rig, Shape s) {
                       const auto theta = rig.vector(size(s));
                       const auto velocity = momentum ? rig.vector(size(s)) : std::span<T>{};
                       sgd_update(exec, theta, velocity, read(rig.vector(size(s))),
                                  SgdStep{1e-2, momentum ? 0.9 : 0.0, 0.1, 0.5});
                     }});
  return cases;
}

/// Kernels for packed data.
template <class T>
std::vector<Case<T>> table_loss_cases() {
  using R = Rig<T>;
  constexpr Index steps = 5, slots = 7;
  enum class Wanted { nothing, sum, anew };
  const auto text = [](Wanted wanted) {
    return wanted == Wanted::nothing ? "without" : wanted == Wanted::sum ? "+=" : "=";
  };
  const auto gradient_of = [](R& rig, Index size, Wanted wanted, std::span<const Index> times,
                              std::span<const Index> begins) -> TableGradient<T> {
    if (wanted == Wanted::nothing) return {};
    T* const to = rig.vector(slots * size).data();
    return {to, slots, times, wanted == Wanted::anew ? begins : std::span<const Index>{}};
  };
  std::vector<Case<T>> cases;
  for (const bool through_tanh : {false, true})
    for (const Wanted of_table : {Wanted::nothing, Wanted::sum, Wanted::anew})
      for (const Wanted of_x : {Wanted::nothing, Wanted::sum, Wanted::anew})
        cases.push_back({fmt::format("table difference{}, {} {}", through_tanh ? " (tanh)" : "",
                                     text(of_table), text(of_x)),
                         [=](const Exec& exec, R& rig, Shape s) {
                           if (s.cols * s.channels > most_table_loss_width) return;
                           const auto times = draw(s.cols, steps, 0), to = draw(s.cols, slots, 1),
                                      begins = draw(s.cols, 2, 3);
                           const T* const table = rig.vector(steps * s.rows * s.channels).data();
                           GradientOut<T> dx;
                           if (of_x == Wanted::sum) dx = {rig.input(s), true};
                           if (of_x == Wanted::anew) dx = {rig.output(s), false};
                           double sum = 0.5;
                           table_difference<T>(
                               exec, gradient_of(rig, s.rows * s.channels, of_table, to, begins), dx,
                               {table, steps, times}, read(rig.input(s)), through_tanh, 0.3, &sum);
                           rig.result(sum);
                         }});
  for (const Index decoded : {0, 1, 2, 5})
    for (const Wanted of_table : {Wanted::nothing, Wanted::sum, Wanted::anew})
      for (const bool of_weight : {false, true})
        if (decoded > 0 || !of_weight)
          cases.push_back(
              {fmt::format("table decoded to {}, {}{}", decoded, text(of_table),
                           of_weight ? ", weights" : ""),
               [=](const Exec& exec, R& rig, Shape s) {
                 const Index m = decoded > 0 ? decoded : s.channels;
                 if (std::max(s.channels, m) > most_table_loss_width ||
                     decoded * s.channels > most_decoder_weights)
                   return;
                 const auto times = draw(s.cols, steps, 0), to = draw(s.cols, slots, 1),
                            begins = draw(s.cols, 2, 3), at = draw(s.cols, steps, 4);
                 const T* const table = rig.vector(steps * s.rows * s.channels).data();
                 const float* const truth = rig.target({steps, s.rows, m}).data;
                 MatrixView<const T> weight;
                 if (decoded > 0) weight = {rig.vector(m * s.channels).data(), m, s.channels};
                 T* const dweight = of_weight ? rig.vector(m * s.channels).data() : nullptr;
                 double sum = 0.5;
                 table_decoded_error<T>(
                     exec, gradient_of(rig, s.rows * s.channels, of_table, to, begins), dweight,
                     {table, steps, times}, weight, {truth, steps, at}, s.rows, s.channels, 0.3, &sum,
                     rig.scratch(table_decoded_error_scratch_size(s.rows, s.cols, m, s.channels)));
                 rig.result(sum);
               }});
  return cases;
}

}  // namespace

template <class T>
std::vector<Case<T>> host_cases() {
  return table_loss_cases<T>();
}

template <class T>
std::vector<Case<T>> all_cases() {
  std::vector<Case<T>> cases;
  for (const auto& group : {elementwise_cases<T>(), linear_cases<T>(0), linear_cases<T>(1),
                            linear_cases<T>(2), linear_cases<T>(5), linear_cases<T>(67), product_cases<T>(),
                            row_cases<T>(), loss_cases<T>(), vector_cases<T>()})
    cases.insert(cases.end(), group.begin(), group.end());
  return cases;
}

template <class T>
std::vector<Case<T>> run_cases() {
  std::vector<Case<T>> cases;
  for (const auto& group : {elementwise_cases<T>(), loss_cases<T>(), vector_cases<T>()})
    cases.insert(cases.end(), group.begin(), group.end());
  return cases;
}

template std::vector<Case<float>> linear_cases(Index);
template std::vector<Case<double>> linear_cases(Index);
template std::vector<Case<float>> host_cases();
template std::vector<Case<double>> host_cases();
template std::vector<Case<float>> all_cases();
template std::vector<Case<double>> all_cases();
template std::vector<Case<float>> run_cases();
template std::vector<Case<double>> run_cases();

}  // namespace rossby::test
