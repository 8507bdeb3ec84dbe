#include "rossby/data/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rossby/base/error.hpp"
#include "rossby/kernels/elementwise.hpp"

namespace rossby {
namespace {

constexpr Index block_rows = 64;                  // of nodes whose columns stay in the first-level cache
constexpr Index least_parallel = Index{1} << 15;  // values below which threads cost more than they save

/// Whether steps [first, last) are joined: no break between two of them.
bool joined(std::span<const Index> breaks, Index first, Index last) {
  const auto next = std::lower_bound(breaks.begin(), breaks.end(), first);
  return next == breaks.end() || *next >= last - 1;
}

/// f(i, b) over blocks of rows, columns outside: each step's rows are read side by side.
template <class F>
void for_each_place(const Exec& exec, Index rows, Index cols, Index channels, const F& f) {
  const Index blocks = (rows + block_rows - 1) / block_rows;
  const int threads = rows * cols * channels < least_parallel ? 1 : exec.threads;
#pragma omp parallel for num_threads(threads) schedule(static)
  for (Index block = 0; block < blocks; ++block)
    for (Index b = 0; b < cols; ++b)
      for (Index i = block * block_rows; i < std::min(rows, (block + 1) * block_rows); ++i) f(i, b);
}

}  // namespace

std::vector<Index> time_breaks(const TimeAxis& axis) {
  std::vector<Index> breaks;
  for (const TimeAxis::Gap& gap : axis.gaps()) breaks.push_back(gap.after);
  std::sort(breaks.begin(), breaks.end());
  return breaks;
}

std::vector<Index> training_windows(const Split& split, const WindowShape& shape, Index stride,
                                    std::span<const Index> breaks) {
  require(shape.inputs >= 1 && shape.outputs >= 1 && stride >= 1,
          "windows have inputs, outputs and a stride");
  std::vector<Index> windows;
  Index run = 0, longest = 0;  // of training steps that end at t, without a break
  for (Index t = 0; t < split.steps; ++t) {
    const bool goes_on = t > 0 && joined(breaks, t - 1, t + 1);
    run = split.is_training(t) ? (goes_on ? run + 1 : 1) : 0;
    longest = std::max(longest, run);
    const Index start = t + 1 - shape.length();
    if (run >= shape.length() && (start - split.train.first) % stride == 0) windows.push_back(start);
  }
  if (windows.empty())
    user_error(
        "window.inputs = {}, window.outputs = {}: no window of {} steps fits in the training part, whose "
        "longest "
        "stretch without a gap has {} steps",
        shape.inputs, shape.outputs, shape.length(), longest);
  return windows;
}

std::vector<Index> window_origins(std::span<const Index> origins, const WindowShape& shape, Index horizons,
                                  std::span<const Index> breaks) {
  std::vector<Index> usable;
  for (const Index origin : origins) {
    const Index start = origin + 1 - shape.inputs;
    if (start >= 0 && joined(breaks, start, origin + 1 + horizons)) usable.push_back(origin);
  }
  return usable;
}

TimeFeatures TimeFeatures::of(const TimeAxis& axis, bool time_of_day, bool day_of_week) {
  TimeFeatures features;
  features.channels = (time_of_day ? 1 : 0) + (day_of_week ? 1 : 0);
  if (features.channels > 0 && !axis.dated())
    user_error("{}: the time axis counts steps and has no dates; set it to false",
               time_of_day ? "window.time_of_day" : "window.day_of_week");
  for (Index t = 0; t < axis.size() && features.channels > 0; ++t) {
    if (time_of_day) features.values.push_back(static_cast<float>(axis.day_fraction(t)));
    if (day_of_week) features.values.push_back(static_cast<float>(axis.weekday(t)) / 7.0F);
  }
  return features;
}

template <class T>
SeriesReader<T>::SeriesReader(const StepStore& store, const Scaler& scaler, const TimeFeatures& times,
                              Fill fill)
    : store_(&store), times_(&times) {
  require(scaler.rows() == store.rows() && scaler.features() == store.features(),
          "a scaler has the rows and features of its series");
  require(times.channels == 0 || static_cast<Index>(times.values.size()) == store.steps() * times.channels,
          "time features have a value for every step");
  for (Index i = 0; i < store.rows(); ++i)
    for (Index f = 0; f < store.features(); ++f) {
      scale_.push_back(static_cast<T>(scaler.error_factor(i, f)));
      shift_.push_back(static_cast<T>(scaler.to_value(0, i, f)));
      inverse_.push_back(static_cast<T>(1 / scaler.error_factor(i, f)));
      fill_.push_back(fill == Fill::zero ? static_cast<T>(scaler.to_scaled(0, i, f)) : T{0});
    }
}

template <class T>
void SeriesReader<T>::read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const {
  const Index m = features(), n = rows();
  require(out.rows == n && out.cols == static_cast<Index>(steps.size()) &&
              (out.channels == m || out.channels == channels()),
          "windows are read as (rows, windows, channels)");
  if (exec.device) {
    // Assembled by the host, and carried over.
    std::vector<T> values(static_cast<std::size_t>(out.size()));
    Exec host = exec;
    host.backend = Backend::cpu;
    host.device = nullptr;
    read(host, NodeView<T>(values.data(), out.rows, out.cols, out.channels), steps);
    const T* there = exec.device->on_device(std::span<const T>(values));
    return pack(exec, out, NodeView<const T>(there, out.rows, out.cols, out.channels));
  }
  const Index extra = out.channels - m;
  for_each_place(exec, n, out.cols, out.channels, [&](Index i, Index b) {
    const Index step = steps[static_cast<std::size_t>(b)];
    const float* x = store_->at(step) + i * m;
    T* to = out.at(i, b);
    for (Index f = 0; f < m; ++f) {
      const auto k = static_cast<std::size_t>(i * m + f);
      to[f] = std::isnan(x[f]) ? fill_[k] : (static_cast<T>(x[f]) - shift_[k]) * inverse_[k];
    }
    for (Index f = 0; f < extra; ++f)
      to[m + f] = static_cast<T>(times_->values[static_cast<std::size_t>(step * extra + f)]);
  });
}

template <class T>
void SeriesReader<T>::read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const {
  const Index m = features(), n = rows();
  require(out.rows == n && out.cols == static_cast<Index>(steps.size()) && out.channels == m,
          "targets are read as (rows, windows, features)");
  if (exec.device) {
    std::vector<float> values(static_cast<std::size_t>(out.size()));
    Exec host = exec;
    host.backend = Backend::cpu;
    host.device = nullptr;
    read_truth(host, NodeView<float>(values.data(), out.rows, out.cols, out.channels), steps);
    const float* there = exec.device->on_device(std::span<const float>(values));
    return pack(exec, out, NodeView<const float>(there, out.rows, out.cols, out.channels));
  }
  for_each_place(exec, n, out.cols, m, [&](Index i, Index b) {
    std::copy_n(store_->at(steps[static_cast<std::size_t>(b)]) + i * m, m, out.at(i, b));
  });
}

template class SeriesReader<float>;
template class SeriesReader<double>;

}  // namespace rossby
