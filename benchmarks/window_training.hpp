#pragma once

// A training of a window model, as bench_windows times it.

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "rossby/autograd/staged_ports.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/model/graph_wavenet/graph_wavenet.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/mpi_step_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/window_task.hpp"

namespace rossby::bench {

struct WindowCase {
  Index nodes = 207, inputs = 12, outputs = 12, units = 64, steps = 2016, windows = 64;
  int layers = 2, diffusion = 2, groups = 1, repeats = 5, threads = 1, micro_batches = 1;
  WindowSampling sampling = WindowSampling::local;
  Recompute recompute = Recompute::none;
  std::string sampling_name = "local", recompute_name = "none", model = "dcrnn", json;
  bool adaptive = true;
  bool everything = false;    // every group holds all steps: plain data parallelism
  bool materialised = false;  // also time windows stored as tensors
  std::string device = "cpu";
  Products products = Products::model;
  bool graphs = false;    // steps that run ahead of a GPU are CUDA graphs
  bool cusparse = false;  // use cuSPARSE for products with the supports
};

/// A training of a WindowCase on this rank. Ranks with devices exchange through the host.
struct WindowTraining {
  WindowCase o;
  Exec exec;
  ProcessGrid grid;
  RowPartition partition;
  MpiReducer reducer;
  CsrBlock block;
  std::unique_ptr<Exchange> exchange, all_rows, staged_exchange, staged_all_rows;
  std::unique_ptr<Reducer> staged_reducer;
  std::vector<Device::Copy> kept;
  std::unique_ptr<WindowModel<float>> model;
  std::unique_ptr<StepExchange> between;
  std::unique_ptr<WindowPlan> plan;
  std::unique_ptr<StepStore> store;
  TimeFeatures times;
  Scaler scaler;
  std::unique_ptr<SeriesReader<float>> reader;
  std::unique_ptr<WindowTask<float>> task;

  WindowTraining(const WindowCase& options, const Exec& e, const Communicator& world)
      : o(options),
        exec(e),
        grid(world, options.groups),
        partition(RowPartition::blocks(options.nodes, grid.space().size())),
        reducer(world) {
    make_model();
    make_data();
  }

  void make_model() {
    const int part = grid.space().rank();
    GlobalEdges ring;
    ring.rows = partition.size(part);
    ring.relations = 1;
    ring.ptr = {0};
    for (const GlobalRow row : partition.rows_of(part)) {
      std::vector<Index> columns;
      for (Index k = 1; k <= 4; ++k)
        for (const Index j : {row.value + k, row.value - k}) columns.push_back((j + 4 * o.nodes) % o.nodes);
      std::sort(columns.begin(), columns.end());
      columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
      for (const Index j : columns) {
        ring.column.emplace_back(j);
        ring.value.push_back(1.0 / static_cast<double>(1 + (row.value + j) % 7));
      }
      ring.ptr.push_back(ring.entries());
    }
    MpiMailbox mailbox(grid.space());
    const GlobalEdges supports = random_walks(ring, true, partition, mailbox);
    const GlobalEdges* lists[] = {&supports};
    const GhostList ghosts = collect_ghosts(partition, part, lists);
    exchange = std::make_unique<NeighbourExchange>(grid.space(), partition, part, ghosts);
    block = localise(supports, partition, part, ghosts);
    const bool wavenet = o.model == "graph_wavenet";
    if (exec.device) {
      staged_exchange = std::make_unique<StagedExchange>(exec, *exchange);
      staged_reducer = std::make_unique<StagedReducer>(*exec.device, reducer);
    }
    Diffusion<float> diffusion(block, exec.device ? *staged_exchange : *exchange, wavenet ? 2 : o.diffusion,
                               wavenet ? DiffusionVariant::powers : DiffusionVariant::paper);
    diffusion.alone = grid.space().size() == 1;
    if (exec.device) kept = diffusion.keep_on(*exec.device);
    if (exec.backend == Backend::cuda && o.cusparse)
      diffusion.sparse_library =
          std::make_shared<SparseLibrary<float>>(exec, *cusparse(), block, diffusion.weight.span());
    if (wavenet)
      make_graph_wavenet(std::move(diffusion));
    else
      model = std::make_unique<Dcrnn<float>>(DcrnnOptions{o.inputs, 2, 1, o.layers, o.units, o.recompute},
                                             std::move(diffusion));
    model->start(1);
  }

  void make_graph_wavenet(Diffusion<float> diffusion) {
    const Communicator& comm = grid.space();
    AllNodes nodes;
    nodes.first = partition.begin(comm.rank());
    nodes.owned = partition.size(comm.rank());
    for (Index i = 0; i < o.nodes; ++i) nodes.global.push_back(i);
    if (o.adaptive && comm.size() > 1)
      all_rows = std::make_unique<AllgatherExchange>(comm, partition, comm.rank());
    nodes.exchange = all_rows.get();
    if (exec.device && all_rows) {
      staged_all_rows = std::make_unique<StagedExchange>(exec, *all_rows);
      nodes.exchange = staged_all_rows.get();
    }
    GraphWavenetOptions options;
    options.inputs = o.inputs;
    options.outputs = o.outputs;
    options.adaptive = o.adaptive;
    options.recompute = o.recompute;
    model = std::make_unique<GraphWavenet<float>>(options, std::move(diffusion), nodes,
                                                  exec.device ? *staged_reducer : reducer);
  }

  void make_data() {
    std::vector<Index> windows;
    for (Index start = 0; start + o.inputs + o.outputs <= o.steps; ++start) windows.push_back(start);
    plan = std::make_unique<WindowPlan>(WindowOptions{.shape = {o.inputs, o.outputs},
                                                      .batch = o.windows,
                                                      .seed = 1,
                                                      .sampling = o.sampling,
                                                      .groups = o.groups,
                                                      .lanes = o.groups,
                                                      .blocks = 8,
                                                      .micro_batches = o.micro_batches},
                                        windows, o.steps);
    plan->set_observed(std::vector<double>(static_cast<std::size_t>(o.steps), static_cast<double>(o.nodes)));
    if (o.groups > 1)
      between = std::make_unique<MpiStepExchange>(grid.time());
    else
      between = std::make_unique<OneGroup>();
    const auto rows = partition.rows_of(grid.space().rank());
    const auto owned = static_cast<Index>(rows.size());
    StepLists held = plan->steps_of_groups();
    if (o.everything)
      for (auto& steps : held) {
        steps.resize(static_cast<std::size_t>(o.steps));
        std::iota(steps.begin(), steps.end(), Index{0});
      }
    store = std::make_unique<StepStore>(o.steps, owned, 1, std::move(held), *between);
    float* to = store->values().data();
    const Random noise(3, "series");
    for (const Index step : store->held())
      for (const GlobalRow row : rows)
        *to++ =
            static_cast<float>(std::sin(0.02 * static_cast<double>(step + 3 * row.value)) +
                               0.1 * noise.uniform(static_cast<std::uint64_t>(step * o.nodes + row.value)));
    times.channels = 1;
    for (Index t = 0; t < o.steps; ++t) times.values.push_back(static_cast<float>(t % 288) / 288);
    scaler = Scaler(owned, 1);
    reader = std::make_unique<SeriesReader<float>>(*store, scaler, times, Fill::mean);
    if (exec.device) {
      for (Device::Copy& copy : model->keep_on(*exec.device)) kept.push_back(std::move(copy));
      for (Device::Copy& copy : reader->keep_on(*exec.device)) kept.push_back(std::move(copy));
      const bool changes = o.sampling == WindowSampling::blocked && o.groups > 1;
      if (changes)
        store->carry_to(*exec.device);
      else
        kept.push_back(exec.device->keep(store->values()));
    }
    task = std::make_unique<WindowTask<float>>(
        WindowTaskOptions{.sampling_decay = 2000, .seed = 1}, *plan, *model, *reader, *store,
        std::vector<std::vector<Index>>(static_cast<std::size_t>(o.groups)), reducer);
  }
};

}  // namespace rossby::bench
