#pragma once

#include <string>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

// What convolutional networks over time are made of. Time steps of B windows are columns, step slowest:
// column t·B + b is step t of window b, so that a run of steps is a run of columns, and one dense layer or
// one diffusion takes all steps at once.

/// Columns [first, first + count) of x as a view of its value and gradient: no copy, nothing recorded.
template <class T>
[[nodiscard]] Var<T> slice_columns(const Var<T>& x, Index first, Index count) {
  require(first >= 0 && count >= 0 && first + count <= x.cols(),
          "a slice lies inside the columns it is cut from");
  Var<T> part = x;
  if (x.value.data) part.value.data += first * x.value.col_stride;
  part.value.cols = count;
  part.gradient.cols = count;
  if (x.tracked()) part.gradient.data += first * x.gradient.col_stride;
  return part;
}

/// y[i, b] = Σ_j W_j x[i, b + j·shift] + bias, j = 0 … taps − 1: a convolution along columns without padding,
/// y (rows, cols − (taps − 1)·shift, out). `weight` is (out, taps·c), block j of c columns is W_j; `bias`
/// (out). With shift = dilation·B it is a dilated convolution over time (van den Oord et al., "WaveNet",
/// 2016), the oldest step first.
template <class T>
[[nodiscard]] Var<T> column_convolution(Tape<T>& tape, const Var<T>& x, Parameter<T>& weight,
                                        Parameter<T>& bias, Index taps, Index shift);

/// y += x in place, same shapes. Nothing may have read y yet; it is tracked if x is (and the tape recording).
template <class T>
void add_to(Tape<T>& tape, const Var<T>& y, const Var<T>& x);

/// Parameters of one batch normalisation, (channels) each: <name>_gain, <name>_bias, and what evaluation
/// normalises with, <name>_running_mean and <name>_running_variance, which training follows but no gradient
/// reaches. They are part of a model's state.
template <class T>
struct BatchNorm {
  Parameter<T> gain, bias, running_mean, running_variance;
  double momentum = 0.1;  // share of the present batch in the running statistics
  double epsilon = 1e-5;

  BatchNorm(const std::string& name, Index channels);
  /// Gain 1, bias 0, running mean 0, running variance 1.
  void start();
};

/// (x − mean) / √(variance + epsilon)·gain + bias with one mean and variance a channel over all rows, columns
/// and ranks (Ioffe, Szegedy, ICML 2015); variance biased, but its running value unbiased. In training it is
/// collective over the ranks of `reducer`, forward and backward, also where this rank has no rows or columns,
/// and moves the running statistics: it may not stand in a part that backward computes again. In evaluation
/// the running statistics are used, and nothing is communicated.
template <class T>
[[nodiscard]] Var<T> batch_norm(Tape<T>& tape, const Var<T>& x, BatchNorm<T>& norm, bool training,
                                Reducer& reducer);

/// P ∘ sigmoid(Q) of x = [P, Q], channels side by side: a gated linear unit (Dauphin, Fan, Auli, Grangier,
/// ICML 2017). x (rows, cols, 2·c), result (rows, cols, c). It computes as a reset gate does.
template <class T>
[[nodiscard]] Var<T> gated_linear_unit(Tape<T>& tape, const Var<T>& x);

/// Parameters of one layer normalisation of the owned rows: <name>_gain and <name>_bias, (1, owned, channels)
/// each, which belong to the ranks that own the rows.
template <class T>
struct LayerNorm {
  Parameter<T> gain, bias;
  double epsilon = 1e-6;

  LayerNorm(const std::string& name, Index owned, Index channels);
  /// Gain 1, bias 0.
  void start();
};

/// (x − mean) / √(variance + epsilon) ∘ gain + bias with one mean and variance a column over all nodes and
/// channels (Ba, Kiros, Hinton, "Layer normalization", 2016); variance biased; gain and bias of every node
/// and channel, as STGCN has them (Yu, Yin, Zhu, IJCAI 2018). `rows` sums over row blocks: ranks of other
/// time groups have other columns. Collective over its ranks, forward and backward, with one sum of 2·cols +
/// 1 or 2·cols doubles; also where this rank has no rows. It may be computed again in backward.
template <class T>
[[nodiscard]] Var<T> layer_norm(Tape<T>& tape, const Var<T>& x, LayerNorm<T>& norm, Reducer& rows);

}  // namespace rossby
