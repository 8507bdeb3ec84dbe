#include "rossby/run/window_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "rossby/base/release.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/exchange/traced.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/inputs.hpp"
#include "rossby/mpi/ports.hpp"
#include "rossby/run/stages.hpp"
#include "rossby/run/window_supports.hpp"

namespace rossby {
namespace {

MaskedError loss_of(const TrainSettings& train) {
  if (train.loss == "mse") return MaskedError::squared;
  if (train.loss == "huber") return {MaskedError::huber, train.huber_delta};
  if (train.loss == "pinball") return {MaskedError::pinball, train.quantile};
  return MaskedError::absolute;
}

WindowOptions window_options(const Config& config, const WindowShape& shape, int groups) {
  WindowOptions options;
  options.shape = shape;
  options.batch = config.window.batch;
  options.seed = static_cast<std::uint64_t>(config.train.seed);
  const std::string& sampling = config.window.sampling;
  options.sampling = sampling == "global"    ? WindowSampling::global
                     : sampling == "blocked" ? WindowSampling::blocked
                                             : WindowSampling::local;
  options.groups = groups;
  options.lanes = config.window.lanes > 0 ? config.window.lanes : groups;
  options.blocks = config.window.blocks;
  options.micro_batches = config.window.micro_batches;
  return options;
}

/// Throws UserError if train.quantiles are not sorted, lack the point forecast or are not trained.
void check_quantiles(const TrainSettings& train) {
  const std::vector<Index>& levels = train.quantiles;
  if (levels.empty()) return;
  if (train.loss != "pinball")
    user_error(
        "train.quantiles needs train.loss = \"pinball\", but train.loss is \"{}\". Set train.loss = "
        "\"pinball\", or remove train.quantiles",
        train.loss);
  if (std::adjacent_find(levels.begin(), levels.end(), std::greater_equal()) != levels.end())
    user_error("train.quantiles = [{}] do not ascend. Sort these numbers from the smallest to the largest",
               fmt::join(levels, ", "));
  if (!std::binary_search(levels.begin(), levels.end(), Index{50}))
    user_error(
        "train.quantiles = [{}] does not have 50, the median, which is the forecast. Add 50 to "
        "train.quantiles",
        fmt::join(levels, ", "));
}

/// A single loss in original units is dominated by the largest values.
std::string different_units(const std::vector<SeriesVariable>& variables, const std::string& loss_units) {
  if (loss_units == "scaled") return "";
  const auto differs = [&](const SeriesVariable& v) { return v.units != variables.front().units; };
  if (std::none_of(variables.begin(), variables.end(), differs)) return "";
  std::string names;
  for (const SeriesVariable& v : variables)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", v.name, v.units.empty() ? "1" : v.units);
  return fmt::format(
      "warning   one loss in original units covers {}, so that variables with large values dominate. Set "
      "train.loss_units = \"scaled\", or train one variable at a time (data.variables)\n",
      names);
}

/// Missing values are filled with the cycle: 0 in original units is another anomaly at every step.
void check_fill(const Config& config, const AnomalySpec& anomalies) {
  if (config.window.fill == "zero" && anomalies.on())
    user_error(
        "window.fill = \"zero\" does not work with data.cycle, data.trend or data.transform, which replace a "
        "missing input by the usual value of its time. Set window.fill = \"mean\"");
}

}  // namespace

template <class T>
WindowRun<T>::WindowRun(const ProcessGrid& grid, const Config& config, Domain domain, Purpose purpose,
                        std::shared_ptr<const DataRecord> record, Index workers)
    : ModelRun<T>(grid, config, std::move(domain), std::move(record)),
      architecture_(*config.windows()),
      shape_{config.window.inputs, config.window.outputs},
      breaks_(time_breaks(domain_.info.time)),
      plane_reducer_(grid_.plane()),
      block_reducer_(grid_.space()),
      stages_reducer_(grid_.pipeline()) {
  domain_.split.breaks = breaks_;  // windows do not cross a gap, nor do pairs of steps for baselines
  agree(grid_.world(), [&] {
    check_window_relations(config);
    check_quantiles(config.train);
    if (grid_.stages() > 1) stage_of_ = stages_of_layers(config, grid_.stages());
    architecture_.check({shape_, config.relation.graph, recompute_of(config), checks_starts(purpose)});
    windows_ = training_windows(domain_.split, shape_, config.window.stride, breaks_);
    times_ = TimeFeatures::of(domain_.info.time, time_feature_choice(config.window));
    plan_ = std::make_unique<WindowPlan>(
        window_options(config, shape_, workers > 0 ? static_cast<int>(workers) : grid_.groups()), windows_,
        domain_.info.steps);
  });
  this->open_device(purpose);
  this->decide_cycle(purpose);
  agree(grid_.world(), [&] { check_fill(config, this->anomalies_asked()); });
  // Inputs known ahead of a forecast from the end of the data lie after the data.
  span_ = domain_.info.steps + (purpose == Purpose::forecasting && reads_ahead() ? shape_.outputs : 0);
  if (this->cycles()) (purpose == Purpose::forecasting ? training_view_ : forecast_view_) = span_;
  const auto origins = window_origins(domain_.split.origins(Role::validation, shape_.outputs), shape_,
                                      shape_.outputs, breaks_);
  const auto count = static_cast<Index>(origins.size());
  for (Index g = 0; g < grid_.groups(); ++g)
    validation_.emplace_back(origins.begin() + count * g / grid_.groups(),
                             origins.begin() + count * (g + 1) / grid_.groups());
  if (purpose == Purpose::tracing)
    step_exchange_ = std::make_unique<TracedStepExchange>(static_cast<int>(grid_.groups()), grid_.group());
  else
    step_exchange_ = make_step_exchange(grid_.time());
  if (grid_.stages() > 1) stage_link_ = make_row_link(grid_.pipeline());
  // A group fails as a whole, so communication within groups is allowed here.
  agree(grid_.world(), [&] { make_store(purpose); });
  make_graph(purpose);
  if (trains(purpose)) release_unused_memory();  // of graphs, after supports are built
  fit(purpose);
  FurtherInputs further;
  if (domain_.inputs.past > 0) further.past = &past_scaler_;
  if (domain_.inputs.known > 0) further.known = &known_scaler_;
  further.times_ahead = config.window.known_times;
  further.fixed_channels = domain_.inputs.fixed;
  further.fixed = fixed_;
  further.calendar = &calendar_;
  if (corrects()) further.base_leads = shape_.outputs;
  reader_ = std::make_unique<SeriesReader<T>>(
      *store_, scaler_, times_, config.window.fill == "zero" ? Fill::zero : Fill::mean, further);
  choose_sparse();
  agree(grid_.world(), [&] {
    make_model();
    release(block_.value);  // the model has a copy in its own precision
    if (Device* device = this->device()) keep_data(*device);
  });
  // Nobody reads the values of traced steps.
  if (purpose != Purpose::tracing) model_->start(static_cast<std::uint64_t>(config.train.seed));
  if (purpose != Purpose::tracing && corrects() && !model_->clear_last_layer() && grid_.stages() == 1)
    user_error(
        "model.base_forecast: model.name = \"{}\" has no last layer that can start at 0. Remove "
        "model.base_forecast",
        config.model.name);
  if (trains(purpose) && low_rank() > 0 && config.relation.low_rank_start == "eof") start_low_rank_at_eofs();
  for (Parameter<T>* parameter : model_->parameters()) parameter->decay = config.optimiser.decay;
}

/// Copies the series to the device if it takes at most half of the memory left, never changes and is all that
/// batches read. Otherwise the input of each batch is sent ahead.
template <class T>
void WindowRun<T>::keep_data(Device& device) {
  for (Device::Copy& copy : model_->keep_on(device)) kept_.push_back(std::move(copy));
  for (Device::Copy& copy : reader_->keep_on(device)) kept_.push_back(std::move(copy));
  keep_steps(device);
}

template <class T>
void WindowRun<T>::keep_steps(Device& device) {
  const bool local = plan_->options().sampling == WindowSampling::local || grid_.groups() == 1;
  if (local && store_->values().size_bytes() <= device.free_bytes() / 2)
    kept_steps_.push_back(device.keep(store_->values()));
  else if (!device.driver().only_addresses())
    store_->carry_to(device);
}

/// Scales, counts and names the data that training windows read; the result is the same for every grid.
template <class T>
void WindowRun<T>::fit(Purpose purpose) {
  if (!reads_series(purpose)) {
    scaler_ = Scaler(store_->rows(), store_->features());
    past_scaler_ = Scaler(store_->rows(), domain_.inputs.past);
    known_scaler_ = Scaler(store_->rows(), domain_.inputs.known);
    fixed_.assign(domain_.fixed.size(), 0.0F);
    plan_->set_observed(std::vector<double>(static_cast<std::size_t>(domain_.info.steps), 1.0));
    return;
  }
  const auto read = plan_->steps_of(windows_);
  const std::vector<Index> training = training_steps();
  std::vector<double> observed(static_cast<std::size_t>(domain_.info.steps));
  const Index width = store_->rows() * store_->features();
  double all = 0;
  const std::vector<double> centers = centers_of_rows(domain_);
  for (const Index step : training) {
    for (Index k = 0; k < width; ++k)
      if (!std::isnan(store_->at(step)[k])) observed[static_cast<std::size_t>(step)] += 1;
    this->summarise(store_->at(step), store_->rows(), centers);
  }
  plane_reducer_.sum(observed);
  this->complete_summaries(plane_reducer_);
  for (const Index start : windows_)
    for (Index h = 0; h < shape_.outputs; ++h)
      all += observed[static_cast<std::size_t>(start + shape_.inputs + h)];
  if (all == 0 && std::any_of(observed.begin(), observed.end(), [](double count) { return count > 0; }))
    user_error(
        "{}: no target of the {} training windows is observed, only inputs are. Move the training part with "
        "split.train or data.first_step",
        domain_.info.path, windows_.size());
  this->require_observed(all);
  const auto whole = static_cast<double>(domain_.nodes() * store_->features());
  reads_zero_ = config_->window.fill == "mean" && config_->data.center == "none" &&
                !this->anomalies_asked().on() && std::any_of(read.begin(), read.end(), [&](Index step) {
                  return observed[static_cast<std::size_t>(step)] < whole;
                });
  plan_->set_observed(std::move(observed));
  sees_validation_ = sees_validation();
  if (purpose != Purpose::forecasting) this->require_validation(sees_validation_);
  const auto place_of = [this](Index step) {
    const auto& held = store_->held();
    return std::binary_search(held.begin(), held.end(), step) ? step : step + span_;
  };
  this->data_hash_ = rossby::data_hash(grid_.plane(), *config_, domain_, hashed_steps(), read,
                                       [&](Index step) { return store_->at(place_of(step)); });
  const Index rows = store_->rows();
  const auto kept = this->kept_fit({Scaler(rows, store_->features(), config_->data.factor),
                                    Scaler(rows, domain_.inputs.past), Scaler(rows, domain_.inputs.known)});
  fit_inputs(training, kept ? &*kept : nullptr);
  if (this->anomalies_asked().on()) fit_anomalies(read, training, kept ? &*kept : nullptr);
  if (corrects()) correct_base(purpose, kept.has_value());
  MpiReducer space(grid_.space()), groups(grid_.time());
  const auto trained = [this](Index step) { return store_->at(step + training_view_); };
  scaler_ = kept ? kept->scalers.front()
                 : Scaler::fit(
                       {rows, store_->features(), training, trained, grid_.groups() > 1 ? &groups : nullptr},
                       scaler_spec(config_->data), space);
  if (config_->train.loss_units == "data")
    gradient_factor_ = gradient_factor(loss_of(config_->train), unit());
}

/// Returns the mean over nodes and features of what one unit of scaled error is in original units.
template <class T>
double WindowRun<T>::unit() {
  double sums[] = {0, 0};
  for (Index row = 0; row < scaler_.rows(); ++row)
    for (Index feature = 0; feature < scaler_.features(); ++feature) {
      sums[0] += scaler_.error_factor(row, feature);
      sums[1] += 1;
    }
  plane_reducer_.ordered_sum(sums);
  return sums[0] / sums[1];
}

/// True if a validation window has an observed target.
template <class T>
bool WindowRun<T>::sees_validation() {
  const auto& origins = validation_[static_cast<std::size_t>(store_->group())];
  const Index width = store_->rows() * store_->features();
  const auto seen = [&](Index origin) {
    for (Index h = 1; h <= shape_.outputs; ++h)
      if (const float* x = store_->at(origin + h + forecast_view_);
          std::any_of(x, x + width, [](float value) { return !std::isnan(value); }))
        return true;
    return false;
  };
  double observed = std::any_of(origins.begin(), origins.end(), seen) ? 1 : 0;
  plane_reducer_.sum(std::span<double>(&observed, 1));
  return observed > 0;
}

template <class T>
Traffic WindowRun<T>::sent() const {
  Traffic sent = ModelRun<T>::sent();
  sent += graph_exchange_->sent();
  if (all_ports_ || all_rows_) sent += all_ports_ ? all_ports_->exchange().sent() : all_rows_->sent();
  sent += step_exchange_->sent();
  sent += plane_reducer_.sent();
  sent += block_reducer_.sent();
  sent += stages_reducer_.sent();
  if (stage_link_) sent += stage_link_->sent();
  return sent;
}

template <class T>
std::unique_ptr<WindowTask<T>> WindowRun<T>::make_window_task(Index view) {
  WindowTaskOptions options;
  options.anomalies = &anomalies_;
  options.view = view;
  options.sampling_decay = architecture_.sampling_decay();
  // At most a training step's windows, because they use the memory of a step.
  const Index windows = std::min<Index>(plan_->options().batch, std::ssize(windows_));
  const Index parts = grid_.stages() > 1 ? 1 : plan_->options().micro_batches;
  options.score_batch = std::max<Index>(1, windows / grid_.groups() / parts);
  options.seed = plan_->options().seed;
  options.loss = loss_of(config_->train);
  options.loss_name = config_->train.loss;
  options.scaled_loss = config_->train.loss_units == "scaled";
  options.gradient_factor = gradient_factor_;
  options.quantiles = quantiles();
  options.middle = middle();
  options.validation = config_->validation.metric;
  options.stage = grid_.stage();
  options.stages = grid_.stages();
  return std::make_unique<WindowTask<T>>(options, *plan_, *model_, *reader_, *store_, validation_, reducer_);
}

template <class T>
std::vector<double> WindowRun<T>::quantiles() const {
  std::vector<double> levels;
  for (const Index percent : config_->train.quantiles) levels.push_back(static_cast<double>(percent) / 100);
  return levels;
}

template <class T>
Index WindowRun<T>::middle() const {
  const std::vector<Index>& levels = config_->train.quantiles;
  return std::lower_bound(levels.begin(), levels.end(), Index{50}) - levels.begin();
}

/// Windows do not cross gaps, so a few missing times may cost most windows.
template <class T>
std::string WindowRun<T>::lost_to_gaps() const {
  if (breaks_.empty()) return "";
  const Index kept = std::ssize(windows_),
              all = std::ssize(training_windows(domain_.split, shape_, config_->window.stride, {}));
  if (all == kept) return "";
  return fmt::format(
      "warning   {} of {} training windows are left out, because they cross one of {} gaps of the time axis. "
      "To keep these windows, set data.fill_steps = true, which fills the gaps with missing values\n",
      all - kept, all, breaks_.size());
}

template <class T>
std::string WindowRun<T>::remarks() const {
  const bool blind = !domain_.split.validation.empty() && !sees_validation_;
  constexpr Index filling = 10'000;  // rows of a product that fill a GPU
  const Index parts = plan_->options().micro_batches;
  const Index rows = reader_->rows() * plan_->options().batch / grid_.groups() / parts;
  return (corrects() ? fmt::format("base      {}\n", base_.remark) : "") +
         fmt::format("windows   {} of {} + {} steps for training, {} channels\n{}", windows_.size(),
                     shape_.inputs, shape_.outputs, reader_->channels(),
                     blind ? "validation left out: none of its windows has an observed target\n" : "") +
         lost_to_gaps() +
         (training_exec_.backend == Backend::cuda && block_.entries() > 0
              ? fmt::format("graph     products: {}{}\n", to_string(sparse_choice_),
                            why_no_library_.empty() ? "" : "; " + why_no_library_)
              : "") +
         (training_exec_.backend == Backend::cuda && parts > 1 && rows < filling
              ? fmt::format("warning   window.micro_batches = {} gives a GPU only {} rows at once. If memory "
                            "is enough, window.micro_batches = 1 is faster\n",
                            parts, rows)
              : "") +
         (reads_zero_
              ? "warning   missing inputs are read as 0 in original units, because data.center = \"none\" "
                "computes no mean. Set data.center, or window.fill = \"zero\" if zeros are meant\n"
              : "") +
         embedding_remark() + input_remarks() +
         different_units(domain_.info.variables, config_->train.loss_units) + this->suspects() +
         this->anomaly_remark();
}

template <class T>
void WindowRun<T>::add_metadata(nlohmann::ordered_json& json) const {
  ModelRun<T>::add_metadata(json);
  if (training_exec_.backend == Backend::cuda && block_.entries() > 0)
    json["sparse_kernel"] = std::string(to_string(sparse_choice_.way));
  if (corrects()) json["base_forecast"] = config_->model.base_forecast + ": " + base_.chosen;
}

template <class T>
std::vector<Index> WindowRun<T>::usable(std::vector<Index> origins, Index horizons) const {
  if (horizons > shape_.outputs)
    user_error(
        "{} horizons are too many: the model forecasts window.outputs = {} steps. Lower evaluate.horizons or "
        "--steps",
        horizons, shape_.outputs);
  auto usable = window_origins(origins, shape_, horizons, breaks_);
  if (usable.empty() && !origins.empty())
    user_error(
        "no forecast origin has window.inputs = {} known steps before it and the {} forecast steps after it "
        "without a gap of the time axis. Set data.fill_steps = true in training, or choose other origins "
        "with evaluate.first_origin, evaluate.last_origin or split.test (in rossby forecast: --origin, or "
        "fewer --steps)",
        shape_.inputs, horizons);
  return usable;
}

template <class T>
void WindowRun<T>::forecast_anomalies(std::span<const Index> origins, Index horizons, bool of_training,
                                      const typename ModelRun<T>::Visit& visit) {
  Tape<T> tape(training_exec_);
  make_window_task(of_training ? training_view_ : forecast_view_)->forecast(tape, origins, horizons, visit);
}

template <class T>
void WindowRun<T>::forecast_anomaly_quantiles(std::span<const Index> origins, Index horizons,
                                              const typename ModelRun<T>::LevelVisit& visit) {
  Tape<T> tape(training_exec_);
  make_window_task(forecast_view_)->forecast_levels(tape, origins, horizons, visit);
}

template <class T>
void WindowRun<T>::add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                                      const std::function<ScoredUnits(Index)>& units) {
  Tape<T> tape(training_exec_);
  make_window_task(forecast_view_)->add_errors(tape, errors, origins, horizons, units);
}

/// A few hundred windows, evenly spread.
template <class T>
std::vector<Index> WindowRun<T>::training_origins(Index) const {
  constexpr Index most = 256;
  const Index count = std::min<Index>(most, std::ssize(windows_));
  std::vector<Index> origins;
  for (Index k = 0; k < count; ++k)
    origins.push_back(windows_[static_cast<std::size_t>(k * std::ssize(windows_) / count)] + shape_.inputs -
                      1);
  return origins;
}

template class WindowRun<float>;
template class WindowRun<double>;

}  // namespace rossby
