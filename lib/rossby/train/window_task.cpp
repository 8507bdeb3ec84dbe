#include "rossby/train/window_task.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "rossby/autograd/block.hpp"
#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/recurrent.hpp"

namespace rossby {

double gradient_factor(const MaskedError& loss, double unit) {
  constexpr double low = 1e-3, high = 1e9;
  const double error = loss.kind == MaskedError::squared ? unit
                       : loss.kind == MaskedError::huber ? std::min(unit, loss.at)
                                                         : 1;
  const double size = unit * error;
  if (!(size > 0) || !std::isfinite(size) || (size >= low && size <= high)) return 1;
  return std::exp2(-std::ilogb(size));
}

double truth_probability(double decay, Index step) {
  if (decay <= 0) return 0;
  return decay / (decay + std::exp(static_cast<double>(step) / decay));
}

namespace {

/// Returns the channels of one level of an output.
template <class T>
Var<T> level_of(const Var<T>& output, Index level, Index features) {
  return output.channels() == features ? output : slice_channels(output, level * features, features);
}

/// Returns this stage's share of the origins.
std::vector<Index> part_of(const std::vector<Index>& origins, const WindowTaskOptions& options) {
  const Index size = std::ssize(origins);
  return {origins.begin() + size * options.stage / options.stages,
          origins.begin() + size * (options.stage + 1) / options.stages};
}

}  // namespace

template <class T>
WindowTask<T>::WindowTask(const WindowTaskOptions& options, WindowPlan plan, WindowModel<T>& model,
                          const SeriesReader<T>& reader, StepStore& store,
                          std::vector<std::vector<Index>> validation_origins, Reducer& reducer)
    : options_(options),
      plan_(std::move(plan)),
      model_(&model),
      reader_(&reader),
      store_(&store),
      validation_origins_(part_of(validation_origins[static_cast<std::size_t>(store.group())], options)),
      reducer_(&reducer),
      source_(reader, plan_.options().shape, options.levels()),
      micro_batches_(static_cast<std::size_t>(plan_.options().micro_batches), source_) {
  const WindowShape& shape = plan_.options().shape;
  for (std::vector<Index>& origins : validation_origins) {
    for (Index& origin : origins) origin += 1 - shape.inputs + options_.view;
    validation_steps_.push_back(plan_.steps_of(origins));
  }
}

template <class T>
void WindowTask<T>::start_epoch(Index epoch) {
  plan_.start_epoch(epoch);
  if (store_->on_the_way()) store_->arrive();  // of an unfinished epoch
  fetching_ = sent_ = -1;
  if (plan_.options().sampling != WindowSampling::blocked || plan_.options().groups == 1) return;
  StepLists held = plan_.steps_of_groups();
  for (std::size_t g = 0; g < held.size(); ++g) {
    std::vector<Index> all;
    std::set_union(held[g].begin(), held[g].end(), validation_steps_[g].begin(), validation_steps_[g].end(),
                   std::back_inserter(all));
    held[g] = std::move(all);
  }
  store_->rearrange(std::move(held));
}

template <class T>
std::vector<Index> WindowTask<T>::runs() const {
  constexpr Index few = 64;
  if (!fetches() || plan_.batches() > few) return plan_.runs();
  std::vector<Index> all(static_cast<std::size_t>(plan_.batches()));
  std::iota(all.begin(), all.end(), Index{0});
  return all;
}

/// Starts to bring the steps of a batch to the groups that take its windows.
template <class T>
void WindowTask<T>::fetch(Index index) {
  wanted_.resize(static_cast<std::size_t>(plan_.options().groups));
  for (std::size_t g = 0; g < wanted_.size(); ++g) {
    plan_.starts_of(index, static_cast<int>(g), starts_);
    wanted_[g] = plan_.steps_of(starts_);
  }
  store_->prefetch(wanted_);
  fetching_ = index;
}

/// Starts to copy the steps of a batch to the device, once they are on this rank.
template <class T>
void WindowTask<T>::send(Index index) {
  plan_.starts_of(index, group(), starts_);
  store_->send(plan_.steps_of(starts_));
  sent_ = index;
}

template <class T>
void WindowTask<T>::bring(Index index) {
  if (!fetches()) return;
  if (store_->on_the_way()) store_->arrive();
  fetch(index);
  store_->arrive();
  fetching_ = -1;
}

template <class T>
typename Task<T>::Share WindowTask<T>::share(Index index, int group) const {
  std::vector<Index> starts;
  plan_.starts_of(index, group, starts);
  return {std::ssize(starts), plan_.observed(starts)};
}

template <class T>
std::vector<bool> WindowTask<T>::drawn(Index step) const {
  const double probability = truth_probability(options_.sampling_decay, step);
  const Random draw = Random(options_.seed, "scheduled sampling").at(static_cast<std::uint64_t>(step));
  std::vector<bool> feeds(static_cast<std::size_t>(plan_.options().shape.outputs));
  for (std::size_t h = 0; h < feeds.size(); ++h) feeds[h] = draw.uniform(h) < probability;
  return feeds;
}

template <class T>
void WindowTask<T>::record(Tape<T>& tape, Index index, Index step, Losses& losses) {
  if (fetches()) {
    if (fetching_ != index && store_->on_the_way()) store_->arrive();  // batches out of order
    if (fetching_ != index) fetch(index);
    store_->arrive();
    fetching_ = -1;
    if (index + 1 < plan_.batches()) fetch(index + 1);  // travels during this step
  }
  if (store_->carries()) {
    if (sent_ != index) send(index);
    store_->turn();
    sent_ = -1;
    if (!fetches() && index + 1 < plan_.batches()) send(index + 1);  // travels during this step
  }
  plan_.batch(index, group(), batch_);
  if (share_of_) batch_.observed = plan_.observed(batch_.starts);
  weight_ = batch_.observed;
  scale_ = share_of_ ? 1 : batch_.observed > 0 ? 1 / batch_.observed : 0;
  scale_ /= static_cast<double>(options_.levels());
  sum_ = losses.add(options_.loss_name, scale_);
  const std::vector<bool> feeds = fixed_ ? *fixed_ : drawn(step);
  for (std::size_t k = 0; k < micro_batches_.size(); ++k) {
    const auto first = static_cast<std::size_t>(k > 0 ? batch_.ends[k - 1] : 0);
    micro_batches_[k].set(
        std::span(batch_.starts).subspan(first, static_cast<std::size_t>(batch_.ends[k]) - first), feeds,
        step);
  }
  // Parameters that no loss depends on here, without windows or without the layer, have zero gradients.
  if (batch_.ends.front() == 0 || model_->pipeline().on())
    for (Parameter<T>* parameter : model_->parameters())
      if (parameter->trained) (void)parameter->gradient_target();
  record_micro_batches(tape, 0, parts() > 1 ? 1 : std::ssize(micro_batches_));
}

/// Computes the losses of some micro-batches together. Skips a micro-batch without windows in every group.
template <class T>
void WindowTask<T>::record_micro_batches(Tape<T>& tape, Index first, Index end) {
  const auto horizons = static_cast<std::size_t>(plan_.options().shape.outputs);
  sources_.clear();
  for (auto k = static_cast<std::size_t>(first); k < static_cast<std::size_t>(end); ++k)
    if (micro_batches_[k].windows() > 0 || (model_->meets_groups() && batch_.of_all[k] > 0))
      sources_.push_back(&micro_batches_[k]);
  if (sources_.empty()) return;
  outputs_.assign(sources_.size() * horizons, {});
  model_->predict(tape, sources_, outputs_);
  const Pipeline pipeline = model_->pipeline();
  if (!pipeline.does(pipeline.stages - 1)) return;
  const Block<T> block(tape, "loss");
  for (const Var<T>& output : outputs_) block.reads(output);
  const Index m = reader_->features();
  for (std::size_t k = 0; k < sources_.size(); ++k)
    for (std::size_t h = 0; h < horizons; ++h) {
      const NodeView<const float> target = static_cast<const SeriesWindows<T>*>(sources_[k])
                                               ->target(tape, static_cast<Index>(h), options_.scaled_loss);
      for (Index q = 0; q < options_.levels(); ++q) {
        const Var<T> output = level_of(outputs_[k * horizons + h], q, m);
        masked_error(tape, options_.loss_of(q),
                     options_.scaled_loss
                         ? output
                         : affine_rows(tape, output, reader_->scale(), reader_->target_shift()),
                     target, scale_ * options_.gradient_factor, sum_);
      }
    }
}

/// Returns the first steps of windows whose forecasts are made together, beginning with origin `first`.
template <class T>
std::vector<Index> WindowTask<T>::forecast_starts(std::span<const Index> origins, Index first) const {
  const Index end = std::min<Index>(std::ssize(origins), first + options_.score_batch);
  std::vector<Index> starts;
  for (Index q = first; q < end; ++q)
    starts.push_back(origins[static_cast<std::size_t>(q)] + 1 - plan_.options().shape.inputs + options_.view);
  return starts;
}

/// Fills outputs_ (horizons, levels), in the units of the store.
template <class T>
void WindowTask<T>::predict(Tape<T>& tape, const std::vector<Index>& starts, Index horizons) {
  source_.set(starts, {});
  tape.reset();
  outputs_.assign(static_cast<std::size_t>(horizons), {});
  model_->predict(tape, source_, std::span<Var<T>>(outputs_));
  const std::vector<Var<T>> of_horizons = std::move(outputs_);
  outputs_.clear();
  for (Index h = 0; h < horizons; ++h) {
    const Var<T> base = reader_->corrects() ? source_.base(tape, h) : Var<T>();
    for (Index q = 0; q < options_.levels(); ++q) {
      const Var<T> output = level_of(of_horizons[static_cast<std::size_t>(h)], q, reader_->features());
      outputs_.push_back(affine_rows(tape, reader_->corrects() ? add(tape, output, base) : output,
                                     reader_->scale(), reader_->shift()));
    }
  }
}

/// Returns values on the host, (levels).
template <class T>
void WindowTask<T>::show(Index first, Index horizon, std::span<const NodeView<T>> levels,
                         const LevelVisit& visit) const {
  const Index size = levels.front().size();
  std::vector<T> at(levels.size());
  for (Index k = 0; k < size && levels.size() > 1; ++k) {
    for (std::size_t q = 0; q < at.size(); ++q) at[q] = levels[q].data[k];
    // NaN cannot be sorted: the outputs of a diverged model stay as they are.
    if (std::any_of(at.begin(), at.end(), [](T x) { return std::isnan(x); })) continue;
    std::sort(at.begin(), at.end());
    for (std::size_t q = 0; q < at.size(); ++q) levels[q].data[k] = at[q];
  }
  for (std::size_t q = 0; q < levels.size(); ++q) visit(first, horizon, static_cast<Index>(q), levels[q]);
}

template <class T>
void WindowTask<T>::forecast(Tape<T>& tape, std::span<const Index> origins, Index horizons,
                             const Visit& visit) {
  forecast_levels(tape, origins, horizons,
                  [&](Index first, Index horizon, Index level, NodeView<const T> predictions) {
                    if (level == options_.middle) visit(first, horizon, predictions);
                  });
}

template <class T>
void WindowTask<T>::forecast_levels(Tape<T>& tape, std::span<const Index> origins, Index horizons,
                                    const LevelVisit& visit) {
  require(horizons >= 1 && horizons <= plan_.options().shape.outputs,
          "horizons are those that the model puts out");
  const Unrecorded<T> unrecorded(tape);
  if (tape.exec().device) return forecast_there(tape, origins, horizons, visit);
  for (Index first = 0; first < std::ssize(origins); first += options_.score_batch) {
    predict(tape, forecast_starts(origins, first), horizons);
    std::vector<NodeView<T>> levels;
    for (Index h = 0; h < horizons; ++h) {
      levels.clear();
      for (Index q = 0; q < options_.levels(); ++q)
        levels.push_back(outputs_[static_cast<std::size_t>(h * options_.levels() + q)].value);
      show(first, h + 1, levels, visit);
    }
  }
}

/// The host reads the forecasts of a batch while the device computes the next batch.
template <class T>
void WindowTask<T>::forecast_there(Tape<T>& tape, std::span<const Index> origins, Index horizons,
                                   const LevelVisit& visit) {
  Device& device = *tape.exec().device;
  DeviceDriver& driver = device.driver();
  const Index rows = reader_->rows(), features = reader_->features(), count = std::ssize(origins);
  const Index size = rows * features * std::min(count, options_.score_batch), levels = options_.levels();
  for (auto& batch : arriving_) {
    if (!batch || batch->values.size() < size * horizons * levels)
      batch = std::make_unique<Arriving>(device, size * horizons * levels);
    batch->windows = 0;
  }
  const auto look_at = [&](Arriving& batch) {
    if (batch.windows == 0) return;
    driver.wait(batch.arrived);
    std::vector<NodeView<T>> views;
    for (Index h = 0; h < horizons; ++h) {
      views.clear();
      for (Index q = 0; q < levels; ++q)
        views.emplace_back(batch.values.data() + (h * levels + q) * size, rows, batch.windows, features);
      show(batch.first, h + 1, views, visit);
    }
    batch.windows = 0;
  };
  std::vector<Index> starts = forecast_starts(origins, 0);
  const auto send = [&](std::span<const Index> first_steps) {
    std::vector<Index> steps = plan_.steps_of(first_steps);
    std::erase_if(steps, [&](Index step) { return step >= store_->steps(); });  // after the data
    store_->send(steps);
  };
  if (store_->carries() && count > 0) send(starts);
  sent_ = -1;  // the device no longer holds a batch sent ahead
  int turn = 0;
  for (Index first = 0; first < count; first += options_.score_batch, turn = 1 - turn) {
    std::vector<Index> next = forecast_starts(origins, first + options_.score_batch);
    if (store_->carries()) {
      store_->turn();
      if (!next.empty()) send(next);
    }
    predict(tape, starts, horizons);
    Arriving& batch = *arriving_[turn];
    batch.first = first;
    batch.windows = std::ssize(starts);
    for (Index k = 0; k < horizons * levels; ++k) {
      const NodeView<T>& x = outputs_[static_cast<std::size_t>(k)].value;
      device.download({batch.values.data() + k * size, static_cast<std::size_t>(x.size())}, x.data);
    }
    driver.record(batch.arrived, DeviceDriver::Queue::compute);
    look_at(*arriving_[1 - turn]);
    starts = std::move(next);
  }
  look_at(*arriving_[1 - turn]);
}

template <class T>
void WindowTask<T>::add_errors(Tape<T>& tape, HorizonErrors& errors, std::span<const Index> origins,
                               Index horizons, const std::function<ScoredUnits(Index)>& in_units) {
  forecast(tape, origins, horizons, [&](Index first, Index horizon, NodeView<const T> x) {
    ScoredUnits units = in_units ? in_units(horizon) : ScoredUnits{.anomalies = options_.anomalies};
    targets_.clear();
    for (Index b = 0; b < x.cols; ++b)
      targets_.push_back(origins[static_cast<std::size_t>(first + b)] + horizon);
    units.steps = targets_;
    errors.add<T>(
        0, horizon, x,
        [&](Index b) { return store_->at(targets_[static_cast<std::size_t>(b)] + options_.view); }, units);
    note_scores(tape, x);
  });
}

template <class T>
void WindowTask<T>::trace_validation(Tape<T>& tape, const typename Task<T>::Made& made) {
  const Unrecorded<T> unrecorded(tape);
  const Index count = std::ssize(validation_origins_), whole = count / options_.score_batch;
  const auto batch = [&](Index first, Index times) {
    predict(tape, forecast_starts(validation_origins_, first), plan_.options().shape.outputs);
    for (std::size_t k = 0; k < outputs_.size(); k += static_cast<std::size_t>(options_.levels()))
      note_scores<T>(tape, outputs_[k].value);
    made(times);
  };
  if (whole > 0) batch(0, whole);
  if (const Index first = whole * options_.score_batch; first < count) batch(first, 1);
}

template <class T>
void WindowTask<T>::rehearse_validation(Tape<T>& tape) {
  const Index horizons = plan_.options().shape.outputs;
  const auto some = static_cast<std::size_t>(std::min(std::ssize(validation_origins_), options_.score_batch));
  HorizonErrors errors({"model"}, horizons, {}, tape.exec().threads);
  add_errors(tape, errors, std::span(validation_origins_).first(some), horizons);
}

template <class T>
double WindowTask<T>::validation_loss(Tape<T>& tape) {
  double sums[] = {0, 0};  // errors, observed targets
  forecast_levels(
      tape, validation_origins_, plan_.options().shape.outputs,
      [&](Index first, Index horizon, Index level, NodeView<const T> x) {
        const MaskedError loss = options_.loss_of(level);
        for (Index b = 0; b < x.cols; ++b) {
          const float* target =
              store_->at(validation_origins_[static_cast<std::size_t>(first + b)] + horizon + options_.view);
          for (Index i = 0; i < x.rows; ++i)
            for (Index f = 0; f < x.channels; ++f) {
              const double truth = target[i * x.channels + f];
              if (std::isnan(truth)) continue;
              const double error = static_cast<double>(x.at(i, b)[f]) - truth;
              const auto unit =
                  options_.scaled_loss ? static_cast<double>(reader_->scale()[i * x.channels + f]) : 1.0;
              sums[0] += loss.value(error / unit);
              sums[1] += 1;
            }
        }
        if (level == 0) note_scores(tape, x);
      });
  reducer_->ordered_sum(sums);
  return sums[1] > 0 ? sums[0] / sums[1] : std::numeric_limits<double>::quiet_NaN();
}

template <class T>
double WindowTask<T>::validate(Tape<T>& tape) {
  if (options_.validation == "loss") return validation_loss(tape);
  const Index horizons = plan_.options().shape.outputs;
  HorizonErrors errors({"model"}, horizons, {}, tape.exec().threads);
  add_errors(tape, errors, validation_origins_, horizons);
  const HorizonScores scores = errors.reduce(*reducer_);
  return options_.validation == "rmse" ? scores.mean_rmse(0) : scores.mean_mae(0);
}

template class WindowTask<float>;
template class WindowTask<double>;

}  // namespace rossby
