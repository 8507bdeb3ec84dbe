// Times every kernel of a training step and compares it with the floor that memory and arithmetic of this
// machine allow. The floor is measured at the start. If a result differs from the reference kernel, the
// program reports an error and exits with code 1.

#include <algorithm>
#include <cstdio>
#include <memory>

#include <benchmark/benchmark.h>
#include <fmt/core.h>

#include "benchmarks/device.hpp"
#include "benchmarks/kernel_case.hpp"
#include "benchmarks/options.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/kernels/queue_clock.hpp"
#include "rossby/kernels/sparse_library.hpp"

namespace rossby::bench {
namespace {

/// Data shared by all cases of one thread count.
struct Setting {
  Machine machine;
  int wrong = 0;
  double mark_seconds = 0;  // time in a device measurement besides kernels
};

void report(benchmark::State& state, const Work& work, Machine& machine) {
  const auto per_call = [&](double value) {
    return benchmark::Counter(value * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  };
  state.counters["bytes_per_second"] = per_call(work.bytes);
  state.counters["flops_per_second"] = per_call(work.flops);
  state.counters["floor_seconds"] = machine.floor_seconds(work);
  state.counters["floor_percent"] = per_call(100 * machine.floor_seconds(work));
  state.counters["working_set_bytes"] = work.working_set;
  const bool arithmetic = work.flops / machine.gemm() > work.bytes / machine.bandwidth();
  const Cache cache = machine.cache_of(work.working_set);
  if (cache.bytes > 0)
    state.counters["cache_floor_percent"] = per_call(100 * machine.cache_floor_seconds(work));
  state.SetLabel(
      fmt::format("{}{}{}", arithmetic ? "flops" : "bytes", cache.bytes > 0 ? " in " : "", cache.name));
}

/// The operands of the running benchmark, which is called several times until its timing is steady.
struct Current {
  std::string name;
  std::unique_ptr<KernelCase> kernel;
  double error = 0;
};

/// Times a call's kernels on the device back to back, however long the host took to launch them: the device
/// is held until all are enqueued.
void measure_on_device(benchmark::State& state, const Exec& exec, const Setting& setting,
                       KernelCase& kernel) {
  constexpr double ahead = 50e-6;
  QueueClock clock(exec);
  for (auto _ : state) {
    clock.start_anew();
    const std::size_t begin = clock.hold(ahead);
    kernel.run(exec);
    const std::size_t end = clock.mark();
    settle(exec);
    state.SetIterationTime(std::max(1e-9, clock.seconds(begin, end) - setting.mark_seconds));
  }
}

void measure(benchmark::State& state, const std::string& name, const NamedCase& item, const Exec& exec,
             Setting& setting, Current& current) {
  if (current.name != name) {
    current.kernel.reset();
    current.kernel = item.make(exec);
    current.error = current.kernel->error(exec);
    current.name = name;
    if (!(current.error <= item.tolerance)) ++setting.wrong;
  }
  if (!(current.error <= item.tolerance))
    return state.SkipWithError(fmt::format("wrong result: relative error {:.2g}", current.error).c_str());
  if (exec.device)
    measure_on_device(state, exec, setting, *current.kernel);
  else
    for (auto _ : state) current.kernel->run(exec);
  report(state, item.work, setting.machine);
}

std::vector<NamedCase> all_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  for (auto* family : {sparse_cases, spmm_cases, dense_cases, layer_cases, table_cases, table_loss_cases,
                       pair_cases, update_cases}) {
    auto more = family(sizes);
    std::move(more.begin(), more.end(), std::back_inserter(cases));
  }
  return cases;
}

constexpr const char* usage =
    "usage: bench_kernels [--threads=1,2] [--isa=widest|all|NAME,...] [--size=full|small] [--tolerance=X] "
    "[GOOGLE BENCHMARK "
    "OPTION...]\n"
    "                     [--device=cpu|cuda|simulated]\n\n"
    "  --threads   threads per kernel (default 1,2)\n"
    "  --isa       instruction sets of the kernels (default widest)\n"
    "  --size      full: the sizes of the tables in benchmarks/measured; small: sizes that finish at once\n"
    "  --device    cuda: kernels of a GPU; simulated: GPU kernels on the host, for tests (default cpu).\n"
    "              cuda and simulated do not work with --threads and --isa\n"
    "  --tolerance relative error that counts as wrong (default: that of each benchmark, 1e-4)\n";

/// Kernels and device that all cases run with.
struct Way {
  std::string name;  // suffix of benchmark names
  Exec exec;
  std::shared_ptr<Setting> setting;
};

void add_case(const NamedCase& item, const Way& way, const std::shared_ptr<Current>& current) {
  const std::string name = item.name + way.name;
  auto* added =
      benchmark::RegisterBenchmark(name.c_str(), [name, item, way, current](benchmark::State& state) {
        measure(state, name, item, way.exec, *way.setting, *current);
      });
  way.exec.device ? added->UseManualTime() : added->UseRealTime();
  added->Unit(benchmark::kMicrosecond);
}

void say(const std::string& suffix, const Machine& machine) {
  const auto figure = [&](const char* name, double value) {
    benchmark::AddCustomContext(fmt::format("{}_per_second_{}", name, suffix), fmt::format("{:.4g}", value));
  };
  figure("bandwidth_bytes", machine.bandwidth());
  figure("read_bandwidth_bytes", machine.read_bandwidth());
  figure("update_bandwidth_bytes", machine.update_bandwidth());
  figure("gemm_flops", machine.gemm());
}

int run(int argc, char** argv) {
  Arguments arguments(argc, argv);
  if (arguments.flag("help")) {
    std::fputs(usage, stdout);
    benchmark::PrintDefaultHelp();
    return 0;
  }
  Sizes sizes;
  const std::string size = arguments.text("size", "full");
  if (size != "full" && size != "small") user_error("--size = \"{}\" must be full or small", size);
  sizes.full = size == "full";
  const double tolerance = arguments.real("tolerance", -1);
  const std::string device_name = arguments.text("device", "cpu");
  const std::string isa_names = arguments.text("isa", ""), thread_names = arguments.text("threads", "");
  if (device_name != "cpu" && !(isa_names.empty() && thread_names.empty()))
    user_error(
        "--threads and --isa work only with kernels of the host. Leave these options out with --device={}",
        device_name);
  const std::unique_ptr<Device> device = open_device(device_name);
  sizes.on_device = device != nullptr;
  sizes.with_cusparse = device_name == "cuda" && cusparse() != nullptr;
  set_up_blas();
  benchmark::AddCustomContext("processor", processor());
  benchmark::AddCustomContext("blas_core", blas_core());
  std::vector<Way> ways;
  if (device) {
    Exec exec;
    run_on(exec, device.get(), device_name);
    const double mark = QueueClock(exec).seconds_of_a_mark();
    const auto setting = std::make_shared<Setting>(Setting{Machine::of_device(exec, !sizes.full), 0, mark});
    benchmark::AddCustomContext("device", device->driver().name());
    say("device", setting->machine);
    ways.push_back({"/device:" + device_name, exec, setting});
  } else {
    const auto isas = isas_named(isa_names.empty() ? "widest" : isa_names);
    for (const std::string& text : parts(thread_names.empty() ? "1,2" : thread_names)) {
      const int threads = std::atoi(text.c_str());
      if (threads < 1) user_error("--threads: \"{}\" must be 1 or more", text);
      const auto setting = std::make_shared<Setting>(Setting{Machine(threads, !sizes.full), 0, 0});
      say(text, setting->machine);
      for (const Isa isa : isas)
        ways.push_back({fmt::format("/threads:{}/isa:{}", threads, to_string(isa)),
                        {Backend::cpu, threads, isa},
                        setting});
    }
  }
  const auto current = std::make_shared<Current>();
  std::vector<NamedCase> cases = all_cases(sizes);
  for (NamedCase& item : cases) {
    if (tolerance >= 0) item.tolerance = tolerance;
    for (const Way& way : ways) add_case(item, way, current);
  }
  std::vector<char*> words;
  for (std::string& word : arguments.rest()) words.push_back(word.data());
  int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  benchmark::Initialize(&count, words.data());
  if (benchmark::ReportUnrecognizedArguments(count, words.data())) return 2;
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  current->kernel.reset();  // its data on a device must be freed before the device
  benchmark::ClearRegisteredBenchmarks();
  benchmark::Shutdown();
  int wrong = 0;
  for (std::size_t k = 0; k < ways.size(); ++k)
    if (k == 0 || ways[k].setting != ways[k - 1].setting) wrong += ways[k].setting->wrong;
  if (wrong > 0) std::fprintf(stderr, "bench_kernels: %d wrong results\n", wrong);
  return wrong > 0 || matched == 0 ? 1 : 0;
}

}  // namespace
}  // namespace rossby::bench

int main(int argc, char** argv) {
  try {
    return rossby::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_kernels: %s\n", error.what());
    return 2;
  }
}
