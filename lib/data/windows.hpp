#pragma once

#include <span>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/data/scaler.hpp"
#include "rossby/data/series.hpp"
#include "rossby/data/split.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/kernels/exec.hpp"
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

/// Numbers of a time step that every node sees: vectors of length T, broadcast where windows are read.
struct TimeFeatures {
  Index channels = 0;
  std::vector<float> values;  // (T, channels)

  /// The fraction of the day in [0, 1), and the day of the week, Monday 0, over 7. Throws UserError naming
  /// the key where the axis has no dates.
  static TimeFeatures of(const TimeAxis& axis, bool time_of_day, bool day_of_week);
};

/// What a missing input is read as.
enum class Fill {
  mean,  // the center: 0 as the model sees it
  zero   // 0 in original units, as published codes have it
};

/// Reads a series in original units, scaled on the way, as columns of node data. Const; refers to the series.
template <class T>
class SeriesReader {
 public:
  SeriesReader(const Series& series, const Scaler& scaler, const TimeFeatures& times, Fill fill);

  [[nodiscard]] Index rows() const { return series_->rows; }
  [[nodiscard]] Index features() const { return series_->features; }
  [[nodiscard]] Index channels() const { return series_->features + times_->channels; }

  /// out[i, b] = the scaled values of step steps[b] at row i, then, where out has room for them, the step's
  /// time features. out (rows, B, features or channels).
  void read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const;
  /// out[i, b, f] = the value in original units, NaN where missing. out (rows, B, features).
  void read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const;

  /// original = scale·scaled + shift, (rows, features) each.
  [[nodiscard]] const T* scale() const { return scale_.data(); }
  [[nodiscard]] const T* shift() const { return shift_.data(); }

 private:
  const Series* series_;
  const TimeFeatures* times_;
  std::vector<T> scale_, shift_, inverse_, fill_;
};

/// The windows of one optimiser step.
struct WindowBatch {
  std::vector<Index> starts;
  double observed = 0;  // targets that are not missing, of all nodes
};

struct WindowOptions {
  WindowShape shape;
  Index batch = 64;  // windows
  std::uint64_t seed = 1;
};

/// The batches of every epoch, as functions of seed and epoch: all windows in a fresh random order, the last
/// batch smaller.
class WindowPlan {
 public:
  /// Collective: observed targets are counted once.
  WindowPlan(const WindowOptions& options, const Series& series, std::vector<Index> windows,
             Reducer& reducer);

  [[nodiscard]] Index batches() const;
  [[nodiscard]] const WindowShape& shape() const { return options_.shape; }
  void start_epoch(Index epoch);
  /// Batch `index` of the epoch that was started, valid until the next call.
  [[nodiscard]] const WindowBatch& batch(Index index);

 private:
  WindowOptions options_;
  std::vector<Index> windows_;
  std::vector<double> observed_;  // of each step, global
  std::vector<Permutation> order_;
  WindowBatch batch_;
};

}  // namespace rossby
