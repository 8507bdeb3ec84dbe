#include "rossby/run/planning.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/plan/epoch_traffic.hpp"
#include "rossby/plan/pipeline.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/training_options.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
namespace {

/// Adds the memory of a training that traced steps do not use: lists, and gradients of shared parameters
/// while they are summed (Step, in double precision). The best state is allocated after the first steps.
template <class T>
void add_bytes_beside_steps(const Config& config, ModelRun<T>& run, StepOps& ops) {
  const bool validates = !run.domain().split.validation.empty();
  const bool keeps_best = trainer_options(config, validates).keep_best;
  std::size_t bytes = run.list_bytes(), later = 0, copying = 0;
  for (const Parameter<T>* parameter : run.parameters()) {
    const auto size = static_cast<std::size_t>(parameter->size());
    const std::size_t best = size * (parameter->in_bf16 ? sizeof(Bf16) : sizeof(T));
    if (keeps_best && !parameter->stream) later += detail::resident_bytes(best, best);
    // One piece of either file at a time.
    if (keeps_best && parameter->stream)
      copying = std::max(copying, 2 * std::min(best, static_cast<std::size_t>(values_at_a_time) * sizeof(T)));
    if (parameter->trained && parameter->placement == Placement::replicated) bytes += size * sizeof(double);
  }
  for (const Parameter<T>* parameter : run.parameters())
    if (parameter->stream) ops.streamed_bytes += parameter->stream->array_bytes();
  ops.list_bytes = static_cast<double>(bytes);
  ops.cuts_graph = run.domain().cut_graph;
  ops.array_bytes =
      std::max({ops.array_bytes, ops.settled_bytes + static_cast<double>(later + copying),
                ops.array_bytes - ops.activation_bytes + static_cast<double>(run.start_bytes())});
}

/// Number of validations: every `every` epochs, and after the last one.
Index validations_in(Index epochs, Index every) {
  return (epochs + every - 1) / every;
}

/// Size of the first batch, over all time groups. `sizes`: Task::sizes of that batch.
Index batch_of(const Config& config, const Split& split, Index nodes, const std::vector<Index>& sizes) {
  if (config.windows()) return std::accumulate(sizes.begin(), sizes.end(), Index{0});
  const auto steps = std::ssize(split.training_steps());
  if (config.train.sampling == "pairs") return std::min<Index>(config.train.pairs, steps * nodes);
  const Index slab = config.train.slab_steps;
  return slab > 0 ? std::min<Index>(slab, steps) : steps;
}

template <class T>
StepOps trace_rank(const Communicator& comm, const Config& config, TrainingPlan& plan, WholeGraph* whole,
                   Index epochs) {
  const auto run = make_run<T>(comm, config, Purpose::tracing, whole);
  plan.nodes = run->domain().nodes();
  plan.place.time_groups = run->grid().groups();
  plan.place.stages = run->grid().stages();
  const auto task = run->make_task();
  Optimiser<T> optimiser(optimiser_options(config), run->parameters(), run->device());
  const double clip = config.optimiser.clip;
  const auto sent = [&run] { return run->sent(); };
  StepOps ops =
      trace_ops<T>(*task, optimiser, run->step_reducer(), clip, run->training_exec(), run->time_groups(),
                   {.sent = sent, .validates = !run->domain().split.validation.empty(), .most_steps = 400});
  plan.batch = batch_of(config, run->domain().split, plan.nodes, task->sizes(0));
  const TrainerOptions trainer = trainer_options(config, !run->domain().split.validation.empty());
  plan.epochs = trainer.epochs;
  plan.validations = validations_in(trainer.epochs, trainer.validate_every);
  add_bytes_beside_steps(config, *run, ops);
  if (epochs > 0)
    ops.sent_epochs =
        trace_epochs<T>(*task, optimiser, run->step_reducer(), clip, run->training_exec(), run->time_groups(),
                        ops, {.sent = sent, .brought = [&run] { return run->brought(); }, .epochs = epochs});
  return ops;
}

StepOps trace(const Communicator& comm, const Config& config, TrainingPlan& plan, WholeGraph* whole = nullptr,
              Index epochs = 0) {
  return config.model.precision == "double" ? trace_rank<double>(comm, config, plan, whole, epochs)
                                            : trace_rank<float>(comm, config, plan, whole, epochs);
}

/// Chooses the device of the training, and how its data travel. Returns the configuration with that choice,
/// because a trace of steps does not know the machine.
Config choose_place(const Config& config, const MachineProfile& profile, Place& place) {
  place.on_device = config.parallel.device != "cpu";
  if (!place.on_device) return config;
  place.transfer = transfer_named(config.relation.transfer);
  const std::string& transport = config.parallel.transport;
  const bool own = profile.device.count >= place.ranks_on_host();
  const bool measured = std::any_of(profile.messages.begin(), profile.messages.end(),
                                    [](const MessageSample& sample) { return sample.transport == "nccl"; });
  const bool nccl = transport == "nccl" || (transport == "auto" && own && measured);
  place.transport = nccl ? "nccl" : "staged";
  const std::string setting = fmt::format("parallel.transport={}", nccl ? "nccl" : "host");
  return config.with({&setting, 1});
}

/// Returns the traffic of each epoch, summed over ranks.
std::vector<EpochTraffic> sum_epochs(const Communicator& comm, std::vector<EpochTraffic> epochs) {
  std::vector<double> sums;
  for (const EpochTraffic& epoch : epochs) {
    sums.push_back(static_cast<double>(epoch.sent.messages));
    sums.push_back(static_cast<double>(epoch.sent.bytes));
  }
  MpiReducer(comm).sum(sums);
  for (std::size_t e = 0; e < epochs.size(); ++e)
    epochs[e].sent = {static_cast<Index>(sums[2 * e]), static_cast<Index>(sums[2 * e + 1])};
  return epochs;
}

/// Returns the distinct lines of all ranks on every rank, because all ranks must agree whether a plan fits.
std::vector<std::string> union_of(const Communicator& comm, const std::vector<std::string>& mine) {
  const std::string text = fmt::format("{}", fmt::join(mine, "\n"));
  // The lines are mostly equal: compare hashes first. A double holds 52 bits of one exactly.
  const auto hash = static_cast<double>(std::hash<std::string>{}(text) >> 12);
  double bounds[] = {hash, -hash};
  MpiReducer(comm).max(bounds);
  if (bounds[0] == -bounds[1]) return mine;
  std::vector<std::string> all;
  for (int rank = 0; rank < comm.size(); ++rank) {
    std::istringstream lines(broadcast(comm, text, rank));
    for (std::string line; std::getline(lines, line);)
      if (std::find(all.begin(), all.end(), line) == all.end()) all.push_back(line);
  }
  return all;
}

/// Returns the slowest rank's prediction on all ranks, with the missing calls of every rank.
Prediction slowest(const Communicator& comm, const Prediction& mine) {
  MpiReducer reducer(comm);
  const double own = mine.step() - mine.straggler;  // with waiting for slower stages
  double most[] = {own,
                   mine.validation,
                   mine.computing(),
                   mine.memory_bytes,
                   mine.device_bytes,
                   static_cast<double>(mine.epoch_steps)};
  reducer.max(most);
  // The lowest of the slowest ranks gives the parts, as in predict().
  double chosen[] = {static_cast<double>(own == most[0] ? -comm.rank() : -comm.size()),
                     static_cast<double>(mine.validation == most[1] ? -comm.rank() : -comm.size())};
  reducer.max(chosen);
  Prediction all = mine;
  const auto sum = [&](double Prediction::*of, bool counts = true) {
    double value = counts ? mine.*of : 0;
    reducer.sum(std::span<double>(&value, 1));
    all.*of = value;
  };
  const bool steps = comm.rank() == static_cast<int>(-chosen[0]),
             validates = comm.rank() == static_cast<int>(-chosen[1]);
  for (const auto& [name, part] : step_parts) sum(part, steps);
  for (const auto of : {&Prediction::far_share, &Prediction::doubt}) sum(of, steps);
  for (const auto of : {&Prediction::validation_far_share, &Prediction::validation_doubt}) sum(of, validates);
  for (const auto of : {&Prediction::sent_messages, &Prediction::sent_bytes}) sum(of);
  double mean = mine.computing() / comm.size();
  reducer.sum(std::span<double>(&mean, 1));
  all.imbalance = mean > 0 ? most[2] / mean : 0;
  all.sent_ranks = comm.size();
  all.validation = most[1];
  all.memory_bytes = most[3];
  all.device_bytes = most[4];
  all.epoch_steps = static_cast<Index>(most[5]);
  all.unmeasured = union_of(comm, mine.unmeasured);
  all.left_out = union_of(comm, mine.left_out);
  return all;
}

OpTimes times_at(const Place& place, const Config& config, const MeasuredMachine& machine, Timed what) {
  return {machine.profile,       precision_of(config, place.on_device),
          place.ranks_on_host(), place.threads,
          &machine.fits,         what};
}

Prediction predict_at(const Place& place, const Config& config, const MeasuredMachine& machine,
                      const std::vector<StepOps>& ranks, bool all = false) {
  const auto times = [&](Timed what) { return times_at(place, config, machine, what); };
  if (!place.on_device) return predict(ranks, machine.profile, times(Timed::host), place, all);
  const OpTimes launches = times(Timed::launches);
  return predict(ranks, machine.profile, times(Timed::device), place, all, &launches);
}

Place place_of(const Job& job) {
  return {job.ranks, (job.ranks + job.on_host - 1) / job.on_host, job.threads};
}

/// Returns the seconds that this rank waits for other stages with its rows and times. Collective.
double wait_for_stages(const ProcessGrid& grid, const TrainingPlan& plan, const StepOps& mine,
                       const MeasuredMachine& machine, const Config& config) {
  const OpTimes times =
      times_at(plan.place, config, machine, plan.place.on_device ? Timed::device : Timed::host);
  const Timeline timeline = timeline_of(mine, machine.profile, times, plan.place);
  std::vector<std::byte> letter(timeline.size() * sizeof(Leg));
  if (!letter.empty()) std::memcpy(letter.data(), timeline.data(), letter.size());
  const auto letters =
      MpiMailbox(grid.pipeline())
          .swap(std::vector<std::vector<std::byte>>(static_cast<std::size_t>(grid.stages()), letter));
  std::vector<Timeline> stages;
  for (const auto& of_stage : letters) {
    Timeline& other = stages.emplace_back(of_stage.size() / sizeof(Leg));
    if (!of_stage.empty()) std::memcpy(other.data(), of_stage.data(), of_stage.size());
  }
  return pipeline_waits(stages)[static_cast<std::size_t>(grid.stage())];
}

/// Returns why the training does not fit the memory of a host or device; empty if it fits.
std::string lacks_memory(const TrainingPlan& plan, const Config& config, const MachineProfile& profile) {
  const Prediction& predicted = plan.interpolated;
  const int ranks = plan.place.ranks_on_host();
  const double needed = predicted.memory_bytes * ranks;
  if (profile.memory_bytes > 0 && needed > profile.memory_bytes)
    return fmt::format("needs {} of memory on a host, which has {}", bytes_text(needed),
                       bytes_text(profile.memory_bytes));
  if (predicted.device_bytes == 0) return {};
  const int on_device = (ranks + profile.device.count - 1) / profile.device.count;
  const double has = device_limit(config, static_cast<std::size_t>(profile.device.memory_bytes), on_device);
  return predicted.device_bytes <= has ? ""
                                       : fmt::format("needs {} of device memory, but a rank may use {}",
                                                     bytes_text(predicted.device_bytes), bytes_text(has));
}

/// Completes the plan beside its prediction; `ops` are of rank 0.
void finish(TrainingPlan& plan, const StepOps& ops, const Config& config, const MachineProfile& profile) {
  if (plan.place.on_device) plan.device = profile.device.name;
  plan.ops = ops.ops;
  plan.traced_steps = ops.steps;
  plan.footprint = ops.footprint;
  if (plan.interpolated.validation == 0) plan.validations = 0;  // too short for a forecast
  plan.refused = lacks_memory(plan, config, profile);
}

}  // namespace

Config planned_config(const Config& config, const MachineProfile& profile) {
  const std::string& asked = config.parallel.device;
  const bool any = !profile.device.name.empty(), simulated = profile.device.name == simulated_device;
  std::vector<std::string> sets;
  if (asked == "auto") sets.push_back(any && !simulated ? "parallel.device=cuda" : "parallel.device=cpu");
  if (config.parallel.products == "auto") {
    const bool on_host = asked == "cpu" || (asked == "auto" && (!any || simulated));
    const bool measured =
        on_host && std::any_of(profile.ops.begin(), profile.ops.end(), [](const OpSample& sample) {
          return !sample.on_device && sample.precision == "bf16";
        });
    sets.push_back(measured ? "parallel.products=bf16" : "parallel.products=model");
  }
  if ((asked == "cuda" && (!any || simulated)) || (asked == "simulated" && !simulated))
    user_error(
        "parallel.device = \"{}\", but the machine was measured without this device. Run 'rossby calibrate "
        "--device {}' on a host with this device",
        asked, asked);
  return sets.empty() ? config : config.with(sets);
}

TrainingPlan plan_training(const Communicator& comm, const Config& asked, MeasuredMachine& machine,
                           Index epochs, OnDemand* on_demand) {
  TrainingPlan plan;
  plan.place = {comm.size(), hosts_of(comm), threads_per_rank(comm, asked)};
  const Config config = choose_place(planned_config(asked, machine.profile), machine.profile, plan.place);
  plan.model = config.model.name;
  const StepOps mine = trace(comm, config, plan, nullptr, std::min(epochs, config.train.epochs));
  if (on_demand) measure_missing(comm, config, plan.place, mine, machine, *on_demand);
  const ProcessGrid grid(comm, plan.place.time_groups, plan.place.stages);
  Prediction own = agree(comm, [&] { return predict_at(plan.place, config, machine, {mine}); });
  if (plan.place.stages > 1) own.pipeline = wait_for_stages(grid, plan, mine, machine, config);
  plan.interpolated = slowest(comm, own);
  plan.interpolated.sent_epochs = sum_epochs(comm, mine.sent_epochs);
  finish(plan, mine, config, machine.profile);
  return plan;
}

int threads_of_job(const Config& config, const MeasuredMachine& machine, int on_host) {
  if (const Index asked = config.parallel.threads; asked > 0) return static_cast<int>(asked);
  if (const char* text = std::getenv("OMP_NUM_THREADS"); text && std::atoi(text) > 0) return std::atoi(text);
  return std::max(1, machine.profile.cores / std::max(1, on_host));
}

Prediction predict_rank(const Config& asked, const MeasuredMachine& machine, const Job& job, int rank,
                        WholeGraph& whole) {
  TrainingPlan plan;
  Place place = place_of(job);
  const Config config = choose_place(planned_config(asked, machine.profile), machine.profile, place);
  const Communicator comm = Communicator::pretended(rank, job.ranks, job.on_host);
  return predict_at(place, config, machine, {trace(comm, config, plan, &whole)});
}

TrainingPlan plan_job(const Config& asked, const MeasuredMachine& machine, const Job& job,
                      WholeGraph& whole) {
  constexpr int few = 4, some = 16;
  TrainingPlan plan;
  plan.place = place_of(job);
  const Config config = choose_place(planned_config(asked, machine.profile), machine.profile, plan.place);
  plan.model = config.model.name;
  std::vector<StepOps> ranks;
  // All stages with these rows and times, in the order of ProcessGrid.
  int blocks = job.ranks;
  const auto add = [&](int group, int block) {
    for (int stage = 0; stage < plan.place.stages; ++stage) {
      const int rank = (group * plan.place.stages + stage) * blocks + block;
      ranks.push_back(trace(Communicator::pretended(rank, job.ranks, job.on_host), config, plan, &whole));
      blocks = job.ranks / plan.place.time_groups / plan.place.stages;
    }
  };
  add(0, 0);
  // Computes the row blocks again; groups differ in steps that do not divide evenly, and at the ends.
  const Domain domain = whole.domain(Communicator::pretended(0, blocks, job.on_host), config);
  std::vector<int> groups{0, plan.place.time_groups / 2, plan.place.time_groups - 1};
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  const bool all = job.ranks <= few || (plan.place.time_groups == 1 && blocks <= some);
  if (all) {
    groups.resize(static_cast<std::size_t>(plan.place.time_groups));
    std::iota(groups.begin(), groups.end(), 0);
  }
  std::vector<int> parts = domain.cut->heavy();
  if (all) {
    parts.resize(static_cast<std::size_t>(blocks));
    std::iota(parts.begin(), parts.end(), 0);
  }
  for (const int group : groups)
    for (const int part : parts)
      if (group + part > 0) add(group, part);
  plan.interpolated = predict_at(plan.place, config, machine, ranks, all);
  finish(plan, ranks.front(), config, machine.profile);
  return plan;
}

}  // namespace rossby
