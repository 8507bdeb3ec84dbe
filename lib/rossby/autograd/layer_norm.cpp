#include "rossby/kernels/layer_norm.hpp"

#include <algorithm>

#include "rossby/autograd/convolution.hpp"
#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"

namespace rossby {
namespace {

using detail::count;
using detail::finish;
using detail::read;
using detail::target;

template <class T>
std::span<double> take_scratch(Tape<T>& tape, const Var<T>& x) {
  return tape.arena().template take<double>(layer_norm_scratch_size(tape.exec(), x.rows(), x.cols()));
}

/// Statistics stay where the values are, as in batch normalisation.
template <class T>
struct LayerNormBackward {
  Tape<T>* tape;
  Var<T> x, y;
  const T* mean;
  const T* inverse_deviation;
  const T* gain;
  const double* count;
  T* dgain;  // null: not trained, or no rows
  T* dbias;
  Reducer* rows;

  void operator()() const {
    const Exec& exec = tape->exec();
    const auto mark = tape->mark();
    if (dgain || dbias)
      layer_norm_backward_parameters<T>(exec, dgain, dbias, read(y.gradient), read(x.value), mean,
                                        inverse_deviation);
    if (x.tracked()) {
      const auto sums = tape->memory().template take<double>(2 * x.cols());
      layer_norm_backward_sums<T>(exec, sums.data(), read(y.gradient), read(x.value), mean, inverse_deviation,
                                  gain, take_scratch(*tape, x));
      rows->sum(sums);
      layer_norm_backward_input<T>(exec, x.gradient, read(y.gradient), read(x.value), mean, inverse_deviation,
                                   gain, sums.data(), count);
    }
    tape->rewind(mark);
  }
};

/// Collective.
template <class T>
LayerNormBackward<T> normalise(Tape<T>& tape, const Var<T>& x, const Var<T>& y, LayerNorm<T>& norm,
                               Reducer& rows, T* dgain, T* dbias) {
  const Exec& exec = tape.exec();
  const Index cols = x.cols();
  T* mean = tape.memory().template take<T>(2 * cols).data();
  T* inverse_deviation = mean + cols;
  const auto sums = tape.memory().template take<double>(2 * cols + 1);
  const auto mark = tape.mark();
  layer_norm_sums<T>(exec, sums.data(), read(x.value), take_scratch(tape, x));
  tape.rewind(mark);
  rows.sum(sums);
  layer_norm_moments<T>(exec, cols, mean, inverse_deviation, sums.data(), norm.epsilon);
  const T* gain = norm.gain.data(exec.device);
  layer_norm_forward<T>(exec, y.value, read(x.value), mean, inverse_deviation, gain,
                        norm.bias.data(exec.device));
  return {&tape, x, y, mean, inverse_deviation, gain, sums.data() + 2 * cols, dgain, dbias, &rows};
}

}  // namespace

template <class T>
LayerNorm<T>::LayerNorm(const std::string& name, Index owned, Index channels)
    : gain(name + "_gain", Placement::rows, {1, owned, channels}),
      bias(name + "_bias", Placement::rows, {1, owned, channels}) {
  start();
}

template <class T>
void LayerNorm<T>::start() {
  std::fill(gain.value.begin(), gain.value.end(), T{1});
  std::fill(bias.value.begin(), bias.value.end(), T{0});
}

template <class T>
Var<T> layer_norm(Tape<T>& tape, const Var<T>& x, LayerNorm<T>& norm, Reducer& rows) {
  require(norm.gain.size() == x.rows() * x.channels() && norm.bias.size() == norm.gain.size(),
          "a layer normalisation has a gain and a bias of every row and channel");
  // A rank without rows has no targets but still takes part in backward.
  const bool trained = tape.recording() && (norm.gain.trained || norm.bias.trained);
  T* dgain = target(tape, norm.gain);
  T* dbias = target(tape, norm.bias);
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked() || trained);
  OpCost cost = costs::layer_norm(count(y), static_cast<double>(norm.gain.size()), sizeof(T));
  const Traffic before = rows.sent();
  const auto backward = normalise(tape, x, y, norm, rows, dgain, dbias);
  detail::add_sums(cost, tape.exec(), rows, before, 2 * x.cols() + 1, 2 * x.cols());
  tape.touches(y, x, norm.gain, norm.bias);
  finish(tape, "layer_norm", cost, y.tracked(), backward);
  return y;
}

#define ROSSBY_INSTANTIATE(T)   \
  template struct LayerNorm<T>; \
  template Var<T> layer_norm(Tape<T>&, const Var<T>&, LayerNorm<T>&, Reducer&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
