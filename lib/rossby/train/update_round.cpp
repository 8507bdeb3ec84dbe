#include "rossby/train/update_round.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "rossby/train/step.hpp"

namespace rossby {
double staleness_factor(StalenessRate rate, Index staleness) {
  const auto s = static_cast<double>(staleness);
  switch (rate) {
    case StalenessRate::none:
      return 1;
    case StalenessRate::inverse:
      return 1 / std::max(1.0, s);
    case StalenessRate::power:
      return 1 / std::sqrt(1 + s);
  }
  return 1;
}

template <class T>
UpdateRound<T>::UpdateRound(const AsynchronousOptions& options, const UpdatePorts& ports,
                            MasterParameters<T>& masters, Optimiser<T>& optimiser,
                            PublishedWeights<T>& weights, Handover<T>& handover, const Exec& exec, double lr,
                            Index version, Index most_batches)
    : options_(options),
      ports_(ports),
      masters_(&masters),
      optimiser_(&optimiser),
      weights_(&weights),
      handover_(&handover),
      exec_(exec),
      lr_(lr),
      version_(version),
      most_batches_(most_batches),
      gradients_(masters),
      squares_(1),
      replicated_{&gradients_.replicated(),
                  {},
                  ports.group * ports.of_blocks + ports.block,
                  ports.of_groups * ports.of_blocks},
      owned_{&gradients_.owned(), {}, ports.group, ports.of_groups},
      squares_sum_{&squares_, {}, ports.block, ports.of_blocks},
      rest_(shortest_rest) {}

template <class T>
bool UpdateRound<T>::sums_have_ended() {
  while (!open_.empty() && open_.back()->sum_done()) open_.pop_back();
  return open_.empty();
}

/// If updates are recorded, every rank receives each rank's contribution and adds them in rank order.
template <class T>
void UpdateRound<T>::begin(Reducer& over, OrderedSum& sum) {
  std::vector<double>* values = sum.values;
  if (options_.records && sum.ranks > 1) {
    const std::size_t count = values->size();
    sum.of_ranks.assign(count * static_cast<std::size_t>(sum.ranks), 0.0);
    std::copy(values->begin(), values->end(),
              sum.of_ranks.begin() + static_cast<std::ptrdiff_t>(count * static_cast<std::size_t>(sum.rank)));
    values = &sum.of_ranks;
  }
  over.sum_begin(std::span<double>(*values));
  open_.push_back(&over);
}

template <class T>
void UpdateRound<T>::end(OrderedSum& sum) const {
  if (!options_.records || sum.ranks == 1) return;
  std::vector<double>& values = *sum.values;
  const std::size_t count = values.size();
  std::copy_n(sum.of_ranks.begin(), count, values.begin());
  for (std::size_t p = 1; p < static_cast<std::size_t>(sum.ranks); ++p)
    for (std::size_t i = 0; i < count; ++i) values[i] += sum.of_ranks[p * count + i];
}

template <class T>
bool UpdateRound<T>::advance() {
  silent_ += std::min(since_look_.restart(), 1.0);  // excludes time in which the process was stopped
  if (options_.patience > 0 && silent_ > options_.patience && options_.hung)
    options_.hung(std::exchange(silent_, 0.0));
  if (phase_ == Phase::over || !sums_have_ended()) return false;
  switch (phase_) {
    case Phase::collect:
      collect();
      break;
    case Phase::agree:
      agree();
      break;
    case Phase::header:
      read_header();
      break;
    case Phase::gradients:
      finish_sums();
      break;
    case Phase::norm:
      apply();
      break;
    case Phase::over:
      break;
  }
  return true;
}

template <class T>
void UpdateRound<T>::rest() {
  if (phase_ == Phase::collect) return handover_->wait_for_worker(report_, rest_);
}

template <class T>
void UpdateRound<T>::collect() {
  since_collect_.restart();
  report_ = handover_->report();
  count_ = report_.finished;
  if (ports_.of_blocks == 1) {
    count_ -= taken_;
    return fill_header();
  }
  const auto blocks = static_cast<std::size_t>(ports_.of_blocks),
             block = static_cast<std::size_t>(ports_.block);
  finished_.assign(2 * blocks, 0.0);
  finished_[block] = static_cast<double>(report_.finished);
  finished_[blocks + block] = report_.done ? 1 : 0;
  ports_.blocks->sum_begin(std::span<double>(finished_));
  open_.push_back(ports_.blocks);
  phase_ = Phase::agree;
}

/// Takes what all ranks of a group have finished: they differ by at most one sub-batch.
template <class T>
void UpdateRound<T>::agree() {
  const auto blocks = finished_.begin() + ports_.of_blocks;
  count_ = static_cast<Index>(*std::min_element(finished_.begin(), blocks)) - taken_;
  report_.done = std::find(blocks, finished_.end(), 0.0) == finished_.end();
  fill_header();
}

template <class T>
void UpdateRound<T>::fill_header() {
  header_.assign(of_flags + masters_->trained().size(), 0.0);
  const bool counts = ports_.block == 0;  // once per group
  Index oldest = report_.in_flight;
  gradients_.clear();
  // A sub-batch that other ranks of the group have not finished waits, as if it were still under way.
  const Index waiting = report_.finished - taken_;
  const auto finished = handover_->first(waiting);
  for (Index k = 0; k < waiting; ++k) {
    const FinishedBatch<T>& batch = *finished[static_cast<std::size_t>(k)];
    if (k >= count_) {
      oldest = oldest < 0 ? batch.version : std::min(oldest, batch.version);
      continue;
    }
    if (batch.faulty) header_[of_faulty] = 1;
    if (counts) ++header_[too_stale(batch) ? of_dropped : of_batches];
    if (too_stale(batch)) continue;
    header_[of_loss] += batch.loss;
    for (std::size_t i = 0; i < batch.in_step.size(); ++i) header_[of_flags + i] += batch.in_step[i];
    if (!counts) continue;
    header_[of_windows] += static_cast<double>(batch.windows);
    header_[of_targets] += batch.targets;
  }
  const bool limits = options_.waits && options_.max_staleness > 0;
  header_[of_blocked] = limits && oldest >= 0 && version_ + 1 - oldest > options_.max_staleness;
  header_[of_failed] = report_.failed;
  header_[of_done] = counts && report_.done;
  header_[of_progress] = counts ? static_cast<double>(report_.progress) : 0;
  const unsigned votes[] = {vote_finish, vote_save, vote_pause, vote_late};
  for (std::size_t v = 0; v < std::size(votes); ++v) header_[of_votes + v] = (report_.votes & votes[v]) != 0;
  ports_.all->sum_begin(std::span<double>(header_));
  open_.push_back(ports_.all);
  phase_ = Phase::header;
}

template <class T>
void UpdateRound<T>::read_header() {
  joined_ = since_collect_.seconds();
  const unsigned votes[] = {vote_finish, vote_save, vote_pause, vote_late};
  for (std::size_t v = 0; v < std::size(votes); ++v)
    if (header_[of_votes + v] > 0) votes_ |= votes[v];
  const bool enough = most_batches_ > 0 && header_[of_progress] >= static_cast<double>(most_batches_);
  if (votes_ != 0 || enough) handover_->stop();
  if (header_[of_progress] > progress_) silent_ = 0;
  progress_ = header_[of_progress];
  if (header_[of_failed] > 0) {
    failed_ = true;
    handover_->stop();
    phase_ = Phase::over;
    return;
  }
  if (header_[of_faulty] > 0) throw NotFinite("a computed value is not finite");
  const bool is_blocked = header_[of_blocked] > 0;
  handover_->block(is_blocked);
  if (is_blocked) return next_round(false);
  if (header_[of_batches] + header_[of_dropped] == 0) return next_round(false);
  counts_.dropped += static_cast<Index>(header_[of_dropped]);
  if (header_[of_targets] == 0) {
    add_gradients();
    return next_round(true);
  }
  sum_gradients();
}

/// Adds this rank's sub-batches to the sums.
template <class T>
void UpdateRound<T>::add_gradients() {
  const auto finished = handover_->first(count_);
  for (const FinishedBatch<T>* batch : finished) {
    const bool drops = too_stale(*batch);
    if (options_.records) events_.push_back({batch->batch, batch->version, drops ? -1 : version_});
    if (drops) continue;
    if (ports_.block == 0) ++counts_.staleness[staleness(*batch)];
    gradients_.add(*batch, staleness_factor(options_.rate, staleness(*batch)));
  }
  handover_->drop(count_);
  taken_ += count_;
}

template <class T>
void UpdateRound<T>::sum_gradients() {
  add_gradients();
  begin(*ports_.all, replicated_);
  if (!gradients_.owned().empty()) begin(*ports_.groups, owned_);
  phase_ = Phase::gradients;
}

template <class T>
void UpdateRound<T>::finish_sums() {
  summed_ = since_collect_.seconds();
  end(replicated_);
  end(owned_);
  gradients_.hand_over(*optimiser_, lr_, header_[of_loss], header_[of_targets],
                       std::span(header_).subspan(of_flags));
  if (options_.clip <= 0) return apply();
  squares_[0] = gradients_.owned_squares(exec_);
  if (ports_.of_blocks == 1) return apply();
  begin(*ports_.blocks, squares_sum_);
  phase_ = Phase::norm;
}

template <class T>
void UpdateRound<T>::apply() {
  double scale = 1;
  if (options_.clip > 0) {
    end(squares_sum_);
    scale = clipping_scale(squares_[0] + gradients_.replicated_squares(exec_), options_.clip);
  }
  (void)optimiser_->update(exec_, lr_, scale);
  ++version_;
  weights_->publish(version_, masters_->trained());
  ++counts_.windows[static_cast<Index>(header_[of_windows])];
  counts_.targets.add(header_[of_targets]);
  counts_.update_seconds.add(since_collect_.seconds());
  counts_.join_seconds.add(joined_);
  counts_.sum_seconds.add(summed_ - joined_);
  loss_ += header_[of_loss];
  targets_ += header_[of_targets];
  if (options_.save_every > 0 && version_ % options_.save_every == 0) {
    votes_ |= vote_save;
    handover_->stop();
  }
  next_round(true);
}

template <class T>
void UpdateRound<T>::next_round(bool news) {
  rest_ = news ? shortest_rest : std::min(2 * rest_, longest_rest);
  phase_ = header_[of_done] == ports_.of_groups ? Phase::over : Phase::collect;
}

template class UpdateRound<float>;
template class UpdateRound<double>;

}  // namespace rossby
