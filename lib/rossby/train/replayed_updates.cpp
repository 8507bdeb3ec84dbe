#include "rossby/train/replayed_updates.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr unsigned votes_of_replay[] = {vote_finish, vote_save, vote_pause, vote_late};
constexpr std::size_t place_of_flags = 1 + std::size(votes_of_replay);  // after the loss and votes

/// Sums the contributions in `of_all`, stored one after the other, in their order.
void sum_in_order(const std::vector<double>& of_all, std::vector<double>& sum) {
  std::copy_n(of_all.begin(), sum.size(), sum.begin());
  for (std::size_t at = sum.size(); at < of_all.size(); at += sum.size())
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += of_all[at + i];
}

}  // namespace

template <class T>
ReplayedUpdates<T>::ReplayedUpdates(const AsynchronousOptions& options, const UpdatePorts& ports,
                                    std::vector<UpdateLeg> legs, Task<T>& task, MasterParameters<T>& masters,
                                    Optimiser<T>& optimiser, const Exec& exec)
    : options_(options),
      ports_(ports),
      legs_(std::move(legs)),
      task_(&task),
      masters_(&masters),
      optimiser_(&optimiser),
      exec_(on_host(exec)),
      sums_(masters) {
  exec_.threads = 1;  // as in the recorded updates
}

template <class T>
const UpdateLeg& ReplayedUpdates<T>::leg_at(const TrainingState& now) const {
  // Search from the end, because a leg of an earlier epoch without an update may come first.
  const auto at = std::find_if(legs_.rbegin(), legs_.rend(), [&](const UpdateLeg& leg) {
    return leg.epoch == now.epoch && leg.first == now.steps;
  });
  if (at == legs_.rend())
    user_error("the recording has no update {} in epoch {}; the recording ends {}", now.steps, now.epoch + 1,
               legs_.empty()
                   ? "before the first update. Record the training again with rossby train --record FILE"
                   : fmt::format("with update {} in epoch {}. Lower train.epochs to this epoch",
                                 legs_.back().last, legs_.back().epoch + 1));
  return *at;
}

template <class T>
bool ReplayedUpdates<T>::is_mine(std::size_t worker) const {
  return static_cast<int>(worker) * ports_.of_groups / static_cast<int>(leg_->events.size()) == ports_.group;
}

template <class T>
unsigned ReplayedUpdates<T>::run(Tape<T>& tape, double lr, TrainingState& now,
                                 const std::function<unsigned()>& vote, const std::function<void()>& begin) {
  leg_ = &leg_at(now);
  seconds_ = {};
  next_.assign(leg_->events.size(), 0);
  Index stalest = 0;
  for (const auto& events : leg_->events)
    for (const UpdateEvent& event : events) stalest = std::max(stalest, event.update - event.version);
  kept_ = static_cast<std::size_t>(stalest) + 1;
  masters_->take();
  versions_.clear();
  newest_ = leg_->first - 1;
  keep_version();
  unsigned votes = 0;
  for (Index update = leg_->first; update < leg_->last; ++update) {
    if (begin) begin();
    if (vote) votes |= vote();
    try {
      make(update, tape, lr, votes, now);
    } catch (const NotFinite&) {
      masters_->give_with_gradients();
      now.steps = update;
      throw;
    }
    keep_version();
  }
  for (const auto& events : leg_->events)
    now.updates.dropped +=
        std::count_if(events.begin(), events.end(), [](const UpdateEvent& e) { return e.update < 0; });
  optimiser_->settle(exec_);
  masters_->give();
  now.steps = leg_->last;
  now.group_batches = leg_->group_batches;
  now.batch = mean_batch(now.group_batches, task_->batches());
  return votes;
}

/// Stores the present weights. Keeps as many versions as the stalest gradient needs.
template <class T>
void ReplayedUpdates<T>::keep_version() {
  std::vector<T> values;
  if (versions_.size() == kept_) {
    values = std::move(versions_.front());
    versions_.pop_front();
    values.clear();
  }
  for (const Parameter<T>* parameter : masters_->trained())
    values.insert(values.end(), parameter->value.data(), parameter->value.data() + parameter->size());
  versions_.push_back(std::move(values));
  ++newest_;
}

template <class T>
void ReplayedUpdates<T>::read(Index version) {
  const Index back = newest_ - version;
  require(back >= 0 && back < std::ssize(versions_), "versions are kept as long as gradients need them");
  const T* next = versions_[versions_.size() - 1 - static_cast<std::size_t>(back)].data();
  for (Parameter<T>* parameter : masters_->trained_of_model()) {
    std::copy_n(next, parameter->size(), parameter->value.data());
    parameter->send();
    next += parameter->size();
  }
}

/// Adds the sub-batches of a recorded group that the update took to the sums.
template <class T>
void ReplayedUpdates<T>::train(std::size_t worker, Index update, Tape<T>& tape) {
  const std::vector<UpdateEvent>& events = leg_->events[worker];
  sums_.clear();
  task_->record_share_of(static_cast<int>(worker));
  for (std::size_t k = next_[worker]; k < events.size() && events[k].update <= update; ++k) {
    if (events[k].update < 0) continue;
    batch_.batch = events[k].batch;
    batch_.version = events[k].version;
    read(batch_.version);
    train_sub_batch(*task_, *masters_, tape, static_cast<int>(worker), batch_, seconds_);
    sums_.add(batch_, staleness_factor(options_.rate, update - batch_.version));
    header_[0] += batch_.loss;
    for (std::size_t i = 0; i < batch_.in_step.size(); ++i) header_[place_of_flags + i] += batch_.in_step[i];
  }
}

/// Counts the windows and targets that the update took from a recorded group. Returns false if it took
/// nothing.
template <class T>
bool ReplayedUpdates<T>::count(std::size_t worker, Index update, Taken& taken, TrainingState& now) const {
  const std::vector<UpdateEvent>& events = leg_->events[worker];
  bool any = false;
  for (std::size_t k = next_[worker]; k < events.size() && events[k].update <= update; ++k) {
    if (events[k].update < 0) continue;
    any = true;
    const auto share = task_->share(events[k].batch % task_->batches(), static_cast<int>(worker));
    taken.windows += share.windows;
    taken.targets += share.targets;
    ++now.updates.staleness[update - events[k].version];
  }
  return any;
}

/// Sums over all groups what the update took, in the order of groups.
template <class T>
typename ReplayedUpdates<T>::Taken ReplayedUpdates<T>::sum(Index update, Tape<T>& tape, TrainingState& now) {
  const auto blocks = static_cast<std::size_t>(ports_.of_blocks),
             block = static_cast<std::size_t>(ports_.block);
  const std::size_t size = sums_.replicated().size(), rows = sums_.owned().size();
  Taken taken;
  std::vector<double> replicated, owned;  // of each contributing group, and each block
  for (std::size_t w = 0; w < leg_->events.size(); ++w) {
    if (count(w, update, taken, now)) {
      const std::size_t at = replicated.size() + block * size, at_row = owned.size();
      replicated.resize(replicated.size() + blocks * size);
      owned.resize(owned.size() + rows);
      if (is_mine(w)) {
        train(w, update, tape);
        std::copy_n(sums_.replicated().data(), size, replicated.data() + at);
        std::copy_n(sums_.owned().data(), rows, owned.data() + at_row);
      }
    }
    const std::vector<UpdateEvent>& events = leg_->events[w];
    while (next_[w] < events.size() && events[next_[w]].update <= update) ++next_[w];
  }
  if (taken.windows == 0)
    user_error(
        "the recording is damaged: its update {} takes no gradient. Record the training again with rossby "
        "train --record FILE",
        update);
  const Stopwatch reduction;
  ports_.all->sum(header_);
  ports_.all->sum(replicated);
  ports_.groups->sum(owned);
  sum_in_order(replicated, sums_.replicated());
  sum_in_order(owned, sums_.owned());
  seconds_.reduction += reduction.seconds();
  return taken;
}

template <class T>
void ReplayedUpdates<T>::make(Index update, Tape<T>& tape, double lr, unsigned& votes, TrainingState& now) {
  header_.assign(place_of_flags + masters_->trained().size(), 0.0);
  for (std::size_t v = 0; v < std::size(votes_of_replay); ++v)
    header_[1 + v] = (votes & votes_of_replay[v]) != 0;
  const Taken taken = sum(update, tape, now);
  for (std::size_t v = 0; v < std::size(votes_of_replay); ++v)
    if (header_[1 + v] > 0) votes |= votes_of_replay[v];
  sums_.hand_over(*optimiser_, lr, header_[0], taken.targets, std::span(header_).subspan(place_of_flags));
  double scale = 1;
  if (options_.clip > 0) {
    std::vector<double> squares(static_cast<std::size_t>(ports_.of_blocks), 0.0), all(1, 0.0);
    squares[static_cast<std::size_t>(ports_.block)] = sums_.owned_squares(exec_);
    ports_.blocks->sum(squares);
    sum_in_order(squares, all);
    scale = clipping_scale(all[0] + sums_.replicated_squares(exec_), options_.clip);
  }
  (void)optimiser_->update(exec_, lr, scale);
  add_loss(*task_, header_[0], taken.targets, now);
  ++now.updates.windows[taken.windows];
  now.updates.targets.add(taken.targets);
}

template class ReplayedUpdates<float>;
template class ReplayedUpdates<double>;

}  // namespace rossby
