#include "rossby/data/windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/steps.hpp"

namespace rossby {
namespace {

/// True if steps [first, last) are joined: no break between two of them.
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
        "window.inputs = {}, window.outputs = {}: no window of {} steps fits in the training part. The "
        "longest stretch of the training part without a gap has {} steps. Lower window.inputs or "
        "window.outputs{}",
        shape.inputs, shape.outputs, shape.length(), longest,
        breaks.empty()
            ? ""
            : ", or set data.fill_steps = true, which fills gaps of the time axis with missing values");
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
      axis.spacing() == TimeAxis::Spacing::duration && axis.step_milliseconds() > day_milliseconds;
  bool any = false;
  for (const std::string& date : dates) {
    const auto day = axis.day_named(date);
    if (!day)
      user_error("window.holidays: \"{}\" is not a day in the calendar of the data. Write days as {}", date,
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
    user_error(
        "window.holidays: none of the {} days is in the series, {} to {}. Name days of the series, or leave "
        "window.holidays out",
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
    user_error("{}: the time axis counts steps and has no dates. {}",
               choice.time_of_day   ? "window.time_of_day"
               : choice.day_of_week ? "window.day_of_week"
               : choice.day_of_year ? "window.day_of_year"
                                    : "window.holidays",
               choice.time_of_day || choice.day_of_week || choice.day_of_year ? "Set this key to false"
                                                                              : "Leave this key out");
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
typename SeriesReader<T>::Part SeriesReader<T>::part_of(const Scaler& scaler, Index first, Fill fill) const {
  require(scaler.rows() == store_->rows(), "a scaler has the rows of its series");
  Part part;
  part.first = first;
  part.features = scaler.features();
  for (Index i = 0; i < scaler.rows(); ++i)
    for (Index f = 0; f < scaler.features(); ++f) {
      part.shift.push_back(static_cast<T>(scaler.to_value(0, i, f)));
      part.inverse.push_back(static_cast<T>(1 / scaler.error_factor(i, f)));
      part.fill.push_back(fill == Fill::zero ? static_cast<T>(scaler.to_scaled(0, i, f)) : T{0});
    }
  return part;
}

template <class T>
SeriesReader<T>::SeriesReader(const StepStore& store, const Scaler& scaler, const TimeFeatures& times,
                              Fill fill, const FurtherInputs& further)
    : store_(&store), times_(&times), further_(further), target_(part_of(scaler, 0, fill)) {
  require(scaler.features() == store.features(), "a scaler has the features of its series");
  const Index n = store.rows();
  truth_.features = target_.features;
  truth_.shift.assign(target_.shift.begin(), target_.shift.end());
  truth_.inverse.assign(target_.inverse.begin(), target_.inverse.end());
  truth_.fill.assign(truth_.shift.size(), std::numeric_limits<float>::quiet_NaN());
  Index next = n * store.features();
  if (further.past) past_ = part_of(*further.past, next, fill);
  next += n * past_.features;
  if (further.known) known_ = part_of(*further.known, next, fill);
  base_first_ = next + n * known_.features;
  require(base_first_ + further.base_leads * n * store.features() == store.width(),
          "a scaler for every value of a step");
  if (corrects()) {
    rest_ = target_;
    rest_.shift.assign(target_.shift.size(), T{0});
    rest_.fill = rest_.shift;
    missing_rest_ = truth_;
    missing_rest_.shift.assign(truth_.shift.size(), 0.0F);
  }
  require(std::ssize(further.fixed) == n * further.fixed_channels, "fixed inputs of every row");
  fixed_ = part_of(Scaler(n, further.fixed_channels), 0, Fill::mean);
  for (Index i = 0; i < n; ++i)
    for (Index f = 0; f < store.features(); ++f) scale_.push_back(static_cast<T>(scaler.error_factor(i, f)));
}

/// The place where kernels find values of these steps, from the `first` value of a step on: in place, or on a
/// device.
template <class T>
std::span<const float* const> SeriesReader<T>::find(const Exec& exec, std::span<const Index> steps,
                                                    Index first) const {
  pointers_.clear();
  for (const Index step : steps)
    pointers_.push_back((exec.device ? store_->on(*exec.device, step) : store_->at(step)) + first);
  return pointers_;
}

template <class T>
std::span<const float> SeriesReader<T>::times_of(std::span<const Index> steps, bool wanted) const {
  extra_.clear();
  const Index count = wanted ? times_->channels : 0;
  const Index known = count > 0 ? std::ssize(times_->values) / count : 0;
  for (const Index step : steps) {
    require(count == 0 || step < known, "time features have a value for every step that is read");
    for (Index f = 0; f < count; ++f)
      extra_.push_back(times_->values[static_cast<std::size_t>(step * count + f)]);
  }
  return extra_;
}

namespace {

template <class T>
NodeView<T> channels_of(NodeView<T> x, Index first, Index count) {
  return {x.data + first, x.rows, x.cols, count, x.row_stride, x.col_stride};
}

}  // namespace

template <class T>
void SeriesReader<T>::read(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const {
  const Index m = features();
  require(out.rows == rows() && out.cols == static_cast<Index>(steps.size()) &&
              (out.channels == m || out.channels == channels()),
          "windows are read as (rows, windows, channels)");
  const bool all = out.channels == channels();
  Index next = all ? m + times_->channels : m;
  read_steps<T>(exec, channels_of(out, 0, next), find(exec, steps), target_.scale(), times_of(steps, all));
  if (!all) return;
  for (const Part* part : {&past_, &known_}) {
    if (part->features == 0) continue;
    read_steps<T>(exec, channels_of(out, next, part->features), find(exec, steps, part->first), part->scale(),
                  {});
    next += part->features;
  }
  if (further_.fixed_channels == 0) return;
  pointers_.assign(steps.size(),
                   exec.device ? exec.device->on_device(further_.fixed) : further_.fixed.data());
  read_steps<T>(exec, channels_of(out, next, further_.fixed_channels), pointers_, fixed_.scale(), {});
}

template <class T>
void SeriesReader<T>::read_known(const Exec& exec, NodeView<T> out, std::span<const Index> steps) const {
  require(
      out.rows == rows() && out.cols == static_cast<Index>(steps.size()) && out.channels == known_channels(),
      "what is known is read as (rows, windows, known_channels)");
  read_steps<T>(exec, out, find(exec, steps, known_.first), known_.scale(),
                times_of(steps, further_.times_ahead));
}

template <class T>
void SeriesReader<T>::read_truth(const Exec& exec, NodeView<float> out, std::span<const Index> steps) const {
  require(out.rows == rows() && out.cols == static_cast<Index>(steps.size()) && out.channels == features(),
          "targets are read as (rows, windows, features)");
  copy_steps(exec, out, find(exec, steps));
}

template <class T>
void SeriesReader<T>::read_scaled_truth(const Exec& exec, NodeView<float> out,
                                        std::span<const Index> steps) const {
  require(out.rows == rows() && out.cols == static_cast<Index>(steps.size()) && out.channels == features(),
          "targets are read as (rows, windows, features)");
  read_steps<float>(exec, out, find(exec, steps), truth_.scale(), {});
}

template <class T>
void SeriesReader<T>::read_base(const Exec& exec, NodeView<T> out, std::span<const Index> origins,
                                Index h) const {
  require(h >= 0 && h < further_.base_leads, "a lead time of the base forecasts");
  read_steps<T>(exec, out, find(exec, origins, base_first_ + h * rows() * features()), target_.scale(), {});
}

template <class T>
void SeriesReader<T>::read_rest(const Exec& exec, NodeView<float> out, std::span<const Index> origins,
                                Index h, bool scaled) const {
  require(h >= 0 && h < further_.base_leads, "a lead time of the base forecasts");
  const auto places = find(exec, origins, base_first_ + h * rows() * features());
  if (scaled)
    read_steps<float>(exec, out, places, missing_rest_.scale(), {});
  else
    copy_steps(exec, out, places);
}

template <class T>
void SeriesReader<T>::read_rest(const Exec& exec, NodeView<T> out, std::span<const Index> origins,
                                Index h) const {
  require(h >= 0 && h < further_.base_leads, "a lead time of the base forecasts");
  read_steps<T>(exec, out, find(exec, origins, base_first_ + h * rows() * features()), rest_.scale(), {});
}

template <class T>
std::vector<Device::Copy> SeriesReader<T>::keep_on(Device& device) const {
  std::vector<Device::Copy> copies;
  copies.push_back(device.keep(scale_));
  for (const std::vector<float>* values : {&truth_.shift, &truth_.inverse, &truth_.fill})
    copies.push_back(device.keep(*values));
  for (const Part* part : {&target_, &past_, &known_, &fixed_})
    if (part->features > 0)
      for (const std::vector<T>* values : {&part->shift, &part->inverse, &part->fill})
        copies.push_back(device.keep(*values));
  if (further_.fixed_channels > 0) copies.push_back(device.keep(further_.fixed));
  if (corrects())
    for (const std::vector<T>* values : {&rest_.shift, &rest_.inverse, &rest_.fill})
      copies.push_back(device.keep(*values));
  if (corrects())
    for (const std::vector<float>* values :
         {&missing_rest_.shift, &missing_rest_.inverse, &missing_rest_.fill})
      copies.push_back(device.keep(*values));
  return copies;
}

template class SeriesReader<float>;
template class SeriesReader<double>;

}  // namespace rossby
