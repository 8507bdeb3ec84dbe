// The steps that a WindowRun holds, their places, and how their values become anomalies.
#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>

#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/inputs.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/window_run.hpp"

namespace rossby {

/// Returns for each time group the training steps of the plan's groups that it trains for.
template <class T>
StepLists WindowRun<T>::training_steps_of_groups() const {
  const StepLists of_workers = plan_->steps_of_groups();
  StepLists held(static_cast<std::size_t>(grid_.groups()));
  for (std::size_t w = 0; w < of_workers.size(); ++w) {
    std::vector<Index>& mine = held[w * held.size() / of_workers.size()];
    std::vector<Index> all;
    std::set_union(mine.begin(), mine.end(), of_workers[w].begin(), of_workers[w].end(),
                   std::back_inserter(all));
    mine = std::move(all);
  }
  return held;
}

template <class T>
void WindowRun<T>::make_store(Purpose purpose) {
  StepLists held = training_steps_of_groups();
  for (std::size_t g = 0; g < held.size(); ++g) {
    std::vector<Index> starts;
    for (const Index origin : validation_[g]) starts.push_back(origin + 1 - shape_.inputs + forecast_view_);
    const auto more = plan_->steps_of(starts);
    std::vector<Index> all;
    std::set_union(held[g].begin(), held[g].end(), more.begin(), more.end(), std::back_inserter(all));
    held[g] = std::move(all);
  }
  if (purpose == Purpose::forecasting) {
    held.front().resize(static_cast<std::size_t>(span_));
    std::iota(held.front().begin(), held.front().end(), Index{0});
    if (training_view_ > 0)
      for (const Index step : plan_->steps_of(windows_)) held.front().push_back(step + training_view_);
  }
  held_ = held;
  store_ = std::make_unique<StepStore>(
      span_ + training_view_ + forecast_view_, static_cast<Index>(domain_.rows.size()), domain_.info.features,
      std::move(held), *step_exchange_, purpose == Purpose::tracing,
      domain_.inputs.channels() + (corrects() ? shape_.outputs * domain_.info.features : 0));
  set_times(std::move(times_.values));
  set_calendar();
  if (reads_series(purpose)) read_values();
  if (purpose == Purpose::timing) make_up(store_->values());
}

/// Sets time features of the axis and, if known, of steps after it. A step that is held twice has them at
/// both places.
template <class T>
void WindowRun<T>::set_times(std::vector<float> of_axis) {
  of_axis.resize(static_cast<std::size_t>(span_ * times_.channels));
  times_.values = of_axis;
  if (training_view_ + forecast_view_ > 0)
    times_.values.insert(times_.values.end(), of_axis.begin(), of_axis.end());
}

/// Sets rows of calendar tables, at the places of the time features.
template <class T>
void WindowRun<T>::set_calendar() {
  const TimeAxis& time = domain_.info.time;
  embeddings_ = embeddings_on(time, architecture_.embeddings(), span_ - time.size(), calendar_);
  if (training_view_ + forecast_view_ == 0) return;
  for (CalendarPhases& phases : calendar_) {
    const std::vector<Index> once = phases.of_step;
    phases.of_step.insert(phases.of_step.end(), once.begin(), once.end());
  }
}

/// Reads original units: of steps, missing values for steps after the data, then of steps that are held a
/// second time.
template <class T>
void WindowRun<T>::read_values() {
  const std::span<const Index> held = store_->held();
  const auto before = [&](Index place) {
    return static_cast<std::size_t>(std::lower_bound(held.begin(), held.end(), place) - held.begin());
  };
  const std::size_t data = before(domain_.info.steps), once = before(span_);
  const auto width = static_cast<std::size_t>(store_->width());
  std::vector<Index> again(held.begin() + static_cast<std::ptrdiff_t>(once), held.end());
  for (Index& step : again) step -= span_;
  const std::span<float> values = store_->values();
  read_values(held.first(data), values.first(data * width));
  std::ranges::fill(values.subspan(data * width, (once - data) * width),
                    std::numeric_limits<float>::quiet_NaN());
  if (this->cycles()) read_values(again, values.subspan(once * width));
}

/// Reads steps to `to` (steps, width of the store).
template <class T>
void WindowRun<T>::read_values(std::span<const Index> steps, std::span<float> to) {
  if (!corrects()) return read_with_inputs(grid_.space(), *config_, domain_, steps, to);
  constexpr Index piece = Index{1} << 22;  // values per rank at once, roughly; the same steps on all ranks
  const Index a_step =
      domain_.nodes() / grid_.space().size() * (domain_.info.features + domain_.inputs.channels());
  const auto most = static_cast<std::size_t>(std::max<Index>(1, piece / std::max<Index>(1, a_step)));
  std::vector<float> values;
  for (std::size_t first = 0; first < steps.size(); first += most) {
    const auto some = steps.subspan(first, std::min(most, steps.size() - first));
    values.resize(some.size() * static_cast<std::size_t>(read_width()));
    read_with_inputs(grid_.space(), *config_, domain_, some, values);
    for (std::size_t k = 0; k < some.size(); ++k)
      std::copy_n(values.data() + static_cast<Index>(k) * read_width(), read_width(),
                  to.data() + static_cast<Index>(first + k) * store_->width());
  }
}

/// Returns the steps that this group counts, so that each step of time counts once over all groups.
template <class T>
std::vector<Index> WindowRun<T>::hashed_steps() const {
  std::vector<Index> hashed;
  for (const Index place : store_->counted()) {
    if (place >= domain_.info.steps && place < span_) continue;  // after the data
    const bool twice = place >= span_ && std::any_of(held_.begin(), held_.end(), [&](const auto& held) {
                         return std::binary_search(held.begin(), held.end(), place - span_);
                       });
    if (!twice) hashed.push_back(place < span_ ? place : place - span_);
  }
  return hashed;
}

/// Makes anomalies of all values. `read`: the training steps; `training`: those that this group counts.
template <class T>
void WindowRun<T>::fit_anomalies(std::span<const Index> read, std::span<const Index> training,
                                 const FittedValues* kept) {
  MpiReducer space(grid_.space()), groups(grid_.time());
  const std::vector<double> centers = centers_of_rows(domain_);
  AnomalyMap::Training data;
  data.rows = store_->rows();
  data.features = store_->features();
  data.steps = read;
  data.own = training;
  data.at = [this](Index step) { return store_->at(step); };
  data.groups = grid_.groups() > 1 ? &groups : nullptr;
  data.centers = centers;
  data.threads = exec_.threads;
  std::vector<AnomalyMap::View> without, full;
  const std::span<const Index> held = store_->held();
  const std::size_t width = held.empty() ? 0 : store_->values().size() / held.size();
  for (std::size_t k = 0; k < held.size(); ++k) {
    const bool again = held[k] >= span_;
    const Index step = again ? held[k] - span_ : held[k];
    if (step >= domain_.info.steps) continue;  // after the data
    const bool trains = std::binary_search(read.begin(), read.end(), step);
    const bool of_training = trains && (training_view_ > 0 ? again : !again);
    (of_training ? without : full).push_back({step, store_->values().data() + k * width});
  }
  if (kept) {
    full.insert(full.end(), without.begin(), without.end());
    anomalies_ =
        AnomalyMap::restore(kept->anomalies, data, domain_.info.time, this->anomalies_asked(), full, space);
    return;
  }
  anomalies_ = AnomalyMap::fit(data, domain_.info.time, this->anomalies_asked(), without, full, space);
}

/// Returns the steps that training windows read, each in one group.
template <class T>
std::vector<Index> WindowRun<T>::training_steps() const {
  const auto read = plan_->steps_of(windows_);
  auto counted = store_->counted();
  std::erase_if(counted, [&](Index step) { return step >= domain_.info.steps; });
  std::vector<Index> training;
  std::set_intersection(read.begin(), read.end(), counted.begin(), counted.end(),
                        std::back_inserter(training));
  return training;
}

#define ROSSBY_INSTANTIATE(T)                                                               \
  template void WindowRun<T>::make_store(Purpose);                                          \
  template void WindowRun<T>::set_times(std::vector<float>);                                \
  template void WindowRun<T>::set_calendar();                                               \
  template std::vector<Index> WindowRun<T>::training_steps() const;                         \
  template void WindowRun<T>::read_values();                                                \
  template void WindowRun<T>::read_values(std::span<const Index>, std::span<float>);        \
  template std::vector<Index> WindowRun<T>::hashed_steps() const;                           \
  template void WindowRun<T>::fit_anomalies(std::span<const Index>, std::span<const Index>, \
                                            const FittedValues*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
