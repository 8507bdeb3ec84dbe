#include "rossby/run/stnn_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/data/anomalies.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/ports.hpp"
#include "rossby/run/stnn_settings.hpp"
#include "rossby/run/training_options.hpp"

namespace rossby {

template <class T>
StnnRun<T>::StnnRun(const ProcessGrid& grid, const Config& config, Domain domain, Purpose purpose,
                    std::shared_ptr<const DataRecord> record)
    : ModelRun<T>(grid, config, std::move(domain), std::move(record)), space_reducer_(grid_.space()) {
  const Communicator& world = grid_.world();
  const std::vector<Index> training = domain_.split.training_steps();
  agree(world, [&] {
    if (checks_starts(purpose)) {
      check_starts(config, domain_.nodes());
      check_rates(config);
    }
    batches_ = batch_options(config, grid_);
    held_ = steps_of_groups(batches_, training)[static_cast<std::size_t>(grid_.group())];
  });
  this->open_device(purpose);
  const Index start = std::max<Index>(domain_.split.validation.first - 1, 0);
  validates_ = grid_.groups() == 1 || held_.contains(start);
  this->decide_cycle(purpose);
  // A group fails as a whole, so communication within groups is allowed here.
  agree(world, [&] { read(purpose); });
  fit(purpose);
  if (purpose != Purpose::forecasting) choose_update_place();
  // Memory and stream files may fail on a single rank, so they come after all communication.
  auto relations = agree(world, [&] {
    return make_relations<T>(grid_.space(), config, domain_, this->device(), update_place_.way,
                             checks_starts(purpose) ? TurnedSigns::refused : TurnedSigns::taken);
  });
  join(*relations);
  if (trains(purpose)) release_unused_memory();  // of graphs, after relations are built
  choose_dense(*relations);
  agree(world, [&] { make_model(std::move(relations), purpose); });
  this->start(purpose);
  set_rates(config, *model_);
}

/// Reads this group's steps, and the steps that it validates on.
template <class T>
void StnnRun<T>::read(Purpose purpose) {
  if (purpose == Purpose::forecasting || grid_.groups() == 1) {
    if (reads_series(purpose)) {
      series_ = read_series(grid_.space(), *config_, domain_);
      return;
    }
    series_ = Series(domain_.info.steps, static_cast<Index>(domain_.rows.size()), domain_.info.features);
    if (purpose == Purpose::timing) make_up(series_.values.span());
    return;
  }
  Index last = held_.last;
  if (validates_) last = std::max(last, domain_.split.validation.last);
  series_ = Series(last - held_.first, static_cast<Index>(domain_.rows.size()), domain_.info.features);
  series_.first = held_.first;
  if (purpose == Purpose::timing) make_up(series_.values.span());
  if (!reads_series(purpose)) return;
  std::vector<Index> steps(static_cast<std::size_t>(series_.steps));
  std::iota(steps.begin(), steps.end(), series_.first);
  read_steps(grid_.space(), *config_, domain_, steps, series_.values.span());
}

/// Names, counts and scales the data; the result is the same for every grid.
template <class T>
void StnnRun<T>::fit(Purpose purpose) {
  if (!reads_series(purpose)) {
    scaler_ = Scaler(series_.rows, series_.features);
    return;
  }
  std::vector<Index> steps;
  for (const Index t : domain_.split.training_steps())
    if (grid_.groups() == 1 || held_.contains(t)) steps.push_back(t);
  double observed = 0;
  const Index width = series_.rows * series_.features;
  const std::vector<double> centers = centers_of_rows(domain_);
  for (const Index t : steps) {
    for (Index k = 0; k < width; ++k) observed += std::isnan(series_.at(t)[k]) ? 0 : 1;
    this->summarise(series_.at(t), series_.rows, centers);
  }
  this->complete_summaries(reducer_);
  reducer_.sum(std::span<double>(&observed, 1));
  this->require_observed(observed);
  if (trains(purpose)) check_validation();
  double targets = 0;
  if (grid_.groups() == 1 || validates_)
    for (const Index origin : domain_.split.origins(Role::validation, 1))
      for (Index k = 0; k < width; ++k) targets += std::isnan(series_.at(origin + 1)[k]) ? 0 : 1;
  reducer_.sum(std::span<double>(&targets, 1));
  if (purpose != Purpose::forecasting) this->require_validation(targets > 0);
  this->data_hash_ = hash_data();
  const auto kept = this->kept_fit({Scaler(series_.rows, series_.features, config_->data.factor)});
  if (this->anomalies_asked().on()) fit_anomalies(steps, purpose, kept ? &*kept : nullptr);
  const auto at = [this](Index t) { return series_.at(t); };
  scaler_ = kept ? kept->scalers.front()
                 : Scaler::fit({series_.rows, series_.features, steps, at, this->time_groups().reducer},
                               scaler_spec(config_->data), space_reducer_);
  scaler_.apply(series_);
  if (truth_.steps > 0) scaler_.apply(truth_);
}

/// Turns the series into anomalies. The cycle at a training step leaves out its own day or year, also at the
/// latents where forecasts start. `own` are this group's training steps.
template <class T>
void StnnRun<T>::fit_anomalies(const std::vector<Index>& own, Purpose purpose, const FittedValues* kept) {
  const std::vector<Index> training = domain_.split.training_steps();
  const std::vector<double> centers = centers_of_rows(domain_);
  AnomalyMap::Training data;
  data.rows = series_.rows;
  data.features = series_.features;
  data.steps = training;
  data.own = own;
  data.at = [this](Index t) { return std::as_const(series_).at(t); };
  data.groups = grid_.groups() > 1 ? &groups_reducer_ : nullptr;
  data.centers = centers;
  data.threads = exec_.threads;
  std::vector<AnomalyMap::View> without, full;
  for (Index t = series_.first; t < series_.first + series_.steps; ++t) {
    float* values = series_.values.data() + (t - series_.first) * series_.rows * series_.features;
    (domain_.split.is_training(t) ? without : full).push_back({t, values});
  }
  if (purpose == Purpose::forecasting && this->cycles()) {
    truth_ = Series(series_.steps, series_.rows, series_.features);
    std::copy(series_.values.begin(), series_.values.end(), truth_.values.begin());
    const Index width = series_.rows * series_.features;
    for (Index t = 0; t < truth_.steps; ++t) full.push_back({t, truth_.values.data() + t * width});
  }
  if (kept) {
    full.insert(full.end(), without.begin(), without.end());
    anomalies_ = AnomalyMap::restore(kept->anomalies, data, domain_.info.time, this->anomalies_asked(), full,
                                     space_reducer_);
    return;
  }
  anomalies_ =
      AnomalyMap::fit(data, domain_.info.time, this->anomalies_asked(), without, full, space_reducer_);
}

/// Refuses to watch a validation part that is too short for a forecast.
template <class T>
void StnnRun<T>::check_validation() const {
  const StepRange& part = domain_.split.validation;
  if (part.empty() || !watches_validation(*config_) || validation_fits()) return;
  user_error(
      "schedule.metric = \"validation\" has nothing to watch: the validation part has {} steps, fewer than "
      "evaluate.horizons = {}. Lower evaluate.horizons, lengthen this part with split.validation, or set "
      "validation.kind = \"rollout\" or schedule.metric = \"train\"",
      part.size(), task_options(*config_).horizons);
}

template <class T>
bool StnnRun<T>::validation_fits() const {
  const StnnTaskOptions options = task_options(*config_);
  return options.rollout || !domain_.split.origins(Role::validation, options.horizons).empty();
}

/// Every step counts once: the last group reads the steps after the training part, a few at a time.
template <class T>
DataHash StnnRun<T>::hash_data() const {
  if (grid_.groups() == 1) return rossby::data_hash(grid_.world(), *config_, domain_, series_);
  constexpr Index chunk = 64;
  const bool last = grid_.group() + 1 == grid_.groups();
  std::vector<Index> steps(static_cast<std::size_t>((last ? domain_.info.steps : held_.last) - held_.first));
  std::iota(steps.begin(), steps.end(), held_.first);
  Series behind;
  const auto trained_on = domain_.split.training_steps();
  return rossby::data_hash(grid_.world(), *config_, domain_, steps, trained_on, [&](Index t) {
    if (held_.contains(t)) return series_.at(t);
    if (t >= behind.first + behind.steps) {
      behind = Series(std::min(chunk, domain_.info.steps - t), series_.rows, series_.features);
      behind.first = t;
      std::vector<Index> some(static_cast<std::size_t>(behind.steps));
      std::iota(some.begin(), some.end(), t);
      read_steps(grid_.space(), *config_, domain_, some, behind.values.span());
    }
    return std::as_const(behind).at(t);
  });
}

/// Makes the exchange that brings the relations' ghosts.
template <class T>
void StnnRun<T>::join(Relations<T>& relations) {
  const Communicator& comm = grid_.space();
  if (comm.size() > 1 && relations.needs_all())
    exchange_ = make_all_rows_exchange(comm, domain_);
  else
    exchange_ = make_halo_exchange(comm, domain_, relations.ghosts());
  if (Device* device = this->device()) {
    ports_ = std::make_unique<DevicePorts>(comm, *device, training_exec_, this->uses_nccl(), *exchange_,
                                           space_reducer_, domain_.partition, relations.ghosts(),
                                           this->link_of(comm));
    relations.finish(ports_->exchange(), ports_->reducer());
  } else {
    relations.finish(*exchange_, space_reducer_);
  }
}

template <class T>
void StnnRun<T>::make_model(std::unique_ptr<Relations<T>> relations, Purpose purpose) {
  StnnOptions options = model_options(*config_, domain_);
  if (grid_.groups() > 1) {
    options.held = held_;
    options.group = grid_.group();
    link_ = make_row_link(grid_.time());
    gather_ = make_group_gather(grid_.time());
    relations->gather_over(*gather_);
  }
  model_ = std::make_unique<Stnn<T>>(options, std::move(relations), domain_.rows, link_.get());
  if (Device* device = this->device()) {
    kept_ = model_->relations().bank().keep_on(*device);
    if (purpose != Purpose::forecasting) kept_.push_back(device->keep(series_.values.span()));
  }
  if (grid_.groups() == 1) return;
  for (Parameter<T>* parameter : model_->parameters()) {
    parameter->clips_late = parameter->fusable;
    parameter->fusable =
        parameter->in_bf16 || parameter->stream || (parameter->fusable && exchanges_factors(*parameter));
  }
}

/// True if time groups exchange δ and z of a dense relation, and each makes the update itself, instead of
/// summing its gradient. The choice sends fewer values, and is the same on every rank.
template <class T>
bool StnnRun<T>::exchanges_factors(const Parameter<T>& parameter) const {
  if (parameter.name.starts_with("low_rank")) return false;
  const Index steps = batches_.slab_steps > 0 ? batches_.slab_steps : domain_.split.train.last;
  const Index n = domain_.nodes(), rows = n / grid_.space().size() + 1;
  const Index d = model_->options().latent, w = model_->options().layers > 1 ? model_->options().hidden : d;
  return steps * (rows * w + n * d) < parameter.shape[0] * rows * n;
}

/// Every rank tries at the same time, as in training; rank 0 decides.
template <class T>
void StnnRun<T>::choose_dense(Relations<T>& relations) {
  const std::string& kernel = config_->parallel.dense_kernel;
  if (kernel == "auto" && relations.needs_all() && !this->device()) {
    const Index slab = config_->train.slab_steps;
    const Index steps = slab > 0 ? std::min(slab, domain_.split.train.last) : domain_.split.train.last;
    const Index width = std::max<Index>(1, steps / grid_.groups()) * stnn_settings(*config_).latent;
    dense_choice_ =
        choose_dense_product<T>(exec_, domain_.partition.size(grid_.space().rank()), domain_.nodes(), width,
                                config_->relation.precision == "bf16",
                                config_->relation.discover == "dense" || config_->relation.mode == "refine");
  } else if (kernel == "blas") {
    dense_choice_.way = DenseProduct::blas;
  }
  double decided[3] = {static_cast<double>(dense_choice_.way == DenseProduct::blas), dense_choice_.seconds[0],
                       dense_choice_.seconds[1]};
  if (grid_.world().rank() != 0) std::fill(std::begin(decided), std::end(decided), 0.0);
  reducer_.sum(decided);
  dense_choice_ = {decided[0] > 0 ? DenseProduct::blas : DenseProduct::own, {decided[1], decided[2]}};
  relations.set_dense_product(dense_choice_.way);
}

/// The slowest rank's time decides, because the others wait for it.
template <class T>
void StnnRun<T>::choose_update_place() {
  update_place_ = agree(grid_.world(), [&] {
    return try_update_places<T>(training_exec_, *config_, domain_.nodes(),
                                domain_.partition.size(grid_.space().rank()));
  });
  reducer_.max(update_place_.seconds);
  if (update_place_.seconds[0] > 0) choose(update_place_);
}

template <class T>
Traffic StnnRun<T>::sent() const {
  Traffic sent = ModelRun<T>::sent();
  sent += space_reducer_.sent();
  sent += ports_ ? ports_->exchange().sent() : exchange_->sent();
  if (link_) sent += link_->sent();
  if (gather_) sent += gather_->sent();
  return sent;
}

template <class T>
std::unique_ptr<Task<T>> StnnRun<T>::make_task() {
  StnnTaskOptions options = task_options(*config_);
  options.validates = validates_;
  options.anomalies = &anomalies_;
  return std::make_unique<StnnTask<T>>(options, batches_, *model_, series_, scaler_, domain_.split,
                                       domain_.partition, grid_.space().rank(), reducer_);
}

template <class T>
std::string StnnRun<T>::remarks() const {
  std::string remarks;
  if (model_->relations().needs_all() && !this->device())
    remarks = fmt::format("dense     products: {}\n", to_string(dense_choice_));
  if (this->device() && model_->relations().streams())
    remarks += fmt::format("streamed  weights are updated on: {}\n", to_string(update_place_));
  if (const auto& gaps = domain_.info.time.gaps(); !gaps.empty())
    remarks += fmt::format(
        "gaps      {} in the time axis, the first after {}. Model stnn treats a gap like one step. To insert "
        "the missing steps, set data.fill_steps = true\n",
        gaps.size(), domain_.info.time.text(gaps.front().after));
  remarks += this->suspects() + this->anomaly_remark();
  if (!domain_.split.validation.empty() && !validation_fits())
    remarks += fmt::format(
        "warning   validation is left out, because its part has {} steps, fewer than evaluate.horizons = {}. "
        "Lower evaluate.horizons, or lengthen split.validation\n",
        domain_.split.validation.size(), task_options(*config_).horizons);
  return remarks;
}

template <class T>
void StnnRun<T>::add_metadata(nlohmann::ordered_json& json) const {
  ModelRun<T>::add_metadata(json);
  if (model_->relations().needs_all()) json["dense_kernel"] = std::string(to_string(dense_choice_.way));
  if (config_->relation.discover == "dense") json["chunk_mib"] = chunk_mib(*config_, this->device());
  if (this->device() && model_->relations().streams())
    json["update_place"] = std::string(to_string(update_place_.way));
}

template <class T>
void StnnRun<T>::roll(std::span<const Index> origins, Index horizons,
                      const typename ModelRun<T>::Visit& visit) {
  Tape<T> tape(training_exec_);
  Forecaster<T> forecaster(tape, *model_, series_, learned_steps(domain_.split),
                           config_->evaluate.filter_lambda, origins_at_once(training_exec_, batches_));
  forecaster.run(origins, horizons, visit);
}

template <class T>
void StnnRun<T>::forecast_anomalies(std::span<const Index> origins, Index horizons, bool,
                                    const typename ModelRun<T>::Visit& visit) {
  Buffer<T> values;
  roll(origins, horizons, [&](Index first, Index horizon, NodeView<const T> x) {
    if (values.size() < x.size()) values = Buffer<T>(x.size());
    const NodeView<T> out(values.data(), x.rows, x.cols, x.channels);
    for (Index i = 0; i < x.rows; ++i)
      for (Index b = 0; b < x.cols; ++b)
        for (Index f = 0; f < x.channels; ++f)
          out.at(i, b)[f] = static_cast<T>(scaler_.to_value(static_cast<double>(x.at(i, b)[f]), i, f));
    visit(first, horizon, out);
  });
}

template <class T>
void StnnRun<T>::add_anomaly_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons,
                                    const std::function<ScoredUnits(Index)>& units) {
  roll(origins, horizons, [&](Index first, Index horizon, NodeView<const T> x) {
    ScoredUnits scaled = units(horizon);
    scaled.scaler = &scaler_;
    errors.add<T>(0, horizon, x, truth_.steps > 0 ? truth_ : series_,
                  origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(x.cols)), scaled);
  });
}

/// A few hundred, evenly spread.
template <class T>
std::vector<Index> StnnRun<T>::training_origins(Index horizons) const {
  constexpr Index most = 256;
  const std::vector<Index> last = domain_.split.training_pairs(horizons);
  const Index count = std::min<Index>(most, std::ssize(last));
  std::vector<Index> origins;
  for (Index k = 0; k < count; ++k)
    origins.push_back(last[static_cast<std::size_t>(k * std::ssize(last) / count)] - horizons);
  return origins;
}

template class StnnRun<float>;
template class StnnRun<double>;

}  // namespace rossby
