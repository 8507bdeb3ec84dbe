#include "rossby/train/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Most steps that may be pending on a device: it has room for the sums of so many.
constexpr std::size_t most_ahead = 64;

/// Sums over the streams of all parameters.
template <class T>
ChunkStream::Statistics moved_so_far(Task<T>& task) {
  ChunkStream::Statistics sum;
  for (const Parameter<T>* parameter : task.parameters())
    if (parameter->stream) {
      const ChunkStream::Statistics& of = parameter->stream->statistics();
      sum.read_bytes += of.read_bytes;
      sum.written_bytes += of.written_bytes;
      sum.waited_seconds += of.waited_seconds;
    }
  return sum;
}

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::epochs:
      return "all epochs done";
    case StopReason::early_stop:
      return "early stop: no improvement for train.early_stop epochs";
    case StopReason::plateau:
      return "learning rate fell to schedule.min_lr";
    case StopReason::time:
      return "train.max_seconds reached";
    case StopReason::asked:
      return "stopped on request";
    case StopReason::paused:
      return "paused";
  }
  return "";
}

template <class T>
Trainer<T>::Trainer(const TrainerOptions& options, const ScheduleOptions& schedule, Task<T>& task,
                    Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec, TimeGroups groups)
    : options_(options),
      schedule_(schedule),
      task_(&task),
      optimiser_(&optimiser),
      groups_(groups),
      tape_(exec),
      step_(task.parameters(), optimiser, reducer, options.clip, groups) {
  if (options.check_ops) {  // the host waits for its findings
    check_ = std::make_unique<OpCheck<T>>(exec);
    tape_.set_check(check_.get());
  } else {
    step_.allow_ahead();
  }
}

template <class T>
double Trainer<T>::elapsed() const {
  return seconds_before_ + begin_.seconds();
}

namespace {

/// Copies in pieces, so that few pages of files are in memory.
template <class S>
void copy(Buffer<S>& from, Buffer<S>& to) {
  for (Index at = 0; at < from.size(); at += values_at_a_time) {
    std::copy_n(from.data() + at, std::min(values_at_a_time, from.size() - at), to.data() + at);
    from.forget_pages();
    to.forget_pages();
  }
}

/// Copies into the same kind of memory as the parameter's.
template <class T, class S>
void keep_copy(const Parameter<T>& parameter, Buffer<S>& from, Buffer<S>& to) {
  if (to.size() != from.size()) to = parameter.template make_spare<S>(from.size());
  copy(from, to);
}

}  // namespace

template <class T>
void Trainer<T>::keep() {
  best_.resize(task_->parameters().size());
  best_bf16_.resize(best_.size());
  for (std::size_t i = 0; i < best_.size(); ++i) {
    Parameter<T>& parameter = *task_->parameters()[i];
    parameter.settle_stream();
    keep_copy(parameter, parameter.value, best_[i]);
    keep_copy(parameter, parameter.bf16, best_bf16_[i]);
  }
}

template <class T>
void Trainer<T>::take_best() {
  for (std::size_t i = 0; i < best_.size(); ++i) {
    Parameter<T>& parameter = *task_->parameters()[i];
    parameter.settle_stream();
    copy(best_[i], parameter.value);
    copy(best_bf16_[i], parameter.bf16);
  }
}

/// Returns where the optimiser works: on the host if EpochUpdates sums gradients there.
template <class T>
Exec Trainer<T>::update_exec() const {
  return updates_ ? on_host(tape_.exec()) : tape_.exec();
}

template <class T>
void Trainer<T>::send() {
  optimiser_->send();
  if (updates_) updates_->send();
}

template <class T>
TrainingState Trainer<T>::state() const {
  TrainingState state = now_;
  state.has_best = !best_.empty();
  state.step_seconds = epoch_seconds_;
  state.fused_scale = step_.fused_scale();
  state.schedule = schedule_.state();
  state.parameters = optimiser_->books();
  return state;
}

template <class T>
TrainingState Trainer<T>::state_of_groups() const {
  TrainingState all = state();
  if (groups_.reducer) optimiser_->gather_books(all.parameters, *groups_.reducer);
  return all;
}

template <class T>
std::vector<NamedArray<T>> Trainer<T>::arrays(bool has_best) {
  optimiser_->settle_rows(update_exec());
  optimiser_->fetch();
  std::vector<NamedArray<T>> arrays;
  for (Parameter<T>* parameter : task_->parameters()) {
    parameter->settle_stream();
    arrays.emplace_back(parameter->name, parameter, parameter->value, parameter->bf16);
  }
  for (auto& state : optimiser_->states()) {
    const std::string& name = state.parameter->name;
    Buffer<Bf16> none;
    if (state.has_first)
      arrays.emplace_back(name + ".first", state.parameter, state.first.host(),
                          state.bf16 ? state.bf16->first.host() : none);
    if (state.has_second)
      arrays.emplace_back(name + ".second", state.parameter, state.second.host(),
                          state.bf16 ? state.bf16->second.host() : none);
  }
  if (!has_best) return arrays;
  if (best_.empty()) keep();
  for (std::size_t i = 0; i < best_.size(); ++i)
    arrays.emplace_back(task_->parameters()[i]->name + ".best", task_->parameters()[i], best_[i],
                        best_bf16_[i]);
  return arrays;
}

template <class T>
void Trainer<T>::restore(const TrainingState& state) {
  const Index batches = task_->batches_in(state.epoch);
  if (state.batch > batches)
    user_error("it is at batch {} of epoch {}, but that epoch has {} batches in this training", state.batch,
               state.epoch + 1, batches);
  send();
  optimiser_->restore(update_exec(), state.parameters);
  schedule_.restore(state.schedule);
  step_.set_fused_scale(state.fused_scale);
  if (!state.has_best) best_.clear();
  tape_.reset();
  follows_ = false;
  now_ = state;
  now_.parameters.clear();
  seconds_before_ = state.seconds;
  epoch_seconds_ = state.step_seconds;
}

template <class T>
std::optional<StopReason> Trainer<T>::over() const {
  // Time used by earlier runs; it is the same on all ranks.
  if (options_.max_seconds > 0 && seconds_before_ >= options_.max_seconds) return StopReason::time;
  if (now_.batch > 0) return std::nullopt;
  if (now_.epoch > 0 && schedule_.finished()) return StopReason::plateau;
  if (now_.epoch > 0 && options_.early_stop > 0 && schedule_.since_best() >= options_.early_stop)
    return StopReason::early_stop;
  if (now_.epoch >= options_.epochs) return StopReason::epochs;
  return std::nullopt;
}

template <class T>
void Trainer<T>::add_terms(const Losses& losses, double weight) {
  for (const LossTerm& term : losses.terms()) {
    auto it = std::find_if(now_.terms.begin(), now_.terms.end(),
                           [&](const TermSum& s) { return s.name == term.name; });
    if (it == now_.terms.end()) it = now_.terms.insert(now_.terms.end(), {std::string(term.name), 0, 0});
    it->value += weight * term.value();
    it->weight += weight;
  }
}

/// Adds the losses of pending steps. Waits for the device unless the losses are `here`. Throws NotFinite at
/// the first step whose losses are not finite and sets the counts as if that step were the last one.
template <class T>
void Trainer<T>::collect(bool here) {
  const std::size_t owing = std::exchange(owing_, 0);
  local_.clear();
  for (std::size_t k = 0; k < owing; ++k)
    if (owed_[k].ahead) local_.push_back(&owed_[k].losses);
  if (!here || !local_.empty()) {
    const Stopwatch begin;
    if (!here) settle(tape_.exec());
    if (!local_.empty()) step_.share_losses(local_);
    const double seconds = begin.seconds();
    epoch_seconds_.reduction += seconds;
    now_.epoch_seconds += seconds;
    now_.seconds = elapsed();
  }
  for (std::size_t k = 0; k < owing; ++k) {
    const Owed& step = owed_[k];
    try {
      check_finite(step.losses);
    } catch (const NotFinite&) {
      now_.steps = step.step;
      now_.batch = step.batch;
      throw;
    }
    add_terms(step.losses, step.weight);
  }
}

template <class T>
EpochReport Trainer<T>::new_report() const {
  EpochReport report;
  report.epoch = now_.epoch;
  report.lr =
      schedule_.rate(now_.epoch) * std::pow(options_.rollback_lr, static_cast<double>(now_.rollbacks));
  return report;
}

/// If earlier steps have run ahead, one of them may be the first with a loss that is not finite.
template <class T>
typename Step<T>::Result Trainer<T>::run_step(double lr, unsigned votes, Losses& losses,
                                              const std::function<void(Index part)>& record) {
  try {
    return step_.run(tape_, lr, votes, losses, record, task_->parts());
  } catch (const NotFinite&) {
    collect(true);
    throw;
  }
}

/// The same with EpochUpdates. Checkpoints are written between two of its runs.
template <class T>
unsigned Trainer<T>::run_epoch_by_updates(double lr, const TrainerHooks& hooks) {
  unsigned votes = 0;
  const auto vote = [&] {
    const bool late = options_.max_seconds > 0 && elapsed() >= options_.max_seconds;
    return (hooks.vote ? hooks.vote() : 0U) | (late ? unsigned{vote_late} : 0U);
  };
  while (now_.batch < task_->batches() && (votes & (vote_finish | vote_pause | vote_late)) == 0) {
    const Stopwatch begin;
    if (hooks.sent) epoch_sent_ -= hooks.sent();
    votes = updates_->run(tape_, lr, now_, vote, hooks.begin);
    if (hooks.sent) epoch_sent_ += hooks.sent();
    epoch_seconds_ += updates_->seconds();
    now_.epoch_seconds += begin.seconds();
    now_.seconds = elapsed();
    if (hooks.save && votes != 0) hooks.save(votes & vote_pause ? SaveReason::pause : SaveReason::due);
  }
  return votes;
}

/// Runs the remaining batches of the current epoch. Returns the votes of its last step.
template <class T>
unsigned Trainer<T>::run_epoch(double lr, const TrainerHooks& hooks) {
  unsigned votes = 0;
  if (hooks.sent) epoch_sent_ -= hooks.sent();
  task_->start_epoch(now_.epoch);
  if (hooks.sent) epoch_sent_ += hooks.sent();
  if (updates_) return run_epoch_by_updates(lr, hooks);
  while (now_.batch < task_->batches() && (votes & (vote_finish | vote_pause | vote_late)) == 0) {
    const Stopwatch begin;
    if (hooks.begin) hooks.begin();
    unsigned mine = hooks.vote ? hooks.vote() : 0;
    if (options_.max_seconds > 0 && elapsed() >= options_.max_seconds) mine |= vote_late;
    if (owing_ == owed_.size()) owed_.emplace_back();
    Owed& owed = owed_[owing_];
    owed.step = now_.steps;
    owed.batch = now_.batch;
    const auto record = [&](Index part) {
      if (part > 0) return task_->record_part(tape_, part);
      task_->record(tape_, now_.batch, now_.steps, owed.losses);
    };
    const double waited = hooks.waited ? hooks.waited() : 0;
    const ChunkStream::Statistics moved = moved_so_far(*task_);
    if (hooks.sent) epoch_sent_ -= hooks.sent();
    const auto result = run_step(lr, mine, owed.losses, record);
    votes = result.votes;
    if (hooks.sent) epoch_sent_ += hooks.sent();
    epoch_seconds_ += step_.seconds();
    if (hooks.waited) epoch_seconds_.waiting += hooks.waited() - waited;
    const ChunkStream::Statistics now_moved = moved_so_far(*task_);
    epoch_seconds_.transfer += now_moved.waited_seconds - moved.waited_seconds;
    epoch_moved_.brought += now_moved.read_bytes - moved.read_bytes;
    epoch_moved_.home += now_moved.written_bytes - moved.written_bytes;
    owed.weight = task_->weight();
    owed.ahead = result.ahead;
    ++owing_;
    now_.node_steps += task_->node_steps();
    ++now_.steps;
    ++now_.batch;
    now_.epoch_seconds += begin.seconds();
    now_.seconds = elapsed();
    const bool due = options_.save_every > 0 && now_.steps % options_.save_every == 0;
    const bool saves = hooks.save && (votes != 0 || due);
    if (!result.ahead || owing_ == most_ahead || saves || votes != 0 || now_.batch == task_->batches())
      collect(!result.ahead);
    if (saves) hooks.save(votes & vote_pause ? SaveReason::pause : SaveReason::due);
  }
  return votes;
}

/// Computes means, validation, schedule and best state of an epoch whose batches are done.
template <class T>
void Trainer<T>::end_epoch(EpochReport& report, bool leaving, const TrainerHooks& hooks) {
  for (const TermSum& sum : now_.terms) {
    report.terms.push_back({sum.name, sum.weight > 0 ? sum.value / sum.weight : 0});
    report.loss += report.terms.back().value;
  }
  report.steps = now_.steps;
  report.rollbacks = now_.rollbacks;
  report.epoch_seconds = now_.epoch_seconds;
  report.seconds = std::exchange(epoch_seconds_, {});
  report.updates = std::exchange(now_.updates, {});
  report.sent = std::exchange(epoch_sent_, {});
  report.moved = std::exchange(epoch_moved_, {});
  report.sent_whole = std::exchange(follows_, true) && now_.batch == task_->batches();
  report.batches_per_second = static_cast<double>(now_.batch) / std::max(now_.epoch_seconds, 1e-9);
  report.node_steps_per_second = now_.node_steps / std::max(now_.epoch_seconds, 1e-9);
  const Index done = now_.epoch + 1;
  const bool due = leaving || done % options_.validate_every == 0 || done == options_.epochs;
  const bool looks = due || !options_.watch_validation;
  const Stopwatch begin;
  if (looks) optimiser_->settle(update_exec());
  if (due) {
    report.validation = task_->validate(tape_);
    report.validation_seconds = begin.seconds();
  }
  if (looks) {
    // The end of a run is always validated. Out of turn, it counts no epochs without improvement, so that a
    // resumed run makes the same decisions unless this state was the best.
    const bool in_turn = done % options_.validate_every == 0;
    const Index since_best = now_.best_epoch < 0 ? done : now_.epoch - now_.best_epoch;
    const Index since = in_turn ? std::min(options_.validate_every, since_best) : 0;
    report.best = options_.watch_validation ? schedule_.observe(report.validation, since)
                                            : schedule_.observe(report.loss);
    if (report.best) {
      now_.best_epoch = now_.epoch;
      if (options_.keep_best) {
        optimiser_->fetch_values();
        keep();
      }
    }
  }
  report.total_seconds = elapsed();
  if (hooks.observe) hooks.observe(report);
  now_.epoch = done;
  now_.batch = 0;
  now_.group_batches.clear();
  now_.terms.clear();
  now_.node_steps = now_.epoch_seconds = 0;
  now_.seconds = elapsed();
}

template <class T>
TrainingResult Trainer<T>::run(const TrainerHooks& hooks) {
  begin_.restart();
  std::optional<StopReason> end = over();
  // True if a resumed run starts from the last checkpoint. It cannot start from a shortened epoch.
  bool saved = end.has_value();
  if (end && now_.batch > 0) {
    EpochReport report = new_report();
    end_epoch(report, true, hooks);
  }
  while (!end) {
    EpochReport report = new_report();
    const unsigned votes = run_epoch(report.lr, hooks);
    const bool leaving = (votes & (vote_finish | vote_late)) != 0;
    if ((votes & vote_pause) != 0 && !leaving) {
      end = StopReason::paused;
      break;
    }
    end_epoch(report, leaving, hooks);
    saved = leaving;
    end = over();
    if (leaving) end = votes & vote_late ? StopReason::time : StopReason::asked;
  }
  if (end == StopReason::paused) return result(*end);
  if (hooks.save && !saved) hooks.save(SaveReason::end);
  return finish(*end);
}

template <class T>
TrainingResult Trainer<T>::result(StopReason end) const {
  TrainingResult result;
  result.reason = end;
  result.epochs = now_.epoch;
  result.steps = now_.steps;
  result.best_epoch = now_.best_epoch;
  result.best_metric = schedule_.best();
  result.seconds = elapsed();
  return result;
}

template <class T>
TrainingResult Trainer<T>::finish(StopReason end) {
  const TrainingResult at = result(end);
  optimiser_->settle(update_exec());
  optimiser_->fetch();
  if (options_.keep_best) take_best();
  send();
  return at;
}

template <class T>
TrainingResult Trainer<T>::run(const std::function<void(const EpochReport&)>& observe,
                               const std::function<bool()>& vote_stop) {
  TrainerHooks hooks;
  hooks.observe = observe;
  if (vote_stop) hooks.vote = [&] { return vote_stop() ? unsigned{vote_finish} : 0U; };
  return run(hooks);
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace rossby
