#pragma once

#include <span>
#include <string>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/data/calendar_phases.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/settings.hpp"
#include "rossby/data/split.hpp"
#include "rossby/data/step_store.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/steps.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// A window is the number of its first step: `inputs` steps that are known, then `outputs` steps to forecast.
/// A batch of windows is a list of such numbers; no window is ever stored. PGT-I ("index-batching", SC 2025).
struct WindowShape {
  Index inputs = 12;
  Index outputs = 12;
  [[nodiscard]] Index length() const { return inputs + outputs; }
};

/// Steps after which the time axis jumps: no window reaches across.
[[nodiscard]] std::vector<Index> time_breaks(const TimeAxis& axis);

/// First steps, `stride` apart, of the windows that lie in the training part with all their steps and cross
/// no break. Throws UserError where there is none.
[[nodiscard]] std::vector<Index> training_windows(const Split& split, const WindowShape& shape, Index stride,
                                                  std::span<const Index> breaks);

/// Those of `origins` (an origin is the last known step) that a model of `shape` can forecast `horizons`
/// steps from: their inputs lie in the series, and no break among inputs and targets.
[[nodiscard]] std::vector<Index> window_origins(std::span<const Index> origins, const WindowShape& shape,
                                                Index horizons, std::span<const Index> breaks);

/// Which time features are read: keys window.time_of_day to window.holidays.
struct TimeFeatureChoice {
  bool time_of_day = false;
  bool day_of_week = false;
  bool day_of_year = false;
  std::vector<std::string> holidays = {};  // dates of days
};

[[nodiscard]] inline TimeFeatureChoice time_feature_choice(const WindowSettings& window) {
  return {window.time_of_day, window.day_of_week, window.day_of_year, window.holidays};
}

/// Numbers of a time step that every node sees: vectors of length T, broadcast where windows are read.
struct TimeFeatures {
  Index channels = 0;
  std::vector<float> values;  // (T, channels)

  /// Of every step, in this order: the fraction of the day in [0, 1); the day of the week, Monday 0, over 7;
  /// sine and cosine of 2π times the fraction of the year; 1 on a holiday, else 0. A step longer than a day
  /// is a holiday if one begins in it. Throws UserError naming the key where the axis has no dates, or a
  /// holiday is no day of its calendar, or, if `wants_holidays`, none of them is in the series.
  static TimeFeatures of(const TimeAxis& axis, const TimeFeatureChoice& choice, bool wants_holidays = true);
};

/// What a missing input is read as.
enum class Fill {
  mean,  // the center: 0 as the model sees it
  zero   // 0 in original units, as published codes have it
};

/// What a model reads beside the features that it forecasts.
struct FurtherInputs {
  /// Of the values that lie behind the features in a store: (rows, past) ones, of which a model sees those of
  /// its input steps alone, then (rows, known) ones, which are known ahead. Null: there are none.
  const Scaler* past = nullptr;
  const Scaler* known = nullptr;
  /// Whether the time features of the steps that are forecast are read, too.
  bool times_ahead = false;
  Index fixed_channels = 0;
  std::span<const float> fixed = {};  // (rows, fixed_channels): the same at every step, scaled
  /// Rows of calendar tables at all places of a store; null: there are none.
  const CalendarTables* calendar = nullptr;
};

/// Reads steps in original units, scaled on the way, as columns of node data. Const; refers to the store.
template <class T>
class SeriesReader {
 public:
  SeriesReader(const StepStore& store, const Scaler& scaler, const TimeFeatures& times, Fill fill,
               const FurtherInputs& further = {});

  [[nodiscard]] Index rows() const { return store_->rows(); }
  [[nodiscard]] Index features() const { return store_->features(); }
  /// Of an input step: features, time features, past inputs, known ones, fixed ones.
  [[nodiscard]] Index channels() const {
    return features() + times_->channels + past_.features + known_.features + further_.fixed_channels;
  }
  /// Of a step that is forecast: known inputs, then time features if these are read ahead.
  [[nodiscard]] Index known_channels() const {
    return known_.features + (further_.times_ahead ? times_->channels : 0);
  }

  /// out[i, b] = the scaled values of step steps[b] at row i, then, if out has room for them, its further
  /// channels. out (rows, B, features or channels). The steps must be in the store.
  void read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const;
  /// What is known ahead of these steps: out (rows, B, known_channels).
  void read_known(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const;
  /// out[i, b, f] = the value in original units, NaN where missing. out (rows, B, features).
  void read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const;
  /// The same, scaled.
  void read_scaled_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const;

  /// The row of a calendar table that a step of the store reads.
  [[nodiscard]] Index phase(CalendarTable table, Index step) const {
    require(further_.calendar, "windows with calendar tables");
    const CalendarPhases& phases = (*further_.calendar)[static_cast<std::size_t>(table)];
    require(step >= 0 && step < std::ssize(phases.of_step), "a phase of every step that is read");
    return phases.of_step[static_cast<std::size_t>(step)];
  }

  /// original = scale·scaled + shift, (rows, features) each.
  [[nodiscard]] const T* scale() const { return scale_.data(); }
  [[nodiscard]] const T* shift() const { return target_.shift.data(); }

  /// Copies of the scales on a device.
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const;

 private:
  /// Values of a step that are scaled together, `first` values behind its beginning.
  template <class Value>
  struct PartOf {
    Index first = 0, features = 0;
    std::vector<Value> shift, inverse, fill;  // (rows, features)
    [[nodiscard]] StepScale<Value> scale() const { return {features, shift, inverse, fill}; }
  };
  using Part = PartOf<T>;
  [[nodiscard]] Part part_of(const Scaler& scaler, Index first, Fill fill) const;
  [[nodiscard]] std::span<const float* const> find(const Exec& exec, std::span<const Index> steps,
                                                   Index first = 0) const;
  [[nodiscard]] std::span<const float> times_of(std::span<const Index> steps, bool wanted) const;

  const StepStore* store_;
  const TimeFeatures* times_;
  FurtherInputs further_;
  Part target_, past_, known_;
  PartOf<float> truth_;   // as target_, but missing values stay missing
  Part fixed_;            // scale 1: they are scaled
  std::vector<T> scale_;  // (rows, features)
  // Of the read under way:
  mutable std::vector<const float*> pointers_;
  mutable std::vector<float> extra_;
};

/// Which windows a group of a process grid takes.
enum class WindowSampling {
  local,   // its own contiguous share of the windows, shuffled: nothing moves
  global,  // any window: its part of batches of all windows, whose steps come from their groups
  blocked  // contiguous blocks of windows that are dealt out to the groups anew each epoch
};

struct WindowOptions {
  WindowShape shape;
  Index batch = 64;  // windows of all groups together
  std::uint64_t seed = 1;
  WindowSampling sampling = WindowSampling::local;
  int groups = 1;
  Index lanes = 1;  // blocked: queues of windows that a batch is made of in equal parts; a multiple of groups
  Index blocks = 8;         // blocked: blocks a lane
  Index micro_batches = 1;  // of a batch; each has its share of the windows of every group
};

/// This group's windows of one optimiser step.
struct WindowBatch {
  std::vector<Index> starts;  // micro-batch by micro-batch
  std::vector<Index> ends;    // of the micro-batches in it; some may be empty
  std::vector<Index> of_all;  // windows of the micro-batches, all groups together
  double observed = 0;        // targets of the batches of all groups that are not missing, of all nodes
};

/// The batches of every epoch, as functions of seed, epoch and the number of a window: every rank can name
/// those of every group. With global and blocked sampling the windows of a step, all groups together, do not
/// depend on the number of groups. Orders are fresh each epoch; the last batches may be smaller.
class WindowPlan {
 public:
  /// `windows` are all training windows of a series of `steps` steps. Throws UserError naming the key where
  /// batch, lanes and groups do not go together.
  WindowPlan(const WindowOptions& options, std::vector<Index> windows, Index steps);
  /// The number of values that are not missing at every step, of all nodes.
  void set_observed(std::vector<double> observed) { observed_ = std::move(observed); }

  /// Of the epoch that was started, and of any: with blocked sampling they differ by a few.
  [[nodiscard]] Index batches() const { return batches_; }
  [[nodiscard]] Index batches_in(Index epoch) const;
  [[nodiscard]] const WindowOptions& options() const { return options_; }
  void start_epoch(Index epoch);

  /// The first of each run of batches that have as many windows of every group as the one before.
  [[nodiscard]] std::vector<Index> runs() const;

  /// Windows of every group in every micro-batch of batch `index`: all that its calls depend on.
  [[nodiscard]] std::vector<Index> sizes(Index index) const;
  /// This epoch's windows of a group in batch `index`, micro-batch by micro-batch.
  void starts_of(Index index, int group, std::vector<Index>& starts) const;
  /// Batch `index` of `group`.
  void batch(Index index, int group, WindowBatch& batch) const;
  /// Targets of the windows that begin at these steps that are not missing, of all nodes.
  [[nodiscard]] double observed(std::span<const Index> starts) const;

  /// All steps of the windows that each group takes in the epoch that was started, or, with global sampling,
  /// of its contiguous share; before any epoch the same for contiguous shares.
  [[nodiscard]] StepLists steps_of_groups() const;
  /// All steps of some windows, ascending, without duplicates.
  [[nodiscard]] std::vector<Index> steps_of(std::span<const Index> starts) const;

 private:
  /// Windows that some group takes one after the other, q a batch.
  struct Lane {
    std::vector<Index> windows;
    Permutation order;
  };
  [[nodiscard]] std::vector<Index> share(Index part, Index parts) const;
  [[nodiscard]] std::vector<Index> lane_windows(Index epoch, Index lane) const;
  void add_micro_batch(Index index, int group, Index micro_batch, std::vector<Index>& starts) const;

  WindowOptions options_;
  std::vector<Index> windows_;
  std::vector<double> observed_;
  std::vector<Lane> lanes_;  // of all groups
  Index lanes_a_group_ = 1;
  Index batches_ = 0;
};

}  // namespace rossby
