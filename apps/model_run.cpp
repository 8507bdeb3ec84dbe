#include "apps/model_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "apps/stnn_run.hpp"
#include "apps/window_run.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"

namespace rossby {
namespace {

/// One instruction set for all ranks: they update what all of them hold each for itself, to the same bits.
Isa common_isa(const Communicator& comm, const Config& config, Reducer& reducer) {
  double lacking = -static_cast<double>(widest_isa());
  reducer.max(std::span<double>(&lacking, 1));
  const Isa common = static_cast<Isa>(static_cast<int>(-lacking));
  const std::string& name = config.text("parallel.isa");
  if (name == "auto") return common;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512})
    if (name == to_string(isa)) {
      agree(comm, [&] {
        if (!supported(isa))
          user_error(
              "parallel.isa = \"{}\": this processor has no such instructions; \"{}\" is the widest of all "
              "ranks",
              name, to_string(common));
      });
      return isa;
    }
  bug("parallel.isa is none of its choices");
}

/// A model of steps without a single value would be trained on nothing, without a word.
void check_observed(const Series& series, const Domain& domain, Reducer& reducer) {
  const auto steps = domain.split.training_steps();
  double observed = 0;
  for (const Index t : steps)
    for (Index i = 0; i < series.rows; ++i)
      for (Index f = 0; f < series.features; ++f) observed += std::isnan(series.at(t, i, f)) ? 0 : 1;
  reducer.sum(std::span<double>(&observed, 1));
  if (observed == 0)
    user_error(
        "{}: the training part ({} to {}) has no observed value; move it with split.train or data.first_step",
        domain.info.path, domain.info.time.text(steps.front()), domain.info.time.text(steps.back()));
}

}  // namespace

template <class T>
ModelRun<T>::ModelRun(const Communicator& comm, const Config& config, Domain domain)
    : comm_(comm), config_(&config), domain_(std::move(domain)), reducer_(comm) {
  exec_.threads = threads_per_rank(comm, config);
  exec_.isa = common_isa(comm, config, reducer_);
  series_ = read_series(comm, config, domain_);
  check_observed(series_, domain_, reducer_);
  data_hash_ = rossby::data_hash(comm, config, domain_, series_);
  scaler_ = Scaler::fit(series_, domain_.split, scaler_spec(config), reducer_);
}

template <class T>
std::vector<StateArray<T>> ModelRun<T>::state_arrays(std::span<const NamedArray<T>> arrays) const {
  std::vector<StateArray<T>> all;
  for (const NamedArray<T>& array : arrays) {
    const Parameter<T>& parameter = *array.parameter;
    const GlobalEdges* behind = parameter.placement == Placement::entries ? &edges(parameter) : nullptr;
    all.push_back(state_array(array.name, parameter, array.data, behind, array.bf16));
  }
  return all;
}

template <class T>
std::vector<NamedArray<T>> ModelRun<T>::values() const {
  std::vector<NamedArray<T>> arrays;
  for (Parameter<T>* parameter : parameters())
    arrays.push_back({parameter->name, parameter, parameter->value.data(), parameter->bf16.data()});
  return arrays;
}

template <class T>
void ModelRun<T>::save(const std::string& path, const nlohmann::ordered_json& metadata) {
  write_state<T>(comm_, path, domain_.partition, state_arrays(values()), metadata.dump());
}

template <class T>
void ModelRun<T>::load(const std::string& path) {
  read_state<T>(comm_, path, domain_.partition, state_arrays(values()));
}

template <class T>
std::unique_ptr<ModelRun<T>> make_run(const Communicator& comm, const Config& config, Domain domain) {
  if (config.text("model.name") == "stnn")
    return std::make_unique<StnnRun<T>>(comm, config, std::move(domain));
  return std::make_unique<WindowRun<T>>(comm, config, std::move(domain));
}

template class ModelRun<float>;
template class ModelRun<double>;
template std::unique_ptr<ModelRun<float>> make_run(const Communicator&, const Config&, Domain);
template std::unique_ptr<ModelRun<double>> make_run(const Communicator&, const Config&, Domain);

OptimiserOptions optimiser_options(const Config& config) {
  OptimiserOptions options;
  const std::string& name = config.text("optimiser.name");
  options.kind = name == "adam"    ? OptimiserKind::adam
                 : name == "adamw" ? OptimiserKind::adamw
                                   : OptimiserKind::sgd;
  options.beta1 = config.real("optimiser.beta1");
  options.beta2 = config.real("optimiser.beta2");
  options.epsilon = config.real("optimiser.epsilon");
  options.momentum = config.real("optimiser.momentum");
  options.absent = config.text("train.absent") == "skip" ? Absent::skip : Absent::zero;
  options.seed = static_cast<std::uint64_t>(config.integer("train.seed"));
  options.fuse = config.text("train.sampling") == "slabs";  // batches of pairs touch a few rows of a relation
  return options;
}

ScheduleOptions schedule_options(const Config& config) {
  ScheduleOptions options;
  const std::string& name = config.text("schedule.name");
  options.kind = name == "plateau"  ? ScheduleKind::plateau
                 : name == "cosine" ? ScheduleKind::cosine
                 : name == "linear" ? ScheduleKind::linear
                                    : ScheduleKind::constant;
  options.lr = config.real("optimiser.lr");
  options.epochs = config.integer("train.epochs");
  options.warmup = config.integer("schedule.warmup");
  options.patience = config.integer("schedule.patience");
  options.ratio = config.real("schedule.ratio");
  options.threshold = config.real("schedule.threshold");
  options.min_lr = config.real("schedule.min_lr");
  options.hold = config.real("schedule.hold");
  options.final_share = config.real("schedule.final");
  return options;
}

TrainerOptions trainer_options(const Config& config, bool has_validation) {
  TrainerOptions options;
  options.epochs = config.integer("train.epochs");
  options.early_stop = config.integer("train.early_stop");
  options.max_seconds = config.real("train.max_seconds");
  options.validate_every = config.integer("validation.every");
  options.watch_validation = config.text("schedule.metric") == "validation";
  options.clip = config.real("optimiser.clip");
  options.save_every = config.integer("checkpoint.every_steps");
  options.rollback_lr = config.real("train.rollback_lr");
  const std::string& keep = config.text("train.keep");
  options.keep_best = keep == "best" || (keep == "auto" && has_validation && options.watch_validation);
  const bool watches = options.early_stop > 0 || config.text("schedule.name") == "plateau" || keep == "best";
  if (watches && options.watch_validation && !has_validation)
    user_error(
        "schedule.metric = \"validation\" has nothing to watch: set split.validation or split.folds, or "
        "schedule.metric = \"train\"");
  return options;
}

int threads_per_rank(const Communicator& comm, const Config& config) {
  const int ranks = ranks_on_host(comm);
  if (const Index asked = config.integer("parallel.threads"); asked > 0) return static_cast<int>(asked);
  if (const char* set = std::getenv("OMP_NUM_THREADS"))
    if (const int threads = std::atoi(set); threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks);
}

}  // namespace rossby
