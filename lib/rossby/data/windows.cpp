#include "rossby/data/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/steps.hpp"

namespace rossby {
namespace {

/// Whether steps [first, last) are joined: no break between two of them.
bool joined(std::span<const Index> breaks, Index first, Index last) {
  const auto next = std::lower_bound(breaks.begin(), breaks.end(), first);
  return next == breaks.end() || *next >= last - 1;
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
        "stretch without a gap has {} steps{}",
        shape.inputs, shape.outputs, shape.length(), longest,
        breaks.empty() ? "" : "; data.fill_steps = true fills gaps of the time axis with missing values");
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

namespace {

/// 1 for the steps of an axis that are holidays.
std::vector<float> holiday_steps(const TimeAxis& axis, std::span<const std::string> dates, bool wanted) {
  std::vector<float> steps(static_cast<std::size_t>(axis.size()), 0.0F);
  const bool long_steps =
      axis.spacing() == TimeAxis::Spacing::duration && axis.step_milliseconds() > detail::day_milliseconds;
  bool any = false;
  for (const std::string& date : dates) {
    const auto day = axis.day_named(date);
    if (!day)
      user_error("window.holidays: \"{}\" is no day of the calendar of the data; write it as {}", date,
                 "2019-02-05");
    for (Index t = 0; t < axis.size(); ++t) {
      const Milliseconds stamp = axis.stamp(t);
      const bool begins_in_it =
          long_steps && stamp <= day->begin && day->begin < stamp + axis.step_milliseconds();
      if (!(day->begin <= stamp && stamp < day->end) && !begins_in_it) continue;
      steps[static_cast<std::size_t>(t)] = 1;
      any = true;
    }
  }
  if (!any && wanted)
    user_error("window.holidays: none of its {} days is in the series, {} to {}; name some, or leave it out",
               dates.size(), axis.text(0), axis.text(axis.size() - 1));
  return steps;
}

}  // namespace

TimeFeatures TimeFeatures::of(const TimeAxis& axis, const TimeFeatureChoice& choice, bool wants_holidays) {
  TimeFeatures features;
  const bool holidays = !choice.holidays.empty();
  features.channels = (choice.time_of_day ? 1 : 0) + (choice.day_of_week ? 1 : 0) +
                      (choice.day_of_year ? 2 : 0) + (holidays ? 1 : 0);
  if (features.channels == 0) return features;
  if (!axis.dated())
    user_error(
        "{}: the time axis counts steps and has no dates; {}",
        choice.time_of_day   ? "window.time_of_day"
        : choice.day_of_week ? "window.day_of_week"
        : choice.day_of_year ? "window.day_of_year"
                             : "window.holidays",
        choice.time_of_day || choice.day_of_week || choice.day_of_year ? "set it to false" : "leave it out");
  const std::vector<float> holiday =
      holidays ? holiday_steps(axis, choice.holidays, wants_holidays) : std::vector<float>();
  for (Index t = 0; t < axis.size(); ++t) {
    if (choice.time_of_day) features.values.push_back(static_cast<float>(axis.day_fraction(t)));
    if (choice.day_of_week) features.values.push_back(static_cast<float>(axis.weekday(t)) / 7.0F);
    if (choice.day_of_year) {
      const double angle = 2 * std::numbers::pi * axis.year_fraction(t);
      features.values.push_back(static_cast<float>(std::sin(angle)));
      features.values.push_back(static_cast<float>(std::cos(angle)));
    }
    if (holidays) features.values.push_back(holiday[static_cast<std::size_t>(t)]);
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

/// Where kernels find these steps: in place, or on a device.
template <class T>
std::span<const float* const> SeriesReader<T>::find(const Exec& exec, std::span<const Index> steps) const {
  pointers_.clear();
  for (const Index step : steps)
    pointers_.push_back(exec.device ? store_->on(*exec.device, step) : store_->at(step));
  return pointers_;
}

template <class T>
void SeriesReader<T>::read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const {
  const Index m = features(), n = rows(), extra = out.channels - m;
  require(out.rows == n && out.cols == static_cast<Index>(steps.size()) &&
              (out.channels == m || out.channels == channels()),
          "windows are read as (rows, windows, channels)");
  extra_.clear();
  for (const Index step : steps)
    for (Index f = 0; f < extra; ++f)
      extra_.push_back(times_->values[static_cast<std::size_t>(step * extra + f)]);
  read_steps<T>(exec, out, find(exec, steps), {m, shift_, inverse_, fill_}, extra_);
}

template <class T>
void SeriesReader<T>::read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const {
  require(out.rows == rows() && out.cols == static_cast<Index>(steps.size()) && out.channels == features(),
          "targets are read as (rows, windows, features)");
  copy_steps(exec, out, find(exec, steps));
}

template <class T>
std::vector<Device::Copy> SeriesReader<T>::keep_on(Device& device) const {
  std::vector<Device::Copy> copies;
  for (const std::vector<T>* values : {&scale_, &shift_, &inverse_, &fill_})
    copies.push_back(device.keep(*values));
  return copies;
}

template class SeriesReader<float>;
template class SeriesReader<double>;

}  // namespace rossby
