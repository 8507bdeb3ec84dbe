#pragma once

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rossby/data/windows.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/model/window_model.hpp"
#include "rossby/train/metrics.hpp"
#include "rossby/train/trainer.hpp"

namespace rossby {

/// Windows of a series as a model sees them.
template <class T>
class SeriesWindows final : public WindowSource<T> {
 public:
  /// `levels`: number of quantiles that a model puts out.
  SeriesWindows(const SeriesReader<T>& reader, const WindowShape& shape, Index levels = 1)
      : reader_(&reader), shape_(shape), levels_(levels) {}

  /// Selects the windows that begin at these steps. `feeds` has a flag per output step; if empty, truth is
  /// never fed. `step` counts optimiser steps.
  void set(std::span<const Index> starts, std::vector<bool> feeds, Index step = 0);

  [[nodiscard]] Index rows() const override { return reader_->rows(); }
  [[nodiscard]] Index windows() const override { return static_cast<Index>(starts_.size()); }
  [[nodiscard]] Index channels() const override { return reader_->channels(); }
  [[nodiscard]] Index features() const override { return reader_->features() * levels_; }
  [[nodiscard]] Var<T> input(Tape<T>& tape, Index t) const override;
  [[nodiscard]] Index known_channels() const override { return reader_->known_channels(); }
  [[nodiscard]] Var<T> known(Tape<T>& tape, Index h) const override;
  [[nodiscard]] bool feeds_truth(Index h) const override {
    return !feeds_.empty() && feeds_[static_cast<std::size_t>(h)];
  }
  [[nodiscard]] Var<T> truth(Tape<T>& tape, Index h) const override;
  [[nodiscard]] std::span<const Index> phases(Tape<T>& tape, CalendarTable table, Index t) const override;
  [[nodiscard]] Index step() const override { return step_; }
  [[nodiscard]] Index key(Index b) const override { return starts_[static_cast<std::size_t>(b)]; }
  /// Scaled base forecasts of output step h, to which a model's outputs are added: (rows, B, features of one
  /// level), a constant.
  [[nodiscard]] Var<T> base(Tape<T>& tape, Index h) const;
  /// Output step h, less its base forecast if there is one, in original units or scaled; NaN if missing.
  [[nodiscard]] NodeView<const float> target(Tape<T>& tape, Index h, bool scaled = false) const;

 private:
  [[nodiscard]] std::span<const Index> steps(Tape<T>& tape, Index offset) const;

  const SeriesReader<T>* reader_;
  WindowShape shape_;
  Index levels_;
  std::vector<Index> starts_;
  std::vector<bool> feeds_;
  Index step_ = 0;
};

struct WindowTaskOptions {
  double sampling_decay = 0;  // τ of scheduled sampling; 0: truth is never fed
  Index score_batch = 64;     // windows that are forecast together, at most
  std::uint64_t seed = 1;
  // For validation of a group's windows, which its stages share.
  int stage = 0, stages = 1;
  /// Meaning of the values in the store: anomalies of this map; null if they are plain values.
  const AnomalyMap* anomalies = nullptr;
  Index view = 0;  // the store holds step t; windows of forecasts read it as step t + view
  MaskedError loss = MaskedError::absolute;
  std::string loss_name = "mae";   // name in metrics
  bool scaled_loss = false;        // loss of scaled values; false: in original units
  double gradient_factor = 1;      // gradients are those of the loss times this
  std::string validation = "mae";  // mae, rmse or loss: what validate() returns
  /// Quantiles that the model puts out at once, ascending, each trained on the pinball loss; empty for one
  /// output.
  std::vector<double> quantiles = {};
  Index middle = 0;  // index of the point forecast in `quantiles`

  [[nodiscard]] Index levels() const { return std::max<Index>(1, std::ssize(quantiles)); }
  [[nodiscard]] MaskedError loss_of(Index level) const {
    if (quantiles.empty()) return loss;
    return {MaskedError::pinball, quantiles[static_cast<std::size_t>(level)]};
  }
};

/// Returns the factor of gradients if one unit of the model's output is `unit` units of the loss: 1 for
/// ordinary units. In others, such as kg m-2 s-1 of rain, optimiser.epsilon and optimiser.decay would exceed
/// the gradients, or their squares would exceed floats. A power of two: it changes no digit of a gradient.
[[nodiscard]] double gradient_factor(const MaskedError& loss, double unit);

/// Returns the probability that truth is fed in optimiser step `step`: τ / (τ + exp(step / τ)), inverse
/// sigmoid decay (Bengio et al., NeurIPS 2015), as in the DCRNN code. Returns 0 if τ is 0.
[[nodiscard]] double truth_probability(double decay, Index step);

/// Trains a window model. The loss is the mean of WindowTaskOptions::loss over the observed targets of the
/// batch, in original units (of anomalies, if the series holds anomalies) or of scaled values. With
/// quantiles, the mean is also over quantiles. If the reader has base forecasts, forecasts are these plus the
/// model's outputs.
template <class T>
class WindowTask final : public Task<T> {
 public:
  /// `validation_origins` (last known steps) of every group; the group holds the steps of their windows in
  /// every epoch. `reducer` sums over all ranks.
  WindowTask(const WindowTaskOptions& options, WindowPlan plan, WindowModel<T>& model,
             const SeriesReader<T>& reader, StepStore& store,
             std::vector<std::vector<Index>> validation_origins, Reducer& reducer);

  [[nodiscard]] std::span<Parameter<T>* const> parameters() override { return model_->parameters(); }
  [[nodiscard]] Index batches() const override { return plan_.batches(); }
  [[nodiscard]] Index batches_in(Index epoch) const override { return plan_.batches_in(epoch); }
  /// Batches that receive steps from other groups receive different numbers of them. In a short epoch each
  /// batch is therefore a run.
  [[nodiscard]] std::vector<Index> runs() const override;
  void start_epoch(Index epoch) override;
  /// Its micro-batches; with a pipeline, 1, because all are under way at once.
  [[nodiscard]] Index parts() const override {
    return model_->pipeline().on() ? 1 : plan_.options().micro_batches;
  }
  [[nodiscard]] std::vector<Index> sizes(Index index) const override { return plan_.sizes(index); }
  void bring(Index index) override;
  /// Returns for every output step whether truth is fed after it.
  [[nodiscard]] std::vector<bool> drawn(Index step) const override;
  void fix_drawn(std::vector<bool> drawn) override { fixed_ = std::move(drawn); }
  void record(Tape<T>& tape, Index index, Index step, Losses& losses) override;
  void record_part(Tape<T>& tape, Index part) override { record_micro_batches(tape, part, part + 1); }
  [[nodiscard]] double weight() const override { return weight_; }
  [[nodiscard]] double node_steps() const override { return weight_; }
  /// Returns the mean over horizons of the MAE or RMSE in original units, or the mean loss; NaN if no window
  /// fits in the validation part.
  [[nodiscard]] double validate(Tape<T>& tape) override;
  void trace_validation(Tape<T>& tape, const typename Task<T>::Made& made) override;
  void rehearse_validation(Tape<T>& tape) override;
  [[nodiscard]] std::string_view validation_name() const override { return options_.validation; }
  [[nodiscard]] typename Task<T>::Share share(Index index, int group) const override;
  void record_share_of(int group) override {
    if (share_of_ != group) sent_ = -1;
    share_of_ = group;
  }
  [[nodiscard]] std::string_view loss_name() const override { return options_.loss_name; }

  /// Forecasts from origins (last known steps), with `horizons` at most the model's outputs, in the units of
  /// the store. Ops run where the tape's do; forecasts are passed on in host memory. Collective over the
  /// group.
  using Visit = std::function<void(Index first, Index horizon, NodeView<const T> predictions)>;
  void forecast(Tape<T>& tape, std::span<const Index> origins, Index horizons, const Visit& visit);
  /// As Visit, for all levels one after the other, sorted so that quantiles do not cross.
  using LevelVisit =
      std::function<void(Index first, Index horizon, Index level, NodeView<const T> predictions)>;
  void forecast_levels(Tape<T>& tape, std::span<const Index> origins, Index horizons,
                       const LevelVisit& visit);
  /// Adds errors of forecasts, as forecaster 0. `units` gives the units of a horizon's errors; null means
  /// those of medians of anomalies. Collective over the group.
  void add_errors(Tape<T>& tape, HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                  const std::function<ScoredUnits(Index)>& units = {});

 private:
  [[nodiscard]] double validation_loss(Tape<T>& tape);

  WindowTaskOptions options_;
  WindowPlan plan_;
  WindowModel<T>* model_;
  const SeriesReader<T>* reader_;
  StepStore* store_;
  std::vector<Index> validation_origins_;
  StepLists validation_steps_;  // of every group
  Reducer* reducer_;
  SeriesWindows<T> source_;
  std::vector<Var<T>> outputs_;  // of forecasts (horizons, levels)
  /// Forecasts on their way from a device: those of one batch, while the next batch is computed.
  struct Arriving {
    Arriving(Device& from, Index size)
        : device(&from), values(Buffer<T>::pinned(size, from)), arrived(from.driver().make_event()) {}
    ~Arriving() { device->driver().drop_event(arrived); }
    Arriving(const Arriving&) = delete;
    Arriving& operator=(const Arriving&) = delete;

    Device* device;
    Buffer<T> values;  // (horizons, levels, room, features), pinned
    void* arrived;
    Index first = 0, windows = 0;  // 0: nothing under way
  };
  std::unique_ptr<Arriving> arriving_[2];
  std::vector<SeriesWindows<T>> micro_batches_;
  std::vector<const WindowSource<T>*> sources_;  // sources computed together
  void fetch(Index index);
  void send(Index index);
  [[nodiscard]] std::vector<Index> forecast_starts(std::span<const Index> origins, Index first) const;
  void predict(Tape<T>& tape, const std::vector<Index>& starts, Index horizons);
  void forecast_there(Tape<T>& tape, std::span<const Index> origins, Index horizons, const LevelVisit& visit);
  void show(Index first, Index horizon, std::span<const NodeView<T>> levels, const LevelVisit& visit) const;
  void record_micro_batches(Tape<T>& tape, Index first, Index end);
  /// True if a window may have steps of any group.
  [[nodiscard]] bool fetches() const {
    return plan_.options().sampling == WindowSampling::global && plan_.options().groups > 1;
  }

  /// Group whose windows are trained on.
  [[nodiscard]] int group() const { return share_of_.value_or(store_->group()); }

  std::optional<std::vector<bool>> fixed_;
  std::optional<int> share_of_;
  WindowBatch batch_;
  StepLists wanted_;
  std::vector<Index> starts_;
  std::vector<Index> targets_;
  Index fetching_ = -1;  // batch whose steps are on their way
  Index sent_ = -1;      // batch whose steps are on their way to a device
  double weight_ = 0;
  double* sum_ = nullptr;  // of the last recorded batch
  double scale_ = 0;
};

}  // namespace rossby
