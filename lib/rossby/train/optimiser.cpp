#include "rossby/train/optimiser.hpp"

#include <algorithm>
#include <cmath>
#include <exception>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/optimiser.hpp"

namespace rossby {
namespace {

/// An update that multiplies v and does nothing else.
template <class T>
AdamConstants<T> only_decay_of_v(T factor) {
  return {.beta1 = 0,
          .rest1 = 1,
          .beta2 = factor,
          .rest2 = 0,
          .root_correction = 1,
          .step_size = 0,
          .epsilon = 1,
          .scale = 0,
          .decay = 0,
          .keep = 1};
}

template <class T>
MatrixView<T> by_rows(Parameter<T>& parameter, T* values) {
  const Index columns = parameter.shape.back();
  return {values, columns > 0 ? parameter.size() / columns : 0, columns};
}

}  // namespace

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
  // Now that the states stay where they are.
  for (State& state : states_) {
    if (!adam) continue;
    if (state.parameter->by_rows)
      state.table = std::make_unique<LazyAdam<T>>(*state.parameter, state.first, state.second,
                                                  options.kind == OptimiserKind::adamw);
    else
      state.late = std::make_unique<PutOffUpdates<T>>(*state.parameter, state.first, state.second,
                                                      state.count, state.bf16.get());
  }
}

template <class T>
void PutOffUpdates<T>::put_off(const Exec& exec, const AdamStep& step, bool decoupled) {
  exec_ = exec;
  beta2_ = step.beta2;
  if (step.beta1 == 0 && step.decay == 0)
    ++missed_;
  else
    steps_.push_back(adam_constants<T>(step, decoupled));
}

template <class T>
void PutOffUpdates<T>::replay(std::span<const AdamConstants<T>> steps) {
  Exec exec = exec_;
  if (parameter_->updated_on_host()) {
    parameter_->settle_stream();
    exec = on_host(exec_);
  } else if (parameter_->stream) {
    return replay_chunks(steps);
  }
  Device* device = exec.device;
  if constexpr (std::is_same_v<T, float>)
    if (bf16_) {
      const std::vector<Index>& shape = parameter_->shape;
      return adam_replay(exec, bf16_->arrays(*parameter_, *count_, device), shape[0], shape[1], shape[2],
                         steps);
    }
  const std::span<T> values(parameter_->data(device), static_cast<std::size_t>(parameter_->size()));
  adam_replay<T>(exec, values, first_->span(device), second_->span(device), {}, steps);
}

template <class T>
void PutOffUpdates<T>::replay_chunks(std::span<const AdamConstants<T>> steps) {
  ChunkStream& stream = *parameter_->stream;
  const Index columns = parameter_->shape[2];
  const bool moment = bf16_ ? bf16_->first.size() > 0 : first_->size() > 0;
  const int arrays = moment ? 3 : 2;
  stream.start(arrays, true, true);
  for (Index k = 0; k < stream.chunks(); ++k) {
    const Index chunk = stream.take(), rows = stream.rows(chunk);
    const auto array = [&]<class S>(S, int a) {
      return std::span<S>(reinterpret_cast<S*>(stream.array(a)), static_cast<std::size_t>(rows * columns));
    };
    if constexpr (std::is_same_v<T, float>)
      if (bf16_) {
        Bf16Arrays part = bf16_->arrays(*parameter_, *count_, nullptr);
        part.theta = array(Bf16{}, 0).data();
        part.m = moment ? array(Bf16{}, 1).data() : nullptr;
        part.v = array(Bf16{}, arrays - 1).data();
        part.rounding.first_row += stream.first(chunk);
        adam_replay(exec_, part, 1, rows, columns, steps);
      }
    if (!bf16_)
      adam_replay<T>(exec_, array(T{}, 0), moment ? array(T{}, 1) : std::span<T>{}, array(T{}, arrays - 1),
                     {}, steps);
    stream.give_back();
  }
}

template <class T>
void PutOffUpdates<T>::make_up() {
  if (steps_.empty()) return;
  replay(steps_);
  steps_.clear();
}

template <class T>
void PutOffUpdates<T>::settle() {
  make_up();
  if (missed_ == 0) return;
  const T factor = static_cast<T>(std::pow(beta2_, static_cast<double>(take())));
  if (bf16_) {
    const AdamConstants<T> decay = only_decay_of_v(factor);
    return replay({&decay, 1});
  }
  parameter_->settle_stream();
  const Exec exec = parameter_->stream ? on_host(exec_) : exec_;
  for (Index at = 0; at < second_->size(); at += values_at_a_time) {
    const NodeView<T> v(second_->data(exec.device) + at, 1, 1,
                        std::min(values_at_a_time, second_->size() - at));
    scale<T>(exec, v, factor, v);
    second_->host().forget_pages();
  }
}

template <class T>
OverdueBooks PutOffUpdates<T>::books() const {
  OverdueBooks books{beta2_, missed_, {}};
  for (const AdamConstants<T>& constants : steps_) books.steps.push_back(pack(constants));
  return books;
}

template <class T>
void PutOffUpdates<T>::restore(const Exec& exec, const OverdueBooks& books) {
  exec_ = exec;
  beta2_ = books.beta2;
  missed_ = books.missed;
  steps_.clear();
  for (const UpdateConstants& constants : books.steps) steps_.push_back(unpack<T>(constants));
}

template <class T>
Optimiser<T>::~Optimiser() {
  for (State& state : states_) {
    if (state.sink) state.parameter->sink = nullptr;
    // Moments that chunks may still be travelling to end with this.
    if (ChunkStream* stream = state.parameter->stream.get(); stream && stream->device()) {
      try {
        stream->device()->wait();
      } catch (const std::exception&) {  // it has failed: nothing travels
      }
    }
  }
}

template <class T>
AdamStep Optimiser<T>::adam_step(const State& state, double lr, double gradient_scale) const {
  return {
      lr * state.parameter->lr_scale, options_.beta1, options_.beta2, options_.epsilon,
      state.parameter->decay,         gradient_scale, state.count,    state.late ? state.late->missed() : 0};
}

template <class T>
void Optimiser<T>::begin_step(double lr, double gradient_scale) {
  late_scale_ = gradient_scale;
  for (State& state : states_) {
    state.parameter->reached.clear();
    if (!state.sink) continue;
    DenseUpdate<T> update;
    // Of arrays that stream it is told which there are; the op has their chunks.
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
    if (!present && state.late) {
      state.late->put_off(exec, adam_step(state, lr, 1), options_.kind == OptimiserKind::adamw);
      continue;
    }
    if (state.sink && state.sink->update()->applied) {
      (void)state.late->take();
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
  Parameter<T>& parameter = *state.parameter;
  const std::span<T> gradient = parameter.gradient.span();
  const std::span<T> values(parameter.data(device_), static_cast<std::size_t>(parameter.size()));
  if (state.table) return state.table->update(exec, adam_step(state, lr, gradient_scale));
  if (options_.kind != OptimiserKind::sgd && options_.beta1 == 0 && parameter.decay == 0 &&
      parameter.shape.size() == 3 && !parameter.reached.all())
    return update_rows(exec, state, adam_step(state, lr, gradient_scale));
  settle_rows(exec, state);
  if (options_.kind == OptimiserKind::sgd) {
    sgd_update<T>(exec, values, state.first.span(device_), gradient,
                  {lr * parameter.lr_scale, options_.momentum, parameter.decay, gradient_scale});
    clear(exec, gradient.data(), parameter.gradient.size());
  } else {
    adam_take<T>(exec, values, state.first.span(device_), state.second.span(device_), gradient,
                 adam_step(state, lr, gradient_scale), options_.kind == OptimiserKind::adamw);
    if (state.late) (void)state.late->take();
  }
  // Values and moments are read and written, the gradient is read, then cleared.
  const Index arrays = 1 + (state.first.size() > 0 ? 1 : 0) + (state.second.size() > 0 ? 1 : 0);
  return {adam_flops * static_cast<double>(parameter.size()),
          static_cast<double>((2 * arrays + 2) * parameter.size()) * sizeof(T)};
}

template <class T>
Cost Optimiser<T>::update_rows(const Exec& exec, State& state, const AdamStep& step) const {
  constexpr std::size_t most = 4096;  // factors
  Parameter<T>& parameter = *state.parameter;
  if (state.owed.factors.size() >= most) settle_rows(exec, state);
  OwedRows<T>& owed = state.owed;
  const MatrixView<T> theta = by_rows(parameter, parameter.data(device_));
  owed.factors.reserve(most);
  owed.done.resize(static_cast<std::size_t>(theta.rows), 0);
  const std::span<const Index> rows = parameter.reached.list();
  owed.listed.clear();
  for (const Index row : rows) owed.listed.push_back(owed.done[static_cast<std::size_t>(row)]);
  const AdamConstants<T> now = adam_constants<T>(step, options_.kind == OptimiserKind::adamw);
  adam_update_rows<T>(exec, theta, by_rows(parameter, state.second.data(device_)),
                      by_rows(parameter, parameter.gradient.data()), rows, owed.listed, owed.factors, now);
  owed.factors.push_back(now.beta2);
  for (const Index row : rows) owed.done[static_cast<std::size_t>(row)] = std::ssize(owed.factors);
  (void)state.late->take();
  const double values = static_cast<double>(std::ssize(rows) * theta.cols);
  return {adam_flops * values, 6 * values * sizeof(T)};
}

template <class T>
void Optimiser<T>::settle_rows(const Exec& exec, State& state) const {
  OwedRows<T>& owed = state.owed;
  if (owed.factors.empty()) return;
  constexpr Index most = Index{1} << 15;  // rows at once: lists travel to a device
  Parameter<T>& parameter = *state.parameter;
  const MatrixView<T> theta = by_rows(parameter, parameter.data(device_)),
                      v = by_rows(parameter, state.second.data(device_));
  std::vector<Index> rows;
  for (Index first = 0; first < theta.rows; first += most) {
    rows.clear();
    owed.listed.clear();
    for (Index row = first; row < std::min(first + most, theta.rows); ++row) {
      const Index done = owed.done[static_cast<std::size_t>(row)];
      if (done == std::ssize(owed.factors)) continue;
      rows.push_back(row);
      owed.listed.push_back(done);
    }
    adam_update_rows<T>(exec, theta, v, {}, rows, owed.listed, owed.factors, only_decay_of_v(T(1)));
  }
  owed.factors.clear();
  std::fill(owed.done.begin(), owed.done.end(), Index{0});
}

template <class T>
void Optimiser<T>::settle_rows(const Exec& exec) {
  for (State& state : states_) settle_rows(exec, state);
}

template <class T>
Cost Optimiser<T>::settle(const Exec& exec) {
  Cost cost;
  settle_rows(exec);
  for (State& state : states_)
    if (state.table)
      cost += state.table->settle(exec);
    else if (state.late)
      state.late->settle();
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
    books.by_rows = state.table != nullptr;
    if (state.table) books.table = state.table->books();
    if (state.late) books.overdue = state.late->books();
  }
  return all;
}

template <class T>
void Optimiser<T>::gather_books(std::span<ParameterBooks> books, Reducer& groups) const {
  require(books.size() == states_.size(), "books of these parameters");
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Parameter<T>& parameter = *states_[i].parameter;
    if (!states_[i].table || !parameter.split()) continue;
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
    user_error("it is of {} trained parameters, there are {} here", books.size(), states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    if (books[i].name != state.parameter->name || books[i].by_rows != (state.table != nullptr))
      user_error("its trained parameter {} is '{}'{}, here it is '{}'{}", i, books[i].name,
                 books[i].by_rows ? " by rows" : "", state.parameter->name, state.table ? " by rows" : "");
    state.parameter->live = books[i].live;
    state.parameter->in_step = false;
    state.parameter->reached.clear();
    state.owed = {};
    state.count = books[i].count;
    if (state.table) state.table->restore(books[i].table);
    if (state.late) state.late->restore(exec, books[i].overdue);
    clear(exec, state.parameter->gradient.data(), state.parameter->gradient.size());
  }
}

template class Optimiser<float>;
template class Optimiser<double>;

}  // namespace rossby
