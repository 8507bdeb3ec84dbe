#include "rossby/autograd/convolution.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/autograd/recurrent.hpp"
#include "rossby/kernels/batch_norm.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"

namespace rossby {
namespace {

using detail::count;
using detail::finish;
using detail::read;
using detail::target;

/// Maximum rows of the matrix of taps. On the host the matrix then stays in the cache.
Index matrix_rows(const Exec& exec) {
  return exec.device && !exec.device->driver().stands_for_host() ? Index{1} << 20 : 4096;
}

template <class T>
NodeView<T> slice(NodeView<T> view, Index first_row, Index rows, Index first_col, Index cols) {
  view.data = view.at(first_row, first_col);
  view.rows = rows;
  view.cols = cols;
  return view;
}

/// A convolution in blocks of rows: the taps of a block side by side, (rows·cols, taps·c), then a dense
/// layer.
template <class T>
struct ColumnConvolution {
  Tape<T>* tape;
  Var<T> y, x;
  MatrixView<const T> weight;  // (out, taps·c)
  T* dweight;                  // null: not trained
  T* dbias;
  Index taps, shift;

  /// Calls f(first row, rows, `all`'s block as a matrix, its taps side by side) for each block of rows.
  template <class F>
  void for_each_block(const NodeView<T>& all, const F& f) const {
    if (all.size() == 0) return;
    const Index block = std::min(all.rows, std::max<Index>(1, matrix_rows(tape->exec()) / all.cols));
    const NodeView<T> side(tape->memory().template take<T>(block * all.cols * weight.cols).data(), block,
                           all.cols, weight.cols);
    for (Index i = 0; i < all.rows; i += block) {
      const Index rows = std::min(block, all.rows - i);
      f(i, rows, MatrixView<T>(all.row(i), rows * all.cols, all.channels),
        NodeView<T>(side.data, rows, all.cols, weight.cols));
    }
  }
  [[nodiscard]] MatrixView<T> matrix(const NodeView<T>& packed) const {
    return {packed.data, packed.rows * packed.cols, packed.channels};
  }
  /// Calls f(channels of tap j in `side`, the rows and columns of x behind them) for each tap.
  template <class F>
  void for_each_tap(const NodeView<T>& of_x, Index first, const NodeView<T>& side, const F& f) const {
    for (Index j = 0; j < taps; ++j) {
      NodeView<T> tap = side;
      tap.data += j * of_x.channels;
      tap.channels = of_x.channels;
      f(tap, slice(of_x, first, side.rows, j * shift, side.cols));
    }
  }
  void gather(Index first, const NodeView<T>& side) const {
    for_each_tap(x.value, first, side, [&](const NodeView<T>& tap, const NodeView<T>& from) {
      pack(tape->exec(), tap, read(from));
    });
  }

  void forward(const T* bias) const {
    const auto mark = tape->mark();
    for_each_block(y.value, [&](Index first, Index, MatrixView<T> to, const NodeView<T>& side) {
      gather(first, side);
      linear_forward(tape->exec(), to, MatrixView<const T>(matrix(side)), weight, bias, false);
    });
    tape->rewind(mark);
  }

  void operator()() const {
    const Exec& exec = tape->exec();
    const auto mark = tape->mark();
    const Index block = std::max<Index>(1, matrix_rows(exec) / std::max<Index>(1, y.cols()));
    Index size = 0;
    for (const Index rows : {std::min(block, y.rows()), y.rows() % block})
      for (const Index in : {weight.cols, Index{1}})
        size = std::max(size, linear_scratch_size(rows * y.cols(), weight.rows, in));
    const std::span<T> scratch = tape->memory().template take<T>(size);
    for_each_block(y.gradient, [&](Index first, Index, MatrixView<T> dy, const NodeView<T>& side) {
      if (dweight) {
        gather(first, side);
        linear_backward_weight(exec, MatrixView<T>(dweight, weight.rows, weight.cols),
                               MatrixView<const T>(dy), MatrixView<const T>(matrix(side)), scratch);
      }
      if (dbias) column_sum(exec, dbias, MatrixView<const T>(dy), scratch);
      if (!x.tracked()) return;
      linear_backward_input(exec, matrix(side), MatrixView<const T>(dy), weight, false);
      for_each_tap(x.gradient, first, side, [&](const NodeView<T>& tap, const NodeView<T>& to) {
        accumulate(exec, to, T{1}, read(tap));
      });
    });
    tape->rewind(mark);
  }
};

}  // namespace

template <class T>
Var<T> column_convolution(Tape<T>& tape, const Var<T>& x, Parameter<T>& weight, Parameter<T>& bias,
                          Index taps, Index shift) {
  const Index cols = x.cols() - (taps - 1) * shift;
  require(taps >= 1 && shift >= 0 && cols >= 0, "a convolution has room for all its taps");
  require(
      weight.shape.size() == 2 && weight.shape[1] == taps * x.channels() && bias.size() == weight.shape[0],
      "a convolution's weight is (out, taps·channels), its bias (out)");
  const Index out = weight.shape[0];
  T* dweight = target(tape, weight);
  T* dbias = target(tape, bias);
  const Var<T> y = tape.make(x.rows(), cols, out, x.tracked() || dweight || dbias);
  const MatrixView<const T> w(weight.data(tape.exec().device), out, weight.shape[1]);
  const ColumnConvolution<T> convolution{&tape, y, x, w, dweight, dbias, taps, shift};
  convolution.forward(bias.data(tape.exec().device));
  const OpCost cost =
      costs::linear(static_cast<double>(x.rows() * cols), static_cast<double>(weight.shape[1]),
                    static_cast<double>(out), sizeof(T), x.tracked(), dweight != nullptr);
  tape.touches(y, x, weight, bias);
  finish(tape, "column_convolution", cost, y.tracked(), convolution);
  return y;
}

template <class T>
void add_to(Tape<T>& tape, const Var<T>& y, const Var<T>& x) {
  require(y.tracked() || !tape.recording() || !x.tracked(),
          "what is added to is tracked where its source is");
  accumulate(tape.exec(), y.value, T{1}, read(x.value));
  tape.touches(y, x);
  finish(tape, "add_to", costs::add_to(count(y), sizeof(T)), x.tracked(),
         [exec = tape.exec(), x, y] { accumulate(exec, x.gradient, T{1}, read(y.gradient)); });
}

template <class T>
BatchNorm<T>::BatchNorm(const std::string& name, Index channels)
    : gain(name + "_gain", Placement::replicated, {channels}),
      bias(name + "_bias", Placement::replicated, {channels}),
      running_mean(name + "_running_mean", Placement::replicated, {channels}),
      running_variance(name + "_running_variance", Placement::replicated, {channels}) {
  running_mean.trained = running_variance.trained = false;
  start();
}

template <class T>
void BatchNorm<T>::start() {
  for (Parameter<T>* ones : {&gain, &running_variance})
    std::fill(ones->value.begin(), ones->value.end(), T{1});
  for (Parameter<T>* zeros : {&bias, &running_mean})
    std::fill(zeros->value.begin(), zeros->value.end(), T{0});
}

namespace {

/// Statistics stay where the values are. On a device they never come to the host, and sums over ranks use
/// device arrays.
template <class T>
struct BatchNormBackward {
  Tape<T>* tape;
  Var<T> x, y;
  BatchNormFactors<T> factors;
  const double* count;  // null: the statistics are constants
  T* dgain;             // null: not trained
  T* dbias;
  Reducer* reducer;

  void operator()() const {
    const Index channels = x.channels();
    const Exec& exec = tape->exec();
    const auto mark = tape->mark();
    const auto sums = tape->memory().template take<double>(2 * channels);
    const Index room = batch_norm_scratch_size(exec, x.rows(), channels);
    batch_norm_backward_sums<T>(exec, sums.data(), read(y.gradient), read(x.value), factors.mean,
                                factors.inverse_deviation, tape->arena().template take<double>(room));
    batch_norm_backward_parameters<T>(exec, channels, dgain, dbias, sums.data());
    if (count) reducer->sum(sums);
    if (x.tracked()) {
      T* slopes = tape->memory().template take<T>(2 * channels).data();
      batch_norm_slopes<T>(exec, channels, slopes, slopes + channels, sums.data(), count,
                           factors.inverse_deviation);
      batch_norm_backward_input<T>(exec, x.gradient, read(y.gradient), read(x.value), factors.mean,
                                   factors.factor, slopes, slopes + channels);
    }
    tape->rewind(mark);
  }
};

/// Collective in training.
template <class T>
BatchNormBackward<T> normalise(Tape<T>& tape, const Var<T>& x, const Var<T>& y, BatchNorm<T>& norm,
                               bool training, Reducer& reducer, T* dgain, T* dbias) {
  const Exec& exec = tape.exec();
  const Index channels = x.channels();
  T* values = tape.memory().template take<T>(3 * channels).data();
  const BatchNormFactors<T> factors{values, values + channels, values + 2 * channels};
  const BatchNormRunning<T> running{norm.running_mean.data(exec.device),
                                    norm.running_variance.data(exec.device), norm.momentum, norm.epsilon};
  double* sums = nullptr;
  if (training) {
    const auto all = tape.memory().template take<double>(2 * channels + 1);
    sums = all.data();
    const auto mark = tape.mark();
    const Index room = batch_norm_scratch_size(exec, x.rows(), channels);
    batch_norm_sums<T>(exec, sums, read(x.value), running.mean, tape.arena().template take<double>(room));
    tape.rewind(mark);
    reducer.sum(all);
  }
  batch_norm_factors<T>(exec, channels, factors, sums, norm.gain.data(exec.device), running);
  batch_norm_forward<T>(exec, y.value, read(x.value), factors.mean, factors.factor,
                        norm.bias.data(exec.device));
  return {&tape, x, y, factors, sums ? sums + 2 * channels : nullptr, dgain, dbias, &reducer};
}

}  // namespace

template <class T>
Var<T> batch_norm(Tape<T>& tape, const Var<T>& x, BatchNorm<T>& norm, bool training, Reducer& reducer) {
  const Index channels = x.channels();
  require(norm.gain.size() == channels, "a batch normalisation has one gain a channel");
  T* dgain = target(tape, norm.gain);
  T* dbias = target(tape, norm.bias);
  const Var<T> y = tape.make(x.rows(), x.cols(), channels, x.tracked() || dgain || dbias);
  OpCost cost = costs::batch_norm(count(y), sizeof(T));
  const Traffic before = reducer.sent();
  const auto backward = normalise(tape, x, y, norm, training, reducer, dgain, dbias);
  if (training) detail::add_sums(cost, tape.exec(), reducer, before, 2 * channels + 1, 2 * channels);
  tape.touches(y, x, norm.gain, norm.bias);
  finish(tape, "batch_norm", cost, y.tracked(), backward);
  return y;
}

template <class T>
Var<T> gated_linear_unit(Tape<T>& tape, const Var<T>& x) {
  require(x.channels() % 2 == 0, "a gated linear unit has as many gates as values");
  const Index out = x.channels() / 2;
  return gru_reset(tape, slice_channels(x, out, out), slice_channels(x, 0, out));
}

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template Var<T> column_convolution(Tape<T>&, const Var<T>&, Parameter<T>&, Parameter<T>&, Index, Index); \
  template void add_to(Tape<T>&, const Var<T>&, const Var<T>&);                                            \
  template struct BatchNorm<T>;                                                                            \
  template Var<T> gated_linear_unit(Tape<T>&, const Var<T>&);                                              \
  template Var<T> batch_norm(Tape<T>&, const Var<T>&, BatchNorm<T>&, bool, Reducer&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
