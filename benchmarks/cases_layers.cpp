// Dense layers, activations, losses, and products of low-rank and self relations, on node data of the 60 x
// 168 grid.

#include <tuple>

#include <fmt/core.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/autograd/costs.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby::bench {
namespace {

/// y (m, out) += x (m, in)·Wᵀ.
template <class T>
struct LinearForward {
  Index m, in, out;
  Array<T> x, weight, y;
  LinearForward(const Exec& exec, Index rows, Index inputs, Index outputs)
      : m(rows),
        in(inputs),
        out(outputs),
        x(exec, random_values<T>(m * in, "x")),
        weight(exec, random_values<T>(out * in, "weight")),
        y(exec, m * out) {}
  void run(const Exec& exec) {
    linear_forward<T>(exec, {y.data(), m, out}, {x.data(), m, in}, {weight.data(), out, in}, nullptr, true);
  }
  [[nodiscard]] Outputs<T> outputs() { return {y.values()}; }
};

/// dx (m, in) += dy·W.
template <class T>
struct LinearBackwardInput {
  Index m, in, out;
  Array<T> dy, weight, dx;
  LinearBackwardInput(const Exec& exec, Index rows, Index inputs, Index outputs)
      : m(rows),
        in(inputs),
        out(outputs),
        dy(exec, random_values<T>(m * out, "dy")),
        weight(exec, random_values<T>(out * in, "weight")),
        dx(exec, m * in) {}
  void run(const Exec& exec) {
    linear_backward_input<T>(exec, {dx.data(), m, in}, {dy.data(), m, out}, {weight.data(), out, in});
  }
  [[nodiscard]] Outputs<T> outputs() { return {dx.values()}; }
};

/// dW (out, in) += dyᵀ·x. Also the Vᵀz of a low-rank relation.
template <class T>
struct LinearBackwardWeight {
  Index m, in, out;
  Array<T> dy, x, dweight, scratch;
  LinearBackwardWeight(const Exec& exec, Index rows, Index inputs, Index outputs)
      : m(rows),
        in(inputs),
        out(outputs),
        dy(exec, random_values<T>(m * out, "dy")),
        x(exec, random_values<T>(m * in, "x")),
        dweight(exec, out * in),
        scratch(exec, linear_scratch_size(m, out, in)) {}
  void run(const Exec& exec) {
    linear_backward_weight<T>(exec, {dweight.data(), out, in}, {dy.data(), m, out}, {x.data(), m, in},
                              scratch.span());
  }
  [[nodiscard]] Outputs<T> outputs() { return {dweight.values()}; }
};

template <class T>
struct ColumnSum {
  Index m, out;
  Array<T> dy, dbias, scratch;
  ColumnSum(const Exec& exec, Index rows, Index outputs)
      : m(rows),
        out(outputs),
        dy(exec, random_values<T>(m * out, "dy")),
        dbias(exec, out),
        scratch(exec, linear_scratch_size(m, out, 1)) {}
  void run(const Exec& exec) { column_sum<T>(exec, dbias.data(), {dy.data(), m, out}, scratch.span()); }
  [[nodiscard]] Outputs<T> outputs() { return {dbias.values()}; }
};

template <class T>
struct Tanh {
  Index size;
  Array<T> x, y;
  Tanh(const Exec& exec, Index values)
      : size(values), x(exec, random_values<T>(size, "x", -3, 3)), y(exec, size) {}
  void run(const Exec& exec) {
    activation_forward<T>(exec, Activation::tanh, {y.data(), size, 1, 1}, {x.data(), size, 1, 1});
  }
  [[nodiscard]] Outputs<T> outputs() { return {y.values()}; }
};

template <class T>
struct TanhBackward {
  Index size;
  Array<T> y, dy, dx;
  TanhBackward(const Exec& exec, Index values)
      : size(values),
        y(exec, random_values<T>(size, "y")),
        dy(exec, random_values<T>(size, "dy")),
        dx(exec, size) {}
  void run(const Exec& exec) {
    activation_backward<T>(exec, Activation::tanh, {dx.data(), size, 1, 1}, {y.data(), size, 1, 1},
                           {dy.data(), size, 1, 1});
  }
  [[nodiscard]] Outputs<T> outputs() { return {dx.values()}; }
};

/// One in 64 targets is missing.
template <class T>
struct MaskedError {
  Index size;
  Array<T> prediction, gradient;
  Sum sum;
  Array<float> target;
  bool backward;
  MaskedError(const Exec& exec, Index values, bool is_backward)
      : size(values),
        prediction(exec, random_values<T>(size, "prediction")),
        gradient(exec, size),
        target(exec, random_values<float>(size, "target")),
        backward(is_backward) {
    for (Index i = 5; i < size; i += 64) target.host()[i] = std::numeric_limits<float>::quiet_NaN();
    target.send();
  }
  void run(const Exec& exec) {
    const NodeView<const T> p(prediction.data(), size, 1, 1);
    const NodeView<const float> x(target.data(), size, 1, 1);
    if (backward)
      masked_error_backward<T>(exec, rossby::MaskedError::squared, {gradient.data(), size, 1, 1}, p, x, 0.25);
    else
      masked_error_sum<T>(exec, rossby::MaskedError::squared, p, x, sum.anew());
  }
  [[nodiscard]] Outputs<T> outputs() { return {gradient.values(), sum.as<T>()}; }
};

template <class T>
struct SquaredDifference {
  Index size;
  Array<T> a, b, da, db;
  Sum sum;
  bool gradients;
  SquaredDifference(const Exec& exec, Index values, bool with_gradients)
      : size(values),
        a(exec, random_values<T>(size, "a")),
        b(exec, random_values<T>(size, "b")),
        da(exec, size),
        db(exec, size),
        gradients(with_gradients) {}
  void run(const Exec& exec) {
    const NodeView<const T> x(a.data(), size, 1, 1), y(b.data(), size, 1, 1);
    if (gradients) {
      squared_difference_gradients<T>(exec, {{da.data(), size, 1, 1}, false},
                                      {{db.data(), size, 1, 1}, false}, x, y, 0.25, sum.anew());
    } else
      squared_difference_sum<T>(exec, x, y, sum.anew());
  }
  [[nodiscard]] Outputs<T> outputs() { return {da.values(), db.values(), sum.as<T>()}; }
};

template <class T>
struct ClampL1 {
  Array<T> m, dm;
  Sum sum;
  bool backward;
  ClampL1(const Exec& exec, Index size, bool is_backward)
      : m(exec, random_values<T>(size, "m", -0.5, 1.5)), dm(exec, size), backward(is_backward) {}
  void run(const Exec& exec) {
    if (backward)
      clamp_l1_backward<T>(exec, dm.span(), m.span(), 0.25);
    else
      clamp_l1_sum<T>(exec, m.span(), sum.anew());
  }
  [[nodiscard]] Outputs<T> outputs() { return {dm.values(), sum.as<T>()}; }
};

/// y = a ∘ b, the product of gated and self relations.
template <class T>
struct Multiply {
  Index size;
  Array<T> a, b, y;
  Multiply(const Exec& exec, Index values)
      : size(values),
        a(exec, random_values<T>(size, "a")),
        b(exec, random_values<T>(size, "b")),
        y(exec, size) {}
  void run(const Exec& exec) {
    multiply<T>(exec, {y.data(), size, 1, 1}, {a.data(), size, 1, 1}, {b.data(), size, 1, 1});
  }
  [[nodiscard]] Outputs<T> outputs() { return {y.values()}; }
};

void add_linear(std::vector<NamedCase>& cases, const std::string& what, Index m, Index in, Index out) {
  const auto x = static_cast<double>(m * in), y = static_cast<double>(m * out),
             w = static_cast<double>(in * out);
  const double flops = 2 * x * static_cast<double>(out);
  const std::string name = fmt::format("{}/m:{}/in:{}/out:{}", what, m, in, out);
  const Cost forward =
      costs::linear_accumulate(static_cast<double>(m), static_cast<double>(in), static_cast<double>(out), 4)
          .forward;
  cases.push_back(
      checked<LinearForward>("linear_forward/" + name, work_of(forward, 4 * (x + y + w)), m, in, out));
  cases.push_back(checked<LinearBackwardInput>("linear_backward_input/" + name,
                                               {4 * (2 * x + y + w), flops, 4 * (x + y + w)}, m, in, out));
  cases.push_back(checked<LinearBackwardWeight>("linear_backward_weight/" + name,
                                                {4 * (x + y + 2 * w), flops, 4 * (x + y + w)}, m, in, out));
}

/// Vᵀz/n, U·s and their gradients are dense layers between nodes and k columns.
void add_low_rank(std::vector<NamedCase>& cases, Index n, Index k, Index width) {
  const auto node = static_cast<double>(n * width), factor = static_cast<double>(n * k),
             small = static_cast<double>(k * width);
  const double flops = 2 * node * static_cast<double>(k);
  const std::string name = fmt::format("/n:{}/k:{}/width:{}", n, k, width);
  cases.push_back(checked<LinearBackwardWeight>(
      "low_rank_project" + name, {4 * (node + factor + 2 * small), flops, 4 * (node + factor + small)}, n,
      width, k));
  cases.push_back(checked<LinearBackwardInput>(
      "low_rank_expand" + name, {4 * (2 * node + factor + small), flops, 4 * (node + factor + small)}, n,
      width, k));
  cases.push_back(checked<LinearForward>(
      "low_rank_gradient" + name, {4 * (node + 2 * factor + small), flops, 4 * (node + factor + small)}, n,
      width, k));
}

}  // namespace

std::vector<NamedCase> layer_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  const Index n = sizes.nodes(), m = 8 * n;
  for (const Index d : {1, 4, 8}) {
    add_linear(cases, "identity", m, d, d);
    if (d > 1) add_linear(cases, "decoder", m, d, 1);
    add_linear(cases, "context", m, 8 * d, d);
  }
  for (const Index width : {8, 64}) add_low_rank(cases, n, 20, width);
  for (const Index d : {1, 8}) {
    const auto size = static_cast<double>(m * d);
    cases.push_back(checked<ColumnSum>(
        fmt::format("column_sum/m:{}/out:{}", m, d),
        work_of(costs::bias_accumulate(static_cast<double>(m), static_cast<double>(d), 4).backward, 4 * size),
        m, d));
    const std::string name = fmt::format("/values:{}", m * d);
    const OpCost tanh = costs::transcendental(size, 4), masked = costs::masked_error(size, 4);
    cases.push_back(checked<Tanh>("tanh_forward" + name, work_of(tanh.forward, 8 * size), m * d));
    cases.push_back(checked<TanhBackward>("tanh_backward" + name, work_of(tanh.backward, 12 * size), m * d));
    cases.push_back(checked<MaskedError>("masked_squared_error_forward" + name,
                                         work_of(masked.forward, 8 * size), m * d, false));
    cases.push_back(checked<MaskedError>("masked_squared_error_backward" + name,
                                         work_of(masked.backward, 12 * size), m * d, true));
    cases.push_back(checked<SquaredDifference>(
        "squared_difference" + name, work_of(costs::squared_difference(size, 4, false).forward, 8 * size),
        m * d, false));
    cases.push_back(checked<SquaredDifference>("squared_difference_gradients" + name,
                                               work_of(costs::squared_difference(size, 4).forward, 16 * size),
                                               m * d, true));
    cases.push_back(
        checked<Multiply>("multiply" + name, work_of(costs::multiply(size, 4).forward, 12 * size), m * d));
  }
  const Index entries = static_cast<Index>(8 * n);
  const OpCost l1 = costs::clamp_l1(static_cast<double>(entries), 4);
  cases.push_back(checked<ClampL1>(fmt::format("clamp_l1_forward/values:{}", entries),
                                   work_of(l1.forward, 4.0 * static_cast<double>(entries)), entries, false));
  cases.push_back(checked<ClampL1>(fmt::format("clamp_l1_backward/values:{}", entries),
                                   work_of(l1.backward, 8.0 * static_cast<double>(entries)), entries, true));
  return cases;
}

}  // namespace rossby::bench
