#pragma once

#include <string>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/reducer.hpp"

namespace rossby {

// Building blocks of convolutional networks over time. The time steps of B windows are columns, with the step
// slowest: column t·B + b is step t of window b. A run of steps is then a run of columns, and one dense layer
// or diffusion covers all steps.

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

/// Returns y[i, b] = Σ_j W_j x[i, b + j·shift] + bias, j = 0 … taps − 1: a convolution along columns without
/// padding, y (rows, cols − (taps − 1)·shift, out). `weight` is (out, taps·c), and its block j of c columns
/// is W_j; `bias` is (out). With shift = dilation·B it is a dilated convolution over time (van den Oord et
/// al., "WaveNet", 2016), oldest step first.
template <class T>
[[nodiscard]] Var<T> column_convolution(Tape<T>& tape, const Var<T>& x, Parameter<T>& weight,
                                        Parameter<T>& bias, Index taps, Index shift);

/// y += x in place, same shapes. Nothing may have read y yet. y must be tracked if x is tracked and the tape
/// records.
template <class T>
void add_to(Tape<T>& tape, const Var<T>& y, const Var<T>& x);

/// Parameters of one batch normalisation, (channels) each: <name>_gain, <name>_bias, <name>_running_mean and
/// <name>_running_variance. Training updates the running statistics without gradients, and evaluation
/// normalises with them. All four belong to the model's state.
template <class T>
struct BatchNorm {
  Parameter<T> gain, bias, running_mean, running_variance;
  double momentum = 0.1;  // weight of the current batch in the running statistics
  double epsilon = 1e-5;

  BatchNorm(const std::string& name, Index channels);
  /// Sets gain 1, bias 0, running mean 0, running variance 1.
  void start();
};

/// Returns (x − mean) / √(variance + epsilon)·gain + bias, with one mean and variance per channel over all
/// rows, columns and ranks (Ioffe, Szegedy, ICML 2015). The variance is biased, its running value unbiased.
///
/// Training updates the running statistics, so the op must not be inside Tape::recomputed. Training is
/// collective over the ranks of `reducer`, forward and backward, even if this rank has no rows or columns.
/// Evaluation uses the running statistics and communicates nothing.
template <class T>
[[nodiscard]] Var<T> batch_norm(Tape<T>& tape, const Var<T>& x, BatchNorm<T>& norm, bool training,
                                Reducer& reducer);

/// Returns P ∘ sigmoid(Q) for x = [P, Q], side by side in the channels: a gated linear unit (Dauphin, Fan,
/// Auli, Grangier, ICML 2017). x is (rows, cols, 2·c), the result (rows, cols, c). Computed by gru_reset.
template <class T>
[[nodiscard]] Var<T> gated_linear_unit(Tape<T>& tape, const Var<T>& x);

/// Parameters of one layer normalisation of the owned rows: <name>_gain and <name>_bias, (1, owned, channels)
/// each. Each rank holds the parameters of its rows.
template <class T>
struct LayerNorm {
  Parameter<T> gain, bias;
  double epsilon = 1e-6;

  LayerNorm(const std::string& name, Index owned, Index channels);
  /// Sets gain 1, bias 0.
  void start();
};

/// Returns (x − mean) / √(variance + epsilon) ∘ gain + bias, with one mean and variance per column over all
/// nodes and channels (Ba, Kiros, Hinton, "Layer normalization", 2016). The variance is biased. Every node
/// and channel has its own gain and bias, as in STGCN (Yu, Yin, Zhu, IJCAI 2018).
///
/// `rows` sums over row blocks only, because ranks of other time groups hold other columns. Collective over
/// the ranks of `rows`, even if this rank has no rows: one sum of 2·cols + 1 doubles forward, one of 2·cols
/// doubles backward. May be recomputed in backward.
template <class T>
[[nodiscard]] Var<T> layer_norm(Tape<T>& tape, const Var<T>& x, LayerNorm<T>& norm, Reducer& rows);

}  // namespace rossby
