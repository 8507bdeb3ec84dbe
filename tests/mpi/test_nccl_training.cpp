#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/autograd/ops.hpp"
#include "rossby/autograd/staged_ports.hpp"
#include "rossby/model/dcrnn/dcrnn.hpp"
#include "rossby/model/graph_wavenet/graph_wavenet.hpp"
#include "rossby/model/registry.hpp"
#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/mpi_step_exchange.hpp"
#include "rossby/mpi/nccl_exchange.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/stnn_task.hpp"
#include "rossby/train/trainer.hpp"
#include "rossby/train/window_task.hpp"
#include "tests/mpi/fake_nccl.hpp"
#include "tests/mpi/small_training.hpp"
#include "tests/support/fake_sparse.hpp"

// Whole trainings on ranks with devices: through the host, and over a fake NCCL, with which steps run ahead.
// Losses, validation errors and parameters are those of ranks on the host.

namespace rossby::test {
namespace {

using namespace small_training;

enum class Way { host, staged, nccl };

struct Setting {
  bool windows = false;  // a DCRNN, else an STNN
  bool wavenet = false;  // Graph WaveNet instead of DCRNN; its parameters are partly owned
  const ModelDescriptor* of_registry = nullptr;  // its small model instead of the DCRNN
  Index n = 37;
  double clip = 0;
  Index groups = 1;
  bool shuffled = true;
  bool dense = false;
  bool low_rank = false;
  double l1 = 0.01;
  Index infinite = -1;          // time step with a non-finite value in the first row
  Index finish_at = -1;         // rank 0 votes to finish before this step
  bool sparse_library = false;  // a library multiplies with the graph if a rank has all of it
  bool carried = false;         // the device does not keep the series
  bool validates = true;
};

struct Outcome {
  std::vector<double> losses;  // terms and validation error per epoch
  std::vector<double> parameters;
  Index steps = 0, waits = 0, copied_in = 0;
  StopReason reason = StopReason::epochs;
  std::string error;
};

/// The device of a rank, and its ways to the devices of other ranks.
class Ranks {
 public:
  Ranks(Way way, const ProcessGrid& grid) : way_(way), host_(grid.world()), across_(grid.time()) {
    exec_.isa = widest_isa();
    if (way == Way::host) return;
    auto driver = std::make_unique<SimulatedDriver>();
    driver_ = driver.get();
    device_ = std::make_unique<Device>(std::move(driver));
    exec_ = {Backend::simulated, 1, widest_isa(), device_.get()};
    if (way == Way::staged) {
      sums_ = std::make_unique<StagedReducer>(*device_, host_);
      groups_ = std::make_unique<StagedReducer>(*device_, across_);
      return;
    }
    const auto link = [&](const Communicator& comm) {
      apis_.push_back(std::make_unique<FakeNccl>(comm.handle()));
      links_.push_back(std::make_unique<NcclLink>(comm, *device_, apis_.back().get()));
      return links_.back().get();
    };
    sums_ = std::make_unique<NcclReducer>(*link(grid.world()), host_);
    groups_ = std::make_unique<NcclReducer>(*link(grid.time()), across_);
    space_ = link(grid.space());
    plane_link_ = link(grid.plane());
  }

  [[nodiscard]] const Exec& exec() const { return exec_; }
  [[nodiscard]] Device* device() { return device_.get(); }
  [[nodiscard]] Index waits() const { return driver_ ? driver_->waits() : 0; }
  [[nodiscard]] Index copied_in() const { return driver_ ? driver_->copied_in() : 0; }
  /// Reducer of steps; validation and data use the host's.
  [[nodiscard]] Reducer& step_reducer() { return way_ == Way::nccl ? *sums_ : host_; }
  [[nodiscard]] Reducer& sums() { return sums_ ? *sums_ : host_; }
  [[nodiscard]] MpiReducer& host() { return host_; }
  [[nodiscard]] MpiReducer& across() { return across_; }
  [[nodiscard]] TimeGroups groups(const ProcessGrid& grid) {
    Reducer* reducer = groups_ ? groups_.get() : &across_;
    return {grid.groups() > 1 ? reducer : nullptr, grid.group() == 0};
  }
  /// Sums over this stage: device arrays here, host arrays by `host`.
  Reducer& plane(Reducer& host) { return beside(host, plane_link_); }
  /// Sums over the row blocks of this group and stage.
  Reducer& space(Reducer& host) { return beside(host, space_); }
  /// Exchanges the device's arrays; `host` exchanges the host's.
  Exchange& between(const Communicator& comm, Exchange& host, const RowPartition& partition,
                    const GhostList& ghosts) {
    if (way_ == Way::host) return host;
    if (way_ == Way::staged)
      exchanges_.push_back(std::make_unique<StagedExchange>(exec_, host));
    else
      exchanges_.push_back(std::make_unique<NcclExchange>(comm, *space_, exec_, host, partition, ghosts));
    return *exchanges_.back();
  }

 private:
  Reducer& beside(Reducer& host, NcclLink* link) {
    if (way_ == Way::host) return host;
    if (way_ == Way::staged) return *of_model_.emplace_back(std::make_unique<StagedReducer>(*device_, host));
    return *of_model_.emplace_back(std::make_unique<NcclReducer>(*link, host));
  }

  Way way_;
  MpiReducer host_, across_;
  Exec exec_;
  SimulatedDriver* driver_ = nullptr;
  std::unique_ptr<Device> device_;
  std::vector<std::unique_ptr<FakeNccl>> apis_;
  std::vector<std::unique_ptr<NcclLink>> links_;
  NcclLink *space_ = nullptr, *plane_link_ = nullptr;
  std::unique_ptr<Reducer> sums_, groups_;
  std::vector<std::unique_ptr<Reducer>> of_model_;
  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

/// Runs two or three epochs of a task on these ranks.
Outcome run(const Setting& setting, Ranks& ranks, const ProcessGrid& grid, Task<double>& task, Index epochs) {
  Optimiser<double> optimiser({.beta1 = 0.9, .epsilon = 1e-3, .fuse = setting.dense}, task.parameters(),
                              ranks.device());
  TrainerOptions options;
  options.epochs = epochs;
  options.clip = setting.clip;
  options.keep_best = false;
  Trainer<double> trainer(options, {.lr = 1e-2}, task, optimiser, ranks.step_reducer(), ranks.exec(),
                          ranks.groups(grid));
  Outcome outcome;
  TrainerHooks hooks;
  hooks.observe = [&](const EpochReport& report) {
    for (const TermMean& term : report.terms) outcome.losses.push_back(term.value);
    outcome.losses.push_back(report.validation);
  };
  hooks.vote = [&] {
    const bool now = grid.world().rank() == 0 && trainer.steps() == setting.finish_at;
    return now ? unsigned{vote_finish} : 0U;
  };
  try {
    outcome.reason = trainer.run(hooks).reason;
  } catch (const NotFinite& error) {
    outcome.error = error.what();
  }
  outcome.steps = trainer.steps();
  outcome.waits = ranks.waits();
  outcome.copied_in = ranks.copied_in();
  for (Parameter<double>* parameter : task.parameters())
    for (Index k = 0; k < parameter->size() && outcome.error.empty(); ++k)
      outcome.parameters.push_back(parameter->stored(k));
  return outcome;
}

Series series_of(const Setting& setting, const RowPartition& partition, int part, Index steps) {
  Series series = random_series(partition, part, steps);
  const auto rows = partition.rows_of(part);
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (setting.infinite >= 0 && rows[i].value == 0)
      series.at(setting.infinite, static_cast<Index>(i), 0) = INFINITY;
  return series;
}

Outcome train_stnn(const Setting& setting, Way way, Index epochs) {
  const ProcessGrid grid(Communicator::world(), 1, 1);
  const Communicator& comm = grid.space();
  const int part = comm.rank();
  const RowPartition partition = make_partition(setting.n, setting.shuffled && !setting.dense, comm.size());
  Ranks ranks(way, grid);
  const Split split = make_split(16, {.train = "12", .validation = "4", .test = "0"});
  const Series series = series_of(setting, partition, part, 16);
  const Scaler scaler(partition.size(part), 2);
  auto relations = std::make_unique<Relations<double>>(partition, part);
  relations->add_refine(random_edges(partition, part, 0.15), 0.5);
  if (setting.dense) relations->add_discover(0.02);
  if (setting.low_rank) relations->add_low_rank(3);
  std::unique_ptr<Exchange> exchange;
  const bool all = comm.size() > 1 && relations->needs_all();
  if (all)
    exchange = std::make_unique<AllgatherExchange>(comm, partition, part);
  else
    exchange = std::make_unique<NeighbourExchange>(comm, partition, part, relations->ghosts());
  relations->finish(ranks.between(comm, *exchange, partition, relations->ghosts()), ranks.sums());
  StnnOptions options;
  options.steps = 12;
  options.features = 2;
  options.latent = 3;
  options.layers = 2;
  options.hidden = 5;
  options.l1_rel = setting.l1;
  options.l2_z = 0.01;
  Stnn<double> model(options, std::move(relations), partition.rows_of(part));
  model.start({.seed = 3});
  std::vector<Device::Copy> kept;
  if (Device* device = ranks.device()) {
    kept = model.relations().bank().keep_on(*device);
    kept.push_back(device->keep(series.values.span()));
  }
  StnnTask<double> task({.horizons = 2, .validates = setting.validates}, {.slab_steps = 3, .seed = 5}, model,
                        series, scaler, split, partition, part, ranks.host());
  return run(setting, ranks, grid, task, epochs);
}

Outcome train_windows(const Setting& setting, Way way, Index epochs) {
  const ProcessGrid grid(Communicator::world(), setting.groups, 1);
  const Communicator& comm = grid.space();
  const int part = comm.rank();
  const RowPartition partition = make_partition(setting.n, setting.shuffled, comm.size());
  Ranks ranks(way, grid);
  const Split split = make_split(30, {.train = "20", .validation = "8", .test = "rest"});
  const Series series = series_of(setting, partition, part, 30);
  const TimeAxis axis = TimeAxis::regular(30, "hours since 2001-01-01", 0, 1);
  const TimeFeatures times = TimeFeatures::of(axis, {.time_of_day = true});
  MpiMailbox mailbox(comm);
  const std::shared_ptr<const Architecture> architecture =
      setting.of_registry ? small_architecture(*setting.of_registry) : nullptr;
  const WindowArchitecture* small = architecture ? architecture->windows() : nullptr;
  const GlobalEdges graph = random_edges(partition, part, 0.15);
  const Supports wanted = small ? small->supports() : Supports{.kind = Supports::Kind::random_walk};
  const GlobalEdges supports =
      make_supports(wanted, wanted.one_relation ? first_relation(graph) : graph, partition, mailbox);
  const GlobalEdges* lists[] = {&supports};
  const GhostList ghosts = collect_ghosts(partition, part, lists);
  NeighbourExchange exchange(comm, partition, part, ghosts);
  const CsrBlock block = localise(supports, partition, part, ghosts);
  const ConvolutionShape convolution =
      small
          ? small->convolution()
          : ConvolutionShape{.steps = 2,
                             .variant = setting.wavenet ? DiffusionVariant::powers : DiffusionVariant::paper};
  Diffusion<double> diffusion(block, ranks.between(comm, exchange, partition, ghosts), convolution.steps,
                              convolution.variant);
  std::vector<Device::Copy> kept;
  if (ranks.device()) kept = diffusion.keep_on(*ranks.device());
  const FakeSparse sparse;
  if (ranks.device() && setting.sparse_library)
    diffusion.sparse_library =
        std::make_shared<SparseLibrary<double>>(ranks.exec(), sparse, block, diffusion.weight.span());
  std::unique_ptr<WindowModel<double>> owner;
  AllgatherExchange everyone(comm, partition, part);
  MpiReducer plane(grid.plane()), space(grid.space());
  GhostList positions;
  for (Index p = 0; p < setting.n; ++p) positions.push_back(Position{p});
  CalendarTables calendar;
  if (small) {
    WindowParts<double> parts;
    parts.embeddings = embeddings_on(axis, small->embeddings(), 0, calendar);
    parts.shape = {4, 3};
    parts.channels = 3;
    parts.features = 2;
    parts.diffusion = std::move(diffusion);
    parts.partition = &partition;
    parts.part = part;
    parts.all_rows = &ranks.between(comm, everyone, partition, positions);
    parts.plane = &ranks.plane(plane);
    parts.row_blocks = &ranks.space(space);
    parts.seed = 5;
    owner = small->make(std::move(parts));
  } else if (setting.wavenet) {
    AllNodes nodes;
    nodes.first = partition.begin(part);
    nodes.owned = partition.size(part);
    for (Index p = 0; p < setting.n; ++p) nodes.global.push_back(partition.global(Position{p}).value);
    nodes.exchange = &ranks.between(comm, everyone, partition, positions);
    const GraphWavenetOptions options{4, 3, 3, 2, 2, 2, 5, 7, 6, 2, true, 3, 0.3, 5, Recompute::none, {}, {}};
    owner = std::make_unique<GraphWavenet<double>>(options, std::move(diffusion), nodes, ranks.plane(plane));
  } else {
    owner = std::make_unique<Dcrnn<double>>(DcrnnOptions{4, 3, 2, 2, 5, Recompute::none, {}, {}},
                                            std::move(diffusion));
  }
  WindowModel<double>& model = *owner;
  model.start(3);
  const WindowShape shape{4, 3};
  WindowPlan plan({.shape = shape,
                   .batch = 4,
                   .seed = 7,
                   .sampling = WindowSampling::local,
                   .groups = grid.groups(),
                   .lanes = 1,
                   .blocks = 2,
                   .micro_batches = 1},
                  training_windows(split, shape, 1, {}), 30);
  const auto all = window_origins(split.origins(Role::validation, 3), shape, 3, {});
  std::vector<std::vector<Index>> origins;
  for (Index g = 0; g < grid.groups(); ++g)
    origins.emplace_back(all.begin() + std::ssize(all) * g / grid.groups(),
                         all.begin() + std::ssize(all) * (g + 1) / grid.groups());
  StepLists held = plan.steps_of_groups();
  for (auto& steps : held) {
    steps.clear();
    for (Index t = 0; t < 30; ++t) steps.push_back(t);
  }
  std::unique_ptr<StepExchange> steps = std::make_unique<OneGroup>();
  if (grid.groups() > 1) steps = std::make_unique<MpiStepExchange>(grid.time());
  StepStore store(30, series.rows, 2, held, *steps);
  float* to = store.values().data();
  for (const Index t : store.held())
    to = std::copy_n(series.values.data() + t * series.rows * 2, series.rows * 2, to);
  plan.set_observed(std::vector<double>(30, 1.0));
  const Scaler scaler(series.rows, 2);
  const SeriesReader<double> reader(store, scaler, times, Fill::mean, {.calendar = &calendar});
  if (Device* device = ranks.device()) {
    for (Device::Copy& copy : model.keep_on(*device)) kept.push_back(std::move(copy));
    for (Device::Copy& copy : reader.keep_on(*device)) kept.push_back(std::move(copy));
    if (setting.carried)
      store.carry_to(*device);
    else
      kept.push_back(device->keep(store.values()));
  }
  WindowTask<double> task({.sampling_decay = 8, .score_batch = 3, .seed = 2}, plan, model, reader, store,
                          origins, ranks.host());
  Outcome outcome = run(setting, ranks, grid, task, epochs);
  const bool whole = ranks.device() && setting.sparse_library && comm.size() == 1;
  EXPECT_EQ(sparse.multiplied > 0, whole);
  return outcome;
}

Outcome train(const Setting& setting, Way way, Index epochs = 2) {
  return setting.windows ? train_windows(setting, way, epochs) : train_stnn(setting, way, epochs);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& right, double tolerance) {
  ASSERT_EQ(got.size(), right.size());
  for (std::size_t k = 0; k < got.size(); ++k)
    ASSERT_NEAR(got[k], right[k], tolerance * (1 + std::abs(right[k]))) << k;
}

int ranks() {
  return Communicator::world().size();
}

std::vector<Setting> settings() {
  std::vector<Setting> all{{},
                           {.n = 3},  // fewer rows than ranks
                           {.low_rank = true},
                           {.clip = 0.05},
                           {.dense = true},
                           {.dense = true, .l1 = 0},
                           {.windows = true},
                           {.windows = true, .clip = 0.05},
                           {.windows = true, .n = 3, .clip = 1e-3, .shuffled = false},
                           {.windows = true, .wavenet = true, .clip = 0.05},
                           {.windows = true, .sparse_library = true},
                           {.windows = true, .wavenet = true, .sparse_library = true},
                           {.windows = true, .carried = true}};
  if (ranks() % 2 == 0) all.push_back({.windows = true, .wavenet = true, .clip = 0.05, .groups = 2});
  if (ranks() == 4) all.push_back({.windows = true, .groups = 4, .sparse_library = true, .carried = true});
  return all;
}

void expect_that_of_the_host(const Setting& setting) {
  const Outcome host = train(setting, Way::host);
  for (const Way way : {Way::staged, Way::nccl}) {
    const Outcome there = train(setting, way);
    expect_near(there.losses, host.losses, 1e-10);
    expect_near(there.parameters, host.parameters, 1e-9);
    EXPECT_EQ(there.steps, host.steps);
    if (way == Way::staged) continue;  // the host sends its messages
    const Outcome again = train(setting, way);
    EXPECT_EQ(again.losses, there.losses) << "two runs are bit-equal";
    EXPECT_EQ(again.parameters, there.parameters);
  }
}

TEST(NcclTraining, IsThatOfTheHost) {
  int number = 0;
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(number++);
    expect_that_of_the_host(setting);
  }
}

/// Small models of the registry, in two time groups if ranks allow.
TEST(NcclTraining, IsThatOfTheHostForEveryForecasterOfWindows) {
  for (const ModelDescriptor& descriptor : models()) {
    if (!descriptor.of_windows) continue;
    SCOPED_TRACE(descriptor.name);
    expect_that_of_the_host({.windows = true,
                             .of_registry = &descriptor,
                             .n = 11,
                             .clip = 0.05,
                             .groups = ranks() % 2 == 0 ? 2 : 1});
  }
}

/// In one more epoch the host waits once for the losses.
TEST(NcclTraining, RunsAheadOfTheDevice) {
  for (Setting setting :
       {Setting{}, Setting{.low_rank = true}, Setting{.windows = true},
        Setting{.windows = true, .clip = 0.05}, Setting{.windows = true, .wavenet = true, .clip = 0.05}}) {
    setting.validates = false;
    const Outcome two = train(setting, Way::nccl, 2), three = train(setting, Way::nccl, 3);
    EXPECT_GT(three.steps - two.steps, 2);
    EXPECT_EQ(three.waits - two.waits, 1);
    EXPECT_EQ(three.copied_in, two.copied_in) << "a step takes nothing from the host";
    if (ranks() == 1) continue;
    const Outcome few = train(setting, Way::staged, 2), more = train(setting, Way::staged, 3);
    EXPECT_GE(more.waits - few.waits, more.steps - few.steps);
  }
}

TEST(NcclTraining, HeedsTheVoteOfOneRank) {
  for (const bool windows : {false, true}) {
    const Setting setting{.windows = windows, .finish_at = 5};
    const Outcome host = train(setting, Way::host), there = train(setting, Way::nccl);
    EXPECT_EQ(there.reason, StopReason::asked);
    EXPECT_EQ(there.steps, 6);
    EXPECT_EQ(host.steps, 6);
    expect_near(there.losses, host.losses, 1e-10);
    expect_near(there.parameters, host.parameters, 1e-9);
  }
}

/// A loss that is not finite on one rank ends the training on all ranks, in the step that made it.
TEST(NcclTraining, WithoutAFiniteLossEndsOnAllRanks) {
  for (const bool windows : {false, true}) {
    const Setting setting{.windows = windows, .infinite = 7};
    const Outcome host = train(setting, Way::host), there = train(setting, Way::nccl);
    EXPECT_NE(host.error.find("not finite"), std::string::npos);
    EXPECT_EQ(there.error, host.error);
    EXPECT_EQ(there.steps, host.steps);
  }
}

/// The norm for clipping counts owned parameters of all ranks, and replicated parameters once.
TEST(NcclTraining, ClipsByTheNormOfAllRanks) {
  const ProcessGrid grid(Communicator::world(), 1, 1);
  const auto values_after = [&](Way way) {
    Ranks ranks(way, grid);
    Parameter<double> own("own", Placement::rows, {1, 1, 1}),
        shared("shared", Placement::replicated, {1, 1, 1});
    std::vector<Parameter<double>*> both{&own, &shared};
    Optimiser<double> optimiser({.kind = OptimiserKind::sgd, .momentum = 0}, both, ranks.device());
    Step<double> step(both, optimiser, ranks.step_reducer(), 1.5, ranks.groups(grid));
    step.allow_ahead();
    Tape<double> tape{ranks.exec()};
    std::vector<float> target{3.0F + static_cast<float>(grid.world().rank())};
    Device::Copy kept;
    const float* truth = target.data();
    if (Device* device = ranks.device()) {
      kept = device->keep(target);
      truth = device->on_device(std::span<const float>(target));
    }
    std::vector<Losses> losses(6);
    Index ahead = 0;
    for (Losses& terms : losses) {
      const auto record = [&] {
        const std::vector<Index> times{0};
        for (Parameter<double>* parameter : both)
          masked_squared_error(tape, embed_columns(tape, *parameter, std::span<const Index>(times)),
                               NodeView<const float>(truth, 1, 1, 1), 1.0, terms.add(parameter->name, 1.0));
      };
      ahead += step.run(tape, 0.1, 0, terms, record).ahead ? 1 : 0;
    }
    optimiser.fetch();
    const bool alone = grid.world().size() == 1;  // otherwise the first step waits, and asks all
    EXPECT_EQ(ahead, way == Way::host ? 0 : alone ? 6 : way == Way::nccl ? 5 : 0);
    return std::vector<double>{own.value[0], shared.value[0]};
  };
  const std::vector<double> host = values_after(Way::host);
  expect_near(values_after(Way::nccl), host, 1e-12);
  expect_near(values_after(Way::staged), host, 1e-12);
  EXPECT_LT(host[0] * host[0], 1) << "clipped: else it were far on its way to 3";
}

}  // namespace
}  // namespace rossby::test
