#include "apps/stnn_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "rossby/data/anomalies.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/petsc_exchange.hpp"

namespace rossby {
namespace {

StnnOptions model_options(const Config& config, const Domain& domain) {
  StnnOptions options;
  // Latents exist up to the last training step; with held-out folds some of them are never trained.
  options.steps = domain.split.train.last;
  options.features = domain.info.features;
  options.latent = config.integer("model.latent");
  options.layers = static_cast<int>(config.integer("model.layers"));
  options.hidden = config.integer("model.hidden");
  options.activation =
      config.text("model.activation") == "tanh" ? LatentActivation::tanh : LatentActivation::identity;
  options.learned_decoder = config.text("model.decoder") == "learned";
  options.lambda = config.real("model.lambda");
  options.l2_z = config.real("model.l2_z");
  options.l1_rel = config.real("model.l1_rel");
  options.dropout_z = config.real("model.dropout_z");
  options.dropout_dynamics = config.real("model.dropout_dynamics");
  return options;
}

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

double discover_start(const Config& config, Index nodes) {
  const std::string& text = config.text("relation.discover_start");
  if (text == "1/n") return 1.0 / static_cast<double>(nodes);
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || !std::isfinite(value))
    user_error("relation.discover_start = \"{}\" must be \"1/n\" or a number", text);
  return value;
}

template <class T>
std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                             const Domain& domain) {
  auto relations = std::make_unique<Relations<T>>(domain.partition, comm.rank());
  GlobalEdges edges = build_edges(comm, config, domain, domain.partition);
  if (edges.relations > 0) {
    const bool refine = config.text("relation.mode") == "refine";
    const double start = config.real("relation.refine_start");
    if (config.text("relation.storage") == "dense")
      relations->add_dense(edges, refine, start);
    else if (refine)
      relations->add_refine(std::move(edges), start);
    else
      relations->add_given(std::move(edges));
  }
  if (config.flag("relation.self")) relations->add_self(config.real("relation.self_start"));
  const std::string& discover = config.text("relation.discover");
  if (discover == "dense") relations->add_discover(discover_start(config, domain.nodes()));
  if (discover == "low_rank") relations->add_low_rank(config.integer("relation.rank"));
  return relations;
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

double rate_scale(const Config& config, std::string_view key) {
  const double lr = config.real("optimiser.lr");
  return config.real(key) >= 0 && lr > 0 ? config.real(key) / lr : 1.0;
}

/// What the optimiser has to know of each parameter.
template <class T>
void set_rates(const Config& config, Stnn<T>& model) {
  for (Parameter<T>* parameter : model.parameters()) {
    parameter->decay = config.real("optimiser.decay");
    if (parameter->name == "factors") {
      parameter->decay = config.real("optimiser.decay_z");
      parameter->lr_scale = rate_scale(config, "optimiser.lr_z");
    } else if (parameter->name.starts_with("low_rank")) {
      parameter->decay = config.real("optimiser.decay_low_rank");
      parameter->lr_scale = rate_scale(config, "optimiser.lr_relation");
    } else if (parameter->placement != Placement::replicated) {
      parameter->decay = config.real("optimiser.decay_relation");
      parameter->lr_scale = rate_scale(config, "optimiser.lr_relation");
    }
  }
}

}  // namespace

template <class T>
StnnRun<T>::StnnRun(const Communicator& comm, const Config& config, Domain domain)
    : comm_(comm), config_(&config), domain_(std::move(domain)), reducer_(comm) {
  exec_.threads = threads_per_rank(comm, config);
  exec_.isa = common_isa(comm, config, reducer_);
  series_ = read_series(comm, config, domain_);
  check_observed(series_, domain_, reducer_);
  data_hash_ = rossby::data_hash(comm, config, domain_, series_);
  scaler_ = Scaler::fit(series_, domain_.split, scaler_spec(config), reducer_);
  scaler_.apply(series_);
  auto relations = make_relations<T>(comm, config, domain_);
  if (comm.size() > 1 && relations->needs_all())
    exchange_ = std::make_unique<AllgatherExchange>(comm, domain_.partition, comm.rank());
  else
    exchange_ = std::make_unique<PetscExchange>(comm, domain_.partition, comm.rank(), relations->ghosts());
  relations->finish(*exchange_, reducer_);
  choose_dense(*relations);
  model_ = agree(comm, [&] {
    return std::make_unique<Stnn<T>>(model_options(config, domain_), std::move(relations), domain_.rows);
  });
  start();
  set_rates(config, *model_);
}

/// Every rank tries, as they will run side by side; rank 0 decides.
template <class T>
void StnnRun<T>::choose_dense(Relations<T>& relations) {
  const std::string& kernel = config_->text("parallel.dense_kernel");
  if (kernel == "auto" && relations.needs_all()) {
    const Index slab = config_->integer("train.slab_steps");
    const Index steps = slab > 0 ? std::min(slab, domain_.split.train.last) : domain_.split.train.last;
    const Index width = steps * config_->integer("model.latent");
    dense_choice_ =
        choose_dense_product<T>(exec_, domain_.partition.size(comm_.rank()), domain_.nodes(), width);
  } else if (kernel == "blas") {
    dense_choice_.product = DenseProduct::blas;
  }
  double decided[3] = {static_cast<double>(dense_choice_.product == DenseProduct::blas),
                       dense_choice_.own_seconds, dense_choice_.blas_seconds};
  if (comm_.rank() != 0) std::fill(std::begin(decided), std::end(decided), 0.0);
  reducer_.sum(decided);
  dense_choice_ = {decided[0] > 0 ? DenseProduct::blas : DenseProduct::own, decided[1], decided[2]};
  relations.set_dense_product(dense_choice_.product);
}

template <class T>
void StnnRun<T>::start() {
  StnnStart start;
  start.seed = static_cast<std::uint64_t>(config_->integer("train.seed"));
  start.z_range = config_->real("model.z_range");
  if (config_->text("model.start") == "data") {
    if (domain_.info.features != config_->integer("model.latent"))
      user_error(
          "model.start = \"data\" needs model.latent = features, but latent is {} and the series has {}",
          config_->integer("model.latent"), domain_.info.features);
    start.data = &series_;
  }
  start.persistence = config_->text("model.dynamics_start") == "persistence";
  model_->start(start);
  if (config_->text("relation.low_rank_start") == "eof" && config_->text("relation.discover") == "low_rank")
    start_low_rank_at_eofs();
}

/// U = 0 and V = √n times the leading EOFs of the scaled training part: Vᵀz/n then holds the amplitudes over
/// √n. Columns beyond the rank of the data keep their random start.
template <class T>
void StnnRun<T>::start_low_rank_at_eofs() {
  const auto steps = domain_.split.training_steps();
  const auto mean = training_means(series_, steps, reducer_);
  Parameter<T>& u = model_->parameter("low_rank_u");
  Parameter<T>& v = model_->parameter("low_rank_v");
  const Index rank = v.shape[2];
  const Eofs eofs = leading_eofs(series_, mean, steps, 0, rank, reducer_);
  const double scale = std::sqrt(static_cast<double>(domain_.nodes()));
  std::fill(u.value.begin(), u.value.end(), T(0));
  for (Index i = 0; i < v.shape[1]; ++i)
    for (Index k = 0; k < eofs.modes; ++k)
      v.value[i * rank + k] =
          static_cast<T>(scale * eofs.pattern[static_cast<std::size_t>(i * eofs.modes + k)]);
}

template <class T>
std::unique_ptr<StnnTask<T>> StnnRun<T>::make_task() {
  BatchOptions batches;
  batches.pairs = config_->text("train.sampling") == "pairs";
  batches.pairs_per_batch = config_->integer("train.pairs");
  batches.slab_steps = config_->integer("train.slab_steps");
  batches.joint = config_->flag("train.joint");
  batches.seed = static_cast<std::uint64_t>(config_->integer("train.seed"));
  if (batches.pairs && batches.joint)
    user_error("train.joint goes with train.sampling = \"slabs\", not with pairs");
  return std::make_unique<StnnTask<T>>(task_options(*config_), batches, *model_, series_, scaler_,
                                       domain_.split, domain_.partition, comm_.rank(), reducer_, exec_);
}

template <class T>
std::vector<StateArray<T>> StnnRun<T>::state_arrays(std::span<const NamedArray<T>> arrays) const {
  std::vector<StateArray<T>> all;
  for (const NamedArray<T>& array : arrays) {
    const Parameter<T>& parameter = *array.parameter;
    const GlobalEdges* edges =
        parameter.placement == Placement::entries ? &model_->relations().edges(parameter) : nullptr;
    all.push_back(state_array(array.name, parameter, array.data, edges));
  }
  return all;
}

template <class T>
std::vector<NamedArray<T>> StnnRun<T>::values() const {
  std::vector<NamedArray<T>> arrays;
  for (Parameter<T>* parameter : model_->parameters())
    arrays.push_back({parameter->name, parameter, parameter->value.data()});
  return arrays;
}

template <class T>
void StnnRun<T>::save(const std::string& path, const nlohmann::ordered_json& metadata) {
  write_state<T>(comm_, path, domain_.partition, state_arrays(values()), metadata.dump());
}

template <class T>
void StnnRun<T>::load(const std::string& path) {
  read_state<T>(comm_, path, domain_.partition, state_arrays(values()));
}

template class StnnRun<float>;
template class StnnRun<double>;

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

StnnTaskOptions task_options(const Config& config) {
  StnnTaskOptions options;
  options.horizons = config.integer("evaluate.horizons");
  options.rollout = config.text("validation.kind") == "rollout";
  options.filter_lambda = config.real("evaluate.filter_lambda");
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
