// Training steps of forecasters of windows under mpirun, on a process grid: seconds a step, the share of this
// machine's SGEMM rate that its arithmetic reaches, what reading windows costs beside copying as many bytes,
// and what fetching the steps of other groups costs. The loss of a small problem is held against the
// reference kernels first; where it is wrong the exit code is 1.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "benchmarks/machine.hpp"
#include "benchmarks/options.hpp"
#include "rossby/base/flush_subnormals.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/blas_threads.hpp"
#include "rossby/model/dcrnn.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/mailbox.hpp"
#include "rossby/mpi/petsc_exchange.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/mpi/reducer.hpp"
#include "rossby/mpi/step_exchange.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/train/window_task.hpp"

namespace rossby::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* usage =
    "usage: mpirun -n P bench_windows [--nodes=207] [--windows=64] [--inputs=12] [--outputs=12] "
    "[--layers=2]\n"
    "                                 [--units=64] [--diffusion=2] [--steps=2016] [--groups=1]\n"
    "                                 [--sampling=local|global|blocked] [--recompute=none|cell|step]\n"
    "                                 [--repeats=5] [--threads=1] [--json=FILE]\n\n"
    "A DCRNN on a ring of nodes with eight neighbours each; the defaults are METR-LA's size.\n";

struct Options {
  Index nodes = 207, inputs = 12, outputs = 12, units = 64, steps = 2016, windows = 64;
  int layers = 2, diffusion = 2, groups = 1, repeats = 5, threads = 1;
  WindowSampling sampling = WindowSampling::local;
  Recompute recompute = Recompute::none;
  std::string sampling_name = "local", recompute_name = "none", json;
};

Options parse(Arguments& arguments) {
  Options o;
  o.nodes = arguments.number("nodes", 207);
  o.windows = arguments.number("windows", 64);
  o.inputs = arguments.number("inputs", 12);
  o.outputs = arguments.number("outputs", 12);
  o.layers = arguments.number("layers", 2);
  o.units = arguments.number("units", 64);
  o.diffusion = arguments.number("diffusion", 2);
  o.steps = arguments.number("steps", 2016);
  o.groups = arguments.number("groups", 1);
  o.repeats = arguments.number("repeats", 5);
  o.threads = arguments.number("threads", 1);
  o.sampling_name = arguments.text("sampling", "local");
  o.recompute_name = arguments.text("recompute", "none");
  o.json = arguments.text("json", "");
  if (o.sampling_name == "global") o.sampling = WindowSampling::global;
  if (o.sampling_name == "blocked") o.sampling = WindowSampling::blocked;
  if (o.recompute_name == "cell") o.recompute = Recompute::cell;
  if (o.recompute_name == "step") o.recompute = Recompute::step;
  if (arguments.rest().size() > 1) user_error("unknown option {}; see --help", arguments.rest()[1]);
  if (o.repeats < 1 || o.threads < 1) user_error("--repeats and --threads must be 1 or more");
  return o;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A training of Options on this rank.
struct Training {
  Options o;
  Exec exec;
  ProcessGrid grid;
  RowPartition partition;
  MpiReducer reducer;
  CsrBlock block;
  std::unique_ptr<Exchange> exchange;
  std::unique_ptr<Dcrnn<float>> model;
  std::unique_ptr<StepExchange> between;
  std::unique_ptr<WindowPlan> plan;
  std::unique_ptr<StepStore> store;
  TimeFeatures times;
  Scaler scaler;
  std::unique_ptr<SeriesReader<float>> reader;
  std::unique_ptr<WindowTask<float>> task;

  Training(const Options& options, const Exec& e, const Communicator& world)
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
    exchange = std::make_unique<PetscExchange>(grid.space(), partition, part, ghosts);
    block = localise(supports, partition, part, ghosts);
    Diffusion<float> diffusion(block, *exchange, o.diffusion, DiffusionVariant::paper);
    diffusion.alone = grid.space().size() == 1;
    model = std::make_unique<Dcrnn<float>>(DcrnnOptions{o.inputs, 2, 1, o.layers, o.units, o.recompute},
                                           std::move(diffusion));
    model->start(1);
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
                                                      .blocks = 8},
                                        windows, o.steps);
    plan->set_observed(std::vector<double>(static_cast<std::size_t>(o.steps), static_cast<double>(o.nodes)));
    if (o.groups > 1)
      between = std::make_unique<MpiStepExchange>(grid.time());
    else
      between = std::make_unique<OneGroup>();
    const auto rows = partition.rows_of(grid.space().rank());
    const auto owned = static_cast<Index>(rows.size());
    store = std::make_unique<StepStore>(o.steps, owned, 1, plan->steps_of_groups(), *between);
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
    task = std::make_unique<WindowTask<float>>(
        WindowTaskOptions{.sampling_decay = 2000, .seed = 1}, *plan, *model, *reader, *store,
        std::vector<std::vector<Index>>(static_cast<std::size_t>(o.groups)), reducer, exec);
  }
};

struct Steps {
  std::vector<double> seconds;
  double loss = 0;
  double flops = 0;  // of a step on this rank
  double arena_bytes = 0;
};

Steps run_steps(Training& training, int count) {
  Optimiser<float> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, training.model->parameters());
  Step<float> step(training.model->parameters(), optimiser, training.reducer, 5);
  Tape<float> tape(training.exec);
  Losses losses;
  Steps steps;
  training.task->start_epoch(0);
  for (int s = 0; s < count; ++s) {
    training.grid.world().barrier();
    tape.clear_totals();
    const auto begin = Clock::now();
    const auto result = step.run(tape, 0.01, 0, losses, [&] { training.task->record(tape, s, s, losses); });
    steps.seconds.push_back(seconds_since(begin));
    steps.loss = result.loss;
  }
  for (const auto& total : tape.totals()) steps.flops += total.cost.flops;
  steps.arena_bytes = static_cast<double>(tape.arena().peak_bytes());
  return steps;
}

/// The loss after a few steps of a small problem, by the reference kernels and by those that are timed.
double small_error(Options o, const Communicator& world, const Exec& exec) {
  o.nodes = 29;
  o.windows = 2 * o.groups;
  o.units = 5;
  o.steps = std::max<Index>(60, 12 * o.groups) + o.inputs + o.outputs;
  Training fast(o, exec, world), truth(o, {Backend::reference, 1, exec.isa}, world);
  const double a = run_steps(fast, 3).loss, b = run_steps(truth, 3).loss;
  return std::abs(a - b) / std::abs(b);
}

/// Seconds to read all windows of a batch, and to copy as many bytes as they are read from.
struct Reading {
  double read = 0, copy = 0, bytes = 0;
};

Reading time_reading(Training& training, int repeats) {
  const Options& o = training.o;
  std::vector<Index> starts;
  training.plan->starts_of(0, training.grid.group(), starts);
  if (o.sampling == WindowSampling::global && o.groups > 1) return {};
  const Index rows = training.store->rows();
  const auto cols = static_cast<Index>(starts.size());
  std::vector<float> inputs(static_cast<std::size_t>(rows * cols * 2)),
      targets(static_cast<std::size_t>(rows * cols));
  std::vector<Index> steps(starts.size());
  Reading reading;
  reading.bytes = static_cast<double>(rows * cols * (o.inputs + o.outputs)) * sizeof(float);
  std::vector<float> from(static_cast<std::size_t>(reading.bytes / sizeof(float)), 1.0F), to(from.size());
  std::vector<double> read, copy;
  for (int r = 0; r < 4 * repeats; ++r) {
    auto begin = Clock::now();
    for (Index t = 0; t < o.inputs + o.outputs; ++t) {
      for (std::size_t b = 0; b < starts.size(); ++b) steps[b] = starts[b] + t;
      if (t < o.inputs)
        training.reader->read(training.exec, {inputs.data(), rows, cols, 2}, steps);
      else
        training.reader->read_truth(training.exec, {targets.data(), rows, cols, 1}, steps);
    }
    read.push_back(seconds_since(begin));
    begin = Clock::now();
    std::memcpy(to.data(), from.data(), from.size() * sizeof(float));
    copy.push_back(seconds_since(begin));
    from[static_cast<std::size_t>(r)] = to.back();
  }
  reading.read = median(read);
  reading.copy = median(copy);
  return reading;
}

/// Seconds of a transfer that nothing hides, median over batches, and its bytes to this rank.
std::pair<double, double> time_fetching(Training& training, int repeats) {
  const Options& o = training.o;
  if (o.groups == 1 || o.sampling != WindowSampling::global) return {0, 0};
  std::vector<double> seconds;
  const Traffic before = training.between->sent();
  training.plan->start_epoch(1);
  const int count = std::min<int>(2 * repeats, static_cast<int>(training.plan->batches()));
  if (training.store->on_the_way()) training.store->arrive();
  for (int k = 0; k < count; ++k) {
    StepLists wanted;
    std::vector<Index> starts;
    for (int g = 0; g < o.groups; ++g) {
      training.plan->starts_of(k, g, starts);
      wanted.push_back(training.plan->steps_of(starts));
    }
    training.grid.world().barrier();
    const auto begin = Clock::now();
    training.store->prefetch(wanted);
    training.store->arrive();
    seconds.push_back(seconds_since(begin));
  }
  const auto bytes = static_cast<double>(training.between->sent().bytes - before.bytes) / count;
  return {median(seconds), bytes};
}

int run(const Communicator& world, const Options& o) {
  const FlushSubnormals flush;
  use_single_threaded_blas();
  Exec exec;
  exec.threads = o.threads;
  const double error = small_error(o, world, exec);
  if (!(error < 1e-4)) {
    if (world.rank() == 0) fmt::print(stderr, "bench_windows: wrong loss: relative error {:.2g}\n", error);
    return 1;
  }
  world.barrier();
  Machine machine(o.threads, false, world.size());
  Training training(o, exec, world);
  Steps steps = run_steps(training, o.repeats + 2);
  steps.seconds.erase(steps.seconds.begin(),
                      steps.seconds.begin() + 2);  // memory is touched for the first time
  const double second = median(steps.seconds),
               best = *std::min_element(steps.seconds.begin(), steps.seconds.end());
  const Reading reading = time_reading(training, o.repeats);
  const auto [fetch, fetched] = time_fetching(training, o.repeats);
  double rates[] = {steps.flops, machine.gemm(), fetched};
  training.reducer.sum(rates);
  double peak[] = {peak_resident_bytes(), steps.arena_bytes};
  training.reducer.max(peak);
  if (world.rank() != 0) return 0;
  const double share = rates[0] / second / rates[1];
  const auto windows = static_cast<double>(o.windows);
  fmt::print(
      "{} nodes, {} windows of {} + {}, {} layers x {} units, K = {}, {} ranks in {} groups, {} sampling, "
      "recompute {}\n",
      o.nodes, o.windows, o.inputs, o.outputs, o.layers, o.units, o.diffusion, world.size(), o.groups,
      o.sampling_name, o.recompute_name);
  fmt::print("small problem against the reference kernels: relative error {:.2g}\n", error);
  fmt::print(
      "step      {:.4g} s (best {:.4g}), {:.4g} Gflop: {:.4g} Gflop/s, {:.1f} % of SGEMM's {:.4g} (best "
      "{:.1f} %)\n",
      second, best, rates[0] / 1e9, rates[0] / second / 1e9, 100 * share, rates[1] / 1e9,
      100 * rates[0] / best / rates[1]);
  if (reading.read > 0)
    fmt::print("reading   {:.4g} windows/s, {:.4g} GB/s (memcpy {:.4g} GB/s), {:.2f} % of the step\n",
               windows / o.groups / reading.read, reading.bytes / reading.read / 1e9,
               reading.bytes / reading.copy / 1e9, 100 * reading.read / second);
  if (fetch > 0)
    fmt::print(
        "fetching  {:.4g} s a batch where nothing hides it, {:.4g} MB, {:.4g} GB/s: {:.2f} % of the step\n",
        fetch, rates[2] / 1e6, rates[2] / fetch / 1e9, 100 * fetch / second);
  fmt::print("memory    {:.4g} GiB of activations, {:.4g} GiB a rank at most\n", peak[1] / (1 << 30),
             peak[0] / (1 << 30));
  if (o.json.empty()) return 0;
  const Json json = {{"nodes", o.nodes},
                     {"windows", o.windows},
                     {"units", o.units},
                     {"layers", o.layers},
                     {"diffusion", o.diffusion},
                     {"ranks", world.size()},
                     {"groups", o.groups},
                     {"sampling", o.sampling_name},
                     {"recompute", o.recompute_name},
                     {"step_seconds", second},
                     {"best_step_seconds", best},
                     {"step_flops", rates[0]},
                     {"gemm_flops_per_second", rates[1]},
                     {"gemm_percent", 100 * share},
                     {"read_seconds", reading.read},
                     {"copy_seconds", reading.copy},
                     {"read_bytes", reading.bytes},
                     {"fetch_seconds", fetch},
                     {"fetch_bytes", rates[2]},
                     {"activation_bytes", peak[1]},
                     {"peak_rss_bytes", peak[0]},
                     {"loss_error", error},
                     {"processor", processor()},
                     {"blas", blas_core()}};
  std::ofstream(o.json) << json.dump(2) << '\n';
  return 0;
}

}  // namespace
}  // namespace rossby::bench

int main(int count, char** words) {
  using namespace rossby;
  bench::Arguments arguments(count, words);
  if (arguments.flag("help")) {
    std::fputs(bench::usage, stdout);
    return 0;
  }
  const Environment environment;
  try {
    return bench::run(environment.world(), bench::parse(arguments));
  } catch (const std::exception& error) {
    abort_all(error.what());
  }
}
