#include "rossby/run/missing_calls.hpp"

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/whole_graph.hpp"
#include "rossby/run/calibration.hpp"
#include "rossby/run/machine_file.hpp"

namespace rossby {
namespace {

constexpr double near = 0.1;             // a closer call need not be measured
constexpr double share_measured = 0.05;  // of the time in other calls; above it they are measured
constexpr double step_seconds = 0.15;    // of short steps
constexpr double undisturbed = 1.1;      // wall time over processor time
constexpr int most_attempts = 3;

/// Estimates the time of a call on any recent host; only ratios between calls matter.
double rough_seconds(const Cost& cost) {
  return 1e-6 + cost.bytes / 5e9 + cost.flops / 50e9;
}

/// Seconds of all calls, and of calls far from every measurement. Calls that only send messages, and sums
/// over ranks, have measurements of their own.
struct Lacking {
  double all = 0, far = 0;

  Lacking(const std::vector<TracedOp>& ops, const OpTimes* times) {
    for (const TracedOp& op : ops) {
      if (op.cost.flops + op.cost.bytes <= 0) continue;
      const double seconds = static_cast<double>(op.calls) * rough_seconds(op.cost);
      all += seconds;
      if (!times || times->distance(op) > near) far += seconds;
    }
  }
  [[nodiscard]] bool much() const { return far > share_measured * all; }
};

bool on_any(const Communicator& comm, bool mine) {
  double any = mine ? 1 : 0;
  MpiReducer(comm).max(std::span<double>(&any, 1));
  return any > 0;
}

double processor_seconds() {
  timespec at{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
  return static_cast<double>(at.tv_sec) + 1e-9 * static_cast<double>(at.tv_nsec);
}

/// Times calls of this rank's steps. Tries again in half of `seconds` if other programs take the processor.
std::vector<OpSample> time_own_steps(const Communicator& comm, const Config& config, const Place& place,
                                     double seconds) {
  const auto whole =
      agree(comm, [&] { return comm.size() > 1 ? std::make_unique<WholeGraph>(config) : nullptr; });
  const Communicator own =
      whole ? Communicator::pretended(comm.rank(), comm.size(), ranks_on_host(comm)) : comm;
  std::vector<OpSample> best;
  double least = std::numeric_limits<double>::infinity();
  const Stopwatch begin;
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    const Stopwatch wall;
    const double before = processor_seconds();
    const TimedOps timed = time_training(comm, own, config, step_seconds, Purpose::timing, whole.get());
    double taken[] = {wall.seconds() / (processor_seconds() - before), begin.seconds()};
    MpiReducer(comm).max(taken);
    if (taken[0] < least) best = samples_of(timed, config, place.ranks_on_host(), place.threads);
    least = std::min(least, taken[0]);
    if (least < undisturbed || taken[1] > seconds / 2) break;
  }
  return best;
}

/// Returns the samples of some ranks, on all ranks: many ranks have similar calls.
std::vector<OpSample> gathered(const Communicator& comm, MachineProfile mine) {
  constexpr int most = 8;
  if (comm.size() == 1) return std::move(mine.ops);
  std::vector<OpSample> all;
  for (int rank = 0; rank < comm.size(); rank += (comm.size() + most - 1) / most) {
    const std::string text = broadcast(comm, comm.rank() == rank ? json_of(mine).dump() : "", rank);
    for (OpSample& sample : profile_of(nlohmann::ordered_json::parse(text), "a rank").ops)
      all.push_back(std::move(sample));
  }
  return all;
}

/// Returns why this rank cannot measure; empty if it can.
std::string obstacle(const MachineProfile& here, const MachineProfile& profile, double memory, double step,
                     double left) {
  if (here.processor != profile.processor || here.cores != profile.cores)
    return fmt::format("the file is of another machine ({}, {} cores)", profile.processor, profile.cores);
  if (memory > 0.8 * here.memory_bytes) return "the host has too little memory for these calls";
  constexpr double steps = 4;  // including the work before the first one
  if (steps * step > left)
    return fmt::format("a step takes about {:.1g} s, and only {:.0f} s are left for measuring", step,
                       std::max(left, 0.0));
  return "";
}

void say(const Communicator& comm, OnDemand& on_demand, std::string line) {
  if (comm.rank() == 0 && on_demand.prints && line != on_demand.said) fmt::print("{}\n", line);
  on_demand.said = std::move(line);
}

}  // namespace

void measure_missing(const Communicator& comm, const Config& config, const Place& place, const StepOps& mine,
                     MeasuredMachine& machine, OnDemand& on_demand) {
  if (place.on_device || config.relation.memory == "streamed") return;
  const Stopwatch begin;
  const std::string precision = precision_of(config, false);
  std::optional<OpTimes> times;
  try {
    times.emplace(machine.profile, precision, place.ranks_on_host(), place.threads, &machine.fits);
  } catch (const UserError&) {  // not measured in this precision with so many threads
  }
  const OpTimes* known = times && times->ranks() == place.ranks_on_host() ? &*times : nullptr;
  const Lacking steps(mine.ops, known), validation(mine.validation, known);
  if (!on_any(comm, steps.much() || validation.much())) return;
  const auto not_measured = [&](const std::string& why) {
    say(comm, on_demand, fmt::format("plan      calls were not measured here: {}", why));
  };
  MachineProfile here = describe_machine();
  const double step = steps.all / static_cast<double>(std::max<Index>(mine.steps, 1));
  try {
    agree(comm, [&] {
      const double memory = place.ranks_on_host() * (mine.array_bytes + mine.list_bytes);
      const std::string why = obstacle(here, machine.profile, memory, step, on_demand.seconds);
      if (!why.empty()) user_error("{}", why);
    });
    here.ops = time_own_steps(comm, config, place, on_demand.seconds);
  } catch (const UserError& error) {  // the same on all ranks
    return not_measured(error.what());
  }
  release_unused_memory();
  here.ops = gathered(comm, here);
  merge(machine.profile, here);
  machine.fits.clear();
  double took = begin.seconds();
  MpiReducer(comm).max(std::span<double>(&took, 1));
  on_demand.seconds -= took;
  std::string kept = "kept in " + on_demand.file;
  if (comm.rank() == 0) try {
      add_to_machine_file(on_demand.file, here);
    } catch (const UserError& error) {
      kept = fmt::format("not kept: {}", error.what());
    }
  say(comm, on_demand,
      fmt::format("plan      measured {} calls of this training in {:.1f} s: {}", here.ops.size(), took,
                  kept));
}

}  // namespace rossby
