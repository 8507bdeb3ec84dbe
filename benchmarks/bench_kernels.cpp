// Every kernel that a training step uses: its time beside the floor that memory and arithmetic of this
// machine allow, both measured at the start. A result that differs from the reference kernel is an error and
// the exit code is 1.

#include <algorithm>
#include <cstdio>
#include <memory>

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "benchmarks/kernel_case.hpp"
#include "benchmarks/options.hpp"
#include "rossby/kernels/blas_threads.hpp"

namespace rossby::bench {
namespace {

/// What all cases of one thread count share.
struct Setting {
  Machine machine;
  int wrong = 0;
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

/// The operands of the benchmark that runs now: it is called several times, until its timing is steady.
struct Current {
  std::string name;
  std::unique_ptr<KernelCase> kernel;
  double error = 0;
};

void measure(benchmark::State& state, const std::string& name, const NamedCase& item, const Exec& exec,
             Setting& setting, Current& current) {
  if (current.name != name) {
    current.kernel.reset();
    current.kernel = item.make();
    current.error = current.kernel->error(exec);
    current.name = name;
    if (!(current.error <= item.tolerance)) ++setting.wrong;
  }
  if (!(current.error <= item.tolerance))
    return state.SkipWithError(fmt::format("wrong result: relative error {:.2g}", current.error).c_str());
  for (auto _ : state) current.kernel->run(exec);
  report(state, item.work, setting.machine);
}

std::vector<NamedCase> all_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  for (auto* family :
       {sparse_cases, spmm_cases, dense_cases, layer_cases, table_cases, pair_cases, update_cases}) {
    auto more = family(sizes);
    std::move(more.begin(), more.end(), std::back_inserter(cases));
  }
  return cases;
}

constexpr const char* usage =
    "usage: bench_kernels [--threads=1,2] [--isa=widest|all|NAME,...] [--size=full|small] [--tolerance=X] "
    "[GOOGLE BENCHMARK "
    "OPTION...]\n\n"
    "  --threads   threads a kernel (default 1,2)\n"
    "  --isa       instruction sets of the kernels (default widest)\n"
    "  --size      full: the sizes of the tables in benchmarks/README.md; small: some that finish at once\n"
    "  --tolerance relative error that counts as wrong (default: each benchmark's own, 1e-4)\n";

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
  const auto isas = isas_named(arguments.text("isa", "widest"));
  std::vector<std::shared_ptr<Setting>> settings;
  use_single_threaded_blas();
  for (const std::string& text : parts(arguments.text("threads", "1,2"))) {
    const int threads = std::atoi(text.c_str());
    if (threads < 1) user_error("--threads: \"{}\" must be 1 or more", text);
    settings.push_back(std::make_shared<Setting>(Setting{Machine(threads, !sizes.full), 0}));
    const Machine& machine = settings.back()->machine;
    const auto say = [threads](const char* figure, double value) {
      benchmark::AddCustomContext(fmt::format("{}_per_second_{}", figure, threads),
                                  fmt::format("{:.4g}", value));
    };
    say("bandwidth_bytes", machine.bandwidth());
    say("read_bandwidth_bytes", machine.read_bandwidth());
    say("update_bandwidth_bytes", machine.update_bandwidth());
    say("gemm_flops", machine.gemm());
  }
  benchmark::AddCustomContext("processor", processor());
  benchmark::AddCustomContext("blas_core", blas_core());
  const auto current = std::make_shared<Current>();
  auto cases = all_cases(sizes);
  for (NamedCase& item : cases) {
    if (tolerance >= 0) item.tolerance = tolerance;
    for (const auto& setting : settings)
      for (const Isa isa : isas) {
        const int threads = setting->machine.threads();
        const std::string name = fmt::format("{}/threads:{}/isa:{}", item.name, threads, to_string(isa));
        const Exec exec{Backend::cpu, threads, isa};
        benchmark::RegisterBenchmark(name.c_str(),
                                     [name, item, setting, exec, current](benchmark::State& state) {
                                       measure(state, name, item, exec, *setting, *current);
                                     })
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      }
  }
  std::vector<char*> words;
  for (std::string& word : arguments.rest()) words.push_back(word.data());
  int count = static_cast<int>(words.size());
  words.push_back(nullptr);
  benchmark::Initialize(&count, words.data());
  if (benchmark::ReportUnrecognizedArguments(count, words.data())) return 2;
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  int wrong = 0;
  for (const auto& setting : settings) wrong += setting->wrong;
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
