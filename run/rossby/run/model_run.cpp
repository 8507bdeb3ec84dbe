#include "rossby/run/model_run.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/plane_service.hpp"
#include "rossby/mpi/whole_graph.hpp"
#include "rossby/run/cycle_choice.hpp"
#include "rossby/run/stages.hpp"
#include "rossby/run/stnn_run.hpp"
#include "rossby/run/training_options.hpp"
#include "rossby/run/window_inputs.hpp"
#include "rossby/run/window_run.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
void make_up(std::span<float> values) {
  std::uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) * 0x1p-23F - 1;
  }
}

template <class T>
ModelRun<T>::ModelRun(const ProcessGrid& grid, const Config& config, Domain domain,
                      std::shared_ptr<const DataRecord> record)
    : grid_(grid),
      config_(&config),
      domain_(std::move(domain)),
      reducer_(grid.world()),
      groups_reducer_(grid.time()),
      record_(std::move(record)) {
  exec_.threads = threads_per_rank(grid.world(), config);
  agree(grid.world(), [&] { require_blas_memory(exec_.threads); });
  exec_.isa = isa_of<T>(common_isa(grid.world(), config, reducer_));
}

template <class T>
void ModelRun<T>::open_device(Purpose purpose) {
  if (purpose != Purpose::tracing) device_ = choose_device(grid_.world(), *config_);
  if (purpose == Purpose::tracing) {
    device_.backend = Backend::simulated;
    const std::string& named = config_->parallel.device;
    const bool on_device = named == "cuda" || named == "simulated";
    device_.device = std::make_unique<Device>(
        SimulatedDriver::idle(on_device ? SimulatedDriver::For::device : SimulatedDriver::For::host));
    device_.nccl = on_device && grid_.world().size() > 1 && config_->parallel.transport == "nccl";
  }
  training_exec_ = exec_;
  if (!device_.device && std::is_same_v<T, float>) {
    ProductsChoice choice = choose_products(*config_, exec_.isa, reducer_);
    training_exec_.products = choice.products;
    products_remark_ = std::move(choice.remark);
  }
  training_exec_.backend = device_.backend;
  training_exec_.device = device_.device.get();
  Device* device = training_exec_.device;
  if (device && device_.nccl)
    world_sums_ = std::make_unique<DeviceSums>(grid_.world(), *device, true, reducer_, device_.link);
  if (device && grid_.groups() > 1)
    group_ports_ = std::make_unique<DeviceSums>(grid_.time(), *device, device_.nccl, groups_reducer_,
                                                link_of(grid_.time()));
}

template <class T>
std::shared_ptr<NcclLink> ModelRun<T>::link_of(const Communicator& comm) const {
  if (!world_sums_ || !world_sums_->link()) return nullptr;
  return comm.same_ranks(grid_.world()) ? world_sums_->link() : nullptr;
}

template <class T>
Traffic ModelRun<T>::sent() const {
  Traffic sent = reducer_.sent();
  sent += groups_reducer_.sent();
  return sent;
}

template <class T>
void ModelRun<T>::summarise(const float* values, Index rows, std::span<const double> centers) {
  const auto& targets = domain_.info.variables;
  const InputVariables& inputs = domain_.inputs;
  const std::span<const SeriesVariable> further(inputs.variables);
  std::size_t past = 0;  // variables
  for (Index channels = 0; channels < inputs.past; ++past) channels += further[past].features;
  summaries_.resize(targets.size() + further.size());
  std::size_t first = 0;  // summary of a part's first variable
  Index k = 0;
  for (const auto part :
       {std::span<const SeriesVariable>(targets), further.first(past), further.subspan(past)}) {
    const bool centered = first == 0 && !centers.empty();
    for (Index i = 0; i < rows; ++i)
      for (std::size_t v = 0; v < part.size(); ++v)
        for (Index f = 0; f < part[v].features; ++f, ++k)
          summaries_[first + v].look_at(static_cast<double>(values[k]) +
                                        (centered ? centers[static_cast<std::size_t>(k)] : 0));
    first += part.size();
  }
}

template <class T>
void ModelRun<T>::complete_summaries(Reducer& reducer) {
  summaries_.resize(domain_.info.variables.size() + domain_.inputs.variables.size());
  for (ValueSummary& summary : summaries_) {
    reducer.sum(summary.sums());
    reducer.max(summary.extremes());
    reducer.sum(summary.suspects().counts());
  }
  const auto& variables = domain_.info.variables;
  for (std::size_t v = 0; v < variables.size(); ++v)
    if (const ValueSummary& summary = summaries_[v]; summary.finite() > 0)
      require_float_range(fmt::format("{}: variable {}", domain_.info.path, variables[v].name),
                          variables[v].units, summary.high() - summary.low());
}

/// Models expect values of about 1. Returns a warning if data.spread = "none" leaves others.
template <class T>
std::string ModelRun<T>::unscaled() const {
  constexpr double low = 0.01, high = 1e4;
  if (config_->data.spread != "none" || anomalies_asked().transform.on()) return "";
  std::string lines;
  const auto& variables = domain_.info.variables;
  for (std::size_t v = 0; v < std::min(variables.size(), summaries_.size()); ++v) {
    const double range = summaries_[v].high() - summaries_[v].low(), scaled = range * config_->data.factor;
    if (summaries_[v].suspects().any() || !(range > 0) || (scaled >= low && scaled <= high)) continue;
    lines += fmt::format(
        "warning   data.spread = \"none\" leaves {} as it is: it varies by {:.2g}, and models expect values "
        "of about 1. Set data.spread = \"global\"\n",
        variables[v].name, scaled);
  }
  return lines;
}

template <class T>
std::string ModelRun<T>::suspects() const {
  std::string lines = unscaled();
  const std::size_t targets = domain_.info.variables.size();
  for (std::size_t v = 0; v < summaries_.size(); ++v)
    if (const SuspectValues& suspects = summaries_[v].suspects(); suspects.any())
      lines += fmt::format(
          "warning   {} in the training part. If these numbers mark missing values, {}\n", suspects.text(),
          v < targets
              ? "set data.null_value. If not, use a unit in which the values of the variable are about 1"
              : fmt::format("name it as _FillValue of {}", domain_.inputs.variables[v - targets].name));
  return lines;
}

template <class T>
void ModelRun<T>::decide_cycle(Purpose purpose) {
  const bool decides = config_->data.cycle == "auto";
  const std::string& named = decides ? config_->data.cycle_decided : config_->data.cycle;
  if (!named.empty()) {
    cycle_ = cycle_kind(named);
    if (decides)
      cycle_remark_ = fmt::format("cycle     data.cycle = \"auto\" is {}, as when the run began\n", named);
    return;
  }
  if (!reads_series(purpose)) {  // with a cycle it holds the most steps
    cycle_ = CycleKind::time_of_day;
    return;
  }
  CycleChoice choice = choose_cycle(grid_, *config_, domain_, exec_.threads);
  cycle_ = choice.kind;
  cycle_remark_ = std::move(choice.remark);
}

template <class T>
std::size_t ModelRun<T>::list_bytes() const {
  const Index columns = std::ssize(domain_.rows) * domain_.info.features;
  // Nothing is known of a cycle that is not decided yet.
  const bool known = config_->data.cycle != "auto" || anomalies_.on();
  return domain_.bytes() + (known ? AnomalyMap::bytes_of(domain_.info.time, anomalies_asked(), columns) : 0);
}

template <class T>
std::string ModelRun<T>::anomaly_remark() const {
  const std::string text = text_of(anomalies_asked());
  return cycle_remark_ + (text.empty() ? "" : fmt::format("anomalies {}\n", text));
}

template <class T>
void ModelRun<T>::add_metadata(nlohmann::ordered_json& json) const {
  if (config_->data.cycle == "auto") json["cycle"] = std::string(name_of(cycle_));
  if (!products_remark_.empty())
    json["products"] = training_exec_.products == Products::bf16 ? "bf16" : "model";
}

/// Returns the error variance of anomaly forecasts, (horizons, rows, features), over some forecasts of
/// training steps. A node with few values takes mostly the variance of all nodes. Empty if medians are asked
/// for, or if means are the same.
template <class T>
std::vector<double> ModelRun<T>::residual_variance(Index horizons) {
  if (!anomalies_.transform().on() || config_->data.point != "mean") return {};
  const auto rows = static_cast<Index>(domain_.rows.size());
  const Index m = domain_.info.features, width = rows * m;
  std::vector<double> number(static_cast<std::size_t>(horizons * width)), sum(number.size()),
      squares(number.size());
  const std::vector<Index> origins = training_origins(horizons);
  forecast_anomalies(origins, horizons, true, [&](Index first, Index horizon, NodeView<const T> x) {
    for (Index i = 0; i < rows; ++i)
      for (Index b = 0; b < x.cols; ++b)
        for (Index f = 0; f < m; ++f) {
          const Index target = origins[static_cast<std::size_t>(first + b)] + horizon;
          const double left = static_cast<double>(x.at(i, b)[f]) - training_anomaly(target, i, f);
          if (std::isnan(left)) continue;
          const auto k = static_cast<std::size_t>((horizon - 1) * width + i * m + f);
          number[k] += 1;
          sum[k] += left;
          squares[k] += left * left;
        }
  });
  std::vector<double> pooled(static_cast<std::size_t>(2 * horizons * m));  // squares, then numbers
  const auto of_all = [&](std::size_t k) {
    return k / static_cast<std::size_t>(width) * static_cast<std::size_t>(m) +
           k % static_cast<std::size_t>(m);
  };
  const std::size_t half = pooled.size() / 2;
  for (std::size_t k = 0; k < number.size(); ++k) {
    if (number[k] > 0) squares[k] = std::max(0.0, squares[k] - sum[k] * sum[k] / number[k]);
    pooled[of_all(k)] += squares[k];
    pooled[half + of_all(k)] += number[k];
  }
  reducer_.ordered_sum(pooled);
  constexpr double few = 10;
  for (std::size_t k = 0; k < number.size(); ++k) {
    const double all = pooled[half + of_all(k)];
    const double variance = all > 0 ? pooled[of_all(k)] / all : 0;
    squares[k] = (squares[k] + few * variance) / (number[k] + few);
  }
  return squares;
}

/// Turns the anomalies in `values`, forecast at a horizon, back into values; `variance` as in
/// residual_variance.
template <class T>
NodeView<const T> ModelRun<T>::values_of(NodeView<const T> x, std::span<const Index> origins, Index horizon,
                                         std::span<const double> variance, Buffer<T>& values) const {
  if (values.size() < x.size()) values = Buffer<T>(x.size());
  const NodeView<T> out(values.data(), x.rows, x.cols, x.channels);
  for (Index i = 0; i < x.rows; ++i)
    for (Index b = 0; b < x.cols; ++b)
      for (Index f = 0; f < x.channels; ++f) {
        const Index column = i * x.channels + f;
        const double v =
            variance.empty()
                ? 0
                : variance[static_cast<std::size_t>((horizon - 1) * x.rows * x.channels + column)];
        out.at(i, b)[f] = static_cast<T>(anomalies_.to_value(
            static_cast<double>(x.at(i, b)[f]), origins[static_cast<std::size_t>(b)] + horizon, column, v));
      }
  return out;
}

template <class T>
void ModelRun<T>::know_cycle(std::span<const Index> origins, Index horizons) {
  const Index last = origins.empty() ? 0 : *std::max_element(origins.begin(), origins.end()) + horizons;
  agree(grid_.world(), [&] { anomalies_.extend(domain_.info.time, last + 1 - domain_.info.steps); });
}

template <class T>
void ModelRun<T>::forecast(std::span<const Index> origins, Index horizons, const Visit& visit) {
  if (!anomalies_.on()) return forecast_anomalies(origins, horizons, false, visit);
  const std::vector<double> variance = residual_variance(horizons);
  know_cycle(origins, horizons);
  Buffer<T> values;
  forecast_anomalies(origins, horizons, false, [&](Index first, Index horizon, NodeView<const T> x) {
    visit(first, horizon,
          values_of(x, origins.subspan(static_cast<std::size_t>(first)), horizon, variance, values));
  });
}

template <class T>
void ModelRun<T>::forecast_quantiles(std::span<const Index> origins, Index horizons,
                                     const LevelVisit& visit) {
  if (!anomalies_.on()) return forecast_anomaly_quantiles(origins, horizons, visit);
  know_cycle(origins, horizons);
  Buffer<T> values;
  // Quantiles stay quantiles under the monotone way back.
  forecast_anomaly_quantiles(
      origins, horizons, [&](Index first, Index horizon, Index level, NodeView<const T> x) {
        visit(first, horizon, level,
              values_of(x, origins.subspan(static_cast<std::size_t>(first)), horizon, {}, values));
      });
}

template <class T>
void ModelRun<T>::forecast_anomaly_quantiles(std::span<const Index>, Index, const LevelVisit&) {
  bug("a model without quantiles forecasts none");
}

template <class T>
void ModelRun<T>::add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons) {
  const std::vector<double> variance = anomalies_.on() ? residual_variance(horizons) : std::vector<double>();
  const std::size_t width = variance.size() / static_cast<std::size_t>(std::max<Index>(horizons, 1));
  add_anomaly_errors(errors, origins, horizons, [&](Index horizon) {
    ScoredUnits units;
    units.anomalies = &anomalies_;
    if (!variance.empty())
      units.variance = std::span(variance).subspan(static_cast<std::size_t>(horizon - 1) * width, width);
    return units;
  });
}

/// Refuses a model whose steps have no values, which would silently be trained on nothing.
template <class T>
void ModelRun<T>::require_observed(double observed) const {
  if (observed > 0) return;
  const auto steps = domain_.split.training_steps();
  user_error(
      "{}: the training part ({} to {}) has no observed value. Move the training part with split.train or "
      "data.first_step",
      domain_.info.path, domain_.info.time.text(steps.front()), domain_.info.time.text(steps.back()));
}

template <class T>
void ModelRun<T>::require_validation(bool observed) {
  validation_seen_ = observed;
  const StepRange& part = domain_.split.validation;
  if (observed || part.empty() || !watches_validation(*config_)) return;
  user_error(
      "{}: schedule.metric = \"validation\" has nothing to watch: the validation part ({} to {}) has no "
      "forecast with an observed target. Move this part with split.validation, or set schedule.metric = "
      "\"train\"",
      domain_.info.path, domain_.info.time.text(part.first), domain_.info.time.text(part.last - 1));
}

namespace {

/// A stage of a group fails as a whole, so it may communicate here; other stages are informed.
Domain domain_of(const ProcessGrid& grid, const Config& config, WholeGraph* whole) {
  if (whole) return whole->domain(grid.space(), config);
  if (grid.groups() * grid.stages() == 1) return make_domain(grid.space(), config);
  return agree(grid.world(), [&] { return make_domain(grid.space(), config); });
}

}  // namespace

template <class T>
std::unique_ptr<ModelRun<T>> make_run(const Communicator& comm, const Config& config, Purpose purpose,
                                      WholeGraph* whole, std::shared_ptr<const DataRecord> record,
                                      Index workers) {
  require((whole != nullptr) == comm.is_pretended(), "pretended ranks own rows of a whole graph");
  const bool forecasts = purpose == Purpose::forecasting, windowed = config.windows() != nullptr;
  const Index groups = forecasts ? 1 : config.parallel.time_groups;
  const Index stages = forecasts ? 1 : config.parallel.stages;
  if (!windowed && stages > 1)
    user_error(
        "parallel.stages = {} works only with models that have layers ({}). Set parallel.stages = 1 "
        "for model.name = \"{}\"",
        stages, models_of_layers(), config.model.name);
  if (stages == 1 && !forecasts && !config.parallel.stage_layers.empty())
    user_error(
        "parallel.stage_layers needs parallel.stages of at least 2. Remove parallel.stage_layers, or set "
        "parallel.stages = 2 or more");
  check_inputs(config);
  const ProcessGrid grid = groups * stages == 1 ? ProcessGrid(comm) : ProcessGrid(comm, groups, stages);
  Domain domain = domain_of(grid, config, whole);
  // Otherwise memory of the graph and its partition would stay beside all arrays that follow.
  if (!forecasts && !whole) release_unused_memory();
  if (record) domain.centers = record->centers;  // a changed value may be the first of its node
  if (!windowed)
    return std::make_unique<StnnRun<T>>(grid, config, std::move(domain), purpose, std::move(record));
  return std::make_unique<WindowRun<T>>(grid, config, std::move(domain), purpose, std::move(record), workers);
}

template class ModelRun<float>;
template class ModelRun<double>;
template std::unique_ptr<ModelRun<float>> make_run(const Communicator&, const Config&, Purpose, WholeGraph*,
                                                   std::shared_ptr<const DataRecord>, Index);
template std::unique_ptr<ModelRun<double>> make_run(const Communicator&, const Config&, Purpose, WholeGraph*,
                                                    std::shared_ptr<const DataRecord>, Index);

int threads_per_rank(const Communicator& comm, const Config& config) {
  const int ranks = ranks_on_host(comm);
  if (const Index asked = config.parallel.threads; asked > 0) return static_cast<int>(asked);
  if (const char* set = std::getenv("OMP_NUM_THREADS"))
    if (const int threads = std::atoi(set); threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

}  // namespace rossby
