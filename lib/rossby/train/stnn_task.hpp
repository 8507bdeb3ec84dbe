#pragma once

#include <memory>

#include "rossby/data/batches.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/data/split.hpp"
#include "rossby/model/stnn/forecaster.hpp"
#include "rossby/model/stnn/stnn.hpp"
#include "rossby/train/metrics.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

struct StnnTaskOptions {
  Index horizons = 5;    // of validation forecasts from origins
  bool rollout = false;  // validate by one forecast over the whole validation part instead
  double filter_lambda = 0;
  bool validates = true;  // false: another time group has the latents and steps that validation starts from
  const AnomalyMap* anomalies = nullptr;  // what the series is of; null: of values as they are
};

/// One forecast over a whole part: from its last known step, as many horizons as the part has steps.
struct Rollout {
  std::vector<Index> origins;
  Index horizons = 0;
};
[[nodiscard]] Rollout rollout_over(const StepRange& part);

/// An STNN for the training loop.
template <class T>
class StnnTask final : public Task<T> {
 public:
  /// `series` is scaled; `scaler` brings validation errors back to original units. Comes before the
  /// optimiser: with slabs it marks the model's factors as read by rows, so that gradients exist for the
  /// steps of a slab alone.
  StnnTask(const StnnTaskOptions& options, const BatchOptions& batches, Stnn<T>& model, const Series& series,
           const Scaler& scaler, const Split& split, const RowPartition& partition, int part,
           Reducer& reducer);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() override { return model_->parameters(); }
  [[nodiscard]] Index batches() const override { return plan_.batches(); }
  void start_epoch(Index epoch) override { plan_.start_epoch(epoch); }
  [[nodiscard]] std::vector<Index> kinds() const override { return plan_.kinds(); }
  void record(Tape<T>& tape, Index index, Index step, Losses& losses) override;
  [[nodiscard]] double weight() const override { return weight_; }
  [[nodiscard]] double node_steps() const override { return node_steps_; }
  /// Mean over horizons of the RMSE in original units; NaN where the validation part is shorter than the
  /// horizons.
  [[nodiscard]] double validate(Tape<T>& tape) override;
  void trace_validation(Tape<T>& tape, const typename Task<T>::Made& made) override;
  void rehearse_validation(Tape<T>& tape) override;

  /// Scores of the model from the given origins: HorizonScores with the one forecaster "model". Collective.
  [[nodiscard]] HorizonScores score(Tape<T>& tape, std::span<const Index> origins, Index horizons);

 private:
  StnnTaskOptions options_;
  Stnn<T>* model_;
  const Series* series_;
  const Scaler* scaler_;
  const Split* split_;
  Reducer* reducer_;
  void add_errors(Tape<T>& tape, HorizonErrors& errors, std::span<const Index> origins, Index horizons);
  [[nodiscard]] Forecaster<T> forecaster(Tape<T>& tape) const;
  /// What validation forecasts; nothing where its part is too short.
  [[nodiscard]] Rollout validation() const;

  BatchOptions batches_;
  BatchPlan plan_;
  Index nodes_;
  double weight_ = 0;
  double node_steps_ = 0;
  // Of the host, which would make new memory zero for each validation; a device needs it for its steps.
  std::optional<Forecaster<T>> kept_;
  const Tape<T>* kept_tape_ = nullptr;
};

/// Origins whose forecasts are made at once: on a device no more than a training's step has columns, whose
/// memory they take.
[[nodiscard]] Index origins_at_once(const Exec& exec, const BatchOptions& batches);

/// Which steps' latents training learns.
[[nodiscard]] std::vector<bool> learned_steps(const Split& split);

}  // namespace rossby
