#pragma once

#include "rossby/kernels/exec.hpp"

namespace rossby {

/// Cost of an op forward and backward if every side is tracked. Used by the tape, the planner and benchmarks.
struct OpCost {
  Cost forward;
  Cost backward;
};

/// Costs of the ops in ops.hpp. `size` is the number of scalars of an operand, `word` the bytes per scalar.
/// Each operand counts once, accumulated ones twice (read and write). A transcendental function counts as
/// `transcendental_flops`.
namespace costs {

inline constexpr double transcendental_flops = 10;

namespace detail {
[[nodiscard]] constexpr Cost cost(double flops, double scalars, double word) {
  return {flops, scalars * word, 0, 0};
}
}  // namespace detail

/// tanh, sigmoid: y from x; dx += dy·f'(y).
[[nodiscard]] constexpr OpCost transcendental(double size, double word) {
  return {detail::cost(transcendental_flops * size, 2 * size, word), detail::cost(4 * size, 4 * size, word)};
}
[[nodiscard]] constexpr OpCost relu(double size, double word) {
  return {detail::cost(size, 2 * size, word), detail::cost(size, 4 * size, word)};
}
[[nodiscard]] constexpr OpCost add(double size, double word) {
  return {detail::cost(size, 3 * size, word), detail::cost(2 * size, 5 * size, word)};
}
[[nodiscard]] constexpr OpCost multiply(double size, double word) {
  return {detail::cost(size, 3 * size, word), detail::cost(4 * size, 7 * size, word)};
}

/// y (m, out) = x (m, in)·Wᵀ + bias. Backward: dx += dy·W if `input` is tracked; dW += dyᵀx and db += Σ dy if
/// the weight is `trained`.
[[nodiscard]] constexpr OpCost linear(double m, double in, double out, double word, bool input = true,
                                      bool trained = true) {
  OpCost cost{detail::cost(2 * m * in * out, m * in + m * out + in * out, word), {}};
  if (input) cost.backward += detail::cost(2 * m * in * out, 2 * m * in + m * out + in * out, word);
  if (trained)
    cost.backward += detail::cost(2 * m * in * out + m * out, m * in + m * out + 2 * in * out, word);
  return cost;
}
/// As linear, but added to y and without a bias.
[[nodiscard]] constexpr OpCost linear_accumulate(double m, double in, double out, double word,
                                                 bool input = true, bool trained = true) {
  OpCost cost = linear(m, in, out, word, input, trained);
  cost.forward.bytes += m * out * word;
  if (trained) cost.backward.flops -= m * out;
  return cost;
}
[[nodiscard]] constexpr OpCost bias_accumulate(double m, double out, double word) {
  return {detail::cost(m * out, 2 * m * out, word), detail::cost(m * out, m * out, word)};
}

/// y += x, where x has `of` values and all rows or columns of y read it; dx += Σ dy.
[[nodiscard]] constexpr OpCost add_broadcast(double size, double of, double word) {
  return {detail::cost(size, 2 * size + of, word), detail::cost(size, size + 2 * of, word)};
}
/// Copies rows out of a table; backward adds them back.
[[nodiscard]] constexpr OpCost embed(double size, double word) {
  return {detail::cost(0, 2 * size, word), detail::cost(size, 3 * size, word)};
}
/// Forward: Philox (about 60 integer operations) per value. Backward: one stored byte per value.
[[nodiscard]] constexpr OpCost dropout(double size, double word) {
  return {{60 * size, 2 * size * word + size, 0, 0}, {2 * size, 3 * size * word + size, 0, 0}};
}
[[nodiscard]] constexpr OpCost gru_reset(double size, double word) {
  return {detail::cost((transcendental_flops + 1) * size, 4 * size, word),
          detail::cost(7 * size, 7 * size, word)};
}
[[nodiscard]] constexpr OpCost gru_output(double size, double word) {
  return {detail::cost((2 * transcendental_flops + 4) * size, 6 * size, word),
          detail::cost(14 * size, 10 * size, word)};
}
[[nodiscard]] constexpr OpCost assign(double size, double word) {
  return {detail::cost(0, 2 * size, word), detail::cost(size, 3 * size, word)};
}
[[nodiscard]] constexpr OpCost affine_rows(double size, double word) {
  return {detail::cost(2 * size, 2 * size, word), detail::cost(2 * size, 3 * size, word)};
}
/// y += x; dx += dy.
[[nodiscard]] constexpr OpCost add_to(double size, double word) {
  return {detail::cost(size, 3 * size, word), detail::cost(size, 3 * size, word)};
}
/// Moments, then one pass; the same in backward.
[[nodiscard]] constexpr OpCost batch_norm(double size, double word) {
  return {detail::cost(7 * size, 3 * size, word), detail::cost(11 * size, 6 * size, word)};
}
/// For node data of `size` values, and a table of `table` gains and one of biases. Forward: moments, then one
/// pass. Backward: sums of columns, the parameters, then the input.
[[nodiscard]] constexpr OpCost layer_norm(double size, double table, double word) {
  return {detail::cost(7 * size, 3 * size + 2 * table, word),
          detail::cost(17 * size, 8 * size + 6 * table, word)};
}
/// softmax(relu(S Tᵀ)) (m, n) from S (m, k) and T (n, k).
[[nodiscard]] constexpr OpCost adaptive_adjacency(double m, double n, double k, double word) {
  return {detail::cost((2 * k + transcendental_flops + 4) * m * n, m * n + (m + n) * k, word),
          detail::cost((4 * k + 5) * m * n, 3 * m * n + 3 * (m + n) * k, word)};
}
/// y (n, width) = Aᵀ x with A (m, n), x (m, width); dx += A dy, dA += x dyᵀ.
[[nodiscard]] constexpr OpCost spread(double m, double n, double width, double word, bool input = true,
                                      bool adjacency = true) {
  const double flops = 2 * m * n * width;
  OpCost cost{detail::cost(flops, m * n + (m + n) * width, word), {}};
  if (input) cost.backward += detail::cost(flops, m * n + (2 * m + n) * width, word);
  if (adjacency) cost.backward += detail::cost(flops, 2 * m * n + (m + n) * width, word);
  return cost;
}
/// Prediction against a float target.
[[nodiscard]] constexpr OpCost masked_error(double size, double word) {
  return {{3 * size, size * (word + 4), 0, 0}, {3 * size, size * (3 * word + 4), 0, 0}};
}
/// Both gradients are computed in forward.
[[nodiscard]] constexpr OpCost squared_difference(double size, double word, bool tracked = true) {
  return {tracked ? detail::cost(5 * size, 4 * size, word) : detail::cost(3 * size, 2 * size, word), {}};
}
/// Rows of a table against a prediction, with both gradients.
[[nodiscard]] constexpr OpCost table_difference(double size, double word, bool through_tanh,
                                                bool tracked = true) {
  const double flops = (tracked ? 5 : 3) + (through_tanh ? transcendental_flops + (tracked ? 4 : 0) : 0);
  return {detail::cost(flops * size, (tracked ? 4 : 2) * size, word), {}};
}
/// `rows` rows of a table, d channels each, decoded to m, against as many float targets.
[[nodiscard]] constexpr OpCost table_decoded_error(double rows, double d, double m, double word, bool decoder,
                                                   bool tracked = true) {
  const double products = decoder ? (tracked ? 6 : 2) * d * m : 0;
  return {{rows * (products + (tracked ? 6 : 3) * m), rows * ((tracked ? 2 : 1) * d * word + 4 * m), 0, 0},
          {}};
}
[[nodiscard]] constexpr OpCost clamp_l1(double size, double word) {
  return {detail::cost(2 * size, size, word), detail::cost(size, 3 * size, word)};
}

}  // namespace costs
}  // namespace rossby
