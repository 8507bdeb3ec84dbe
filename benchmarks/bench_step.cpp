// Times whole training steps of STNN, alone or under mpirun: time, memory and traffic compared with the floor
// of this machine. Each case is first checked on a small grid against the reference kernels. If a loss is
// wrong, the program reports an error and exits with code 1.

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "benchmarks/device.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/step_run.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/kernels/blas_setup.hpp"

namespace rossby::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "usage: [mpirun -n P] bench_step [--case=NAME,...] [--epochs=N] [--batches=N] [--threads=N] "
    "[--isa=NAME]\n"
    "                                [--size=full|small] [--tolerance=X] [--json=FILE] [--profile] "
    "[--list]\n\n"
    "  --case       cases to run (default: cases of up to 50,000 nodes); --list prints their names\n"
    "  --epochs     epochs per case, the first of which is not measured (default 3)\n"
    "  --batches    batches per pass and epoch; 0: all (default: the number of the case)\n"
    "  --beta1      decay of the optimiser's first moment (default: the value of the case)\n"
    "  --threads    threads per rank (default 1)\n"
    "  --device     cpu, cuda (rank r uses GPU r), simulated (default cpu)\n"
    "  --products   round the operands of products to tf32 (only on GPUs) or bf16\n"
    "  --graphs     give steps to GPUs as CUDA graphs, if no rank waits within a step\n"
    "  --transfer   how dense learned relations get to the device, one or more of: resident, pageable, "
    "pinned,\n"
    "               pageable-async, pinned-async (default resident). With the suffix +host, the host "
    "updates\n"
    "               the relations, so that gradients travel instead of moments\n"
    "  --chunk-mib  MiB of weights that travel at once (default 32)\n"
    "  --stream-gib GiB of the device's memory for chunks (default 4)\n"
    "  --size       small: all cases on 7 x 11 nodes\n"
    "  --tolerance  relative error of a loss that counts as wrong (default 5e-6)\n"
    "  --profile    print where the time of a step goes\n";

struct Options {
  std::vector<StepCase> cases;
  int epochs = 3;
  Exec exec;
  bool small = false;
  bool profile = false;
  double tolerance = 5e-6;
  std::string json;
  std::string device = "cpu";
  Products products = Products::model;
  bool graphs = false;
};

/// Returns each case of a dense learned relation once for every way, and all other cases once.
std::vector<StepCase> by_ways(const std::vector<StepCase>& cases, const std::vector<std::string>& ways,
                              double chunk_mib, double stream_gib) {
  std::vector<StepCase> all;
  for (const StepCase& item : cases)
    for (const std::string& way : ways) {
      // Pairs keep a gradient; a streamed relation has none.
      const bool streams = item.mode == Mode::discover && !item.pairs;
      if (!streams && way != ways.front()) continue;
      StepCase one = item;
      if (streams && way != "resident") {
        one.name += "_" + way;
        one.host_updates = way.ends_with("+host");
        one.transfer = transfer_named(way.substr(0, way.find('+')));
        one.chunk_bytes = static_cast<Index>(chunk_mib * (1 << 20));
        one.stream_bytes = static_cast<std::size_t>(stream_gib * (1 << 30));
      }
      all.push_back(std::move(one));
    }
  return all;
}

Options parse(Arguments& arguments) {
  Options options;
  const std::string names = arguments.text("case", "");
  for (const StepCase& item : step_cases())
    if (names.empty() && item.nodes() < 50'000) options.cases.push_back(item);
  if (!names.empty())
    for (const std::string& name : parts(names)) {
      const std::size_t before = options.cases.size();
      for (const StepCase& item : step_cases())
        if (item.name == name || name == "all") options.cases.push_back(item);
      if (options.cases.size() == before)
        user_error("--case: there is no case \"{}\"; --list prints all names", name);
    }
  options.epochs = arguments.number("epochs", options.epochs);
  const double batches = arguments.real("batches", -1);
  const double beta1 = arguments.real("beta1", -1);
  options.exec.threads = arguments.number("threads", 1);
  if (options.exec.threads < 1) user_error("--threads must be 1 or more");
  options.exec.isa = isas_named(arguments.text("isa", "widest")).front();
  const std::string size = arguments.text("size", "full");
  if (size != "full" && size != "small") user_error("--size = \"{}\" must be full or small", size);
  options.small = size == "small";
  options.products = products_named(arguments.text("products", "model"));
  options.graphs = arguments.flag("graphs");
  options.tolerance = arguments.real("tolerance", tolerance_of(options.products, options.tolerance));
  options.device = arguments.text("device", options.device);
  check_device_name(options.device);
  const std::string ways = arguments.text("transfer", "");
  const double chunk_mib = arguments.real("chunk-mib", 32), stream_gib = arguments.real("stream-gib", 4);
  if (!ways.empty()) {
    if (options.device == "cpu") user_error("--transfer works only on devices: add --device=cuda");
    options.cases = by_ways(options.cases, parts(ways), chunk_mib, stream_gib);
  }
  options.profile = arguments.flag("profile");
  options.json = arguments.text("json", "");
  for (StepCase& item : options.cases) {
    if (options.small) item = small_version(item);
    if (batches >= 0) item.measured = static_cast<Index>(batches);
    if (beta1 >= 0) item.beta1 = beta1;
  }
  if (arguments.rest().size() > 1) user_error("unknown option {}; see --help", arguments.rest()[1]);
  return options;
}

Json entry(const std::string& name, double seconds, const Json& counters) {
  Json json = {
      {"name", name},          {"run_name", name}, {"run_type", "iteration"},    {"repetitions", 1},
      {"repetition_index", 0}, {"iterations", 1},  {"real_time", 1e3 * seconds}, {"cpu_time", 1e3 * seconds},
      {"time_unit", "ms"}};
  json.update(counters);
  return json;
}

void add_entries(Json& list, const StepCase& item, const std::string& suffix, const CaseResult& result,
                 double loss_error) {
  const double batches = result.pass[0].batches + result.pass[1].batches;
  list.push_back(entry(item.name + "/epoch" + suffix, result.epoch_seconds,
                       {{"epoch_seconds", result.epoch_seconds},
                        {"best_epoch_seconds", result.best_epoch_seconds},
                        {"settle_seconds", result.settle_seconds},
                        {"extrapolated", result.extrapolated ? 1 : 0},
                        {"batches_per_second", batches / result.epoch_seconds},
                        {"node_steps_per_second", result.node_steps_per_second},
                        {"peak_rss_bytes", result.peak_rss_bytes},
                        {"peak_rss_bytes_max", result.peak_rss_bytes_max},
                        {"setup_seconds", result.setup_seconds},
                        {"loss_error", loss_error}}));
  const char* names[] = {"/decoder_batch", "/dynamics_batch"};
  for (std::size_t p = 0; p < result.pass.size(); ++p) {
    const PassResult& pass = result.pass[p];
    Json counters = {{"best_seconds", pass.best_seconds},
                     {"floor_seconds", pass.floor_seconds},
                     {"floor_percent", 100 * pass.floor_seconds / pass.time.total},
                     {"forward_seconds", pass.time.forward},
                     {"backward_seconds", pass.time.backward},
                     {"allreduce_seconds", pass.time.allreduce},
                     {"optimiser_seconds", pass.time.optimiser},
                     {"exchange_seconds", pass.time.exchange},
                     {"exchange_bytes", pass.exchange_bytes},
                     {"to_device_bytes", pass.travelled.in},
                     {"from_device_bytes", pass.travelled.out},
                     {"floor_bytes", pass.work.bytes},
                     {"floor_flops", pass.work.flops},
                     {"state_bytes", pass.work.working_set}};
    if (pass.ahead_seconds > 0) counters["ahead_seconds"] = pass.ahead_seconds;
    if (pass.cache_floor_seconds > 0)
      counters["cache_floor_percent"] = 100 * pass.cache_floor_seconds / pass.time.total;
    list.push_back(entry(item.name + names[p] + suffix, pass.time.total, counters));
  }
}

void print(const StepCase& item, const CaseResult& result) {
  const PassResult& decoder = result.pass[0];
  const PassResult& dynamics = result.pass[1];
  fmt::print(
      "{:<38}{:>10.4g}{}{:>11.4g}{:>11.4g}{:>10.4g}{:>10.4g}{:>8.1f}{:>8.1f}{:>11.4g}{:>9.3f}{:>11.4g}\n",
      item.name, result.epoch_seconds, result.extrapolated ? '*' : ' ', 1e3 * decoder.time.total,
      1e3 * dynamics.time.total, 1e3 * dynamics.best_seconds, 1e3 * dynamics.floor_seconds,
      100 * dynamics.floor_seconds / dynamics.time.total,
      100 * dynamics.cache_floor_seconds / dynamics.time.total, result.node_steps_per_second,
      result.peak_rss_bytes / (1 << 30), dynamics.exchange_bytes);
  if (dynamics.ahead_seconds > 0)
    fmt::print(
        "    as in a training: a decoder batch {:.4g} ms, a dynamics batch {:.4g} ms, {:.4g} a second\n",
        1e3 * decoder.ahead_seconds, 1e3 * dynamics.ahead_seconds, 1 / dynamics.ahead_seconds);
}

void print_functions(const Sampler& sampler) {
  fmt::print("    processor time of rank 0 by function ({} samples):\n", sampler.samples());
  double rest = 1;
  for (const FunctionShare& function : sampler.functions()) {
    if (function.share < 0.01) break;
    fmt::print("      {:>6.1f} % {}\n", 100 * function.share, function.name);
    rest -= function.share;
  }
  fmt::print("      {:>6.1f} % functions below 1 %\n", 100 * rest);
}

void print_profile(const CaseResult& result) {
  const char* names[] = {"decoder batch", "dynamics batch"};
  for (std::size_t p = 0; p < result.pass.size(); ++p) {
    const StepTime& time = result.pass[p].time;
    fmt::print("    {}: {:.3f} ms\n", names[p], 1e3 * time.total);
    const auto line = [&](const char* what, double seconds) {
      fmt::print("      {:<34}{:>10.3f} ms{:>7.1f} %\n", what, 1e3 * seconds, 100 * seconds / time.total);
    };
    line("batch and forward", time.forward);
    line("backward", time.backward);
    line("allreduce", time.allreduce);
    line("optimiser", time.optimiser);
    line("exchange (in forward and backward)", time.exchange);
    for (const auto& op : result.pass[p].ops)
      fmt::print("      op {:<25}{:>7.0f} calls{:>12.4g} bytes{:>12.4g} flops\n", op.name, op.calls,
                 op.cost.bytes, op.cost.flops);
  }
}

/// Returns the load average over the last minute.
double load_average() {
  double load = 0;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

Json context(const Ranks& ranks, const Options& options, const Machine& machine) {
  return {{"executable", "bench_step"},
          {"date", utc_now()},
          {"processor", processor()},
          {"device", options.exec.device ? options.exec.device->driver().name() : "cpu"},
          {"load_avg", load_average()},
          {"blas_core", blas_core()},
          {"ranks", ranks.size()},
          {"threads", options.exec.threads},
          {"isa", to_string(options.exec.isa)},
          {"bandwidth_bytes_per_second", machine.bandwidth()},
          {"read_bandwidth_bytes_per_second", machine.read_bandwidth()},
          {"update_bandwidth_bytes_per_second", machine.update_bandwidth()},
          {"gemm_flops_per_second", machine.gemm()},
          {"to_device_bytes_per_second", machine.copy_in()},
          {"from_device_bytes_per_second", machine.copy_out()}};
}

int run(Ranks& ranks, Options options) {
  const bool speaks = ranks.rank() == 0;
  set_up_blas();
  ranks.barrier();
  const std::unique_ptr<Device> device =
      open_device(options.device, ranks.rank(), options.products, options.graphs);
  options.exec.products = options.products;
  run_on(options.exec, device.get(), options.device);
  Machine machine = device ? Machine::of_device(options.exec, options.small)
                           : Machine(options.exec.threads, options.small, ranks.size());
  if (speaks && device)
    fmt::print("{}{}{}; {:.1f} GB/s to it, {:.1f} GB/s back\n", device->driver().name(),
               options.products == Products::model  ? ""
               : options.products == Products::tf32 ? ", TF32"
                                                    : ", products in bf16",
               options.graphs ? ", steps as graphs" : "", machine.copy_in() / 1e9, machine.copy_out() / 1e9);
  if (speaks) {
    fmt::print("{} ranks x {} threads, {}, {}; a rank streams {:.1f} GB/s and multiplies at {:.0f} GFLOP/s\n",
               ranks.size(), options.exec.threads, to_string(options.exec.isa), processor(),
               machine.bandwidth() / 1e9, machine.gemm() / 1e9);
    fmt::print("{:<38}{:>10} {:>11}{:>12}{:>9}{:>10}{:>8}{:>8}{:>11}{:>9}{:>11}\n", "case", "epoch s",
               "decoder ms", "dynamics ms", "best ms", "floor ms", "floor%", "cache%", "node-st/s", "GiB",
               "sent B");
  }
  Json list = Json::array();
  const std::string suffix = fmt::format("/ranks:{}/threads:{}", ranks.size(), options.exec.threads);
  int wrong = 0;
  for (const StepCase& item : options.cases) {
    const double error = check_case(item, ranks, options.exec);
    if (!(error <= options.tolerance)) {
      ++wrong;
      const std::string name = item.name + "/epoch" + suffix;
      const std::string message = fmt::format("wrong result: relative error {:.2g} of a loss", error);
      list.push_back({{"name", name},
                      {"run_name", name},
                      {"run_type", "iteration"},
                      {"error_occurred", true},
                      {"error_message", message}});
      if (speaks) fmt::print("{:<38}{}\n", item.name, message);
      continue;
    }
    const auto sampler = options.profile ? std::make_unique<Sampler>() : nullptr;
    const CaseResult result = measure_case(item, ranks, options.exec, options.epochs, machine, sampler.get());
    if (!speaks) continue;
    print(item, result);
    if (sampler) {
      print_profile(result);
      print_functions(*sampler);
    }
    std::fflush(stdout);
    add_entries(list, item, suffix, result, error);
  }
  if (speaks && !options.json.empty()) {
    std::ofstream file(options.json);
    file << Json{{"context", context(ranks, options, machine)}, {"benchmarks", list}}.dump(2) << '\n';
    if (!file.flush())
      ranks.abort(fmt::format("{}: cannot write this file. Name another file with --json", options.json));
  }
  return wrong > 0 ? 1 : 0;
}

int main_of(Ranks& ranks, int argc, char** argv) {
  Options options;
  try {
    Arguments arguments(argc, argv);
    if (arguments.flag("help") || arguments.flag("list")) {
      const bool list = argc > 1 && std::string_view(argv[1]) == "--list";
      if (ranks.rank() == 0) {
        if (!list) std::fputs(usage, stdout);
        for (const StepCase& item : step_cases()) fmt::print("{}{}\n", list ? "" : "    ", item.name);
      }
      return 0;
    }
    options = parse(arguments);
  } catch (const UserError& error) {  // the same text on every rank
    if (ranks.rank() == 0) std::fprintf(stderr, "bench_step: %s\n", error.what());
    return 2;
  }
  try {
    return run(ranks, options);
  } catch (const std::exception& error) {
    ranks.abort(error.what());
  }
  return 1;
}

}  // namespace
}  // namespace rossby::bench

int main(int argc, char** argv) {
  const auto ranks = rossby::bench::start_ranks();
  return rossby::bench::main_of(*ranks, argc, argv);
}
