#include "rossby/train/asynchronous.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "rossby/base/flush_subnormals.hpp"
#include "rossby/base/prompt_thread.hpp"
#include "rossby/base/signals_blocked.hpp"
#include "rossby/train/sub_batch.hpp"

namespace rossby {
namespace {

/// Seconds between two calls of a worker that makes the updates itself, while sums are under way.
constexpr double call_pause = 1e-4;
/// Seconds between two votes of a worker that waits for the others.
constexpr double vote_pause_seconds = 0.02;

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace

template <class T>
Asynchronous<T>::Asynchronous(const AsynchronousOptions& options, const UpdatePorts& ports, Task<T>& task,
                              MasterParameters<T>& masters, Optimiser<T>& optimiser, Reducer& world,
                              const Exec& exec)
    : options_(options),
      ports_(ports),
      task_(&task),
      masters_(&masters),
      optimiser_(&optimiser),
      world_(&world),
      update_exec_(on_host(exec)) {
  update_exec_.threads = 1;  // the worker has the cores
  task.record_share_of(ports.group);
}

/// The thread that makes the updates.
template <class T>
void Asynchronous<T>::make_updates(Leg& leg) noexcept {
  const FlushSubnormals flush;
  const PromptThread prompt;
  try {
    Looks looks;
    while (!leg.round.over())
      if (looks.look([&] { return leg.round.advance(); })) leg.round.rest();
  } catch (...) {
    leg.error = std::current_exception();
  }
  leg.ended = true;
  leg.handover.stop();
}

/// Makes updates while the worker waits, unless a thread makes them; then it only waits.
template <class T>
void Asynchronous<T>::turn(Leg& leg, double pause) {
  if (options_.thread) return leg.handover.wait_for_updates(pause);
  if (leg.ended) return;
  try {
    bool goes_on = leg.round.advance();
    if (!goes_on) sleep_for(call_pause);
    while (goes_on && leg.round.under_way()) goes_on = leg.round.advance();
    leg.ended = leg.round.over();
  } catch (...) {
    leg.error = std::current_exception();
    leg.ended = true;
    leg.handover.stop();
  }
}

template <class T>
unsigned Asynchronous<T>::run(Tape<T>& tape, double lr, TrainingState& now,
                              const std::function<unsigned()>& vote, const std::function<void()>& begin) {
  const auto groups = static_cast<std::size_t>(ports_.of_groups);
  if (now.group_batches.size() != groups) now.group_batches.assign(groups, now.batch);
  seconds_ = {};
  worker_seconds_ = {};
  masters_->take();
  const Index done = std::accumulate(now.group_batches.begin(), now.group_batches.end(), Index{0});
  Leg leg(*this, lr, now.steps,
          options_.repeats ? std::max<Index>(1, ports_.of_groups * task_->batches() - done) : 0);
  leg.next = now.group_batches[static_cast<std::size_t>(ports_.group)];
  leg.weights.publish(now.steps, masters_->trained());
  leg.read = now.steps;
  std::thread thread;
  if (options_.thread) {
    const SignalsBlocked blocked;  // a new thread inherits the signal mask
    thread = std::thread([&] { make_updates(leg); });
  }
  std::exception_ptr error;
  try {
    work(leg, tape, vote, begin);
    leg.handover.end(false);
    const Stopwatch waiting;
    wait_for_end(leg, vote);
    seconds_.reduction += waiting.seconds();
    seconds_.waiting += waiting.seconds();
  } catch (...) {
    error = std::current_exception();
    leg.handover.end(true);
    wait_for_end(leg, {});
  }
  if (thread.joinable()) thread.join();
  if (error) std::rethrow_exception(error);
  settle(leg, now);
  return leg.round.votes();
}

/// Trains on batches of this group until they are done or a rank stops.
template <class T>
void Asynchronous<T>::work(Leg& leg, Tape<T>& tape, const std::function<unsigned()>& vote,
                           const std::function<void()>& begin) {
  const FlushSubnormals flush;
  const Index first = leg.next;
  while (true) {
    const Stopwatch iteration;
    if (vote) leg.handover.vote(vote());
    const Stopwatch waiting;
    while (!leg.handover.may_begin()) turn(leg, vote_pause_seconds);
    if (!options_.thread) turn(leg, 0);
    const bool goes_on = all_go_on(leg, leg.handover.stops());
    const double waited = waiting.seconds();
    seconds_.reduction += waited;
    seconds_.waiting += waited;
    const bool repeats =
        options_.repeats && (worker_seconds_.count > 0 || leg.next < first + task_->batches());
    if (!goes_on || (leg.next >= task_->batches() && !repeats)) return;
    if (task_->share(leg.next % task_->batches(), ports_.group).targets == 0) {
      leg.handover.skip();
    } else {
      leg.handover.finish(train(leg, tape, begin));
      worker_seconds_.add(iteration.seconds() - waited);
    }
    ++leg.next;
  }
}

/// True if no rank of the group stops. All ranks learn of a stop before the same sub-batch.
template <class T>
bool Asynchronous<T>::all_go_on(Leg& leg, bool stops) {
  if (ports_.of_blocks == 1) return !stops;
  double stopping = stops ? 1 : 0;
  ports_.workers->sum_begin(std::span<double>(&stopping, 1));
  if (!options_.thread)
    while (!ports_.workers->sum_done()) turn(leg, 0);
  ports_.workers->sum_end();
  return stopping == 0;
}

/// Returns the newest version that all ranks of the group have published. No rank publishes while they agree,
/// and all have arrived: two ranks differ by at most one version.
template <class T>
Index Asynchronous<T>::read_weights(Leg& leg) {
  const auto held = leg.weights.hold();
  Index version = leg.weights.newest();
  if (ports_.of_blocks > 1) {
    double least = -static_cast<double>(version);
    ports_.workers->max(std::span<double>(&least, 1));
    version = static_cast<Index>(-least);
  }
  if (version != leg.read) leg.weights.read(version, masters_->trained_of_model());
  leg.read = version;
  leg.handover.begin(version);
  return version;
}

template <class T>
FinishedBatch<T> Asynchronous<T>::train(Leg& leg, Tape<T>& tape, const std::function<void()>& begin) {
  FinishedBatch<T> batch = leg.handover.blank();
  batch.batch = leg.next;
  batch.version = read_weights(leg);
  if (begin) begin();  // after reading weights: its time counts
  train_sub_batch(*task_, *masters_, tape, ports_.group, batch, seconds_);
  return batch;
}

/// Waits until all groups have done their batches; votes go on.
template <class T>
void Asynchronous<T>::wait_for_end(Leg& leg, const std::function<unsigned()>& vote) {
  while (!leg.ended) {
    if (vote) leg.handover.vote(vote());
    turn(leg, vote_pause_seconds);
  }
}

/// Returns the result of the run, the same on all ranks.
template <class T>
void Asynchronous<T>::settle(Leg& leg, TrainingState& now) {
  now.steps = leg.round.version();
  if (leg.round.a_rank_failed()) {
    // A rank that fails says why and ends the job (Ending), so it does not come here.
    double nobody = 0;
    world_->sum(std::span<double>(&nobody, 1));
  }
  if (leg.error) {
    masters_->give_with_gradients();
    std::rethrow_exception(leg.error);
  }
  optimiser_->settle(update_exec_);
  masters_->give();
  add_loss(*task_, leg.round.loss(), leg.round.targets(), now);
  add_counts(leg.round.counts(), now.updates);
  std::vector<double> done(now.group_batches.size(), 0.0);
  if (ports_.block == 0) done[static_cast<std::size_t>(ports_.group)] = static_cast<double>(leg.next);
  world_->sum(done);
  for (std::size_t g = 0; g < done.size(); ++g) now.group_batches[g] = static_cast<Index>(done[g]);
  now.batch = mean_batch(now.group_batches, task_->batches());
  events_ = leg.round.events();
}

template <class T>
void Asynchronous<T>::add_moments(Moments mine, Moments& to) {
  double sums[] = {static_cast<double>(mine.count), mine.sum, mine.squares};
  double ends[] = {-mine.least, mine.most};
  world_->sum(sums);
  world_->max(ends);
  to += {static_cast<Index>(sums[0]), sums[1], sums[2], -ends[0], ends[1]};
}

template <class T>
void Asynchronous<T>::add_counts(const UpdateCounts& mine, UpdateCounts& to) {
  UpdateCounts all = mine;  // windows, targets and drops are the same on all ranks
  double most = mine.staleness.empty() ? -1 : static_cast<double>(mine.staleness.rbegin()->first);
  world_->max(std::span<double>(&most, 1));
  std::vector<double> times(static_cast<std::size_t>(most + 1), 0.0);
  for (const auto& [value, count] : mine.staleness)
    times[static_cast<std::size_t>(value)] = static_cast<double>(count);
  world_->sum(times);
  all.staleness.clear();
  for (std::size_t s = 0; s < times.size(); ++s)
    if (times[s] > 0) all.staleness[static_cast<Index>(s)] = static_cast<Index>(times[s]);
  all.update_seconds = all.worker_seconds = all.join_seconds = all.sum_seconds = {};
  add_moments(mine.update_seconds, all.update_seconds);
  add_moments(worker_seconds_, all.worker_seconds);
  add_moments(mine.join_seconds, all.join_seconds);
  add_moments(mine.sum_seconds, all.sum_seconds);
  to += all;
}

template class Asynchronous<float>;
template class Asynchronous<double>;

}  // namespace rossby
