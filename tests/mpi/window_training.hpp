#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <vector>

#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/model/graph_wavenet/graph_wavenet.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/model/tgcn/tgcn.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/mpi_row_link.hpp"
#include "rossby/mpi/mpi_step_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/window_task.hpp"
#include "tests/mpi/small_training.hpp"

// A small training of every windowed forecaster, on any process grid.

namespace rossby::small_training {

enum class Model { dcrnn, tgcn, graph_wavenet };

struct Case {
  std::string name;
  Index n = 37;
  DiffusionVariant variant = DiffusionVariant::paper;
  int steps = 2;
  bool shuffled = true;
  Recompute recompute = Recompute::none;
  double clip = 0.05;
  WindowSampling sampling = WindowSampling::local;
  Index batch = 5;
  Index lanes = 1;
  Model model = Model::dcrnn;
  bool adaptive = true;  // of graph_wavenet
  Index micro_batches = 1;
  std::vector<int> stage_of = {};                // stage of each layer
  const ModelDescriptor* of_registry = nullptr;  // if set: its small model replaces `model`
  std::string more = {};                         // further lines of its configuration
  Index low_rank = 0;                            // columns of a learned relation, of_registry
  bool inputs = false;  // adds inputs: one past, one known ahead, two of nodes, times ahead
};

/// The rows of this part of an input, (steps, rows). A tenth of the values is missing.
inline std::vector<float> random_input(const RowPartition& partition, int part, Index steps, int number) {
  const Random data(9 + static_cast<std::uint64_t>(number), "inputs");
  std::vector<float> values;
  for (Index t = 0; t < steps; ++t)
    for (const GlobalRow row : partition.rows_of(part)) {
      const auto key = static_cast<std::uint64_t>(t * partition.rows() + row.value);
      values.push_back(data.at(1).uniform(key) < 0.1 ? NAN : static_cast<float>(3 + 2 * data.normal(key)));
    }
  return values;
}

struct Training {
  ProcessGrid grid;
  RowPartition partition;
  MpiReducer reducer, plane, space, across, stages_sum;
  MpiRowLink link;
  Series series;
  Scaler scaler, past, known;
  std::vector<float> inputs[2], fixed;
  TimeFeatures times;
  EmbeddingShape embeddings;
  CalendarTables calendar;
  Split split;
  CsrBlock block;
  std::unique_ptr<Exchange> exchange, everyone;
  std::shared_ptr<const Architecture> architecture;
  std::unique_ptr<WindowModel<double>> model;
  std::vector<double> losses, forecasts;
  Traffic sent;         // traffic of steps between groups
  Traffic handed_over;  // traffic between stages
  std::size_t kept_bytes = 0;
  double validation = 0;

  Training(const Case& c, const Communicator& world, Index groups = 1, Index stages = 1)
      : grid(world, groups, stages),
        partition(make_partition(c.n, c.shuffled, grid.space().size())),
        reducer(world),
        plane(grid.plane()),
        space(grid.space()),
        across(grid.time()),
        stages_sum(grid.pipeline()),
        link(grid.pipeline()) {
    const Communicator& comm = grid.space();
    const int part = comm.rank();
    split = make_split(30, {.train = "20", .validation = "8", .test = "rest"});
    series = random_series(partition, part, 30);
    const TimeAxis axis = TimeAxis::regular(30, "hours since 2001-01-01", 0, 1);
    times = TimeFeatures::of(axis, {.time_of_day = true});
    if (c.inputs) {
      for (const int k : {0, 1}) inputs[k] = random_input(partition, part, 30, k);
      std::vector<double> of_nodes;
      for (const GlobalRow row : partition.rows_of(part))
        for (const double turn : {0.7, 1.9})
          of_nodes.push_back(std::sin(turn * static_cast<double>(row.value)));
      fixed = scaled_over_nodes(of_nodes, 2, space);
    }
    MpiMailbox mailbox(comm);
    const GlobalEdges graph = random_edges(partition, part, 0.15);
    if (c.of_registry) {
      architecture = small_architecture(*c.of_registry, c.more);
      embeddings = embeddings_on(axis, architecture->windows()->embeddings(), 0, calendar);
    }
    const GlobalEdges supports = supports_of(c.model, graph, mailbox);
    const GlobalEdges* lists[] = {&supports};
    const GhostList ghosts = collect_ghosts(partition, part, lists);
    exchange = std::make_unique<NeighbourExchange>(comm, partition, part, ghosts);
    block = localise(supports, partition, part, ghosts);
    Diffusion<double> diffusion(block, *exchange, c.steps, c.variant);
    if (architecture)
      make_by_architecture(c);
    else if (c.model == Model::tgcn)
      model = std::make_unique<Tgcn<double>>(TgcnOptions{4, 3, 3, 2, 5, c.recompute}, std::move(diffusion));
    else if (c.model == Model::graph_wavenet)
      make_graph_wavenet(c);
    else
      model = std::make_unique<Dcrnn<double>>(
          DcrnnOptions{4, channels(c), 2, 2, 5, c.recompute, pipeline(), stages_of(c), c.inputs ? 2 : 0},
          std::move(diffusion));
    model->start(3);
    train(c);
  }

  static Index channels(const Case& c) { return 3 + (c.inputs ? 4 : 0); }

  GlobalEdges supports_of(Model kind, const GlobalEdges& graph, Mailbox& mailbox) const {
    Supports wanted{.kind = Supports::Kind::random_walk};
    if (kind == Model::tgcn) wanted = {.kind = Supports::Kind::symmetric, .one_relation = true};
    if (architecture) wanted = architecture->windows()->supports();
    return make_supports(wanted, wanted.one_relation ? first_relation(graph) : graph, partition, mailbox);
  }

  void make_by_architecture(const Case& c) {
    const WindowArchitecture& of = *architecture->windows();
    const ConvolutionShape convolution = of.convolution();
    const Communicator& comm = grid.space();
    everyone = std::make_unique<AllgatherExchange>(comm, partition, comm.rank());
    WindowParts<double> parts;
    parts.shape = {4, 3};
    parts.channels = channels(c);
    parts.features = 2;
    parts.known = c.inputs ? 2 : 0;
    parts.embeddings = embeddings;
    parts.diffusion = Diffusion<double>(block, *exchange, convolution.steps, convolution.variant);
    parts.partition = &partition;
    parts.part = comm.rank();
    parts.all_rows = everyone.get();
    parts.plane = &plane;
    parts.row_blocks = &space;
    parts.recompute = c.recompute;
    parts.seed = 5;
    parts.low_rank = c.low_rank;
    model = of.make(std::move(parts));
  }

  /// Seven steps for four inputs, with dropout. Its pieces of all columns are exchanged on one rank too.
  void make_graph_wavenet(const Case& c) {
    const Communicator& comm = grid.space();
    everyone = std::make_unique<AllgatherExchange>(comm, partition, comm.rank());
    AllNodes all;
    all.first = partition.begin(comm.rank());
    all.owned = partition.size(comm.rank());
    for (Index p = 0; p < c.n; ++p) all.global.push_back(partition.global(Position{p}).value);
    all.exchange = everyone.get();
    const GraphWavenetOptions options{4, 3,          3, 2,   2, 2,           5,          7,           6,
                                      2, c.adaptive, 3, 0.3, 5, c.recompute, pipeline(), stages_of(c)};
    Diffusion<double> diffusion(block, *exchange, c.steps, DiffusionVariant::powers);
    model = std::make_unique<GraphWavenet<double>>(options, std::move(diffusion), all, plane);
  }

  Pipeline pipeline() { return {&link, &stages_sum, grid.stages(), grid.stage()}; }
  std::vector<int> stages_of(const Case& c) const {
    return grid.stages() > 1 ? c.stage_of : std::vector<int>{};
  }

  /// The steps of the series that each group holds.
  StepLists held_steps(const WindowPlan& plan, const std::vector<std::vector<Index>>& origins) const {
    StepLists held = plan.steps_of_groups();
    for (std::size_t g = 0; g < held.size(); ++g) {
      for (const Index origin : origins[g])
        for (Index step = origin - 3; step <= origin + 3; ++step) held[g].push_back(step);
      if (held.size() == 1) held[g].insert(held[g].end(), {27, 28, 29});  // steps of the forecast
      std::sort(held[g].begin(), held[g].end());
      held[g].erase(std::unique(held[g].begin(), held[g].end()), held[g].end());
    }
    return held;
  }

  /// Fills in the values of held steps. Fits scale and counts together with the other groups.
  void fill(StepStore& store, WindowPlan& plan, bool has_inputs) {
    const Index width = series.rows * 2;
    float* to = store.values().data();
    for (const Index step : store.held()) {
      to = std::copy_n(series.values.data() + step * width, width, to);
      for (const std::vector<float>& input : inputs)
        if (!input.empty()) to = std::copy_n(input.data() + step * series.rows, series.rows, to);
    }
    const auto counted = store.counted();
    std::vector<Index> training;
    std::copy_if(counted.begin(), counted.end(), std::back_inserter(training),
                 [](Index t) { return t < 20; });
    scaler = Scaler::fit({series.rows, 2, training, [&](Index t) { return store.at(t); }, &across},
                         {.center = ScaleBy::node, .spread = ScaleBy::global, .factor = 1}, space);
    Index first = width;
    for (Scaler* of : {&past, &known}) {
      if (!has_inputs) continue;
      *of = Scaler::fit({series.rows, 1, training, [&](Index t) { return store.at(t) + first; }, &across},
                        {.center = ScaleBy::node, .spread = ScaleBy::global, .factor = 1}, space);
      first += series.rows;
    }
    std::vector<double> observed(30);
    for (const Index step : training)
      for (Index k = 0; k < width; ++k)
        observed[static_cast<std::size_t>(step)] += std::isnan(store.at(step)[k]) ? 0 : 1;
    plane.sum(observed);
    plan.set_observed(std::move(observed));
  }

  void train(const Case& c) {
    const WindowShape shape{4, 3};
    const int groups = grid.groups();
    WindowPlan plan({.shape = shape,
                     .batch = c.batch,
                     .seed = 7,
                     .sampling = c.sampling,
                     .groups = groups,
                     .lanes = c.lanes,
                     .blocks = 2,
                     .micro_batches = c.micro_batches},
                    training_windows(split, shape, 1, {}), 30);
    const auto all = window_origins(split.origins(Role::validation, 3), shape, 3, {});
    std::vector<std::vector<Index>> origins;
    for (Index g = 0; g < groups; ++g)
      origins.emplace_back(all.begin() + std::ssize(all) * g / groups,
                           all.begin() + std::ssize(all) * (g + 1) / groups);
    std::unique_ptr<StepExchange> between = std::make_unique<OneGroup>();
    if (groups > 1) between = std::make_unique<MpiStepExchange>(grid.time());
    StepStore store(30, series.rows, 2, held_steps(plan, origins), *between, false, c.inputs ? 2 : 0);
    fill(store, plan, c.inputs);
    FurtherInputs further;
    if (c.inputs) further = {&past, &known, true, 2, fixed};
    further.calendar = &calendar;
    const SeriesReader<double> reader(store, scaler, times, Fill::mean, further);
    WindowTask<double> task(
        {.sampling_decay = 8, .score_batch = 3, .seed = 2, .stage = grid.stage(), .stages = grid.stages()},
        plan, *model, reader, store, origins, reducer);
    Optimiser<double> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, model->parameters());
    const TimeGroups time_groups{groups > 1 ? &across : nullptr, grid.group() == 0};
    Step<double> step(model->parameters(), optimiser, reducer, c.clip, time_groups);
    Tape<double> tape{Exec{}};
    Losses terms;
    Index count = 0;
    for (Index epoch = 0; epoch < 4; ++epoch) {
      task.start_epoch(epoch);
      for (Index b = 0; b < task.batches(); ++b, ++count) {
        const auto record = [&](Index part) {
          if (part > 0) return task.record_part(tape, part);
          task.record(tape, b, count, terms);
        };
        const auto result = step.run(tape, 1e-2, 0, terms, record, task.parts());
        losses.push_back(result.loss);
        losses.push_back(result.gradient_norm);
      }
    }
    validation = task.validate(tape);
    sent = between->sent();
    handed_over = link.sent();
    kept_bytes = tape.memory().peak_bytes();
    if (groups > 1) return;  // another group may hold the steps of the last origin
    const auto rows = partition.rows_of(grid.space().rank());
    forecasts.assign(static_cast<std::size_t>(c.n * 3 * 2), 0.0);
    const std::vector<Index> origin{26};
    task.forecast(tape, origin, 3, [&](Index, Index horizon, NodeView<const double> x) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        for (Index f = 0; f < 2; ++f)
          forecasts[static_cast<std::size_t>((rows[i].value * 3 + horizon - 1) * 2 + f)] =
              x.at(static_cast<Index>(i), 0)[f];
    });
    plane.sum(std::span<double>(forecasts));
  }
};

}  // namespace rossby::small_training
