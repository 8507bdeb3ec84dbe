#include "rossby/train/optimiser.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/optimiser.hpp"

namespace rossby {

template <class T>
Optimiser<T>::Optimiser(const OptimiserOptions& options, std::span<Parameter<T>* const> parameters,
                        Device* device)
    : options_(options), parameters_(parameters.begin(), parameters.end()), device_(device) {
  const bool adam = options.kind != OptimiserKind::sgd;
  for (Parameter<T>* parameter : parameters) {
    if (!parameter->trained) continue;
    State state;
    state.parameter = parameter;
    state.has_first = adam ? options.beta1 != 0 : options.momentum != 0;
    state.has_second = adam;
    if (parameter->in_bf16) {
      require(options.fuse && adam, "parameters in bf16 are updated in backward, by Adam");
      const auto moments = [&](bool has) {
        return Twin<Bf16>(has ? parameter->template make_moment<Bf16>(parameter->size()) : Buffer<Bf16>());
      };
      Twin<Bf16> first = moments(state.has_first);
      state.bf16 = std::make_unique<Bf16Books>(
          Bf16Books{std::move(first), moments(true), Random(options.seed, "round." + parameter->name)});
    } else {
      require(!parameter->stream || (options.fuse && adam),
              "streamed parameters are updated in backward, by Adam");
      if (state.has_first) state.first = Twin<T>(parameter->template make_moment<T>(parameter->size()));
      if (state.has_second) state.second = Twin<T>(parameter->template make_moment<T>(parameter->size()));
    }
    if (parameter->updated_on_host())
      parameter->stream->add_outgoing(parameter->shape[2] * static_cast<Index>(sizeof(T)));
    if (options.fuse && adam && parameter->fusable) {
      state.sink = std::make_unique<UpdateSink<T>>();
      parameter->sink = state.sink.get();
      parameter->gradient = {};
    }
    state.clips_late = options.fuse && adam && parameter->clips_late && !state.sink;
    states_.push_back(std::move(state));
  }
  if (device_)
    for (Parameter<T>* parameter : parameters_) parameter->move_to(*device_);
  send();
  // Ledgers keep pointers to the states, so `states_` must not grow after this.
  for (State& state : states_) {
    if (!adam) continue;
    state.ledger =
        make_ledger<T>({state.parameter, &state.first, &state.second, state.bf16.get(), &state.count},
                       options.kind == OptimiserKind::adamw);
  }
}

template <class T>
Optimiser<T>::~Optimiser() {
  for (State& state : states_) {
    if (state.sink) state.parameter->sink = nullptr;
    // Chunks may still be on their way to moments that this object frees.
    if (ChunkStream* stream = state.parameter->stream.get(); stream && stream->device()) {
      try {
        stream->device()->wait();
      } catch (const std::exception&) {  // the device has failed: no copy is under way
      }
    }
  }
}

template <class T>
AdamStep Optimiser<T>::adam_step(const State& state, double lr, double gradient_scale) const {
  return {lr * state.parameter->lr_scale,
          options_.beta1,
          options_.beta2,
          options_.epsilon,
          state.parameter->decay,
          gradient_scale,
          state.count,
          state.ledger ? state.ledger->missed() : 0};
}

template <class T>
void Optimiser<T>::begin_step(double lr, double gradient_scale) {
  late_scale_ = gradient_scale;
  for (State& state : states_) {
    state.parameter->reached.clear();
    if (!state.sink) continue;
    DenseUpdate<T> update;
    // For streamed arrays the pointers only say which arrays exist; the op has their chunks.
    const Device* where = state.parameter->stream ? nullptr : device_;
    update.theta = state.parameter->data(where);
    update.m = state.first.data(where);
    update.v = state.second.data(where);
    if (state.bf16) update.bf16 = state.bf16->arrays(*state.parameter, state.count + 1, where);
    update.step = adam_step(state, lr, gradient_scale);
    ++update.step.count;
    update.decoupled = options_.kind == OptimiserKind::adamw;
    *state.sink->update() = update;
  }
}

template <class T>
bool Optimiser<T>::fused_in_step() const {
  return std::any_of(states_.begin(), states_.end(), [](const State& state) {
    return state.sink ? state.sink->update()->applied : state.clips_late && state.parameter->in_step;
  });
}

template <class T>
double Optimiser<T>::fused_squares() const {
  double sum = 0;
  for (const State& state : states_)
    if (state.sink) sum += state.sink->update()->squares;
  return sum;
}

template <class T>
Cost Optimiser<T>::update(const Exec& exec, double lr, double gradient_scale) {
  Cost cost;
  for (State& state : states_) {
    Parameter<T>& parameter = *state.parameter;
    const bool present = parameter.in_step;
    parameter.in_step = false;
    if (!parameter.live || (!present && options_.absent == Absent::skip)) continue;
    ++state.count;
    if (!present && state.ledger) {
      state.ledger->put_off(exec, adam_step(state, lr, 1));
      continue;
    }
    if (state.sink && state.sink->update()->applied) {
      state.ledger->made();
      continue;
    }
    require(!state.sink || state.sink->update()->l1 == 0,
            "a loss on a fused relation needs the relation's layer in the step");
    require(!state.bf16, "a relation in bf16 is updated by its layer alone");
    cost += update(exec, state, lr, state.clips_late ? late_scale_ : gradient_scale);
  }
  return cost;
}

template <class T>
Cost Optimiser<T>::update(const Exec& exec, State& state, double lr, double gradient_scale) const {
  if (state.ledger) return state.ledger->update(exec, adam_step(state, lr, gradient_scale));
  Parameter<T>& parameter = *state.parameter;
  const std::span<T> gradient = parameter.gradient.span();
  const std::span<T> values(parameter.data(device_), static_cast<std::size_t>(parameter.size()));
  sgd_update<T>(exec, values, state.first.span(device_), gradient,
                {lr * parameter.lr_scale, options_.momentum, parameter.decay, gradient_scale});
  clear(exec, gradient.data(), parameter.gradient.size());
  return update_cost(parameter, state.first, state.second);
}

template <class T>
void Optimiser<T>::settle_rows(const Exec& exec) {
  for (State& state : states_)
    if (state.ledger) state.ledger->settle_rows(exec);
}

template <class T>
Cost Optimiser<T>::settle(const Exec& exec) {
  Cost cost;
  for (State& state : states_)
    if (state.ledger) cost += state.ledger->settle(exec);
  return cost;
}

template <class T>
void Optimiser<T>::fetch_values() {
  if (!device_) return;
  for (Parameter<T>* parameter : parameters_) parameter->fetch();
  device_->wait();
}

template <class T>
void Optimiser<T>::fetch() {
  if (!device_) return;
  for (Parameter<T>* parameter : parameters_) parameter->fetch();
  for (State& state : states_) each_twin(state, [](auto& twin) { twin.fetch(); });
  device_->wait();
}

template <class T>
void Optimiser<T>::send() {
  if (!device_) return;
  for (Parameter<T>* parameter : parameters_) parameter->send();
  for (State& state : states_) {
    const Device::For purpose(device_, "a moment of " + state.parameter->name, detail::values_fit_where);
    each_twin(state, [&](auto& twin) { twin.send(*device_); });
  }
  device_->wait();
}

template <class T>
std::vector<ParameterBooks> Optimiser<T>::books() const {
  std::vector<ParameterBooks> all;
  for (const State& state : states_) {
    ParameterBooks& books = all.emplace_back();
    books.name = state.parameter->name;
    books.live = state.parameter->live;
    books.count = state.count;
    books.by_rows = kept_by_rows(state);
    if (state.ledger) state.ledger->write(books);
  }
  return all;
}

template <class T>
void Optimiser<T>::gather_books(std::span<ParameterBooks> books, Reducer& groups) const {
  require(books.size() == states_.size(), "books of these parameters");
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Parameter<T>& parameter = *states_[i].parameter;
    if (!kept_by_rows(states_[i]) || !parameter.split()) continue;
    std::vector<double> done(static_cast<std::size_t>(parameter.outer_all), 0.0);
    auto next = done.begin() + parameter.outer_first;
    for (const auto& [updates, rows] : books[i].table.done)
      next = std::fill_n(next, rows, static_cast<double>(updates));
    groups.sum(done);
    books[i].table.done.clear();
    for (const double updates : done) add_run(books[i].table.done, static_cast<Index>(updates));
  }
}

template <class T>
void Optimiser<T>::restore(const Exec& exec, std::span<const ParameterBooks> books) {
  if (books.size() != states_.size())
    user_error("it has {} trained parameters, but this training has {}", books.size(), states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (books[i].name != state.parameter->name || books[i].by_rows != kept_by_rows(state))
      user_error("its trained parameter {} is '{}'{}, but in this training it is '{}'{}", i, books[i].name,
                 books[i].by_rows ? " by rows" : "", state.parameter->name,
                 kept_by_rows(state) ? " by rows" : "");
    state.parameter->live = books[i].live;
    state.parameter->in_step = false;
    state.parameter->reached.clear();
    state.count = books[i].count;
    if (state.ledger) state.ledger->restore(exec, books[i]);
    clear(exec, state.parameter->gradient.data(), state.parameter->gradient.size());
  }
}

template class Optimiser<float>;
template class Optimiser<double>;

}  // namespace rossby
