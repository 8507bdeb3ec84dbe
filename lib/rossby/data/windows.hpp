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

/// A window is the number of its first step: `inputs` known steps, then `outputs` steps to forecast. A batch
/// of windows is a list of such numbers; no window is ever stored. PGT-I ("index-batching", SC 2025).
struct WindowShape {
  Index inputs = 12;
  Index outputs = 12;
  [[nodiscard]] Index length() const { return inputs + outputs; }
};

/// Steps after which the time axis jumps: no window reaches across them.
[[nodiscard]] std::vector<Index> time_breaks(const TimeAxis& axis);

/// First steps, `stride` apart, of the windows whose steps all lie in the training part without a break.
/// Throws UserError if there are none.
[[nodiscard]] std::vector<Index> training_windows(const Split& split, const WindowShape& shape, Index stride,
                                                  std::span<const Index> breaks);

/// Returns the `origins` (an origin is the last known step) from which a model of `shape` can forecast
/// `horizons` steps: their inputs lie in the series, and no break lies among inputs and targets.
[[nodiscard]] std::vector<Index> window_origins(std::span<const Index> origins, const WindowShape& shape,
                                                Index horizons, std::span<const Index> breaks);

/// The time features to read: keys window.time_of_day to window.holidays.
struct TimeFeatureChoice {
  bool time_of_day = false;
  bool day_of_week = false;
  bool day_of_year = false;
  std::vector<std::string> holidays = {};  // dates of days
};

[[nodiscard]] inline TimeFeatureChoice time_feature_choice(const WindowSettings& window) {
  return {window.time_of_day, window.day_of_week, window.day_of_year, window.holidays};
}

/// Numbers of a time step that are the same for every node: vectors of length T, broadcast when windows are
/// read.
struct TimeFeatures {
  Index channels = 0;
  std::vector<float> values;  // (T, channels)

  /// Returns for every step, in this order: the fraction of the day in [0, 1); the day of the week, Monday 0,
  /// over 7; sine and cosine of 2π times the fraction of the year; 1 on a holiday, else 0. A step longer than
  /// a day is a holiday if one begins in it. Throws UserError with the key if the axis has no dates, if a
  /// holiday is no day of its calendar, or, if `wants_holidays`, if no holiday is in the series.
  static TimeFeatures of(const TimeAxis& axis, const TimeFeatureChoice& choice, bool wants_holidays = true);
};

/// The replacement for a missing input.
enum class Fill {
  mean,  // the centre: 0 after scaling
  zero   // 0 in original units, as in published codes
};

/// Inputs of a model besides the features that it forecasts.
struct FurtherInputs {
  /// Scalers of the values after the features in a store. First come (rows, past) values, of which a model
  /// sees only those of its input steps, then (rows, known) values, which are known ahead. Null: there are
  /// none.
  const Scaler* past = nullptr;
  const Scaler* known = nullptr;
  /// Whether time features of the forecast steps are read, too.
  bool times_ahead = false;
  Index fixed_channels = 0;
  std::span<const float> fixed = {};  // (rows, fixed_channels): the same at every step, scaled
  /// Rows of calendar tables at all places of a store; null: there are none.
  const CalendarTables* calendar = nullptr;
  /// Number of lead times of base forecasts, which a model corrects. A step has them after its inputs, (lead
  /// times, rows, features): from an origin of forecasts, the base forecasts; from an origin of a training
  /// window, the targets less the base forecasts, NaN if missing. 0: there is no base forecast.
  Index base_leads = 0;
};

/// Reads steps in original units, scaled on the way, as columns of node data. Const; refers to the store.
template <class T>
class SeriesReader {
 public:
  SeriesReader(const StepStore& store, const Scaler& scaler, const TimeFeatures& times, Fill fill,
               const FurtherInputs& further = {});

  [[nodiscard]] Index rows() const { return store_->rows(); }
  [[nodiscard]] Index features() const { return store_->features(); }
  /// Channels of an input step: features, time features, past inputs, known ones, fixed ones.
  [[nodiscard]] Index channels() const {
    return features() + times_->channels + past_.features + known_.features + further_.fixed_channels;
  }
  /// Channels of a forecast step: known inputs, then time features if these are read ahead.
  [[nodiscard]] Index known_channels() const {
    return known_.features + (further_.times_ahead ? times_->channels : 0);
  }

  /// out[i, b] = the scaled values of step steps[b] at row i, then, if out has room for them, its further
  /// channels. out (rows, B, features or channels). The steps must be in the store.
  void read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const;
  /// Reads the inputs known ahead for these steps: out (rows, B, known_channels).
  void read_known(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const;
  /// out[i, b, f] = the value in original units, NaN if missing. out (rows, B, features).
  void read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const;
  /// The same, scaled.
  void read_scaled_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const;

  /// True if a model's outputs are added to base forecasts.
  [[nodiscard]] bool corrects() const { return further_.base_leads > 0; }
  /// out[i, b] = the scaled base forecast of lead index h = 0, 1, … from origin b, (rows, B, features).
  void read_base(const Exec& exec, NodeView<T> out, std::span<const Index> origins, Index h) const;
  /// out[i, b] = the target of lead index h less the base forecast from origin b of a training window, in
  /// original units or scaled; NaN if missing.
  void read_rest(const Exec& exec, NodeView<float> out, std::span<const Index> origins, Index h,
                 bool scaled) const;
  /// The same as an input of a model: scaled, 0 if missing.
  void read_rest(const Exec& exec, NodeView<T> out, std::span<const Index> origins, Index h) const;

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
  /// shift() of the targets of training windows: 0 if these are less a base forecast.
  [[nodiscard]] const T* target_shift() const { return corrects() ? rest_.shift.data() : shift(); }

  /// Copies of the scales on a device.
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const;

 private:
  /// Values of a step that are scaled together, starting at its value `first`.
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
  PartOf<float> truth_;         // as target_, but missing values stay missing
  Index base_first_ = 0;        // first value of a step's base forecasts
  Part rest_;                   // targets less base forecasts
  PartOf<float> missing_rest_;  // as rest_, but missing values stay missing
  Part fixed_;                  // already scaled, so scale 1
  std::vector<T> scale_;        // (rows, features)
  // State of the current read:
  mutable std::vector<const float*> pointers_;
  mutable std::vector<float> extra_;
};

/// The windows that a group of a process grid takes.
enum class WindowSampling {
  local,   // its own contiguous share of the windows, shuffled: nothing moves
  global,  // any window: its part of batches of all windows, whose steps other groups send
  blocked  // contiguous blocks of windows, dealt out to the groups again each epoch
};

struct WindowOptions {
  WindowShape shape;
  Index batch = 64;  // windows of all groups together
  std::uint64_t seed = 1;
  WindowSampling sampling = WindowSampling::local;
  int groups = 1;
  Index lanes = 1;          // blocked: queues of windows with equal parts of a batch; a multiple of groups
  Index blocks = 8;         // blocked: blocks per lane
  Index micro_batches = 1;  // of a batch; each has its share of the windows of every group
};

/// This group's windows of one optimiser step.
struct WindowBatch {
  std::vector<Index> starts;  // micro-batch by micro-batch
  std::vector<Index> ends;    // ends of the micro-batches in `starts`; some may be empty
  std::vector<Index> of_all;  // windows per micro-batch, all groups together
  double observed = 0;        // targets of all groups' batches that are not missing, over all nodes
};

/// The batches of every epoch, as functions of seed, epoch and the number of a window: every rank can compute
/// the batches of every group. With global and blocked sampling the windows of a step, all groups together,
/// do not depend on the number of groups. Orders are new each epoch; the last batches may be smaller.
class WindowPlan {
 public:
  /// `windows` are all training windows of a series of `steps` steps. Throws UserError with the key if batch,
  /// lanes and groups do not go together.
  WindowPlan(const WindowOptions& options, std::vector<Index> windows, Index steps);
  /// Sets the number of non-missing values at every step, over all nodes.
  void set_observed(std::vector<double> observed) { observed_ = std::move(observed); }

  /// Numbers of batches in the current and in any epoch: with blocked sampling they differ by a few.
  [[nodiscard]] Index batches() const { return batches_; }
  [[nodiscard]] Index batches_in(Index epoch) const;
  [[nodiscard]] const WindowOptions& options() const { return options_; }
  void start_epoch(Index epoch);

  /// The first batch of each run of batches with equal numbers of windows for every group.
  [[nodiscard]] std::vector<Index> runs() const;

  /// Windows of every group in every micro-batch of batch `index`: all that its calls depend on.
  [[nodiscard]] std::vector<Index> sizes(Index index) const;
  /// This epoch's windows of a group in batch `index`, micro-batch by micro-batch.
  void starts_of(Index index, int group, std::vector<Index>& starts) const;
  /// Batch `index` of `group`.
  void batch(Index index, int group, WindowBatch& batch) const;
  /// Non-missing targets, over all nodes, of the windows that begin at these steps.
  [[nodiscard]] double observed(std::span<const Index> starts) const;

  /// All steps of the windows that each group takes in the current epoch or, with global sampling, of its
  /// contiguous share. Before any epoch, steps of contiguous shares.
  [[nodiscard]] StepLists steps_of_groups() const;
  /// All steps of some windows, ascending, without duplicates.
  [[nodiscard]] std::vector<Index> steps_of(std::span<const Index> starts) const;

 private:
  /// Windows that one group takes one after the other, q per batch.
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
