// Times training steps of window models under mpirun, on a process grid. Reports seconds per step, the share
// of this machine's SGEMM rate that the arithmetic reaches, the time to read windows compared with copying as
// many bytes, and the time to fetch the steps of other groups. The loss of a small problem is first compared
// with the reference kernels; if it is wrong, the exit code is 1.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "benchmarks/device.hpp"
#include "benchmarks/machine.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/window_reading.hpp"
#include "benchmarks/window_training.hpp"
#include "rossby/base/flush_subnormals.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/plan/rates.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "usage: mpirun -n P bench_windows [--nodes=207] [--windows=64] [--inputs=12] [--outputs=12] "
    "[--layers=2]\n"
    "                                 [--units=64] [--diffusion=2] [--steps=2016] [--groups=1]\n"
    "                                 [--sampling=local|global|blocked] [--recompute=none|cell|step]\n"
    "                                 [--model=dcrnn|graph_wavenet] [--adaptive=1]\n"
    "                                 [--hold=share|all] [--materialised]\n"
    "                                 [--micro-batches=1] [--repeats=5] [--threads=1] [--json=FILE]\n"
    "                                 [--device=cpu|cuda|simulated] [--products=model|tf32|bf16] [--graphs]\n"
    "                                 [--sparse=own|cusparse]\n\n"
    "A DCRNN on a ring of nodes with eight neighbours each; the default sizes are those of METR-LA. A Graph\n"
    "WaveNet has its published shape, and does not use --layers, --units and --diffusion.\n\n"
    "  --hold=all         every group holds all steps (plain data parallelism)\n"
    "  --materialised     also measure batches from tensors of windows\n"
    "  --device=cuda      rank r uses GPU r; ranks exchange through the host\n"
    "  --device=simulated GPU kernels on the host, for tests\n"
    "  --products         format to which GPUs round the operands of products\n"
    "  --graphs           steps that run ahead are CUDA graphs\n"
    "  --sparse           library that multiplies with the graph on a GPU\n";

WindowCase parse(Arguments& arguments) {
  WindowCase o;
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
  o.micro_batches = arguments.number("micro-batches", 1);
  o.sampling_name = arguments.text("sampling", "local");
  o.recompute_name = arguments.text("recompute", "none");
  o.json = arguments.text("json", "");
  o.model = arguments.text("model", "dcrnn");
  o.adaptive = arguments.number("adaptive", 1) != 0;
  const std::string hold = arguments.text("hold", "share");
  o.everything = hold == "all";
  o.materialised = arguments.flag("materialised");
  o.device = arguments.text("device", "cpu");
  check_device_name(o.device);
  o.products = products_named(arguments.text("products", "model"));
  const std::string sparse = arguments.text("sparse", "own");
  o.graphs = arguments.flag("graphs");
  if (sparse != "own" && sparse != "cusparse")
    user_error("--sparse = \"{}\" must be own or cusparse", sparse);
  o.cusparse = sparse == "cusparse";
  if (o.cusparse && (o.device != "cuda" || !cusparse()))
    user_error("--sparse=cusparse needs --device=cuda and libcusparse");
  if (hold != "share" && hold != "all") user_error("--hold must be share or all");
  if (o.model != "dcrnn" && o.model != "graph_wavenet") user_error("--model must be dcrnn or graph_wavenet");
  if (o.sampling_name == "global") o.sampling = WindowSampling::global;
  if (o.sampling_name == "blocked") o.sampling = WindowSampling::blocked;
  if (o.materialised && o.sampling == WindowSampling::global && o.groups > 1 && !o.everything)
    user_error(
        "--materialised with --sampling=global needs --hold=all, because a group does not hold windows of "
        "other groups");
  if (o.recompute_name == "cell") o.recompute = Recompute::cell;
  if (o.recompute_name == "step") o.recompute = Recompute::step;
  if (arguments.rest().size() > 1) user_error("unknown option {}; see --help", arguments.rest()[1]);
  if (o.repeats < 1 || o.threads < 1) user_error("--repeats and --threads must be 1 or more");
  return o;
}

struct Steps {
  std::vector<double> seconds;
  std::vector<double> gemm;  // flops per second of all ranks, before each step and after the last one
  double loss = 0;
  double flops = 0;  // of a step on this rank
  double arena_bytes = 0;
};

/// Commands to a simulated device: launches, copies and events in total, and copies into its memory.
struct Given {
  Index all = 0, copied_in = 0;
  static Given so_far(const Exec& exec) {
    if (exec.backend != Backend::simulated) return {};
    const auto& driver = static_cast<const SimulatedDriver&>(exec.device->driver());
    return {driver.given(), driver.copied_in()};
  }
};

/// One step of several that run ahead of the device, as in training.
struct Ahead {
  double seconds = 0;
  Given given;
};

double gemm_rate(const Exec& exec) {
  if (!exec.device) return measure_gemm(1024, exec.threads);
  return measure_device_gemm(exec, exec.backend == Backend::cuda ? 4096 : 64, 3);
}

Ahead time_ahead(WindowTraining& training, int count) {
  if (!training.exec.device) return {};
  Optimiser<float> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, training.model->parameters(),
                             training.exec.device);
  Step<float> step(training.model->parameters(), optimiser, training.reducer, 0);
  step.allow_ahead();
  Tape<float> tape(training.exec);
  training.task->start_epoch(0);
  constexpr int cold = 3;
  std::vector<Losses> losses(static_cast<std::size_t>(count + cold));
  Clock::time_point begin;
  Given before, last;
  for (int s = 0; s < count + cold; ++s) {
    before = Given::so_far(training.exec);
    if (s == cold) {
      settle(training.exec);
      training.grid.world().barrier();
      begin = Clock::now();
    }
    Losses& mine = losses[static_cast<std::size_t>(s)];
    const auto record = [&](Index part) {
      if (part > 0) return training.task->record_part(tape, part);
      training.task->record(tape, s, s, mine);
    };
    (void)step.run(tape, 0.01, 0, mine, record, training.task->parts());
    last = Given::so_far(training.exec);
  }
  settle(training.exec);
  return {seconds_since(begin) / count, {last.all - before.all, last.copied_in - before.copied_in}};
}

/// `gemm`: also measures the rate of SGEMM between the steps, on all ranks at once.
Steps run_steps(WindowTraining& training, int count, bool gemm) {
  Optimiser<float> optimiser({.beta1 = 0.9, .epsilon = 1e-3}, training.model->parameters(),
                             training.exec.device);
  Step<float> step(training.model->parameters(), optimiser, training.reducer, 5);
  Tape<float> tape(training.exec);
  Losses losses;
  Steps steps;
  training.task->start_epoch(0);
  const auto measure = [&] {
    training.grid.world().barrier();
    if (gemm) steps.gemm.push_back(gemm_rate(training.exec));
  };
  for (int s = 0; s < count; ++s) {
    measure();
    training.grid.world().barrier();
    tape.clear_totals();
    const auto begin = Clock::now();
    const auto record = [&](Index part) {
      if (part > 0) return training.task->record_part(tape, part);
      training.task->record(tape, s, s, losses);
    };
    const auto result = step.run(tape, 0.01, 0, losses, record, training.task->parts());
    steps.seconds.push_back(seconds_since(begin));
    steps.loss = result.loss;
  }
  measure();
  for (const auto& total : tape.totals()) steps.flops += total.cost.flops;
  steps.arena_bytes = static_cast<double>(tape.memory().peak_bytes());
  return steps;
}

/// Returns the relative error of the loss after a few steps of a small problem, against the reference
/// kernels.
double small_error(WindowCase o, const Communicator& world, const Exec& exec) {
  o.nodes = 29;
  o.windows = 2 * o.groups;
  o.micro_batches = std::min(o.micro_batches, 2);
  o.units = 5;
  o.steps = std::max<Index>(60, 12 * o.groups) + o.inputs + o.outputs;
  WindowTraining fast(o, exec, world), truth(o, {Backend::reference, 1, exec.isa}, world);
  const double a = run_steps(fast, 3, false).loss, b = run_steps(truth, 3, false).loss;
  return std::abs(a - b) / std::abs(b);
}

int run(const Communicator& world, const WindowCase& o) {
  const FlushSubnormals flush;
  set_up_blas();
  const std::unique_ptr<Device> device = open_device(o.device, world.rank(), o.products, o.graphs);
  Exec exec;
  exec.threads = o.threads;
  exec.products = o.products;
  run_on(exec, device.get(), o.device);
  const double error = small_error(o, world, exec);
  if (!(error < tolerance_of(o.products, 1e-4))) {
    if (world.rank() == 0) fmt::print(stderr, "bench_windows: wrong loss: relative error {:.2g}\n", error);
    return 1;
  }
  world.barrier();
  Machine machine =
      device ? Machine::of_device(exec, o.device == "simulated") : Machine(o.threads, false, world.size());
  WindowTraining training(o, exec, world);
  constexpr int cold = 2;  // steps with the first touch of memory
  Steps steps = run_steps(training, o.repeats + cold, true);
  steps.seconds.erase(steps.seconds.begin(), steps.seconds.begin() + cold);
  steps.gemm.erase(steps.gemm.begin(), steps.gemm.begin() + cold);
  const double second = median(steps.seconds),
               best = *std::min_element(steps.seconds.begin(), steps.seconds.end());
  const Ahead ahead = time_ahead(training, o.repeats);
  // On a device, windows are read from the series there, as part of the step.
  const Reading reading = device ? Reading{} : time_reading(training, o.repeats);
  const auto [fetch, fetched] = time_fetching(training, o.repeats);
  double peak[] = {peak_resident_bytes(), steps.arena_bytes, ahead.seconds,
                   device ? static_cast<double>(device->peak_bytes()) : 0};  // before comparison data
  const Materialised tensors = time_materialised(training, o.repeats);
  double rates[] = {steps.flops, machine.gemm(), fetched, tensors.bytes,
                    static_cast<double>(training.store->values().size_bytes())};
  training.reducer.sum(rates);
  training.reducer.sum(steps.gemm);
  training.reducer.max(peak);
  if (world.rank() != 0) return 0;
  const double share = rates[0] / second / rates[1];
  std::vector<double> in_turns;
  for (std::size_t s = 0; s < steps.seconds.size(); ++s)
    in_turns.push_back(rates[0] / steps.seconds[s] / (0.5 * (steps.gemm[s] + steps.gemm[s + 1])));
  const double share_in_turns = median(in_turns);
  const auto windows = static_cast<double>(o.windows);
  const std::string shape =
      o.model == "dcrnn"
          ? fmt::format("{} layers x {} units, K = {}", o.layers, o.units, o.diffusion)
          : fmt::format("8 layers x 32 channels, {}", o.adaptive ? "adaptive" : "not adaptive");
  fmt::print(
      "{}: {} nodes, {} windows of {} + {}, {}, {} ranks in {} groups, {} sampling, recompute {}, {} "
      "micro-batches\n",
      o.model, o.nodes, o.windows, o.inputs, o.outputs, shape, world.size(), o.groups, o.sampling_name,
      o.recompute_name, o.micro_batches);
  fmt::print("small problem against the reference kernels: relative error {:.2g}\n", error);
  fmt::print(
      "step      {:.4g} s (best {:.4g}), {:.4g} Gflop: {:.4g} Gflop/s, {:.1f} % of SGEMM's {:.4g} (best "
      "{:.1f} %)\n",
      second, best, rates[0] / 1e9, rates[0] / second / 1e9, 100 * share, rates[1] / 1e9,
      100 * rates[0] / best / rates[1]);
  if (device)
    fmt::print(
        "ahead     {:.4g} s a step if the host does not wait for each step: {:.4g} Gflop/s, {:.1f} %{}\n",
        peak[2], rates[0] / peak[2] / 1e9, 100 * rates[0] / peak[2] / rates[1],
        o.graphs ? ", as CUDA graphs" : "");
  fmt::print("in turns  {:.1f} % of SGEMM's rate before and after each step\n", 100 * share_in_turns);
  if (reading.read > 0)
    fmt::print("reading   {:.4g} windows/s, {:.4g} GB/s (memcpy {:.4g} GB/s), {:.2f} % of the step\n",
               windows / o.groups / reading.read, reading.bytes / reading.read / 1e9,
               reading.bytes / reading.copy / 1e9, 100 * reading.read / second);
  if (fetch > 0)
    fmt::print(
        "fetching  {:.4g} s a batch if nothing hides the fetching, {:.4g} MB, {:.4g} GB/s: {:.2f} % of the "
        "step\n",
        fetch, rates[2] / 1e6, rates[2] / fetch / 1e9, 100 * fetch / second);
  fmt::print("series    {:.4g} GiB on all ranks, every group holds {}\n", rates[4] / (1 << 30),
             o.everything ? "all steps" : "its share");
  if (tensors.read > 0)
    fmt::print(
        "tensors   {:.4g} GiB of materialised windows on all ranks, made in {:.3g} s; {:.4g} windows/s, "
        "{:.4g} "
        "GB/s\n",
        rates[3] / (1 << 30), tensors.build, windows / o.groups / tensors.read,
        tensors.read_bytes / tensors.read / 1e9);
  fmt::print("memory    {:.4g} GiB of activations, {:.4g} GiB a rank at most\n", peak[1] / (1 << 30),
             peak[0] / (1 << 30));
  if (device)
    fmt::print("device    {}, {:.4g} GiB at most, {:.4g} GB/s\n", device->driver().name(),
               peak[3] / (1 << 30), machine.bandwidth() / 1e9);
  if (ahead.given.all > 0)
    fmt::print("enqueued  {} operations a step that runs ahead, {} of them copies to the device\n",
               ahead.given.all, ahead.given.copied_in);
  if (o.json.empty()) return 0;
  const Json json = {{"operations", ahead.given.all},
                     {"copies_in", ahead.given.copied_in},
                     {"device", device ? device->driver().name() : "cpu"},
                     {"ahead_step_seconds", peak[2]},
                     {"peak_device_bytes", peak[3]},
                     {"products", to_string(o.products)},
                     {"cusparse", o.cusparse},
                     {"graphs", o.graphs},
                     {"model", o.model},
                     {"nodes", o.nodes},
                     {"windows", o.windows},
                     {"units", o.units},
                     {"layers", o.layers},
                     {"diffusion", o.diffusion},
                     {"ranks", world.size()},
                     {"groups", o.groups},
                     {"sampling", o.sampling_name},
                     {"recompute", o.recompute_name},
                     {"micro_batches", o.micro_batches},
                     {"step_seconds", second},
                     {"best_step_seconds", best},
                     {"step_flops", rates[0]},
                     {"gemm_flops_per_second", rates[1]},
                     {"gemm_percent", 100 * share},
                     {"gemm_percent_in_turns", 100 * share_in_turns},
                     {"read_seconds", reading.read},
                     {"copy_seconds", reading.copy},
                     {"read_bytes", reading.bytes},
                     {"fetch_seconds", fetch},
                     {"fetch_bytes", rates[2]},
                     {"series_bytes", rates[4]},
                     {"materialised_bytes", rates[3]},
                     {"materialised_build_seconds", tensors.build},
                     {"materialised_read_seconds", tensors.read},
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
