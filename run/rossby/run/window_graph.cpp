// The graph of a window model, and the model on it.

#include <algorithm>

#include "rossby/autograd/sparse_trial.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/ports.hpp"
#include "rossby/mpi/whole_graph.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/run/window_run.hpp"
#include "rossby/run/window_supports.hpp"

namespace rossby {

Recompute recompute_of(const Config& config) {
  const std::string& text = config.train.recompute;
  return text == "cell" ? Recompute::cell : text == "step" ? Recompute::step : Recompute::none;
}

template <class T>
void WindowRun<T>::make_graph(Purpose purpose) {
  const Communicator& comm = grid_.space();
  // A group fails as a whole, so communication within groups is allowed here.
  const GlobalEdges supports = agree(grid_.world(), [&] {
    return rows_of_rank(comm, domain_, [&](const Communicator& ranks, const Domain& domain) {
      return make_supports(ranks, *config_, domain, !checks_starts(purpose));
    });
  });
  const GlobalEdges* groups[] = {&supports};
  const GhostList ghosts = collect_ghosts(domain_.partition, comm.rank(), groups);
  exchange_ = make_halo_exchange(comm, domain_, ghosts);
  Exchange* exchange = exchange_.get();
  if (Device* device = this->device()) {
    ports_ = std::make_unique<DevicePorts>(comm, *device, training_exec_, this->uses_nccl(), *exchange_,
                                           reducer_, domain_.partition, ghosts, this->link_of(comm));
    exchange = &ports_->exchange();
  }
  graph_exchange_ = exchange;
  block_ = localise(supports, domain_.partition, comm.rank(), ghosts);
  if (architecture_.relates_all_nodes() && comm.size() > 1) all_rows_ = make_all_rows_exchange(comm, domain_);
  if (Device* device = this->device(); device && all_rows_) {
    GhostList all(static_cast<std::size_t>(domain_.partition.rows()));
    for (Index p = 0; p < domain_.partition.rows(); ++p) all[static_cast<std::size_t>(p)] = Position{p};
    all_ports_ = std::make_unique<DevicePorts>(comm, *device, training_exec_, this->uses_nccl(), *all_rows_,
                                               reducer_, domain_.partition, all, ports_->link());
  }
}

template <class T>
Pipeline WindowRun<T>::pipeline() {
  return {stage_link_.get(), &stages_reducer_, grid_.stages(), grid_.stage()};
}

/// Every rank tries at the same time, as in training; the slowest rank's time decides. Collective.
template <class T>
void WindowRun<T>::choose_sparse() {
  const std::string& asked = config_->parallel.sparse_products;
  const bool can = training_exec_.backend == Backend::cuda && grid_.space().size() == 1;
  if (!can || asked == "own" || block_.entries() == 0) return;
  double seconds[2] = {0, 0}, lacking = 0;
  agree(grid_.world(), [&] {
    const SparseApi* api = cusparse();
    if (!api) {
      lacking = 1;
      return;
    }
    const std::vector<T> weight(block_.value.begin(), block_.value.end());
    const auto make = [&] {
      sparse_library_ = std::make_shared<SparseLibrary<T>>(training_exec_, *api, block_, weight);
    };
    if (asked != "auto") return make();
    const ConvolutionShape convolution = architecture_.convolution();
    SparseTrial trial;
    trial.columns =
        std::max<Index>(1, plan_->options().batch / grid_.groups() / plan_->options().micro_batches);
    trial.channels = convolution.channels;
    trial.steps = convolution.steps;
    trial.variant = convolution.variant;
    try {
      make();
      const SparseChoice tried = try_sparse_products<T>(training_exec_, *sparse_library_, block_, trial);
      std::copy(tried.seconds.begin(), tried.seconds.end(), std::begin(seconds));
    } catch (const UserError& error) {  // own kernels do not need it
      why_no_library_ = error.what();
    }
    lacking = seconds[0] == 0;
  });
  reducer_.max(std::span<double>(&lacking, 1));
  reducer_.max(seconds);
  sparse_choice_ = {SparseKernel::library, {seconds[0], seconds[1]}};
  if (asked == "auto") choose(sparse_choice_);
  if (lacking > 0) sparse_choice_ = {};
  if (sparse_choice_.way == SparseKernel::own) sparse_library_.reset();
}

template <class T>
void WindowRun<T>::make_model() {
  const ConvolutionShape convolution = architecture_.convolution();
  Diffusion<T> diffusion(block_, *graph_exchange_, convolution.steps, convolution.variant);
  diffusion.alone = grid_.space().size() == 1;
  diffusion.sparse_library = sparse_library_;
  if (Device* device = this->device(); device && architecture_.normalises_batches())
    plane_sums_ = std::make_unique<DeviceSums>(grid_.plane(), *device, this->uses_nccl(), plane_reducer_,
                                               this->link_of(grid_.plane()));
  if (Device* device = this->device(); device && (architecture_.normalises_nodes() || low_rank() > 0))
    block_sums_ = std::make_unique<DeviceSums>(grid_.space(), *device, this->uses_nccl(), block_reducer_,
                                               this->link_of(grid_.space()));
  if (Device* device = this->device())
    for (Device::Copy& copy : diffusion.keep_on(*device)) kept_.push_back(std::move(copy));
  WindowParts<T> parts;
  parts.shape = shape_;
  parts.channels = reader_->channels();
  parts.levels = std::max<Index>(1, std::ssize(quantiles()));
  parts.middle = middle();
  parts.features = reader_->features() * parts.levels;
  parts.known = reader_->known_channels();
  parts.embeddings = embeddings_;
  parts.diffusion = std::move(diffusion);
  parts.partition = &domain_.partition;
  parts.part = grid_.space().rank();
  parts.all_rows = all_ports_ ? &all_ports_->exchange() : all_rows_.get();
  parts.plane = plane_sums_ ? &plane_sums_->reducer() : &plane_reducer_;
  parts.row_blocks = block_sums_ ? &block_sums_->reducer() : &block_reducer_;
  parts.pipeline = pipeline();
  parts.stage_of = stage_of_;
  parts.recompute = recompute_of(*config_);
  parts.seed = static_cast<std::uint64_t>(config_->train.seed);
  parts.low_rank = low_rank();
  model_ = architecture_.make(std::move(parts));
}

#define ROSSBY_INSTANTIATE(T)                      \
  template void WindowRun<T>::make_graph(Purpose); \
  template Pipeline WindowRun<T>::pipeline();      \
  template void WindowRun<T>::choose_sparse();     \
  template void WindowRun<T>::make_model();
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
