#include "rossby/train/optimiser.hpp"

#include <algorithm>

#include "rossby/kernels/optimiser.hpp"

namespace rossby {

template <class T>
Optimiser<T>::Optimiser(const OptimiserOptions& options, std::span<Parameter<T>* const> parameters)
    : options_(options) {
  const bool adam = options.kind != OptimiserKind::sgd;
  for (Parameter<T>* parameter : parameters) {
    if (!parameter->trained) continue;
    State state;
    state.parameter = parameter;
    if (adam ? options.beta1 != 0 : options.momentum != 0) state.first = Buffer<T>(parameter->size());
    if (adam) state.second = Buffer<T>(parameter->size());
    states_.push_back(std::move(state));
  }
  // Now that the states stay where they are.
  for (State& state : states_)
    if (adam && state.parameter->by_rows)
      state.table = std::make_unique<LazyAdam<T>>(*state.parameter, state.first, state.second,
                                                  options.kind == OptimiserKind::adamw);
}

template <class T>
void Optimiser<T>::update(const Exec& exec, double lr, double gradient_scale) {
  for (State& state : states_) {
    Parameter<T>& parameter = *state.parameter;
    const bool present = parameter.in_step;
    parameter.in_step = false;
    if (!parameter.live || (!present && options_.absent == Absent::skip)) continue;
    ++state.count;
    const double rate = lr * parameter.lr_scale;
    if (state.table) {
      state.table->update(exec, {rate, options_.beta1, options_.beta2, options_.epsilon, parameter.decay,
                                 gradient_scale, state.count});
      continue;
    }
    const std::span<const T> gradient(parameter.gradient.data(), static_cast<std::size_t>(parameter.size()));
    if (options_.kind == OptimiserKind::sgd) {
      sgd_update<T>(exec, parameter.value.span(), state.first.span(), gradient,
                    {rate, options_.momentum, parameter.decay, gradient_scale});
    } else {
      const AdamStep step{rate,           options_.beta1, options_.beta2, options_.epsilon, parameter.decay,
                          gradient_scale, state.count};
      const auto apply = options_.kind == OptimiserKind::adam ? adam_update<T> : adamw_update<T>;
      apply(exec, parameter.value.span(), state.first.span(), state.second.span(), gradient, step);
    }
    std::fill(parameter.gradient.begin(), parameter.gradient.end(), T(0));
  }
}

template <class T>
void Optimiser<T>::settle(const Exec& exec) {
  for (State& state : states_)
    if (state.table) state.table->settle(exec);
}

template class Optimiser<float>;
template class Optimiser<double>;

}  // namespace rossby
