#pragma once

#include <span>
#include <type_traits>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/loss.hpp"

namespace rossby {

// Every op runs forward at once and, if the tape records, leaves a backward closure. Outputs are packed and
// live in the tape's arena; inputs may be strided. An output is tracked if an input is tracked or a parameter
// of the op is trained. Backward skips all other sides. Gradients are added, never assigned. A parameter's
// gradient target is looked up at record time, and only while recording. Spans are copied into the arena.
// Parameters, and views of data outside the tape (targets, constants), must stay unchanged until backward has
// run. Wrong shapes throw BugError. T is float or double.

/// Channels [first, first + count) of x as a view of its value and gradient: no copy, nothing recorded.
template <class T>
[[nodiscard]] Var<T> slice_channels(const Var<T>& x, Index first, Index count) {
  require(first >= 0 && count >= 0 && first + count <= x.channels(),
          "a slice lies inside the channels it is cut from");
  Var<T> part = x;
  if (x.value.data) part.value.data += first;
  part.value.channels = count;
  part.gradient.channels = count;
  if (x.tracked()) part.gradient.data += first;
  return part;
}

/// tanh(x), elementwise.
template <class T>
[[nodiscard]] Var<T> tanh(Tape<T>& tape, const Var<T>& x);
/// 1 / (1 + exp(−x)), elementwise.
template <class T>
[[nodiscard]] Var<T> sigmoid(Tape<T>& tape, const Var<T>& x);
/// max(x, 0), elementwise. The gradient at exactly 0 is 0. NaN stays NaN.
template <class T>
[[nodiscard]] Var<T> relu(Tape<T>& tape, const Var<T>& x);

/// a + b, same shapes.
template <class T>
[[nodiscard]] Var<T> add(Tape<T>& tape, const Var<T>& a, const Var<T>& b);
/// a ∘ b, same shapes.
template <class T>
[[nodiscard]] Var<T> multiply(Tape<T>& tape, const Var<T>& a, const Var<T>& b);

/// y (rows, cols, out) = x (rows, cols, in) · Wᵀ + bias. `weight` is (out, in), `bias` (out) or null.
template <class T>
[[nodiscard]] Var<T> linear(Tape<T>& tape, const Var<T>& x, Parameter<T>& weight,
                            std::type_identity_t<Parameter<T>>* bias);

/// y (rows, cols, out) += x (rows, cols, in) · W[:, first_column : first_column + in]ᵀ: one term of a dense
/// layer on a concatenation that is never built. `weight` is (out, all columns). y changes in place, so
/// nothing may have read it yet. y must be tracked if the tape records and x is tracked or the weight
/// trained.
template <class T>
void linear_accumulate(Tape<T>& tape, const Var<T>& y, const Var<T>& x, Parameter<T>& weight,
                       Index first_column);

/// y += bias (channels), in place: starts a sum of linear_accumulate terms. Same conditions on y.
template <class T>
void bias_accumulate(Tape<T>& tape, const Var<T>& y, Parameter<T>& bias);

/// y (rows, cols, channels) += x in place. x is (1, cols, channels), the same for every row, or (rows, 1,
/// channels), the same for every column. Same conditions on y.
template <class T>
void add_broadcast(Tape<T>& tape, const Var<T>& y, const Var<T>& x);

/// A packed (rows, cols, channels) value of zeros to accumulate into.
template <class T>
[[nodiscard]] Var<T> zeros(Tape<T>& tape, Index rows, Index cols, Index channels, bool tracked);

/// out (n, B, d): column b is table[times[b]]. `table` is (T, n, d), or (T, d) with n = 1; times may repeat.
template <class T>
[[nodiscard]] Var<T> embed_columns(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times);

/// out (p, 1, d): row q is table[times[q], rows[q]]. `table` is (T, n, d); pairs may repeat.
template <class T>
[[nodiscard]] Var<T> embed_pairs(Tape<T>& tape, Parameter<T>& table, std::span<const Index> times,
                                 std::span<const Index> rows);

/// Inverted dropout: x · mask / (1 − rate), mask 1 with probability 1 − rate. The mask at (row i, column b,
/// channel c) is random.at(row_keys[i]).uniform(col_keys[b] · channels + c) >= rate. Keys are global indices,
/// so the mask is the same at every rank count. rate is in [0, 1). Rate 0 returns x itself; pass 0 in
/// evaluation.
template <class T>
[[nodiscard]] Var<T> dropout(Tape<T>& tape, const Var<T>& x, double rate, const Random& random,
                             std::span<const Index> row_keys, const ColumnKeys& col_keys);

// Losses. Each adds its unscaled sum to *sum at once, and in backward adds `scale` times the gradient of that
// sum. The loss is scale · Σ; the caller's scale contains the weight and 1 / (global count). Sums are in
// double.

/// Σ (prediction − target)² over entries whose target is not NaN; shapes equal.
template <class T>
void masked_squared_error(Tape<T>& tape, const Var<T>& prediction, NodeView<const float> target, double scale,
                          double* sum);

/// Σ |prediction − target| over entries whose target is not NaN. The gradient at a difference of exactly 0 is
/// 0.
template <class T>
void masked_absolute_error(Tape<T>& tape, const Var<T>& prediction, NodeView<const float> target,
                           double scale, double* sum);

/// Σ kind.value(prediction − target) over entries whose target is not NaN. Plans charge the cost of
/// masked_absolute_error.
template <class T>
void masked_error(Tape<T>& tape, MaskedError kind, const Var<T>& prediction, NodeView<const float> target,
                  double scale, double* sum);

/// Σ (a − b)²; gradients go to both sides.
template <class T>
void squared_difference(Tape<T>& tape, const Var<T>& a, const Var<T>& b, double scale, double* sum);

/// Σ clamp(M, 0, 1) over all entries of a parameter: the l1 norm of learned relation weights. The gradient is
/// `scale` strictly between 0 and 1 and 0 elsewhere, also at exactly 0 and 1. If the relation updates the
/// parameter in backward, sum and gradient use the relation's own passes. Call this after relate_linear to
/// save one pass.
template <class T>
void clamp_l1(Tape<T>& tape, Parameter<T>& weights, double scale, double* sum);

}  // namespace rossby
