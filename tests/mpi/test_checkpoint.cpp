#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "rossby/mpi/allgather_exchange.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/mpi/neighbour_exchange.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/train/stnn_task.hpp"
#include "tests/mpi/small_training.hpp"

// A training that stops after k steps continues from its checkpoint in new objects, and ends with the same
// bits as an uninterrupted training. This holds at every k, also inside epochs, and for every way of
// deferring updates. At another rank count the results are equal up to summation order.

namespace rossby {
namespace {

using namespace small_training;

struct Case {
  const char* name;
  bool pairs = false;
  bool joint = false;
  bool refine = true;
  bool low_rank = false;
  bool dense = false;
  bool shuffled = true;
  double beta1 = 0;
  double decay_z = 1e-3;
  double clip = 0;
  OptimiserKind kind = OptimiserKind::adam;
  ScheduleKind schedule = ScheduleKind::plateau;
  Index validate_every = 1;
  bool bf16 = false;  // the dense relation and its moments
};

constexpr Index n = 13, steps = 16, train_steps = 12, epochs = 4;

/// A training from its start on one communicator.
template <class T>
struct Training {
  const Case& c;
  Communicator comm;
  RowPartition partition;
  MpiReducer reducer;
  Series series;
  Scaler scaler;
  Split split;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Stnn<T>> model;
  std::unique_ptr<StnnTask<T>> task;
  std::unique_ptr<Optimiser<T>> optimiser;
  std::unique_ptr<Trainer<T>> trainer;
  std::vector<EpochReport> reports;
  std::vector<std::vector<double>> terms;

  Training(const Case& chosen, const Communicator& on)
      : c(chosen), comm(on), partition(make_partition(n, c.shuffled, comm.size())), reducer(comm) {
    const int part = comm.rank();
    const auto rows = partition.rows_of(part);
    split = make_split(steps, {.train = "12", .validation = "4", .test = "0"});
    series = random_series(partition, part, steps);
    scaler =
        Scaler::fit(series, split, {.center = ScaleBy::node, .spread = ScaleBy::node, .factor = 1}, reducer);
    scaler.apply(series);
    make_model(rows);
    const BatchOptions batches{
        .pairs = c.pairs, .pairs_per_batch = 50, .slab_steps = 3, .joint = c.joint, .seed = 5};
    task = std::make_unique<StnnTask<T>>(StnnTaskOptions{.horizons = 2, .filter_lambda = 0.1}, batches,
                                         *model, series, scaler, split, partition, part, reducer);
    optimiser = std::make_unique<Optimiser<T>>(
        OptimiserOptions{.kind = c.kind, .beta1 = c.beta1, .fuse = !c.pairs}, model->parameters());
    const ScheduleOptions schedule{
        .kind = c.schedule, .lr = 0.05, .epochs = epochs, .warmup = 1, .patience = 0, .threshold = 0.05};
    trainer = std::make_unique<Trainer<T>>(
        TrainerOptions{.epochs = epochs, .validate_every = c.validate_every, .clip = c.clip}, schedule, *task,
        *optimiser, reducer, Exec{});
  }

  void make_model(const std::vector<GlobalRow>& rows) {
    const int part = comm.rank();
    auto relations = std::make_unique<Relations<T>>(partition, part);
    if (c.refine)
      relations->add_refine(random_edges(partition, part, 0.25), 0.5);
    else
      relations->add_given(random_edges(partition, part, 0.25));
    relations->add_self(0.5);
    if (c.bf16) relations->hold_dense_in_bf16();
    if (c.dense) relations->add_discover(0.05);
    if (c.low_rank) relations->add_low_rank(3);
    if (comm.size() > 1 && relations->needs_all())
      exchange = std::make_unique<AllgatherExchange>(comm, partition, part);
    else
      exchange = std::make_unique<NeighbourExchange>(comm, partition, part, relations->ghosts());
    relations->finish(*exchange, reducer);
    StnnOptions options;
    options.steps = train_steps;
    options.features = 2;
    options.latent = 3;
    options.layers = 2;
    options.hidden = 5;
    options.activation = LatentActivation::tanh;
    options.l2_z = 0.01;
    options.dropout_z = 0.1;
    options.dropout_dynamics = 0.1;
    model = std::make_unique<Stnn<T>>(options, std::move(relations), rows);
    model->start({.seed = 3});
    for (Parameter<T>* parameter : model->parameters()) parameter->decay = c.decay_z > 0 ? 1e-4 : 0;
    model->factors().decay = c.decay_z;
  }

  std::vector<StateArray<T>> arrays(bool has_best) {
    std::vector<StateArray<T>> all;
    for (const NamedArray<T>& array : trainer->arrays(has_best))
      all.push_back(state_array(array.name, *array.parameter, array.data,
                                array.parameter->placement == Placement::entries
                                    ? &model->relations().edges(*array.parameter)
                                    : nullptr,
                                array.bf16));
    return all;
  }

  /// Runs to the end, or stops after `pause` steps in total and writes a checkpoint to `path`.
  void run(Index pause, const std::string& path) {
    TrainerHooks hooks;
    hooks.observe = [&](const EpochReport& report) {
      reports.push_back(report);
      terms.emplace_back();
      for (const TermMean& term : report.terms) terms.back().push_back(term.value);
    };
    // One rank votes, all ranks stop.
    hooks.vote = [&] {
      const bool asks = comm.rank() == comm.size() - 1 && trainer->state().steps + 1 == pause;
      return asks ? unsigned{vote_pause} : 0U;
    };
    hooks.save = [&](SaveReason reason) {
      if (reason != SaveReason::pause) return;
      TrainingState state = trainer->state();
      state.seconds = state.epoch_seconds = 0;  // differ between ranks
      state.step_seconds = {};
      write_state<T>(comm, path, partition, arrays(state.has_best), to_json(state).dump());
    };
    const TrainingResult result = trainer->run(hooks);
    EXPECT_EQ(result.reason == StopReason::paused, pause > 0);
  }

  void resume(const std::string& path) {
    const TrainingState state = training_state(nlohmann::ordered_json::parse(read_state_metadata(path)));
    read_state<T>(comm, path, partition, arrays(state.has_best));
    trainer->restore(state);
  }

  /// Values of all parameters by global row, from all ranks. Collective.
  std::vector<double> whole() {
    std::vector<double> all;
    for (const Parameter<T>* p : model->parameters()) {
      if (p->placement == Placement::replicated) all.insert(all.end(), p->value.begin(), p->value.end());
      if (p->placement != Placement::rows) continue;
      std::vector<double> one(static_cast<std::size_t>(p->shape[0] * n * p->shape[2]));
      for (Index t = 0; t < p->shape[0]; ++t)
        for (std::size_t i = 0; i < model->rows().size(); ++i)
          for (Index f = 0; f < p->shape[2]; ++f) {
            one[static_cast<std::size_t>((t * n + model->rows()[i].value) * p->shape[2] + f)] =
                p->stored((t * p->shape[1] + static_cast<Index>(i)) * p->shape[2] + f);
          }
      reducer.sum(std::span<double>(one));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }
};

class Checkpoint : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    int id = static_cast<int>(getpid());
    MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
    // In memory if possible, because the tests write hundreds of files.
    const std::filesystem::path memory = "/dev/shm";
    folder_ = (access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path()) /
              ("rossby_checkpoint_" + std::to_string(id));
    std::filesystem::create_directories(folder_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void TearDown() override {
    MPI_Barrier(MPI_COMM_WORLD);
    if (Communicator::world().rank() == 0) std::filesystem::remove_all(folder_);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  [[nodiscard]] std::string file() const { return (folder_ / "c.h5").string(); }

  /// Stops at k, continues in new objects and compares the rest of the training with `whole`.
  template <class T>
  void expect_same_bits(Training<T>& whole, Index k) {
    SCOPED_TRACE(testing::Message() << "left after step " << k);
    const Communicator world = Communicator::world();
    Training<T> first(GetParam(), world);
    first.run(k, file());
    Training<T> second(GetParam(), world);
    second.resume(file());
    second.run(0, file());
    ASSERT_EQ(first.reports.size() + second.reports.size(), whole.reports.size());
    for (std::size_t e = 0; e < second.reports.size(); ++e) {
      const EpochReport& a = second.reports[e];
      const EpochReport& b = whole.reports[first.reports.size() + e];
      EXPECT_EQ(a.epoch, b.epoch);
      EXPECT_EQ(a.steps, b.steps);
      EXPECT_EQ(a.lr, b.lr);
      EXPECT_EQ(a.loss, b.loss);
      EXPECT_EQ(second.terms[e], whole.terms[first.reports.size() + e]);
      EXPECT_EQ(a.best, b.best);
      EXPECT_TRUE(a.validation == b.validation || std::isnan(b.validation))
          << a.validation << " " << b.validation;
    }
    for (std::size_t p = 0; p < whole.model->parameters().size(); ++p) {
      const auto& x = second.model->parameters()[p]->value;
      const auto& y = whole.model->parameters()[p]->value;
      EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end())) << whole.model->parameters()[p]->name;
      const auto& narrow = second.model->parameters()[p]->bf16;
      const auto& expected = whole.model->parameters()[p]->bf16;
      EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), expected.begin(), expected.end())) << p;
    }
    for (std::size_t p = 0; p < whole.optimiser->states().size(); ++p) {
      const auto& x = second.optimiser->states()[p];
      const auto& y = whole.optimiser->states()[p];
      EXPECT_EQ(x.count, y.count);
      const auto same = [](const Buffer<T>& a, const Buffer<T>& b) {
        return std::equal(a.begin(), a.end(), b.begin(), b.end());
      };
      EXPECT_TRUE(same(x.first.host(), y.first.host())) << p;
      EXPECT_TRUE(same(x.second.host(), y.second.host())) << p;
      if (!x.bf16) continue;
      for (const auto moment : {&Bf16Books::first, &Bf16Books::second}) {
        const auto& a = (*x.bf16.*moment).host();
        const auto& b = (*y.bf16.*moment).host();
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << p;
      }
    }
  }

 private:
  std::filesystem::path folder_;
};

TEST_P(Checkpoint, GoesOnBitForBit) {
  Training<float> whole(GetParam(), Communicator::world());
  whole.run(0, file());
  ASSERT_EQ(whole.reports.size(), static_cast<std::size_t>(epochs));
  const Index all = whole.reports.back().steps;
  const Index epoch = whole.reports.front().steps;
  // The first step, steps inside the two passes of an epoch, its end, later steps, the last step.
  std::vector<Index> places{2, 2 * epoch + 3};
  if (Communicator::world().size() <= 2)
    places.insert(places.end(), {Index{1}, epoch - 1, epoch, epoch + 1, all - 1, all});
  for (const Index k : places) expect_same_bits(whole, k);
}

TEST_P(Checkpoint, GoesOnBitForBitInDouble) {
  if (GetParam().bf16) return;
  Training<double> whole(GetParam(), Communicator::world());
  whole.run(0, file());
  expect_same_bits(whole, whole.reports.front().steps * 2 + 5);
}

/// Stops after step 11 at `from` ranks and continues at `to`.
template <class T>
void expect_near(const Case& c, const std::string& file, int from, int to, double tolerance) {
  SCOPED_TRACE(testing::Message() << from << " to " << to << " ranks");
  const Communicator world = Communicator::world();
  const Communicator writers = world.split(world.rank() < from ? 0 : 1);
  if (world.rank() < from) Training<T>(c, writers).run(11, file);
  world.barrier();
  const Communicator readers = world.split(world.rank() < to ? 0 : 1);
  if (world.rank() < to) {
    Training<T> whole(c, readers), second(c, readers);
    whole.run(0, file);
    second.resume(file);
    second.run(0, file);
    const auto a = second.whole(), b = whole.whole();
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
  }
  world.barrier();
}

TEST_P(Checkpoint, GoesOnAtAnotherRankCount) {
  const int all = Communicator::world().size();
  if (all == 1) return;
  for (const auto& [from, to] : {std::pair{all, all - 1}, {1, all}})
    if (GetParam().bf16)
      expect_near<float>(GetParam(), file(), from, to, 2e-2);
    else
      expect_near<double>(GetParam(), file(), from, to, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Checkpoint,
    testing::Values(
        Case{.name = "Slabs"}, Case{.name = "SlabsClosedForm", .decay_z = 0},
        Case{.name = "SlabsBeta1", .beta1 = 0.9, .clip = 0.5},
        Case{.name = "SlabsSeldomValidated", .beta1 = 0.9, .validate_every = 3},
        Case{.name = "SlabsAdamW", .decay_z = 1e-2, .kind = OptimiserKind::adamw},
        Case{.name = "Joint", .joint = true, .refine = false, .schedule = ScheduleKind::cosine},
        Case{.name = "Pairs", .pairs = true},
        Case{.name = "PairsSgd", .pairs = true, .kind = OptimiserKind::sgd},
        Case{.name = "PairsDense",
             .pairs = true,
             .dense = true,
             .shuffled = false,
             .decay_z = 0,
             .validate_every = 3},
        Case{.name = "DenseFusedClipped", .dense = true, .shuffled = false, .clip = 1e-3},
        Case{.name = "DenseFusedBeta1", .dense = true, .shuffled = false, .beta1 = 0.8},
        Case{.name = "DenseBf16", .dense = true, .shuffled = false, .clip = 1e-3, .bf16 = true},
        Case{.name = "DenseBf16ClosedForm", .dense = true, .shuffled = false, .decay_z = 0, .bf16 = true},
        Case{.name = "DenseBf16Beta1",
             .dense = true,
             .shuffled = false,
             .beta1 = 0.8,
             .validate_every = 3,
             .bf16 = true},
        Case{.name = "LowRank", .refine = false, .low_rank = true, .beta1 = 0.5, .clip = 1e-3}),
    [](const auto& chosen) { return std::string(chosen.param.name); });

TEST(TrainingState, RefusesWhatIsNone) {
  const std::string good = to_json(TrainingState{}).dump();
  EXPECT_NO_THROW((void)training_state(nlohmann::ordered_json::parse(good)));
  TrainingState timed;
  timed.step_seconds = {1, 2, 3, 4, 5, 6};
  auto older = to_json(timed);
  const StepSeconds read = training_state(older).step_seconds;
  EXPECT_EQ(std::vector<double>(
                {read.forward, read.backward, read.reduction, read.optimiser, read.waiting, read.transfer}),
            std::vector<double>({1, 2, 3, 4, 5, 6}));
  older.erase("step_seconds");
  EXPECT_EQ(training_state(older).step_seconds.total(), 0);
  for (const auto& [name, value] :
       std::vector<std::pair<const char*, const char*>>{{"epoch", "-1"},
                                                        {"batch", "1.5"},
                                                        {"steps", "\"3\""},
                                                        {"terms", "{}"},
                                                        {"schedule", "[]"},
                                                        {"parameters", "[1]"},
                                                        {"parameters", "[{\"name\": \"x\"}]"},
                                                        {"terms", "[3]"},
                                                        {"has_best", "1"},
                                                        {"seconds", "null"}}) {
    auto json = nlohmann::ordered_json::parse(good);
    json[name] = nlohmann::ordered_json::parse(value);
    EXPECT_THROW((void)training_state(json), UserError) << name << " = " << value;
    json.erase(name);
    EXPECT_THROW((void)training_state(json), UserError) << "no " << name;
  }
  EXPECT_THROW((void)training_state(nlohmann::ordered_json::parse("[1]")), UserError);
}

}  // namespace
}  // namespace rossby
