// Inputs that a WindowRun reads besides the series that it forecasts.
#include "rossby/run/window_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/inputs.hpp"
#include "rossby/run/window_run.hpp"

namespace rossby {

void check_inputs(const Config& config) {
  const bool windowed = config.windows() != nullptr;
  const std::string& name = config.model.name;
  for (const auto& [key, is_set] : {std::pair{"data.inputs", !config.data.inputs.empty()},
                                    {"data.known_inputs", !config.data.known_inputs.empty()},
                                    {"data.static", !config.data.fixed.empty()}})
    if (is_set && !windowed)
      user_error(
          "{}: model.name = \"{}\" reads only the series that it forecasts. Remove this key, or choose a "
          "window model such as dcrnn",
          key, name);
  if (!windowed && config.model.corrects())
    user_error(
        "model.base_forecast = \"{}\" does not work with model.name = \"{}\", which has no windows. Remove "
        "model.base_forecast, or choose a window model such as stid",
        config.model.base_forecast, name);
  if (!windowed) return;
  const bool knows = model_named(name).reads_known;
  if (!knows && !config.data.known_inputs.empty())
    user_error(
        "data.known_inputs: model.name = \"{}\" does not read inputs of the steps that it forecasts (dcrnn "
        "and gru do). Name these inputs in data.inputs: the model then reads their past values",
        name);
  if (!config.window.known_times) return;
  if (!knows)
    user_error(
        "window.known_times = true: model.name = \"{}\" does not read inputs of the steps that it forecasts "
        "(dcrnn and gru do). Set window.known_times = false",
        name);
  const WindowSettings& window = config.window;
  if (!window.time_of_day && !window.day_of_week && !window.day_of_year && window.holidays.empty())
    user_error(
        "window.known_times = true: there are no time features. Set window.time_of_day, window.day_of_week, "
        "window.day_of_year or window.holidays");
}

/// True if the decoder reads something of the steps that it forecasts.
template <class T>
bool WindowRun<T>::reads_ahead() const {
  return domain_.inputs.known > 0 || config_->window.known_times || architecture_.reads_calendar_ahead();
}

template <class T>
void WindowRun<T>::know_ahead(Index origin, Index steps, const std::string& inputs) {
  if (domain_.inputs.known == 0) ModelRun<T>::know_ahead(origin, steps, inputs);
  if (!reads_ahead()) return;
  const TimeAxis& time = domain_.info.time;
  const Index last = time.size() - 1, behind = origin + steps - last;
  if (behind > 0 && times_.channels > 0) {
    TimeFeatures more =
        TimeFeatures::of(time.after(last, behind), time_feature_choice(config_->window), false);
    times_.values.resize(static_cast<std::size_t>(time.size() * times_.channels));
    times_.values.insert(times_.values.end(), more.values.begin(), more.values.end());
    set_times(std::move(times_.values));
  }
  if (domain_.inputs.known == 0) return;
  const Index rows = store_->rows(), known = domain_.inputs.known, values = rows * known;
  const auto at = [&](Index step) {
    return store_->values().data() + step * store_->width() + read_width() - values;
  };
  if (inputs.empty()) {
    if (behind > 0)
      user_error(
          "the forecast reads data.known_inputs at its {} steps, but {} of them are after the end of the "
          "data, {}. Give the values of these steps with --inputs FILE",
          steps, behind, time.text(last));
    std::vector<double> seen(static_cast<std::size_t>(steps * known));
    for (Index h = 0; h < steps; ++h)
      for (Index k = 0; k < values; ++k)
        if (!std::isnan(at(origin + 1 + h)[k])) seen[static_cast<std::size_t>(h * known + k % known)] = 1;
    block_reducer_.sum(std::span<double>(seen));
    if (const auto missing = std::ranges::find(seen, 0.0); missing != seen.end())
      user_error(
          "{}: no node has a value of data.known_inputs at {}, which is forecast. Give these values with "
          "--inputs FILE",
          domain_.info.path, time.text(origin + 1 + (missing - seen.begin()) / known));
    return;
  }
  kept_steps_.clear();  // copies on the device are out of date
  std::vector<float> ahead(static_cast<std::size_t>(steps * values));
  const std::string remark =
      read_known_ahead(grid_.space(), *config_, domain_, inputs, time.after(origin, steps), ahead);
  if (!remark.empty() && grid_.world().rank() == 0) fmt::print("warning: {}\n", remark);
  for (Index h = 0; h < steps; ++h) std::copy_n(ahead.data() + h * values, values, at(origin + 1 + h));
  if (Device* device = this->device()) agree(grid_.world(), [&] { keep_steps(*device); });
}

/// Fits scales of the inputs besides the target, by the same steps.
template <class T>
void WindowRun<T>::fit_inputs(const std::vector<Index>& training, const FittedValues* kept) {
  const InputVariables& inputs = domain_.inputs;
  const std::size_t targets = domain_.info.variables.size();
  for (std::size_t v = 0; v < inputs.variables.size(); ++v)
    if (this->summaries_[targets + v].finite() == 0)
      user_error("{}: variable {} has no value in the training part. Remove this variable from data.inputs",
                 domain_.info.path, inputs.variables[v].name);
  MpiReducer space(grid_.space()), groups(grid_.time());
  const auto fit_part = [&](Index first, Index channels) {
    const auto at = [this, first](Index step) { return store_->at(step) + store_->rows() * first; };
    return Scaler::fit({store_->rows(), channels, training, at, grid_.groups() > 1 ? &groups : nullptr},
                       input_scaler_spec(config_->data), space);
  };
  if (inputs.past > 0) past_scaler_ = kept ? kept->scalers[1] : fit_part(store_->features(), inputs.past);
  if (inputs.known > 0)
    known_scaler_ = kept ? kept->scalers[2] : fit_part(store_->features() + inputs.past, inputs.known);
  if (inputs.fixed == 0) return;
  fixed_ = scaled_over_nodes(domain_.fixed, inputs.fixed, space);
}

template <class T>
std::string WindowRun<T>::input_remarks() const {
  std::string text;
  const TimeAxis& time = domain_.info.time;
  const auto is_in_training = [&](const std::string& date) {
    const auto day = time.day_named(date);
    const auto& part = domain_.split.train;
    return day && time.stamp(part.first) < day->end && day->begin <= time.stamp(part.last - 1);
  };
  const std::vector<std::string>& holidays = config_->window.holidays;
  if (!holidays.empty() && std::none_of(holidays.begin(), holidays.end(), is_in_training))
    text +=
        "warning   none of window.holidays is in the training part: the model learns nothing about "
        "these holidays\n";
  if (!domain_.inputs.variables.empty() && !config_->data.null_value.empty())
    text += fmt::format(
        "remark    data.null_value = {} applies only to variables that are forecast: inputs mark missing "
        "values by _FillValue\n",
        config_->data.null_value);
  return text;
}

namespace {

/// Returns a line if steps after the training part read rows of a table that training never reads.
std::string unseen_rows(const CalendarPhases& phases, std::string_view table, const Split& split) {
  std::vector<bool> seen(static_cast<std::size_t>(phases.count));
  const auto row_of = [&](Index t) {
    return static_cast<std::size_t>(phases.of_step[static_cast<std::size_t>(t)]);
  };
  for (Index t = 0; t < split.steps; ++t)
    if (split.is_training(t)) seen[row_of(t)] = true;
  Index unseen = 0;
  for (Index t = 0; t < split.steps; ++t) unseen += seen[row_of(t)] ? 0 : 1;
  if (unseen == 0) return "";
  return fmt::format(
      "warning   model.{}_embedding: {} steps after the training part are at times that do not occur in "
      "this part, so that the vectors of these times are not trained. Try to set this key to 0\n",
      table, unseen);
}

}  // namespace

/// Returns lines on the learned vectors of nodes and times.
template <class T>
std::string WindowRun<T>::embedding_remark() const {
  const EmbeddingChoice wanted = architecture_.embeddings();
  if (wanted.node == 0 && !wanted.any_calendar()) return "";
  std::string text = embeddings_.node > 0 ? fmt::format("node {}", embeddings_.node) : "";
  std::string warnings;
  bool any = false;
  for (std::size_t k = 0; k < embeddings_.calendar.size(); ++k) {
    const auto& [rows, width] = embeddings_.calendar[k];
    if (width == 0) continue;
    std::string name(name_of(all_calendar_tables[k]));
    std::ranges::replace(name, '_', ' ');
    text += fmt::format("{}{} {} x {}", text.empty() ? "" : ", ", name, rows, width);
    any = true;
    warnings += unseen_rows(calendar_[k], name_of(all_calendar_tables[k]), domain_.split);
  }
  if (!any && wanted.any_calendar())
    text += fmt::format("{}none of the calendar: {}", text.empty() ? "" : ", ",
                        CalendarPhases::obstacle(domain_.info.time, CalendarTable::month));
  return fmt::format("learned   vectors of {}\n{}", text, warnings);
}

#define ROSSBY_INSTANTIATE(T)                                               \
  template std::string WindowRun<T>::input_remarks() const;                 \
  template std::string WindowRun<T>::embedding_remark() const;              \
  template bool WindowRun<T>::reads_ahead() const;                          \
  template void WindowRun<T>::know_ahead(Index, Index, const std::string&); \
  template void WindowRun<T>::fit_inputs(const std::vector<Index>&, const FittedValues*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
