#include "rossby/train/trainer.hpp"

#include <algorithm>
#include <cmath>

namespace rossby {
namespace {

/// Weighted means of loss terms over an epoch.
class Means {
 public:
  void add(const Losses& losses, double weight) {
    for (const LossTerm& term : losses.terms()) {
      auto it = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& s) { return s.name == term.name; });
      if (it == sums_.end()) it = sums_.insert(sums_.end(), Sum{term.name, 0, 0});
      it->value += weight * term.value();
      it->weight += weight;
    }
  }
  void report(EpochReport& report) const {
    for (const Sum& sum : sums_) {
      report.terms.push_back({sum.name, sum.weight > 0 ? sum.value / sum.weight : 0});
      report.loss += report.terms.back().value;
    }
  }

 private:
  struct Sum {
    std::string_view name;
    double value;
    double weight;
  };
  std::vector<Sum> sums_;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::epochs:
      return "all epochs done";
    case StopReason::early_stop:
      return "early stop: no better for train.early_stop epochs";
    case StopReason::plateau:
      return "learning rate fell to schedule.min_lr";
    case StopReason::time:
      return "train.max_seconds reached";
    case StopReason::asked:
      return "stopped on request";
  }
  return "";
}

template <class T>
Trainer<T>::Trainer(const TrainerOptions& options, const ScheduleOptions& schedule, Task<T>& task,
                    Optimiser<T>& optimiser, Reducer& reducer, const Exec& exec)
    : options_(options),
      schedule_(schedule),
      task_(&task),
      optimiser_(&optimiser),
      tape_(exec),
      step_(task.parameters(), optimiser, reducer, options.clip) {}

template <class T>
double Trainer<T>::elapsed() const {
  return seconds_since(begin_);
}

template <class T>
void Trainer<T>::keep() {
  best_.resize(task_->parameters().size());
  for (std::size_t i = 0; i < best_.size(); ++i) {
    const Buffer<T>& value = task_->parameters()[i]->value;
    best_[i].assign(value.begin(), value.end());
  }
}

template <class T>
void Trainer<T>::restore() {
  for (std::size_t i = 0; i < best_.size(); ++i)
    std::copy(best_[i].begin(), best_[i].end(), task_->parameters()[i]->value.begin());
}

template <class T>
bool Trainer<T>::run_epoch(Index epoch, EpochReport& report, const std::function<bool()>& vote_stop) {
  const auto begin = std::chrono::steady_clock::now();
  Means means;
  double node_steps = 0;
  bool stopped = false;
  task_->start_epoch(epoch);
  report.epoch = epoch;
  report.lr = schedule_.rate(epoch);
  Index done = 0;
  for (Index index = 0; index < task_->batches() && !stopped; ++index) {
    const bool late = options_.max_seconds > 0 && elapsed() >= options_.max_seconds;
    const bool vote = late || (vote_stop && vote_stop());
    const auto result =
        step_.run(tape_, report.lr, vote, losses_, [&] { task_->record(tape_, index, steps_, losses_); });
    means.add(losses_, task_->weight());
    node_steps += task_->node_steps();
    ++steps_;
    ++done;
    stopped = result.stop;
  }
  means.report(report);
  report.steps = steps_;
  report.epoch_seconds = seconds_since(begin);
  report.batches_per_second = static_cast<double>(done) / std::max(report.epoch_seconds, 1e-9);
  report.node_steps_per_second = node_steps / std::max(report.epoch_seconds, 1e-9);
  return stopped;
}

template <class T>
TrainingResult Trainer<T>::run(const std::function<void(const EpochReport&)>& observe,
                               const std::function<bool()>& vote_stop) {
  begin_ = std::chrono::steady_clock::now();
  TrainingResult result;
  bool stopped = false;
  for (Index epoch = 0; epoch < options_.epochs && !stopped; ++epoch) {
    EpochReport report;
    stopped = run_epoch(epoch, report, vote_stop);
    if (stopped)
      result.reason = options_.max_seconds > 0 && elapsed() >= options_.max_seconds ? StopReason::time
                                                                                    : StopReason::asked;
    const bool due = stopped || (epoch + 1) % options_.validate_every == 0 || epoch + 1 == options_.epochs;
    const bool looks = due || !options_.watch_validation;
    if (looks) optimiser_->settle(tape_.exec());
    if (due) report.validation = task_->validate();
    if (looks) {
      report.best = schedule_.observe(options_.watch_validation ? report.validation : report.loss);
      if (report.best) {
        result.best_epoch = epoch;
        if (options_.keep_best) keep();
      }
    }
    report.total_seconds = elapsed();
    observe(report);
    result.epochs = epoch + 1;
    if (!stopped && schedule_.finished()) {
      result.reason = StopReason::plateau;
      stopped = true;
    }
    if (!stopped && options_.early_stop > 0 && schedule_.since_best() >= options_.early_stop) {
      result.reason = StopReason::early_stop;
      stopped = true;
    }
  }
  optimiser_->settle(tape_.exec());
  if (options_.keep_best) restore();
  result.steps = steps_;
  result.best_metric = schedule_.best();
  result.seconds = elapsed();
  return result;
}

template class Trainer<float>;
template class Trainer<double>;

}  // namespace rossby
