#include "rossby/train/step.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby {
namespace {

constexpr const char* norm_is_not_finite = "the norm of the gradient is not finite";
constexpr unsigned all_votes[] = {vote_finish, vote_save, vote_pause, vote_late};

/// Returns the time since its last call.
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
    throw NotFinite(fmt::format("the loss is {} (not finite)", std::isnan(total) ? std::abs(total) : total));
  if (!std::isfinite(losses.gradient_squares())) throw NotFinite(norm_is_not_finite);
}

template <class T>
Step<T>::Step(std::span<Parameter<T>* const> parameters, Optimiser<T>& optimiser, Reducer& reducer,
              double clip, TimeGroups groups)
    : optimiser_(&optimiser), reducer_(&reducer), groups_(groups), clip_(clip) {
  for (Parameter<T>* parameter : parameters)
    if (parameter->trained)
      (parameter->placement == Placement::replicated ? replicated_ : owned_).push_back(parameter);
  constexpr std::size_t more = 32;  // room for loss terms and votes
  std::size_t shared = 0;
  for (const Parameter<T>* parameter : replicated_) shared += static_cast<std::size_t>(parameter->size());
  fused_.reserve(shared + more);  // growth would briefly take up to twice the memory
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
  DeviceDriver* driver = runs_ahead(tape.exec()) ? &tape.exec().device->driver() : nullptr;
  if (driver) driver->begin_graph();
  for (Index part = 0; part < parts; ++part) {
    const auto before = tape.mark();
    forward(part);
    seconds.forward += lap();
    tape.backward();
    seconds.backward += lap();
    if (part + 1 < parts) tape.rewind(before);
  }
  if (tape.check()) agree_on(*tape.check());
  if (groups_.reducer) sum_over_groups(tape.trace());

  owned_squares_ = 0;
  result.ahead = runs_ahead(tape.exec());
  if (clip_ > 0) add_owned_squares(tape.exec(), result.ahead ? losses.gradient_squares() : &owned_squares_);
  if (result.ahead)
    share_ahead(tape.exec(), tape.trace(), losses, votes, result);
  else
    share(tape.exec(), tape.trace(), losses, votes, result);
  seconds.reduction = lap();
  double scale = 1;
  if (clip_ > 0 && !result.ahead) {
    result.gradient_norm = std::sqrt(owned_squares_ + replicated_squares(tape.exec()));
    if (!std::isfinite(result.gradient_norm)) throw NotFinite(norm_is_not_finite);
    scale = clipping_factor(result.gradient_norm, clip_);
    if (optimiser_->fused_in_step()) fused_scale_ = scale;
  }
  const Cost update = optimiser_->update(tape.exec(), lr, scale);
  if (BlockTrace* trace = tape.trace()) trace->note("optimiser", update);
  seconds.optimiser = lap();
  if (driver) driver->end_graph();
  if (result.ahead) under_way_.add(*tape.exec().device);
  seconds.reduction += lap();
  seconds_ = seconds;
  return result;
}

/// True if this step needs no host on its way. The host is needed if chunks of a streamed relation pass
/// through it. It is also needed for clipping if the factor comes too late for the device (fused relations
/// take it in the next step) or must reach single rows. Several ranks need sums that are enqueued.
template <class T>
bool Step<T>::could_run_ahead(const Exec& exec) const {
  const auto waits = [this](const Parameter<T>* p) {
    return p->stream != nullptr || (clip_ > 0 && (p->fusable || p->clips_late || p->table_rows()));
  };
  return may_run_ahead_ && exec.device && !exec.device->driver().stands_for_host() && reducer_->enqueues() &&
         std::none_of(owned_.begin(), owned_.end(), waits);
}

/// The next step would reset sums that wait for the next settlement. All ranks run ahead, or none.
template <class T>
bool Step<T>::runs_ahead(const Exec& exec) const {
  return could_run_ahead(exec) && (reducer_->alone() || all_could_) && !exec.device->adds_later();
}

/// Shares gradients in the device's queue and votes between hosts.
template <class T>
void Step<T>::share_ahead(const Exec& exec, BlockTrace* trace, Losses& losses, unsigned votes,
                          Result& result) {
  result.votes = votes;
  if (!reducer_->alone()) {
    gradients_.clear();
    for (Parameter<T>* parameter : replicated_)
      if (parameter->in_step) gradients_.push_back(parameter->gradient.span());
    reducer_->sum_each(std::span<const std::span<T>>(gradients_));
    if (clip_ > 0) reducer_->sum(std::span<double>(exec.device->later(losses.gradient_squares()), 1));
    double cast[std::size(all_votes)];
    for (std::size_t v = 0; v < std::size(all_votes); ++v) cast[v] = votes & all_votes[v] ? 1 : 0;
    reducer_->sum(std::span<double>(cast));
    for (std::size_t v = 0; v < std::size(all_votes); ++v)
      if (cast[v] > 0) result.votes |= all_votes[v];
    if (trace) {
      double bytes = clip_ > 0 ? sizeof(double) : 0;
      for (const std::span<T> gradient : gradients_) bytes += static_cast<double>(gradient.size_bytes());
      trace->note("device_reduction", {0, 0, 1, bytes});
      trace->note("vote", {0, 0, 1, sizeof cast});
    }
  }
  if (clip_ > 0) clip_ahead(exec, losses);
}

template <class T>
void Step<T>::clip_ahead(const Exec& exec, Losses& losses) {
  double* squares = losses.gradient_squares();
  for (const Parameter<T>* parameter : replicated_)
    if (parameter->in_step) sum_of_squares<T>(exec, parameter->gradient.span(), squares);
  for (const auto* parameters : {&replicated_, &owned_})
    for (Parameter<T>* parameter : *parameters)
      if (parameter->in_step) clip_by_norm<T>(exec, parameter->gradient.span(), squares, clip_);
}

template <class T>
void Step<T>::share_losses(std::span<Losses* const> of_steps) {
  if (reducer_->alone()) return;
  fused_.clear();
  for (const Losses* losses : of_steps)
    for (const LossTerm& term : losses->terms()) fused_.push_back(term.sum);
  reducer_->sum(fused_);
  auto next = fused_.begin();
  for (Losses* losses : of_steps)
    for (LossTerm& term : losses->terms()) term.sum = *next++;
}

/// Shares all that the host needs to know. A step on a device waits only here.
template <class T>
void Step<T>::share(const Exec& exec, BlockTrace* trace, Losses& losses, unsigned votes, Result& result) {
  fetch_gradients();
  settle(exec);
  if (trace && exec.device) trace->waited();
  if (clip_ > 0 && groups_.first) owned_squares_ += optimiser_->fused_squares();
  allreduce(exec, losses, votes, result);
  if (trace) trace->note("reduction", {0, 0, 1, static_cast<double>(fused_.size() * sizeof(double))});
  check_finite(losses);
  result.loss = losses.total();
  for (std::size_t i = 0; i < replicated_.size(); ++i)
    for (const T gradient : gradient_at_home(i))
      if (!std::isfinite(gradient))
        throw NotFinite(fmt::format("the gradient of {} is not finite", replicated_[i]->name));
}

template <class T>
void Step<T>::add_owned_squares(const Exec& exec, double* squares) {
  for (const Parameter<T>* parameter : owned_) {
    if (!groups_.first && !parameter->split()) continue;
    if (TableRows<T>* rows = parameter->table_rows())
      rows->add_squares(exec, squares);
    else
      add_squares(exec, *parameter, squares);
  }
}

/// Adds squares of the rows that the step reached; the rest of a gradient is zero.
template <class T>
void Step<T>::add_squares(const Exec& exec, const Parameter<T>& parameter, double* squares) {
  const std::span<const T> gradient = parameter.gradient.span();
  // A device reads all rows in less time than it takes to launch a kernel per row.
  if (!parameter.in_step || parameter.reached.all() || exec.device)
    return sum_of_squares<T>(exec, gradient, squares);
  const auto columns = static_cast<std::size_t>(parameter.shape.back());
  for (const Index row : parameter.reached.list())
    sum_of_squares<T>(exec, gradient.subspan(static_cast<std::size_t>(row) * columns, columns), squares);
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
void Step<T>::agree_on(const OpCheck<T>& check) {
  double found = check.found() ? 1 : 0;
  reducer_->max(std::span<double>(&found, 1));
  if (found > 0) throw NotFinite("a computed value is not finite");
}

template <class T>
void Step<T>::allreduce(const Exec& exec, Losses& losses, unsigned votes, Result& result) {
  fused_.clear();
  for (std::size_t i = 0; i < replicated_.size(); ++i)
    if (replicated_[i]->in_step) {
      const std::span<const T> gradient = gradient_at_home(i);
      fused_.insert(fused_.end(), gradient.begin(), gradient.end());
    }
  for (const LossTerm& term : losses.terms()) fused_.push_back(term.sum);
  fused_.push_back(owned_squares_);
  for (const unsigned vote : all_votes) fused_.push_back(votes & vote ? 1 : 0);
  const bool asks = may_run_ahead_ && reducer_->enqueues() && !reducer_->alone();
  if (asks) fused_.push_back(could_run_ahead(exec) ? 0 : 1);
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
  if (asks) all_could_ = *next == 0;
}

/// Copies gradients from the device: they are small, and the ranks share them through the host.
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
