#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/model/baselines.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

constexpr Milliseconds day = 86400000;

/// Means of every (slot, row, feature) over training steps; NaN where nothing was observed.
std::vector<float> slot_means(const Series& series, std::span<const Index> steps, std::span<const Index> slot,
                              Index slots) {
  const Index width = series.rows * series.features;
  std::vector<double> sum(static_cast<std::size_t>(slots * width)), count(sum.size());
  for (const Index t : steps)
    for (Index c = 0; c < width; ++c) {
      const float x = series.values[t * width + c];
      if (std::isnan(x)) continue;
      const auto k = static_cast<std::size_t>(slot[static_cast<std::size_t>(t)] * width + c);
      sum[k] += static_cast<double>(x);
      count[k] += 1;
    }
  std::vector<float> mean(sum.size());
  for (std::size_t k = 0; k < mean.size(); ++k) mean[k] = static_cast<float>(sum[k] / count[k]);
  return mean;
}

class TimeOfWeek final : public Baseline {
 public:
  explicit TimeOfWeek(const TimeAxis& axis) : slots_a_day_(day / axis.step_milliseconds()) {
    for (Index t = 0; t < axis.size(); ++t) {
      const auto slot = static_cast<Index>(axis.day_fraction(t) * static_cast<double>(slots_a_day_) + 0.5);
      day_slot_.push_back(slot % slots_a_day_);
      week_slot_.push_back(axis.weekday(t) * slots_a_day_ + day_slot_.back());
    }
  }

  [[nodiscard]] std::string_view name() const override { return "time_of_week"; }

  void fit(const Series& series, const Split& split, Reducer& reducer) override {
    require(series.steps == static_cast<Index>(day_slot_.size()), "the time axis is that of the series");
    const auto steps = split.training_steps();
    week_ = slot_means(series, steps, week_slot_, 7 * slots_a_day_);
    day_ = slot_means(series, steps, day_slot_, slots_a_day_);
    mean_ = training_means(series, steps, reducer);
  }

  void forecast(const Series& series, std::span<const Index> origins, Index horizons, Reducer&,
                const HorizonSink& sink) const override {
    const Index width = series.rows * series.features;
    Buffer<float> values(static_cast<Index>(origins.size()) * width);
    for (Index h = 1; h <= horizons; ++h) {
      float* to = values.data();
      for (const Index origin : origins) {
        const auto step = static_cast<std::size_t>(origin + h);
        require(step < week_slot_.size(), "targets lie on the time axis");
        const float* week = week_.data() + week_slot_[step] * width;
        const float* any_day = day_.data() + day_slot_[step] * width;
        for (Index c = 0; c < width; ++c) {
          if (!std::isnan(week[c]))
            *to++ = week[c];
          else
            *to++ =
                std::isnan(any_day[c]) ? static_cast<float>(mean_[static_cast<std::size_t>(c)]) : any_day[c];
        }
      }
      sink(h, {values.data(), series.rows, static_cast<Index>(origins.size()), series.features,
               series.features, width});
    }
  }

 private:
  Index slots_a_day_;
  std::vector<Index> day_slot_, week_slot_;  // of each step
  std::vector<float> day_, week_;            // (slots, rows, features)
  std::vector<double> mean_;
};

}  // namespace

std::unique_ptr<Baseline> make_time_of_week(const TimeAxis& axis) {
  if (!axis.dated() || axis.spacing() != TimeAxis::Spacing::duration) return nullptr;
  const auto step = axis.step_milliseconds();
  if (step <= 0 || step > day || day % step != 0) return nullptr;
  return std::make_unique<TimeOfWeek>(axis);
}

}  // namespace rossby
