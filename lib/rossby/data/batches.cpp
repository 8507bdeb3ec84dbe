#include "rossby/data/batches.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

double observed_at(const Series& series, Index step, Index row) {
  double count = 0;
  for (Index f = 0; f < series.features; ++f) count += std::isnan(series.at(step, row, f)) ? 0 : 1;
  return count;
}

Index ceil_div(Index a, Index b) {
  return (a + b - 1) / b;
}

/// Beginning of part `part` when `size` items are cut into `parts` near-equal parts.
Index part_begin(Index size, Index part, Index parts) {
  return size * part / parts;
}

}  // namespace

std::vector<StepRange> steps_of_groups(const BatchOptions& options, std::span<const Index> training_steps) {
  const Index groups = options.groups, lanes = options.lanes, steps = std::ssize(training_steps);
  if (options.pairs && lanes * groups > 1)
    user_error(
        "train.sampling = \"pairs\" does not work with time groups or lanes. Set parallel.time_groups = 1 "
        "and train.lanes = 0");
  if (lanes % groups != 0)
    user_error("train.lanes = {} must be a multiple of parallel.time_groups = {}", lanes, groups);
  if (lanes > 1 && options.slab_steps % lanes != 0)
    user_error(
        "train.slab_steps = {} must be a multiple of {}, the number of lanes (train.lanes, or "
        "parallel.time_groups if train.lanes = 0)",
        options.slab_steps, lanes);
  if (lanes > std::max<Index>(steps, 1))
    user_error("train.lanes = {} is more than the {} training steps. Lower train.lanes", lanes, steps);
  std::vector<StepRange> ranges;
  for (Index g = 0; g < groups; ++g)
    ranges.push_back(
        {g == 0 ? 0 : training_steps[static_cast<std::size_t>(part_begin(steps, g * lanes / groups, lanes))],
         steps == 0 ? 0 : training_steps.back() + 1});
  for (std::size_t g = 1; g < ranges.size(); ++g) ranges[g - 1].last = ranges[g].first;
  return ranges;
}

BatchPlan::BatchPlan(const BatchOptions& options, const Series& series, std::vector<Index> training_steps,
                     std::vector<Index> training_pairs, const RowPartition& partition, int part,
                     Reducer& reducer)
    : options_(options),
      series_(&series),
      partition_(&partition),
      part_(part),
      reducer_(&reducer),
      training_steps_(std::move(training_steps)),
      training_pairs_(std::move(training_pairs)) {
  require(!(options.pairs && options.joint), "joint batches are slabs");
  const auto steps_in_all =
      static_cast<std::size_t>(training_steps_.empty() ? 0 : training_steps_.back() + 1);
  held_ = steps_of_groups(options_, training_steps_)[static_cast<std::size_t>(options.group)];
  is_pair_.assign(steps_in_all, false);
  for (const Index t : training_pairs_) is_pair_[static_cast<std::size_t>(t)] = true;
  observed_.assign(steps_in_all, 0.0);
  for (const Index t : training_steps_)
    for (Index i = 0; i < series.rows && held_.contains(t); ++i)
      observed_[static_cast<std::size_t>(t)] += observed_at(series, t, i);
  reducer.sum(observed_);
  double total = 0;
  for (const double count : observed_) total += count;
  complete_ = total == static_cast<double>(static_cast<Index>(training_steps_.size()) * partition.rows() *
                                           series.features);

  if (options.pairs) {
    per_batch_ = options.pairs_per_batch;
    decoder_batches_ = ceil_div(elements(Pass::decoder), per_batch_);
    dynamics_batches_ = ceil_div(elements(Pass::dynamics), per_batch_);
    return;
  }
  const auto steps = static_cast<Index>(training_steps_.size());
  per_batch_ = options.slab_steps > 0 ? options.slab_steps / options.lanes : std::max<Index>(steps, 1);
  decoder_batches_ = slabs(Pass::decoder);
  dynamics_batches_ = options.joint ? 0 : slabs(Pass::dynamics);
}

std::pair<Index, Index> BatchPlan::lane(Pass pass, Index lane) const {
  const auto& steps = steps_of(pass);
  const auto begin_of = [&](Index l) -> Index {
    if (l == options_.lanes) return std::ssize(steps);
    if (l == 0) return 0;
    const auto first =
        training_steps_[static_cast<std::size_t>(part_begin(std::ssize(training_steps_), l, options_.lanes))];
    return std::lower_bound(steps.begin(), steps.end(), first) - steps.begin();
  };
  return {begin_of(lane), begin_of(lane + 1)};
}

Index BatchPlan::slabs(Pass pass) const {
  Index most = 0;
  for (Index l = 0; l < options_.lanes; ++l) {
    const auto [first, last] = lane(pass, l);
    most = std::max(most, ceil_div(last - first, per_batch_));
  }
  return most;
}

Index BatchPlan::elements(Pass pass) const {
  const Index steps = std::ssize(steps_of(pass));
  return options_.pairs ? steps * partition_->rows() : steps;
}

void BatchPlan::start_epoch(Index epoch) {
  const Random random = Random(options_.seed, "batch order").at(static_cast<std::uint64_t>(epoch));
  orders_.clear();
  for (const Pass pass : {Pass::decoder, Pass::dynamics}) {
    const Random of_pass = random.at(pass == Pass::decoder ? 0 : 1);
    if (options_.lanes == 1) orders_.emplace_back(of_pass, elements(pass));
    for (Index l = 0; options_.lanes > 1 && l < options_.lanes; ++l) {
      const auto [first, last] = lane(pass, l);
      orders_.emplace_back(of_pass.at(static_cast<std::uint64_t>(l)), last - first);
    }
  }
  if (!options_.pairs) return;
  batch_observed_.assign(static_cast<std::size_t>(decoder_batches_), 0.0);
  for (Index b = 0; b < decoder_batches_ && !complete_; ++b) {
    fill_pairs(Pass::decoder, b * per_batch_, std::min((b + 1) * per_batch_, elements(Pass::decoder)));
    for (std::size_t q = 0; q < batch_.times.size(); ++q)
      batch_observed_[static_cast<std::size_t>(b)] += observed_at(*series_, batch_.times[q], batch_.rows[q]);
  }
  reducer_->sum(batch_observed_);  // even with nothing missing: traffic must not depend on values
}

const Batch& BatchPlan::batch(Index index) {
  require(index >= 0 && index < batches() && !orders_.empty(), "batch outside the epoch");
  const bool decoder = index < decoder_batches_;
  const Pass pass = options_.joint ? Pass::joint : decoder ? Pass::decoder : Pass::dynamics;
  const Index of_pass = decoder ? index : index - decoder_batches_;
  batch_.pass = pass;
  batch_.pairs = options_.pairs;
  if (!options_.pairs) {
    fill_slab(pass, of_pass);
    return batch_;
  }
  const Index first = of_pass * per_batch_;
  const Index last = std::min(first + per_batch_, elements(pass));
  fill_pairs(pass, first, last);
  batch_.targets = static_cast<double>(last - first);
  batch_.observed = complete_ || !decoder ? static_cast<double>((last - first) * series_->features)
                                          : batch_observed_[static_cast<std::size_t>(index)];
  return batch_;
}

void BatchPlan::fill_slab(Pass pass, Index index) {
  const auto& steps = steps_of(pass);
  batch_.times.clear();
  batch_.rows.clear();
  batch_.predicted_times.clear();
  batch_.steps = 0;
  batch_.observed = batch_.targets = 0;
  batch_.borrows = batch_.lends = false;
  for (Index l = 0; l < options_.lanes; ++l) {
    const Permutation& order =
        orders_[static_cast<std::size_t>((pass == Pass::dynamics ? options_.lanes : 0) + l)];
    const Index begin = lane(pass, l).first;
    for (Index q = index * per_batch_; q < std::min((index + 1) * per_batch_, order.size()); ++q)
      add_to_slab(steps[static_cast<std::size_t>(begin + order(q))], pass != Pass::decoder);
  }
  // Ascending steps read memory in order. The order within a batch does not matter.
  std::sort(batch_.times.begin(), batch_.times.end());
  std::sort(batch_.predicted_times.begin(), batch_.predicted_times.end());
}

/// Adds a step of any group to the batch.
void BatchPlan::add_to_slab(Index t, bool predicts) {
  const bool own = held_.contains(t);
  ++batch_.steps;
  batch_.observed += observed_[static_cast<std::size_t>(t)];
  if (own) batch_.times.push_back(t);
  if (!is_pair_[static_cast<std::size_t>(t)]) return;
  if (own) batch_.predicted_times.push_back(t);
  batch_.targets += static_cast<double>(partition_->rows());
  batch_.borrows = batch_.borrows || (predicts && options_.group > 0 && t == held_.first);
  batch_.lends = batch_.lends || (predicts && options_.group + 1 < options_.groups && t == held_.last);
}

void BatchPlan::fill_pairs(Pass pass, Index first, Index last) {
  const auto& steps = steps_of(pass);
  const Permutation& order = orders_[pass == Pass::dynamics ? 1 : 0];
  const Index n = partition_->rows();
  const Index begin = partition_->begin(part_);
  const Index end = partition_->end(part_);
  drawn_.resize(static_cast<std::size_t>(last - first));
  order.look_up(first, drawn_);
  batch_.walks = order.walks() * static_cast<double>(drawn_.size());
  batch_.times.resize(drawn_.size());
  batch_.rows.resize(drawn_.size());
  // Whether a pair is held here is unpredictable. Write each one without a branch; the next overwrites it if
  // it is not held.
  std::size_t held = 0;
  for (const Index element : drawn_) {
    const Index step = element / n;
    const Index position = partition_->position(GlobalRow{element - step * n}).value;
    batch_.times[held] = steps[static_cast<std::size_t>(step)];
    batch_.rows[held] = position - begin;
    held += position >= begin && position < end ? 1 : 0;
  }
  batch_.times.resize(held);
  batch_.rows.resize(held);
}

}  // namespace rossby
