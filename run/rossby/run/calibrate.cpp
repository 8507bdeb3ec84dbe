#include "rossby/run/calibrate.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/calibration.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/machine_file.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/tensor/cuda_device.hpp"

namespace rossby {
namespace {

/// Accepts a machine file of any format, and an empty file that was never written.
void expect_machine_file(const std::string& file) {
  const std::string text = read_text(file);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const bool machine =
      json.is_object() && json.contains("format") && json.contains("ops") && json.contains("processor");
  if (!text.empty() && !machine)
    user_error("{}: this is not a machine file, so that it is not replaced. Name another file with -o", file);
}

/// True if --precision names a precision of products.
bool of_products(const std::string& precision) {
  return precision == "tf32" || precision == "bf16";
}

/// Returns the device to measure too, on all ranks; empty if there is none.
std::string device_of(const Communicator& comm, const CalibrateOptions& asked) {
  const bool wanted =
      asked.only.empty() || std::find(asked.only.begin(), asked.only.end(), "device") != asked.only.end();
  const bool rounds = of_products(asked.precision);
  agree(comm, [&] {
    if (asked.precision == "tf32" && asked.device == "none")
      user_error("--precision {} works only on GPUs. Give --device cuda instead of --device none",
                 asked.precision);
  });
  if (!wanted || asked.device == "none") return "";
  if (asked.device == "simulated") return asked.device;
  const CudaDevices found = cuda_devices();
  agree(comm, [&] {
    const bool needed = asked.device == "cuda" || rounds || !asked.only.empty();
    if (needed && found.count == 0)
      user_error(
          "no GPU was found to measure: {}. Run on a host with a GPU, or leave --device, --precision and "
          "--only device out",
          found.reason);
  });
  return lacks_gpus(comm) ? "" : "cuda";
}

/// Returns the threads of a rank, the same on all ranks.
int common_threads(const Communicator& comm) {
  const int mine = threads_per_rank(comm, Config());
  const std::string threads = different_numbers(comm, mine);
  agree(comm, [&] {
    if (!threads.empty())
      user_error("ranks have different numbers of threads: {}. Set the same OMP_NUM_THREADS on all ranks",
                 threads);
  });
  return mine;
}

/// Finds errors before minutes of measuring: a file that cannot be extended or written. Rank 0 only.
void try_output(const CalibrateOptions& asked, const MachineProfile& profile) {
  if (!asked.replace && std::filesystem::exists(asked.output)) {
    MachineProfile test = read_profile(asked.output);
    try {
      merge(test, profile);
    } catch (const UserError& error) {
      user_error("{}: {}. Overwrite this file with --replace, or name another file with -o", asked.output,
                 error.what());
    }
  } else {
    // Keep the old file until a new one replaces it.
    if (std::filesystem::exists(asked.output)) expect_machine_file(asked.output);
  }
  const std::string trial = temporary_name(asked.output);
  atomic_write(trial, "");
  std::filesystem::remove(trial);
}

CalibrationOptions options_of(const CalibrateOptions& asked) {
  CalibrationOptions options;
  options.quick = asked.quick;
  const bool rounds = of_products(asked.precision);
  options.products = rounds ? asked.precision : "model";
  options.precision = rounds ? "float" : asked.precision;
  if (options.quick) options.case_seconds = 0.02;
  return options;
}

}  // namespace

bool CalibrateOptions::wants(const char* what) const {
  if (of_products(precision) && only.empty())  // float measures all of the host
    return precision == "bf16" && device == "none" && what == std::string_view("ops");
  return only.empty() || std::find(only.begin(), only.end(), what) != only.end();
}

Calibrated calibrate(const Communicator& comm, const CalibrateOptions& asked) {
  Calibrated made;
  MachineProfile& profile = made.profile;
  profile = describe_machine();
  const std::string here = fmt::format("{}, {} cores", profile.processor, profile.cores);
  const std::string first = broadcast(comm, here);
  agree(comm, [&] {
    if (here != first)
      user_error("this host is a {}, but rank 0 is on a {}. Start ranks on equal hosts", here, first);
  });
  CalibrationOptions options = options_of(asked);
  options.threads = made.threads = common_threads(comm);
  made.device = device_of(comm, asked);
  agree(comm, [&] {
    if (asked.only == std::vector<std::string>{"messages"} && comm.size() == 1 && made.device.empty())
      user_error("--only messages needs at least two ranks. Start rossby with mpirun -n 2");
    options.folder = std::filesystem::temp_directory_path().string();
    refuse_to_replace(asked.output, {});
    for (const std::string& file : asked.configs) {
      refuse_to_replace(asked.output, {file});
      std::vector<std::string> sets = asked.sets;
      sets.insert(sets.end(),
                  {"parallel.device=cpu", "parallel.time_groups=1", "parallel.products=" + options.products,
                   fmt::format("parallel.threads={}", options.threads)});
      options.own.push_back(Config::load(file, sets));
    }
    if (comm.rank() == 0) try_output(asked, profile);
  });
  const Stopwatch begin;
  if (asked.wants("ops") && !of_products(asked.precision)) measure_process(comm, options, profile);
  if (asked.wants("rates")) measure_rates(comm, options, profile);
  if (asked.wants("messages")) measure_messages(comm, options, profile);
  made.apart = asked.wants("ops") ? measure_ops(comm, options, profile) : 0;
  if (!made.device.empty()) {
    CalibrationOptions there = options;
    there.device = made.device;
    const std::vector<std::string> sets{"parallel.device=" + made.device,
                                        "parallel.products=" + options.products};
    for (Config& config : there.own) config = config.with(sets);
    measure_device(comm, there, profile);
    measure_messages(comm, there, profile);
    (void)measure_ops(comm, there, profile);
  }
  agree(comm, [&] {
    if (comm.rank() == 0) add_to_machine_file(asked.output, profile, asked.replace);
  });
  made.seconds = begin.seconds();
  return made;
}

}  // namespace rossby
