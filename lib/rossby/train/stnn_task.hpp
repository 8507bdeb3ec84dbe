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
  const AnomalyMap* anomalies = nullptr;  // the series holds anomalies of these; null: plain values
};

/// One forecast over a whole part, from its last known step to its end.
struct Rollout {
  std::vector<Index> origins;
  Index horizons = 0;
};
[[nodiscard]] Rollout rollout_over(const StepRange& part);

/// Adapts an STNN to the training loop.
template <class T>
class StnnTask final : public Task<T> {
 public:
  /// `series` is scaled; `scaler` converts validation errors back to original units. Construct this object
  /// before the optimiser: with slabs, it marks the model's factors as read by rows, so that gradients exist
  /// only for the steps of a slab.
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
  /// Returns the mean over horizons of the RMSE in original units; NaN if the validation part is shorter than
  /// the horizons.
  [[nodiscard]] double validate(Tape<T>& tape) override;
  void trace_validation(Tape<T>& tape, const typename Task<T>::Made& made) override;
  void rehearse_validation(Tape<T>& tape) override;

  /// Returns scores of the model ("model" in HorizonScores) from the given origins. Collective.
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
  /// Returns the forecasts of a validation; empty if its part is too short.
  [[nodiscard]] Rollout validation() const;

  BatchOptions batches_;
  BatchPlan plan_;
  Index nodes_;
  double weight_ = 0;
  double node_steps_ = 0;
  // Kept on the host, where each validation would otherwise zero new memory. A device needs the memory for
  // steps.
  std::optional<Forecaster<T>> kept_;
  const Tape<T>* kept_tape_ = nullptr;
};

/// Returns the number of origins whose forecasts are made at once. On a device, they have no more columns
/// than a training step, whose memory they use.
[[nodiscard]] Index origins_at_once(const Exec& exec, const BatchOptions& batches);

/// Returns which steps' latents training learns.
[[nodiscard]] std::vector<bool> learned_steps(const Split& split);

}  // namespace rossby
