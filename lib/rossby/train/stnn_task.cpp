#include "rossby/train/stnn_task.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "rossby/base/error.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {
namespace {
constexpr Index few_columns = 8;  // cost little compared with batches of pairs
}  // namespace

Index origins_at_once(const Exec& exec, const BatchOptions& batches) {
  constexpr Index most = Forecaster<float>::most_together;
  if (!exec.device || exec.device->driver().stands_for_host()) return most;
  if (batches.pairs) return few_columns;
  return batches.slab_steps == 0 ? most : std::clamp<Index>(batches.slab_steps / batches.groups, 1, most);
}

Rollout rollout_over(const StepRange& part) {
  Rollout rollout;
  if (part.empty()) return rollout;
  rollout.origins = {std::max<Index>(part.first - 1, 0)};
  rollout.horizons = part.last - 1 - rollout.origins.front();
  return rollout;
}

std::vector<bool> learned_steps(const Split& split) {
  std::vector<bool> learned(static_cast<std::size_t>(split.steps));
  for (Index t = 0; t < split.steps; ++t) learned[static_cast<std::size_t>(t)] = split.is_training(t);
  return learned;
}

template <class T>
StnnTask<T>::StnnTask(const StnnTaskOptions& options, const BatchOptions& batches, Stnn<T>& model,
                      const Series& series, const Scaler& scaler, const Split& split,
                      const RowPartition& partition, int part, Reducer& reducer)
    : options_(options),
      model_(&model),
      series_(&series),
      scaler_(&scaler),
      split_(&split),
      reducer_(&reducer),
      batches_(batches),
      plan_(batches, series, split.training_steps(), split.training_pairs(), partition, part, reducer),
      nodes_(partition.rows()) {
  model.factors().by_rows = !batches.pairs;
}

template <class T>
void StnnTask<T>::record(Tape<T>& tape, Index index, Index step, Losses& losses) {
  const Batch& batch = plan_.batch(index);
  // Drawing the pairs of a batch and picking this rank's takes longer than the next op. Each rank draws all
  // pairs, with some 50 operations per pass.
  if (BlockTrace* trace = tape.trace(); trace && batch.pairs)
    trace->note("draw_pairs",
                {50 * batch.walks, sizeof(Index) * batch.targets +
                                       static_cast<double>(2 * sizeof(Index) * batch.times.size())});
  weight_ = batch.pass == Pass::decoder ? batch.observed : batch.targets;
  node_steps_ = batch.pairs ? batch.targets : static_cast<double>(batch.steps * nodes_);
  model_->losses(tape, batch, *series_, step, losses);
}

template <class T>
HorizonScores StnnTask<T>::score(Tape<T>& tape, std::span<const Index> origins, Index horizons) {
  HorizonErrors errors({"model"}, horizons, {}, tape.exec().threads);
  if (options_.validates) add_errors(tape, errors, origins, horizons);
  return errors.reduce(*reducer_);
}

template <class T>
Forecaster<T> StnnTask<T>::forecaster(Tape<T>& tape) const {
  return {tape,
          *model_,
          *series_,
          learned_steps(*split_),
          options_.filter_lambda,
          origins_at_once(tape.exec(), batches_)};
}

template <class T>
void StnnTask<T>::add_errors(Tape<T>& tape, HorizonErrors& errors, std::span<const Index> origins,
                             Index horizons) {
  const auto score = [&](Forecaster<T>& forecaster) {
    forecaster.run(origins, horizons, [&](Index first, Index horizon, NodeView<const T> predictions) {
      errors.add(0, horizon, predictions, *series_,
                 origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(predictions.cols)),
                 {.scaler = scaler_, .anomalies = options_.anomalies});
      note_scores(tape, predictions);
    });
  };
  if (tape.exec().device) {
    Forecaster<T> once = forecaster(tape);
    return score(once);
  }
  if (!kept_ || kept_tape_ != &tape) kept_.emplace(forecaster(tape));
  kept_tape_ = &tape;
  score(*kept_);
}

template <class T>
Rollout StnnTask<T>::validation() const {
  if (!options_.rollout) return {split_->origins(Role::validation, options_.horizons), options_.horizons};
  Rollout rollout = rollout_over(split_->validation);
  if (rollout.horizons < 1) rollout.origins.clear();
  return rollout;
}

template <class T>
double StnnTask<T>::validate(Tape<T>& tape) {
  const Rollout forecasts = validation();
  if (forecasts.origins.empty()) return std::numeric_limits<double>::quiet_NaN();
  return score(tape, forecasts.origins, forecasts.horizons).mean_rmse(0);
}

template <class T>
void StnnTask<T>::trace_validation(Tape<T>& tape, const typename Task<T>::Made& made) {
  const Rollout forecasts = validation();
  if (forecasts.origins.empty() || !options_.validates) return;
  const Index filtered = Forecaster<T>::filtered_steps(forecasts.origins, *model_, learned_steps(*split_));
  Forecaster<T>::trace(
      tape, *model_, series_->rows,
      {std::ssize(forecasts.origins), forecasts.horizons, filtered, origins_at_once(tape.exec(), batches_)},
      [&](Index times, NodeView<const T> predictions) {
        if (predictions.data) note_scores(tape, predictions);
        made(times);
      });
}

template <class T>
void StnnTask<T>::rehearse_validation(Tape<T>& tape) {
  constexpr Index most_horizons = 8;
  const Rollout forecasts = validation();
  const auto origins = std::span(forecasts.origins)
                           .first(static_cast<std::size_t>(std::min<Index>(
                               std::ssize(forecasts.origins), origins_at_once(tape.exec(), batches_))));
  if (!origins.empty()) (void)score(tape, origins, std::min(forecasts.horizons, most_horizons));
}

template class StnnTask<float>;
template class StnnTask<double>;

}  // namespace rossby
