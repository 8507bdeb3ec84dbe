#include "apps/window_run.hpp"

#include <fmt/format.h>

#include "rossby/model/dcrnn.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mailbox.hpp"
#include "rossby/mpi/petsc_exchange.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {
namespace {

Recompute recompute_of(const Config& config) {
  const std::string& text = config.text("train.recompute");
  return text == "cell" ? Recompute::cell : text == "step" ? Recompute::step : Recompute::none;
}

/// The matrices that a diffusion sums over.
GlobalEdges make_supports(const Communicator& comm, const Config& config, const Domain& domain) {
  const std::string& kind = config.text("model.supports");
  GlobalEdges none;
  none.rows = static_cast<Index>(domain.rows.size());
  none.ptr = {0};
  if (config.text("model.name") == "gru") return none;
  const GlobalEdges graph = build_graph(comm, config, domain, domain.partition);
  if (graph.relations == 0)
    user_error(
        "model.name = \"{}\" needs a graph: set relation.graph (or model.name = \"gru\", which needs none)",
        config.text("model.name"));
  MpiMailbox mailbox(comm);
  return random_walks(graph, kind == "dual_random_walk", domain.partition, mailbox);
}

}  // namespace

template <class T>
WindowRun<T>::WindowRun(const Communicator& comm, const Config& config, Domain domain)
    : ModelRun<T>(comm, config, std::move(domain)),
      shape_{config.integer("window.inputs"), config.integer("window.outputs")},
      breaks_(time_breaks(domain_.info.time)) {
  agree(comm, [&] {
    windows_ = training_windows(domain_.split, shape_, config.integer("window.stride"), breaks_);
    times_ = TimeFeatures::of(domain_.info.time, config.flag("window.time_of_day"),
                              config.flag("window.day_of_week"));
  });
  reader_ = std::make_unique<SeriesReader<T>>(series_, scaler_, times_,
                                              config.text("window.fill") == "zero" ? Fill::zero : Fill::mean);
  const GlobalEdges supports = make_supports(comm, config, domain_);
  const GlobalEdges* groups[] = {&supports};
  const GhostList ghosts = collect_ghosts(domain_.partition, comm.rank(), groups);
  exchange_ = std::make_unique<PetscExchange>(comm, domain_.partition, comm.rank(), ghosts);
  block_ = localise(supports, domain_.partition, comm.rank(), ghosts);
  agree(comm, [&] { make_model(); });
  model_->start(static_cast<std::uint64_t>(config.integer("train.seed")));
  for (Parameter<T>* parameter : model_->parameters()) parameter->decay = config.real("optimiser.decay");
}

template <class T>
void WindowRun<T>::make_model() {
  DcrnnOptions options;
  options.inputs = shape_.inputs;
  options.channels = reader_->channels();
  options.features = reader_->features();
  options.layers = static_cast<int>(config_->integer("model.layers"));
  if (options.layers > Dcrnn<T>::most_layers)
    user_error("model.layers = {}: a {} has 1 to {} layers", options.layers, config_->text("model.name"),
               Dcrnn<T>::most_layers);
  options.units = config_->integer("model.units");
  options.recompute = recompute_of(*config_);
  const auto variant =
      config_->text("model.diffusion") == "legacy" ? DiffusionVariant::legacy : DiffusionVariant::paper;
  const auto steps = static_cast<int>(config_->integer("model.diffusion_steps"));
  model_ = std::make_unique<Dcrnn<T>>(options, Diffusion<T>(block_, *exchange_, steps, variant));
}

template <class T>
std::unique_ptr<WindowTask<T>> WindowRun<T>::make_window_task() {
  WindowOptions windows;
  windows.shape = shape_;
  windows.batch = config_->integer("window.batch");
  windows.seed = static_cast<std::uint64_t>(config_->integer("train.seed"));
  WindowTaskOptions options;
  options.sampling_decay = config_->real("model.sampling_decay");
  options.score_batch = windows.batch;
  options.seed = windows.seed;
  auto origins = window_origins(domain_.split.origins(Role::validation, shape_.outputs), shape_,
                                shape_.outputs, breaks_);
  return std::make_unique<WindowTask<T>>(options, WindowPlan(windows, series_, windows_, reducer_), *model_,
                                         *reader_, series_, std::move(origins), reducer_, exec_);
}

template <class T>
std::string WindowRun<T>::remarks() const {
  return fmt::format("windows   {} of {} + {} steps for training, {} channels\n", windows_.size(),
                     shape_.inputs, shape_.outputs, reader_->channels());
}

template <class T>
std::vector<Index> WindowRun<T>::usable(std::vector<Index> origins, Index horizons) const {
  if (horizons > shape_.outputs)
    user_error("{} horizons: the model puts out window.outputs = {} steps; ask for at most so many", horizons,
               shape_.outputs);
  auto usable = window_origins(origins, shape_, horizons, breaks_);
  if (usable.empty() && !origins.empty())
    user_error(
        "no forecast origin has window.inputs = {} known steps before it without a gap of the time axis",
        shape_.inputs);
  return usable;
}

template <class T>
void WindowRun<T>::forecast(std::span<const Index> origins, Index horizons,
                            const typename ModelRun<T>::Visit& visit) {
  make_window_task()->forecast(origins, horizons, visit);
}

template <class T>
void WindowRun<T>::add_errors(HorizonErrors& errors, std::span<const Index> origins, Index horizons) {
  forecast(origins, horizons, [&](Index first, Index horizon, NodeView<const T> x) {
    errors.add<T>(0, horizon, x, series_,
                  origins.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(x.cols)));
  });
}

template class WindowRun<float>;
template class WindowRun<double>;

}  // namespace rossby
