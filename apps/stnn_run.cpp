#include "apps/stnn_run.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/data/anomalies.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
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

/// What relation.precision = "bf16" asks of the other keys.
void check_bf16(const Config& config) {
  const auto need = [](bool has, const char* what) {
    if (!has) user_error("relation.precision = \"bf16\" needs {}", what);
  };
  need(config.text("model.precision") == "float", "model.precision = \"float\"");
  need(config.text("train.sampling") == "slabs",
       "train.sampling = \"slabs\": batches of pairs do not update relations tile by tile");
  need(config.text("optimiser.name") != "sgd", "optimiser.name = \"adam\" or \"adamw\"");
  const bool refined = config.text("relation.graph") != "none" && config.text("relation.mode") == "refine" &&
                       config.text("relation.storage") == "dense";
  need(refined || config.text("relation.discover") == "dense",
       "a dense learned relation: relation.discover = \"dense\", or relation.mode = \"refine\" with "
       "relation.storage = \"dense\"");
}

template <class T>
std::unique_ptr<Relations<T>> make_relations(const Communicator& comm, const Config& config,
                                             const Domain& domain) {
  auto relations = std::make_unique<Relations<T>>(domain.partition, comm.rank());
  if (config.text("relation.precision") == "bf16") {
    check_bf16(config);
    relations->hold_dense_in_bf16();
  }
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

/// Observed values of the training part, of all ranks.
double count_observed(const Series& series, const Domain& domain, Reducer& reducer) {
  double observed = 0;
  for (const Index t : domain.split.training_steps())
    for (Index i = 0; i < series.rows; ++i)
      for (Index f = 0; f < series.features; ++f) observed += std::isnan(series.at(t, i, f)) ? 0 : 1;
  reducer.sum(std::span<double>(&observed, 1));
  return observed;
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

StnnTaskOptions task_options(const Config& config) {
  StnnTaskOptions options;
  options.horizons = config.integer("evaluate.horizons");
  options.rollout = config.text("validation.kind") == "rollout";
  options.filter_lambda = config.real("evaluate.filter_lambda");
  return options;
}

}  // namespace

template <class T>
StnnRun<T>::StnnRun(const ProcessGrid& grid, const Config& config, Domain domain)
    : ModelRun<T>(grid, config, std::move(domain)) {
  const Communicator& comm = grid_.space();
  series_ = read_series(comm, config, domain_);
  this->require_observed(count_observed(series_, domain_, reducer_));
  this->data_hash_ = rossby::data_hash(comm, config, domain_, series_);
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
        choose_dense_product<T>(exec_, domain_.partition.size(grid_.space().rank()), domain_.nodes(), width,
                                config_->text("relation.precision") == "bf16");
  } else if (kernel == "blas") {
    dense_choice_.product = DenseProduct::blas;
  }
  double decided[3] = {static_cast<double>(dense_choice_.product == DenseProduct::blas),
                       dense_choice_.own_seconds, dense_choice_.blas_seconds};
  if (grid_.space().rank() != 0) std::fill(std::begin(decided), std::end(decided), 0.0);
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
std::unique_ptr<Task<T>> StnnRun<T>::make_task() {
  BatchOptions batches;
  batches.pairs = config_->text("train.sampling") == "pairs";
  batches.pairs_per_batch = config_->integer("train.pairs");
  batches.slab_steps = config_->integer("train.slab_steps");
  batches.joint = config_->flag("train.joint");
  batches.seed = static_cast<std::uint64_t>(config_->integer("train.seed"));
  if (batches.pairs && batches.joint)
    user_error("train.joint goes with train.sampling = \"slabs\", not with pairs");
  return std::make_unique<StnnTask<T>>(task_options(*config_), batches, *model_, series_, scaler_,
                                       domain_.split, domain_.partition, grid_.space().rank(), reducer_,
                                       exec_);
}

template <class T>
std::string StnnRun<T>::remarks() const {
  return model_->relations().needs_all() ? fmt::format("dense     products: {}\n", to_string(dense_choice_))
                                         : "";
}

template <class T>
void StnnRun<T>::add_metadata(nlohmann::ordered_json& json) const {
  if (model_->relations().needs_all()) json["dense_kernel"] = std::string(to_string(dense_choice_.product));
}

template <class T>
void StnnRun<T>::roll(std::span<const Index> origins, Index horizons,
                      const typename ModelRun<T>::Visit& visit) {
  Forecaster<T> forecaster(exec_, *model_, series_, learned_steps(domain_.split),
                           config_->real("evaluate.filter_lambda"));
  forecaster.run(origins, horizons, visit);
}

template <class T>
void StnnRun<T>::forecast(std::span<const Index> origins, Index horizons,
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
void StnnRun<T>::add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons) {
  roll(origins, horizons, [&](Index first, Index horizon, NodeView<const T> x) {
    errors.add<T>(0, horizon, x, series_,
                  origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(x.cols)),
                  &scaler_);
  });
}

template class StnnRun<float>;
template class StnnRun<double>;

}  // namespace rossby
