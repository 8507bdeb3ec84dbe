#include "rossby/data/batches.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"

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

}  // namespace

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
  is_pair_.assign(static_cast<std::size_t>(series.steps), false);
  for (const Index t : training_pairs_) is_pair_[static_cast<std::size_t>(t)] = true;
  observed_.assign(static_cast<std::size_t>(series.steps), 0.0);
  for (const Index t : training_steps_)
    for (Index i = 0; i < series.rows; ++i)
      observed_[static_cast<std::size_t>(t)] += observed_at(series, t, i);
  reducer.sum(observed_);
  double total = 0;
  for (const double count : observed_) total += count;
  complete_ = total == static_cast<double>(static_cast<Index>(training_steps_.size()) * partition.rows() *
                                           series.features);

  const auto steps = static_cast<Index>(training_steps_.size());
  per_batch_ = options.pairs            ? options.pairs_per_batch
               : options.slab_steps > 0 ? options.slab_steps
                                        : std::max<Index>(steps, 1);
  decoder_batches_ = ceil_div(elements(Pass::decoder), per_batch_);
  dynamics_batches_ = options.joint ? 0 : ceil_div(elements(Pass::dynamics), per_batch_);
}

Index BatchPlan::elements(Pass pass) const {
  const auto steps = static_cast<Index>((pass == Pass::dynamics ? training_pairs_ : training_steps_).size());
  return options_.pairs ? steps * partition_->rows() : steps;
}

void BatchPlan::start_epoch(Index epoch) {
  const Random random = Random(options_.seed, "batch order").at(static_cast<std::uint64_t>(epoch));
  orders_.clear();
  orders_.emplace_back(random.at(0), elements(Pass::decoder));
  orders_.emplace_back(random.at(1), elements(Pass::dynamics));
  if (!options_.pairs || complete_) return;
  batch_observed_.assign(static_cast<std::size_t>(decoder_batches_), 0.0);
  for (Index b = 0; b < decoder_batches_; ++b) {
    fill_pairs(Pass::decoder, b * per_batch_, std::min((b + 1) * per_batch_, elements(Pass::decoder)));
    for (std::size_t q = 0; q < batch_.times.size(); ++q)
      batch_observed_[static_cast<std::size_t>(b)] += observed_at(*series_, batch_.times[q], batch_.rows[q]);
  }
  reducer_->sum(batch_observed_);
}

const Batch& BatchPlan::batch(Index index) {
  require(index >= 0 && index < batches() && !orders_.empty(), "batch outside the epoch");
  const bool decoder = index < decoder_batches_;
  const Pass pass = options_.joint ? Pass::joint : decoder ? Pass::decoder : Pass::dynamics;
  const Index first = (decoder ? index : index - decoder_batches_) * per_batch_;
  const Index last = std::min(first + per_batch_, elements(pass));
  batch_.pass = pass;
  batch_.pairs = options_.pairs;
  if (!options_.pairs) {
    fill_slab(pass, first, last);
    return batch_;
  }
  fill_pairs(pass, first, last);
  batch_.targets = static_cast<double>(last - first);
  batch_.observed = complete_ || !decoder ? static_cast<double>((last - first) * series_->features)
                                          : batch_observed_[static_cast<std::size_t>(index)];
  return batch_;
}

void BatchPlan::fill_slab(Pass pass, Index first, Index last) {
  const auto& steps = pass == Pass::dynamics ? training_pairs_ : training_steps_;
  const Permutation& order = orders_[pass == Pass::dynamics ? 1 : 0];
  batch_.times.clear();
  batch_.rows.clear();
  batch_.predicted_times.clear();
  batch_.observed = batch_.targets = 0;
  for (Index q = first; q < last; ++q) batch_.times.push_back(steps[static_cast<std::size_t>(order(q))]);
  // Ascending steps read memory in order; which steps make the batch is what matters.
  std::sort(batch_.times.begin(), batch_.times.end());
  for (const Index t : batch_.times) {
    batch_.observed += observed_[static_cast<std::size_t>(t)];
    if (!is_pair_[static_cast<std::size_t>(t)]) continue;
    batch_.predicted_times.push_back(t);
    batch_.targets += static_cast<double>(partition_->rows());
  }
}

void BatchPlan::fill_pairs(Pass pass, Index first, Index last) {
  const auto& steps = pass == Pass::dynamics ? training_pairs_ : training_steps_;
  const Permutation& order = orders_[pass == Pass::dynamics ? 1 : 0];
  const Index n = partition_->rows();
  const Index begin = partition_->begin(part_);
  const Index end = partition_->end(part_);
  batch_.times.clear();
  batch_.rows.clear();
  for (Index q = first; q < last; ++q) {
    const Index element = order(q);
    const Index position = partition_->position(GlobalRow{element % n}).value;
    if (position < begin || position >= end) continue;
    batch_.times.push_back(steps[static_cast<std::size_t>(element / n)]);
    batch_.rows.push_back(position - begin);
  }
}

}  // namespace rossby
