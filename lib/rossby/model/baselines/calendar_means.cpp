#include <cmath>
#include <string>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines/baselines.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

/// Assigns steps to slots of the calendar.
struct Slots {
  Index count = 0;
  std::vector<Index> of_step;
};

/// Means of every (slot, row, feature) over training steps; NaN without observations.
std::vector<float> slot_means(const Series& series, std::span<const Index> steps, const Slots& slots) {
  const Index width = series.rows * series.features;
  std::vector<double> sum(static_cast<std::size_t>(slots.count * width)), count(sum.size());
  for (const Index t : steps)
    for (Index c = 0; c < width; ++c) {
      const float x = series.values[t * width + c];
      if (std::isnan(x)) continue;
      const auto k = static_cast<std::size_t>(slots.of_step[static_cast<std::size_t>(t)] * width + c);
      sum[k] += static_cast<double>(x);
      count[k] += 1;
    }
  std::vector<float> mean(sum.size());
  for (std::size_t k = 0; k < mean.size(); ++k) mean[k] = static_cast<float>(sum[k] / count[k]);
  return mean;
}

/// The mean of the step's slot. If nothing was observed in it, uses the next slots, then all steps.
class CalendarMeans final : public Baseline {
 public:
  CalendarMeans(std::string name, std::vector<Slots> slots)
      : name_(std::move(name)), slots_(std::move(slots)) {}

  [[nodiscard]] std::string_view name() const override { return name_; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    require(series.steps == std::ssize(slots_.front().of_step), "the time axis is that of the series");
    const auto steps = split.training_steps();
    means_.clear();
    for (const Slots& slots : slots_) means_.push_back(slot_means(series, steps, slots));
    mean_ = training_means(series, steps, reducer);
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer&,
                const HorizonSink& sink) const override {
    const Index width = series.rows * series.features;
    Buffer<float> values(std::ssize(origins) * width);
    for (Index h = 1; h <= horizons; ++h) {
      float* to = values.data();
      for (const Index origin : origins)
        for (Index c = 0; c < width; ++c) *to++ = mean_of(origin + h, c, width);
      sink(h, {values.data(), series.rows, static_cast<Index>(origins.size()), series.features,
               series.features, width});
    }
  }

 private:
  [[nodiscard]] float mean_of(Index step, Index c, Index width) const {
    for (std::size_t k = 0; k < slots_.size(); ++k) {
      const auto& of_step = slots_[k].of_step;
      require(step < std::ssize(of_step), "targets lie on the time axis");
      const float mean =
          means_[k][static_cast<std::size_t>(of_step[static_cast<std::size_t>(step)] * width + c)];
      if (!std::isnan(mean)) return mean;
    }
    return static_cast<float>(mean_[static_cast<std::size_t>(c)]);
  }

  std::string name_;
  std::vector<Slots> slots_;
  std::vector<std::vector<float>> means_;  // of each kind of slots: (slots, rows, features)
  std::vector<double> mean_;
};

}  // namespace

std::unique_ptr<Baseline> make_time_of_week(const TimeAxis& axis) {
  if (!axis.dated() || axis.spacing() != TimeAxis::Spacing::duration) return nullptr;
  const auto step = axis.step_milliseconds();
  if (step <= 0 || step > day_milliseconds || day_milliseconds % step != 0) return nullptr;
  const Index a_day = day_milliseconds / step;
  Slots of_week{7 * a_day, {}}, of_day{a_day, {}};
  for (Index t = 0; t < axis.size(); ++t) {
    const auto slot = static_cast<Index>(axis.day_fraction(t) * static_cast<double>(a_day) + 0.5);
    of_day.of_step.push_back(slot % a_day);
    of_week.of_step.push_back(axis.weekday(t) * a_day + of_day.of_step.back());
  }
  return std::make_unique<CalendarMeans>("time_of_week", std::vector{std::move(of_week), std::move(of_day)});
}

std::unique_ptr<Baseline> make_annual_cycle(const TimeAxis& axis) {
  constexpr Milliseconds month = 31 * day_milliseconds;
  if (!axis.dated() || axis.size() < 2) return nullptr;
  const bool months =
      axis.spacing() == TimeAxis::Spacing::months && axis.step_months() < 12 && 12 % axis.step_months() == 0;
  const bool by_day =
      axis.spacing() == TimeAxis::Spacing::duration || axis.spacing() == TimeAxis::Spacing::calendar;
  const bool shorter = by_day && axis.step_milliseconds() <= month;
  if (!months && !shorter) return nullptr;
  const Milliseconds step = months ? axis.step_months() * month : axis.step_milliseconds();
  if (axis.stamp(axis.size() - 1) - axis.stamp(0) + step < 2 * axis.shortest_year()) return nullptr;
  Slots of_year{12, {}};
  for (Index t = 0; t < axis.size(); ++t) of_year.of_step.push_back(axis.month(t) - 1);
  return std::make_unique<CalendarMeans>("annual_cycle", std::vector{std::move(of_year)});
}

}  // namespace rossby
