#include "benchmarks/step_problem.hpp"

#include <cmath>

#include "rossby/base/random.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby::bench {
namespace {

Grid whole_grid(const StepCase& item) {
  Grid grid{item.n_lat, item.n_lon, {}, false};
  const Permutation number(Random(5, "node numbers"), item.nodes());
  for (Index i = 0; i < item.nodes(); ++i) grid.node_of_cell.push_back(item.scattered ? number(i) : i);
  return grid;
}

/// Returns tiles as the program cuts a grid; dense relations need contiguous blocks.
RowPartition partition_of(const StepCase& item, Ranks& ranks) {
  const int parts = ranks.size();
  RowPartition partition = RowPartition::blocks(item.nodes(), parts);
  if (item.mode == Mode::discover) return partition;
  const Grid grid = whole_grid(item);
  if (parts > 1)
    partition =
        RowPartition::from_owners(grid_tiles(item.n_lat, item.n_lon, grid.node_of_cell, parts), parts);
  if (!item.close) return partition;
  return ranks.with_neighbours_close(
      grid_neighbours(grid, GridRelations::directional, partition, ranks.rank()), partition);
}

/// Returns waves that travel east, as functions of the node's number and the step alone.
Series waves(const StepCase& item, std::span<const GlobalRow> rows) {
  Series series(item.steps, static_cast<Index>(rows.size()), 1);
  for (Index t = 0; t < item.steps; ++t)
    for (Index i = 0; i < series.rows; ++i) {
      const Index cell = rows[static_cast<std::size_t>(i)].value;
      const auto lat = static_cast<float>(cell / item.n_lon), lon = static_cast<float>(cell % item.n_lon);
      const auto time = static_cast<float>(t);
      series.at(t, i, 0) = 0.5F * std::sin(0.13F * lon - 0.4F * time) * std::cos(0.11F * lat) +
                           0.2F * std::sin(0.05F * (lon + 2 * lat) + 0.21F * time);
    }
  return series;
}

Split all_training(Index steps) {
  Split split;
  split.steps = steps;
  split.role.assign(static_cast<std::size_t>(steps), Role::train);
  split.train = {0, steps};
  return split;
}

template <class T>
std::unique_ptr<Relations<T>> make_relations(const StepCase& item, const RowPartition& partition, int part,
                                             Device* device) {
  auto relations = std::make_unique<Relations<T>>(partition, part);
  if (item.mode == Mode::discover) {
    if (item.bf16) relations->hold_dense_in_bf16();
    if (item.transfer && device) {
      relations->work_in_chunks(item.chunk_bytes);
      relations->stream_dense({.folder = "",
                               .device = device,
                               .transfer = *item.transfer,
                               .budget = item.stream_bytes,
                               .host_updates = item.host_updates});
    }
    relations->add_discover(1.0 / static_cast<double>(item.nodes()));
  } else {
    GlobalEdges edges = grid_neighbours(whole_grid(item), GridRelations::directional, partition, part);
    if (item.mode == Mode::refine) {
      relations->add_refine(std::move(edges), 0.5);
    } else {
      normalise_rows(edges);
      relations->add_given(std::move(edges));
    }
  }
  if (item.low_rank > 0) relations->add_low_rank(item.low_rank);
  return relations;
}

StnnOptions model_options(const StepCase& item) {
  StnnOptions options;
  options.steps = item.steps;
  options.latent = item.latent;
  options.activation = LatentActivation::tanh;
  options.l1_rel = item.mode != Mode::given && item.l1 ? 1e-3 : 0;
  return options;
}

}  // namespace

template <class T>
StepProblem<T>::StepProblem(const StepCase& item, Ranks& ranks, const Exec& exec)
    : item_(item),
      reducer_(ranks.reducer()),
      partition_(partition_of(item, ranks)),
      part_(ranks.rank()),
      split_(all_training(item.steps)),
      tape_(exec) {
  const std::vector<GlobalRow> rows = partition_.rows_of(part_);
  series_ = waves(item, rows);
  scaler_ = Scaler(series_.rows, series_.features);
  auto relations = make_relations<T>(item, partition_, part_, exec.device);
  exchange_ = std::make_unique<TimedExchange>(
      ranks.exchange(partition_, relations->ghosts(), relations->needs_all()));
  if (exec.device) {
    staged_exchange_ = std::make_unique<StagedExchange>(exec, *exchange_);
    staged_reducer_ = std::make_unique<StagedReducer>(*exec.device, reducer_);
    relations->finish(*staged_exchange_, *staged_reducer_);
  } else {
    relations->finish(*exchange_, reducer_);
  }
  model_ = std::make_unique<Stnn<T>>(model_options(item), std::move(relations), rows);
  model_->start({});
  if (exec.device) {
    kept_ = model_->relations().bank().keep_on(*exec.device);
    kept_.push_back(exec.device->keep(series_.values.span()));
  }
  // Weight decays of the reference code.
  for (Parameter<T>* parameter : model_->parameters()) {
    const bool learned_weight = parameter->name == "relation_weight" || parameter->name == "discover_weight";
    parameter->decay = parameter->name == "factors" ? 1e-7 : learned_weight ? 0 : 1e-6;
  }
  BatchOptions cut;
  cut.pairs = item.pairs;
  (item.pairs ? cut.pairs_per_batch : cut.slab_steps) = item.per_batch;
  task_ = std::make_unique<StnnTask<T>>(StnnTaskOptions{}, cut, *model_, series_, scaler_, split_, partition_,
                                        part_, reducer_);
  OptimiserOptions optimiser;
  optimiser.beta1 = item.beta1;
  optimiser.fuse = !item.pairs;
  optimiser_ = std::make_unique<Optimiser<T>>(optimiser, task_->parameters(), exec.device);
  step_ = std::make_unique<Step<T>>(task_->parameters(), *optimiser_, reducer_, 0.0);
  require(batches(Pass::decoder) + batches(Pass::dynamics) == task_->batches(),
          "the task cuts its passes as the benchmark thinks");
}

template <class T>
StepProblem<T>::Travelled StepProblem<T>::travelled() const {
  Travelled sum;
  for (const Parameter<T>* parameter : parameters())
    if (const ChunkStream* stream = parameter->stream.get()) {
      sum.in += stream->statistics().read_bytes;
      sum.out += stream->statistics().written_bytes;
    }
  return sum;
}

template <class T>
Index StepProblem<T>::batches(Pass pass) const {
  const Index elements = (item_.steps - (pass == Pass::dynamics ? 1 : 0)) * (item_.pairs ? item_.nodes() : 1);
  return (elements + item_.per_batch - 1) / item_.per_batch;
}

template <class T>
double StepProblem<T>::run(Pass pass, Index index, StepTime& time) {
  constexpr double lr = 3e-3;
  const double exchange_before = exchange_->seconds();
  const Index at = pass == Pass::decoder ? index : batches(Pass::decoder) + index;
  const auto begin = Clock::now();
  Clock::time_point recorded;
  const auto result = step_->run(tape_, lr, false, losses_, [&] {
    task_->record(tape_, at, steps_done_, losses_);
    recorded = Clock::now();
  });
  const auto end = Clock::now();
  ++steps_done_;
  time.total = seconds_between(begin, end);
  time.forward = seconds_between(begin, recorded);
  time.backward = seconds_between(recorded, reducer_.last_begin());
  time.allreduce = seconds_between(reducer_.last_begin(), reducer_.last_end());
  time.optimiser = seconds_between(reducer_.last_end(), end);
  time.exchange = exchange_->seconds() - exchange_before;
  return result.loss;
}

template <class T>
double StepProblem<T>::run_ahead(Pass pass, Index count) {
  step_->allow_ahead();
  rossby::settle(tape_.exec());
  StepTime time;
  const auto begin = Clock::now();
  for (Index index = 0; index < count; ++index) (void)run(pass, index, time);
  rossby::settle(tape_.exec());
  return seconds_between(begin, Clock::now());
}

template class StepProblem<float>;
template class StepProblem<double>;

}  // namespace rossby::bench
