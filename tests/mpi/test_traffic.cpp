#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/exchange/traced.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/mpi_row_link.hpp"
#include "rossby/mpi/mpi_step_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/stnn_task.hpp"
#include "rossby/train/window_task.hpp"
#include "tests/mpi/message_count.hpp"
#include "tests/mpi/small_training.hpp"

// A dry run of a rank predicts what a training sends on a process grid, message for message and byte for
// byte: halos, sums, time steps and factors of other groups. MPI calls are counted on the real side.

namespace rossby {
namespace {

using namespace small_training;

constexpr Index nodes = 11;

/// A rank's place in a grid.
struct Place {
  int blocks = 1, groups = 1, part = 0, group = 0;
};

/// Everything that a training needs.
struct Ports {
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Reducer> world, space, across;
  std::unique_ptr<StepExchange> steps;
  std::unique_ptr<RowLink> link;
  std::unique_ptr<GroupGather> gather;

  /// Real ports, without an exchange yet.
  explicit Ports(const ProcessGrid& grid)
      : world(std::make_unique<MpiReducer>(grid.world())),
        space(std::make_unique<MpiReducer>(grid.space())),
        across(std::make_unique<MpiReducer>(grid.time())),
        link(std::make_unique<MpiRowLink>(grid.time())),
        gather(std::make_unique<MpiGroupGather>(grid.time())) {
    if (grid.groups() > 1)
      steps = std::make_unique<MpiStepExchange>(grid.time());
    else
      steps = std::make_unique<OneGroup>();
  }
  /// Pretended ports.
  explicit Ports(const Place& place)
      : world(std::make_unique<TracedReducer>(place.blocks * place.groups)),
        space(std::make_unique<TracedReducer>(place.blocks)),
        across(std::make_unique<TracedReducer>(place.groups)),
        steps(std::make_unique<TracedStepExchange>(place.groups, place.group)),
        link(std::make_unique<TracedRowLink>()),
        gather(std::make_unique<TracedGroupGather>(place.groups, place.group)) {}

  void join(const ProcessGrid* grid, const Place& place, const RowPartition& partition,
            const std::vector<GhostList>& ghosts, bool dense) {
    if (grid && dense) {
      exchange = std::make_unique<AllgatherExchange>(grid->space(), partition, place.part);
    } else if (grid) {
      exchange = std::make_unique<NeighbourExchange>(grid->space(), partition, place.part,
                                                     ghosts[static_cast<std::size_t>(place.part)]);
    } else if (dense) {
      exchange = std::make_unique<TracedAllRows>(partition, place.part);
    } else {
      exchange =
          std::make_unique<TracedHalo>(halo_counts(partition, ghosts)[static_cast<std::size_t>(place.part)]);
    }
  }

  /// Traffic of this rank by port.
  [[nodiscard]] std::vector<Traffic> sent() const {
    return {exchange->sent(), world->sent(), space->sent(), across->sent(),
            steps->sent(),    link->sent(),  gather->sent()};
  }
};

/// Traffic of steps by port.
using Counts = std::vector<Traffic>;

void subtract(Counts& counts, const Counts& before) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i].messages -= before[i].messages;
    counts[i].bytes -= before[i].bytes;
  }
}

/// Runs an epoch of a task. Returns the traffic of its steps, and the halos according to the costs of their
/// ops.
template <class T>
Counts count_epoch(Task<T>& task, Ports& ports, const Place& place, double clip, bool fuse, bool real) {
  Optimiser<T> optimiser({.beta1 = 0.9, .fuse = fuse}, task.parameters());
  Step<T> step(task.parameters(), optimiser, *ports.world, clip,
               {place.groups > 1 ? ports.across.get() : nullptr, place.group == 0});
  Tape<T> tape{Exec{}};
  Losses terms;
  const Counts before = ports.sent();
  test::reset_message_count();
  task.start_epoch(0);
  for (Index b = 0; b < task.batches(); ++b)
    step.run(tape, 1e-3, 0, terms, [&] { task.record(tape, b, b, terms); });
  Counts counts = ports.sent();
  subtract(counts, before);
  if (real) {
    Traffic wire = test::messages_sent();
    Traffic expected = counts[0];
    if (dynamic_cast<AllgatherExchange*>(ports.exchange.get())) {
      expected = {};
      EXPECT_EQ(test::collective_sent(), counts[0]) << "calls of MPI, all rows";
    }
    for (const std::size_t port : {4U, 5U}) expected += counts[port];
    EXPECT_EQ(wire, expected) << "calls of MPI, point to point";
  }
  Traffic costs;
  for (const auto& total : tape.totals())
    if (total.op != "lend" && total.op != "borrow")
      costs += {static_cast<Index>(total.cost.messages), static_cast<Index>(total.cost.message_bytes)};
  EXPECT_EQ(costs, counts[0]) << "costs of ops";
  return counts;
}

/// Returns the rows of a part.
GlobalEdges part_of(const GlobalEdges& whole, const RowPartition& partition, int part) {
  GlobalEdges edges;
  edges.rows = partition.size(part);
  edges.relations = whole.relations;
  edges.ptr = {0};
  for (const GlobalRow row : partition.rows_of(part))
    for (int k = 0; k < whole.relations; ++k) {
      for (Index e = whole.begin(row.value, k); e < whole.end(row.value, k); ++e) {
        edges.column.push_back(whole.column[static_cast<std::size_t>(e)]);
        edges.value.push_back(whole.value[static_cast<std::size_t>(e)]);
      }
      edges.ptr.push_back(edges.entries());
    }
  return edges;
}

Counts dcrnn(const Place& place, WindowSampling sampling, const ProcessGrid* grid) {
  Ports ports = grid ? Ports(*grid) : Ports(place);
  const RowPartition partition = make_partition(nodes, true, place.blocks),
                     one = RowPartition::blocks(nodes, 1);
  MpiMailbox alone(Communicator::self());
  const GlobalEdges whole = random_walks(random_edges(one, 0, 0.15), true, one, alone);
  std::vector<GhostList> ghosts;
  for (int p = 0; p < place.blocks; ++p) {
    const GlobalEdges rows = part_of(whole, partition, p);
    const GlobalEdges* lists[] = {&rows};
    ghosts.push_back(collect_ghosts(partition, p, lists));
  }
  const GlobalEdges rows = part_of(whole, partition, place.part);
  const CsrBlock block = localise(rows, partition, place.part, ghosts[static_cast<std::size_t>(place.part)]);
  ports.join(grid, place, partition, ghosts, false);
  Diffusion<double> diffusion(block, *ports.exchange, 2, DiffusionVariant::paper);
  Dcrnn<double> model({4, 3, 2, 2, 5, Recompute::none}, std::move(diffusion));
  model.start(3);

  const WindowShape shape{4, 3};
  const Split split = make_split(40, {.train = "32", .validation = "0", .test = "rest"});
  WindowPlan plan({.shape = shape,
                   .batch = 12,
                   .seed = 7,
                   .sampling = sampling,
                   .groups = place.groups,
                   .lanes = 12,
                   .blocks = 2},
                  training_windows(split, shape, 1, {}), 40);
  StepStore store(40, partition.size(place.part), 2, plan.steps_of_groups(), *ports.steps);
  std::fill(store.values().begin(), store.values().end(), 0.5F);
  plan.set_observed(std::vector<double>(40, 1.0));
  const Scaler scaler(partition.size(place.part), 2);
  const TimeFeatures times =
      TimeFeatures::of(TimeAxis::regular(40, "hours since 2001-01-01", 0, 1), {.time_of_day = true});
  const SeriesReader<double> reader(store, scaler, times, Fill::mean);
  WindowTask<double> task({}, plan, model, reader, store,
                          std::vector<std::vector<Index>>(static_cast<std::size_t>(place.groups)),
                          *ports.world);
  return count_epoch<double>(task, ports, place, 0.1, false, grid != nullptr);
}

Counts stnn(const Place& place, bool dense, const ProcessGrid* grid) {
  Ports ports = grid ? Ports(*grid) : Ports(place);
  const RowPartition partition = make_partition(nodes, !dense, place.blocks);
  const auto make_relations = [&](int part) {
    auto relations = std::make_unique<Relations<float>>(partition, part);
    relations->add_refine(random_edges(partition, part, 0.3), 0.5);
    if (dense) relations->add_discover(0.1);
    relations->add_low_rank(3);
    return relations;
  };
  std::vector<GhostList> ghosts;
  for (int p = 0; p < place.blocks; ++p) ghosts.push_back(make_relations(p)->ghosts());
  ports.join(grid, place, partition, ghosts, dense && place.blocks > 1);
  auto relations = make_relations(place.part);
  relations->finish(*ports.exchange, *ports.space);
  if (place.groups > 1) relations->gather_over(*ports.gather);

  const Split split = make_split(30, {.train = "26", .validation = "0", .test = "rest"});
  const BatchOptions batches{.slab_steps = 12, .lanes = 12, .groups = place.groups, .group = place.group};
  const StepRange held =
      steps_of_groups(batches, split.training_steps())[static_cast<std::size_t>(place.group)];
  Series series(held.size(), partition.size(place.part), 2);
  series.first = held.first;
  std::fill(series.values.begin(), series.values.end(), 0.5F);
  StnnOptions options;
  options.steps = 26;
  options.held = held;
  options.group = place.group;
  options.features = 2;
  options.latent = 2;
  Stnn<float> model(options, std::move(relations), partition.rows_of(place.part), ports.link.get());
  model.start({.seed = 3});
  for (Parameter<float>* parameter : model.parameters())
    parameter->fusable = parameter->fusable && (place.groups == 1 || parameter->name == "discover_weight");
  StnnTask<float> task({}, batches, model, series, Scaler(series.rows, 2), split, partition, place.part,
                       *ports.world);
  return count_epoch<float>(task, ports, place, 0.5, true, grid != nullptr);
}

template <class Count>
void expect_as_predicted(const Count& count) {
  const Communicator world = Communicator::world();
  for (int groups = 1; groups <= world.size(); ++groups) {
    if (world.size() % groups != 0 || 12 % groups != 0) continue;
    SCOPED_TRACE(std::to_string(world.size() / groups) + " x " + std::to_string(groups));
    const ProcessGrid grid(world, groups);
    const Place place{grid.space().size(), groups, grid.space().rank(), grid.group()};
    const Counts real = count(place, &grid), predicted = count(place, nullptr);
    const char* names[] = {
        "halos",         "sums of all", "sums of the group", "sums across groups", "time steps",
        "borrowed rows", "factors"};
    for (std::size_t i = 0; i < real.size(); ++i) {
      EXPECT_EQ(real[i].messages, predicted[i].messages) << names[i];
      EXPECT_EQ(real[i].bytes, predicted[i].bytes) << names[i];
    }
    EXPECT_TRUE(world.size() == 1 || real[0].messages + real[1].messages > 0);
  }
}

TEST(Traffic, OfDcrnnIsThatOfTheDryRun) {
  for (const WindowSampling sampling :
       {WindowSampling::local, WindowSampling::global, WindowSampling::blocked})
    expect_as_predicted(
        [&](const Place& place, const ProcessGrid* grid) { return dcrnn(place, sampling, grid); });
}

TEST(Traffic, OfStnnIsThatOfTheDryRun) {
  for (const bool dense : {false, true})
    expect_as_predicted(
        [&](const Place& place, const ProcessGrid* grid) { return stnn(place, dense, grid); });
}

}  // namespace
}  // namespace rossby
