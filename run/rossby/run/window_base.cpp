// The base forecasts that a WindowRun corrects (model.base_forecast).
#include <algorithm>
#include <cmath>
#include <limits>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/window_run.hpp"

namespace rossby {

/// Makes base forecasts for the origins that the store holds, and writes them behind the inputs of their
/// origins. Training reads what is left of the targets; forecasts read base forecasts, as anomalies.
template <class T>
void WindowRun<T>::correct_base(Purpose purpose, bool data_changed) {
  if (data_changed)
    user_error(
        "--accept-changed-data: model.base_forecast = \"{}\" is fitted to the training part, whose values "
        "have changed. Restore the data, or train a new run",
        config_->model.base_forecast);
  const std::span<const Index> held = store_->held();
  const auto holds = [&](Index place) { return std::binary_search(held.begin(), held.end(), place); };
  // The way back to means reads forecasts from training origins.
  const bool looks_back = this->anomalies_asked().transform.on() && config_->data.point == "mean";
  BaseOrigins origins;
  if (trains(purpose) || looks_back)
    for (const Index start : windows_)
      if (const Index origin = start + shape_.inputs - 1; holds(origin + training_view_))
        origins.training.push_back(origin);
  if (trains(purpose)) {
    origins.others = validation_[static_cast<std::size_t>(store_->group())];
  } else {
    for (Index origin = shape_.inputs - 1; origin < domain_.info.steps; ++origin)
      if (this->cycles() || !std::binary_search(origins.training.begin(), origins.training.end(), origin))
        origins.others.push_back(origin);
    anomalies_.extend(domain_.info.time, shape_.outputs);
  }
  const Index width = store_->rows() * store_->features();
  // Returns NaN if the transform is not defined for the value.
  const auto anomaly = [&](float x, Index step, Index column) {
    const float a = anomalies_.on() ? anomalies_.to_anomaly(x, step, column) : x;
    return std::isfinite(a) ? a : std::numeric_limits<float>::quiet_NaN();
  };
  const auto take = [&](const BaseForecast& one) {
    const Index place = one.origin + (one.of_training ? training_view_ : forecast_view_);
    const Index k = std::lower_bound(held.begin(), held.end(), place) - held.begin();
    float* const to =
        store_->values().data() + k * store_->width() + read_width() + (one.horizon - 1) * width;
    const Index target = one.origin + one.horizon;
    for (Index c = 0; c < width; ++c) {
      const float base = anomaly(one.values[c], target, c);
      const float left = one.of_training ? anomaly(one.truth[c], target, c) - base : 0;
      if (one.of_training && trains(purpose))
        to[c] = left;
      else if (one.of_training && this->cycles() && !std::isnan(left))
        to[c] = store_->at(target + training_view_)[c] - left;  // about the cycle without the own period
      else
        to[c] = base;
    }
  };
  // A group fails as a whole, so communication within groups is allowed here.
  base_ = agree(grid_.world(), [&] {
    return make_base_forecasts(grid_.space(), *config_, domain_, exec_.threads, origins, take);
  });
}

/// Copies of the series and, of one lead time, forecasts from all origins.
template <class T>
std::size_t WindowRun<T>::start_bytes() const {
  if (!corrects()) return 0;
  const Index copies = 5, values = domain_.info.steps * store_->rows() * store_->features();
  return static_cast<std::size_t>((copies + 1) * values) * sizeof(float);
}

#define ROSSBY_INSTANTIATE(T)                              \
  template void WindowRun<T>::correct_base(Purpose, bool); \
  template std::size_t WindowRun<T>::start_bytes() const;
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
