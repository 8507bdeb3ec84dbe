#include "rossby/train/step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby {
namespace {

constexpr unsigned all_votes[] = {vote_finish, vote_save, vote_pause, vote_late};

/// Hands out the time since it was last asked.
class Lap {
 public:
  double operator()() {
    const Clock::time_point now = Clock::now();
    return std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace

void check_finite(const Losses& losses) {
  if (const double total = losses.total(); !std::isfinite(total))
    throw NotFinite(fmt::format("the loss is {} (not finite)", total));
}

template <class T>
Step<T>::Step(std::span<Parameter<T>* const> parameters, Optimiser<T>& optimiser, Reducer& reducer,
              double clip, TimeGroups groups)
    : optimiser_(&optimiser), reducer_(&reducer), groups_(groups), clip_(clip) {
  for (Parameter<T>* parameter : parameters)
    if (parameter->trained)
      (parameter->placement == Placement::replicated ? replicated_ : owned_).push_back(parameter);
  constexpr std::size_t more = 32;  // loss terms and votes
  std::size_t shared = 0;
  for (const Parameter<T>* parameter : replicated_) shared += static_cast<std::size_t>(parameter->size());
  fused_.reserve(shared + more);  // as it grows it would take up to twice that
}

template <class T>
typename Step<T>::Result Step<T>::run(Tape<T>& tape, double lr, unsigned votes, Losses& losses,
                                      const std::function<void(Index part)>& forward, Index parts) {
  const FlushSubnormals flush;
  Result result;
  Lap lap;
  StepSeconds seconds;
  tape.reset();
  losses.clear();
  optimiser_->begin_step(lr, fused_scale_);
  for (Index part = 0; part < parts; ++part) {
    const auto before = tape.mark();
    forward(part);
    seconds.forward += lap();
    tape.backward();
    seconds.backward += lap();
    if (part + 1 < parts) tape.rewind(before);
  }
  if (groups_.reducer) sum_over_groups(tape.trace());

  owned_squares_ = 0;
  if (clip_ > 0) {
    for (const Parameter<T>* parameter : owned_) {
      if (!groups_.first && !parameter->split()) continue;
      if (parameter->table)
        parameter->table->add_squares(tape.exec(), &owned_squares_);
      else
        add_squares(tape.exec(), *parameter);
    }
  }
  result.ahead = runs_ahead(tape.exec());
  if (result.ahead)
    result.votes = votes;
  else
    share(tape.exec(), tape.trace(), losses, votes, result);
  seconds.reduction = lap();
  double scale = 1;
  if (clip_ > 0) {
    result.gradient_norm = std::sqrt(owned_squares_ + replicated_squares(tape.exec()));
    if (!std::isfinite(result.gradient_norm)) throw NotFinite("the norm of the gradient is not finite");
    scale = std::min(1.0, clip_ / (result.gradient_norm + 1e-6));
    if (optimiser_->fused_in_step()) fused_scale_ = scale;
  }
  const Cost update = optimiser_->update(tape.exec(), lr, scale);
  if (BlockTrace* trace = tape.trace()) trace->note("optimiser", update);
  seconds.optimiser = lap();
  if (result.ahead) under_way_.add(*tape.exec().device);
  seconds.reduction += lap();
  seconds_ = seconds;
  return result;
}

/// Clipping needs a norm, other ranks need the gradients, chunks travel by way of the host; and what waits to
/// be added at the next settlement would be set anew by the step after this one.
template <class T>
bool Step<T>::runs_ahead(const Exec& exec) const {
  return may_run_ahead_ && exec.device && !exec.device->driver().stands_for_host() && clip_ == 0 &&
         !groups_.reducer && reducer_->alone() && !exec.device->adds_later() &&
         std::none_of(owned_.begin(), owned_.end(),
                      [](const Parameter<T>* p) { return p->stream != nullptr; });
}

/// What the ranks share and the host has to know of: the one wait of a step on a device.
template <class T>
void Step<T>::share(const Exec& exec, BlockTrace* trace, Losses& losses, unsigned votes, Result& result) {
  fetch_gradients();
  settle(exec);
  if (trace && exec.device) trace->waited();
  if (clip_ > 0 && groups_.first) owned_squares_ += optimiser_->fused_squares();
  allreduce(losses, votes, result);
  if (trace) trace->note("reduction", {0, 0, 1, static_cast<double>(fused_.size() * sizeof(double))});
  check_finite(losses);
  result.loss = losses.total();
  for (std::size_t i = 0; i < replicated_.size(); ++i)
    for (const T gradient : gradient_at_home(i))
      if (!std::isfinite(gradient))
        throw NotFinite(fmt::format("the gradient of {} is not finite", replicated_[i]->name));
}

/// Of what the step has reached: the rest of a gradient is zero.
template <class T>
void Step<T>::add_squares(const Exec& exec, const Parameter<T>& parameter) {
  const std::span<const T> gradient = parameter.gradient.span();
  if (!parameter.in_step || parameter.reached.all())
    return sum_of_squares<T>(exec, gradient, &owned_squares_);
  const auto columns = static_cast<std::size_t>(parameter.shape.back());
  for (const Index row : parameter.reached.list())
    sum_of_squares<T>(exec, gradient.subspan(static_cast<std::size_t>(row) * columns, columns),
                      &owned_squares_);
}

template <class T>
void Step<T>::sum_over_groups(BlockTrace* trace) {
  for (Parameter<T>* parameter : owned_) {
    if (!parameter->in_step || parameter->split() || parameter->sink) continue;
    groups_.reducer->sum(parameter->gradient.span());
    parameter->reached.add_all();
    if (trace)
      trace->note("group_reduction", {0, 0, 1, static_cast<double>(parameter->gradient.span().size_bytes())});
  }
}

template <class T>
void Step<T>::allreduce(Losses& losses, unsigned votes, Result& result) {
  fused_.clear();
  for (std::size_t i = 0; i < replicated_.size(); ++i)
    if (replicated_[i]->in_step) {
      const std::span<const T> gradient = gradient_at_home(i);
      fused_.insert(fused_.end(), gradient.begin(), gradient.end());
    }
  for (const LossTerm& term : losses.terms()) fused_.push_back(term.sum);
  fused_.push_back(owned_squares_);
  for (const unsigned vote : all_votes) fused_.push_back(votes & vote ? 1 : 0);
  reducer_->sum(fused_);
  auto next = fused_.begin();
  for (std::size_t i = 0; i < replicated_.size(); ++i) {
    if (!replicated_[i]->in_step) continue;
    for (T& gradient : gradient_at_home(i)) gradient = static_cast<T>(*next++);
    if (Device* device = replicated_[i]->device)
      device->upload(replicated_[i]->gradient.data(), std::span<const T>(gradient_at_home(i)));
  }
  for (LossTerm& term : losses.terms()) term.sum = *next++;
  owned_squares_ = *next++;
  for (const unsigned vote : all_votes)
    if (*next++ > 0) result.votes |= vote;
}

/// Where gradients lie on a device they are copied: they are small, and the ranks share them through the
/// host.
template <class T>
void Step<T>::fetch_gradients() {
  fetched_.resize(replicated_.size());
  for (std::size_t i = 0; i < replicated_.size(); ++i) {
    Parameter<T>& parameter = *replicated_[i];
    if (!parameter.device) continue;
    if (fetched_[i].size() != parameter.gradient.size())
      fetched_[i] = Buffer<T>::pinned(parameter.gradient.size(), *parameter.device);
    parameter.device->download(fetched_[i].span(), parameter.gradient.data());
  }
}

template <class T>
std::span<T> Step<T>::gradient_at_home(std::size_t i) {
  return replicated_[i]->device ? fetched_[i].span() : replicated_[i]->gradient.span();
}

template <class T>
double Step<T>::replicated_squares(const Exec& exec) {
  Exec host = exec;
  host.backend = exec.device ? Backend::cpu : exec.backend;
  host.device = nullptr;
  double sum = 0;
  for (std::size_t i = 0; i < replicated_.size(); ++i) sum_of_squares<T>(host, gradient_at_home(i), &sum);
  return sum;
}

template class Step<float>;
template class Step<double>;

}  // namespace rossby
