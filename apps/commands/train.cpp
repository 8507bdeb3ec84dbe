#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/candidates.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/external_program.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/planning.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/training.hpp"
#include "rossby/run/training_report.hpp"
#include "rossby/run/version.hpp"

namespace rossby::commands {
namespace {

using Json = nlohmann::ordered_json;

double worst_peak(Reducer& reducer) {
  double peak = peak_resident_bytes();
  reducer.max(std::span<double>(&peak, 1));
  return peak;
}

bool keeps_best(const Config& config, const Domain& domain) {
  return trainer_options(config, !domain.split.validation.empty()).keep_best;
}

template <class T>
Json run_metadata(const Config& config, ModelRun<T>& run, const TrainingResult& result) {
  Json json;
  json["format"] = 1;
  json["rossby"] = version_short();
  json["model"] = config.model.name;
  json["precision"] = config.model.precision;
  json["config_hash"] = config.hash();
  json["isa"] = std::string(to_string(run.exec().isa));
  json["nodes"] = run.domain().nodes();
  json["steps"] = run.domain().info.steps;
  // What a longer file leaves as it was: counts of steps, where shares of it would be others.
  const Split& split = run.domain().split;
  const bool folds = config.split.folds > 0;
  json["training_steps"] = folds ? std::max(split.train.last, split.validation.last) : split.train.last;
  if (!folds) json["validation_steps"] = split.validation.size();
  json["training_hash"] = run.training_hash();
  run.add_metadata(json);
  json["epochs"] = result.epochs;
  json["optimiser_steps"] = result.steps;
  json["best_epoch"] = result.best_epoch;
  json["kept"] = keeps_best(config, run.domain()) ? "best" : "last";  // what the state is of
  json["config"] = config.to_toml();
  return json;
}

/// What a run directory holds when a training starts, and what to go on from; paths are rank 0's.
struct Start {
  std::optional<RunDirectory> directory;  // rank 0
  std::optional<Checkpoint> checkpoint;   // to go on from
  std::vector<std::string> older;         // rank 0: to be tried when its arrays are damaged
  bool held = false;                      // rank 0: whether there was a state or a checkpoint
};

bool is_file_of(const std::string& file, const std::string& folder) {
  std::error_code code;
  return std::filesystem::equivalent(std::filesystem::path(file).parent_path(), folder, code);
}

/// Rank 0 takes the lock of a directory that holds a run and looks for checkpoints. A directory that does not
/// is not touched yet.
Start look(const Communicator& comm, const Train& arguments) {
  const Stage stage(comm, "looking at the run directory", patience_with_files);
  Start start;
  const CheckpointFolder folder(checkpoint_folder_of(arguments.run));
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const bool is_run = std::filesystem::exists(arguments.run + "/config.toml");
    if (is_run) start.directory = RunDirectory::open(arguments.run);
    start.older = folder.newest_first();
    const bool trained = std::filesystem::exists(state_file_of(arguments.run));
    start.held = trained || !start.older.empty();
    const bool named = arguments.resume != "auto" && arguments.resume != "never";
    if (named) (void)read_checkpoint(arguments.resume);
    if (named && is_run && !is_file_of(arguments.resume, checkpoint_folder_of(arguments.run)) && start.held)
      user_error("{} holds a run that {} is not of: choose another --run directory", arguments.run,
                 arguments.resume);
    if (named)
      start.older = {arguments.resume};
    else if (arguments.resume == "never" && start.held)
      user_error("{} already holds a run: choose another --run directory, or go on with it (--resume auto)",
                 arguments.run);
    else if (trained && start.older.empty())
      user_error(
          "{} already holds a run without checkpoints: choose another --run directory, or remove this one",
          arguments.run);
  });
  const bool any = !broadcast(comm, start.older.empty() ? "" : "some").empty();
  start.checkpoint = next_checkpoint(comm, start.older);
  if (any && !start.checkpoint)
    user_error("{}: no checkpoint is good; remove them to start anew", checkpoint_folder_of(arguments.run));
  return start;
}

/// The directory of a training that goes on, or of a new one: what a run left that ended before it had a
/// checkpoint is replaced.
void prepare(Start& start, const Config& config, const Train& arguments) {
  if (!start.directory) {
    start.directory = RunDirectory::create(arguments.run);
    // It was nobody's while the data were read.
    const bool holds = std::filesystem::exists(state_file_of(arguments.run)) ||
                       !CheckpointFolder(checkpoint_folder_of(arguments.run)).newest_first().empty();
    if (holds && !start.held)
      user_error(
          "{}: another start has trained a run in it meanwhile; choose another --run directory, or start "
          "again to go on with it",
          arguments.run);
  }
  const RunDirectory& directory = *start.directory;
  if (!start.checkpoint) std::filesystem::remove(directory.metrics_file());
  directory.make_checkpoints();
  CheckpointFolder(directory.checkpoints()).sweep();
  if (start.checkpoint && is_file_of(start.checkpoint->path, directory.checkpoints()))
    CheckpointFolder(directory.checkpoints()).drop_after(start.checkpoint->training.steps);
  atomic_write(directory.config_file(), config.to_toml());
}

/// Held before the first step, not found at the first checkpoint. A shared file system may show a new
/// directory late.
void expect_shared(const Communicator& comm, const std::string& run) {
  agree(comm, [&] {
    const std::string folder = checkpoint_folder_of(run);
    for (int tries = 0; !std::filesystem::is_directory(folder); ++tries) {
      if (tries == 50)
        user_error("{}: no such directory here: all ranks need to see the run directory", folder);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  });
}

/// Whether the run's state is that of this checkpoint's end. On rank 0.
bool has_final_state(const std::string& run, const TrainingState& at) {
  if (!std::filesystem::exists(state_file_of(run))) return false;
  try {
    const Json metadata = Json::parse(read_state_metadata(state_file_of(run)), nullptr, false);
    if (!metadata.is_object() || metadata.value("optimiser_steps", Index{-1}) != at.steps ||
        metadata.value("epochs", Index{-1}) != at.epoch + (at.batch > 0 ? 1 : 0))
      return false;
    verify_state(state_file_of(run));
    return true;
  } catch (const UserError& error) {  // it is written anew
    fmt::print(stderr, "rossby: warning: {}; the run goes on from its checkpoint\n", error.what());
    return false;
  }
}

/// With what a run that is over goes on.
std::string advice_for(StopReason over) {
  switch (over) {
    case StopReason::epochs:
      return "; raise train.epochs to go on";
    case StopReason::early_stop:
      return "; raise train.early_stop to go on";
    case StopReason::time:
      return "; raise train.max_seconds to go on";
    case StopReason::plateau:
    case StopReason::asked:
    case StopReason::paused:
      return "";
  }
  return "";
}

/// Why nothing is left to do for a run that has ended, or nullopt. Collective.
template <class T>
std::optional<StopReason> ended(const Communicator& comm, const Training<T>& training,
                                const std::string& run) {
  const auto over = training.over();
  if (!over) return std::nullopt;
  const Stage stage(comm, "reading the state", patience_with_files);
  const bool final = agree(comm, [&] { return comm.rank() == 0 && has_final_state(run, training.state()); });
  return broadcast(comm, final ? "yes" : "").empty() ? std::nullopt : over;
}

/// The command line that goes on with a run, for a shell.
std::string command_to_resume(const Train& arguments) {
  std::string line =
      fmt::format("rossby train {} --run {} --resume auto", quoted(arguments.config), quoted(arguments.run));
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) line += fmt::format(" {} {}", option, quoted(value));
  };
  add("--stop-after", arguments.stop_after);
  add("--device", arguments.device);
  add("--device-memory", arguments.device_memory);
  add("--machine", arguments.machine);
  add("--plan", arguments.plan == "given" ? "" : arguments.plan);
  for (const std::string& set : arguments.sets) add("--set", set);
  return line;
}

/// Says how to go on after a pause.
int leave(const Communicator& comm, const Train& arguments, const std::string& saved,
          const std::string& why) {
  if (comm.rank() == 0)
    fmt::print("paused    {}\npaused    checkpoint written: {}; resume with: {}\n", why, saved,
               command_to_resume(arguments));
  return exit_resume;
}

/// The settings of the fastest candidate. Throws UserError where none fits, or a run is to be gone on with.
Config choose_plan(const Communicator& comm, const Train& arguments, const std::vector<std::string>& sets) {
  if (arguments.machine.empty())
    user_error("--plan auto needs --machine: what 'rossby calibrate' has measured of this machine");
  const MeasuredMachine machine{agree(comm, [&] { return read_profile(arguments.machine); })};
  const auto load = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return Config::load(arguments.config, all);
  };
  const std::vector<Candidate> candidates = plan_candidates(comm, machine, load, {});
  const Candidate* best = fastest(candidates);
  if (!best) user_error("--plan auto: no candidate fits; the first: {}", candidates.front().refused);
  if (comm.rank() == 0)
    fmt::print("plan      fastest of {} candidates: {}\n", candidates.size(),
               fmt::join(best->settings, ", "));
  return agree(comm, [&] { return load(best->settings); });
}

/// The prediction of a training, made before it takes its memory; nothing where no machine is named. One that
/// goes on does so without a prediction where there can be none, as of starts that are refused today.
std::optional<TrainingPlan> predict(const Communicator& comm, const Config& config, const Train& arguments,
                                    bool resumes) {
  if (arguments.machine.empty()) return std::nullopt;
  std::optional<TrainingPlan> plan;
  {
    MeasuredMachine machine{agree(comm, [&] { return read_profile(arguments.machine); })};
    // As the training itself decides it.
    if (config.parallel.device == "auto" && lacks_gpus(comm)) machine.profile.device = {};
    try {
      plan = plan_training(comm, config, machine, planned_epochs);
    } catch (const UserError& error) {  // of all ranks alike
      if (!resumes) throw;
      if (comm.rank() == 0) fmt::print("warning   not predicted: {}\n", error.what());
    }
  }
  forget_peak_resident();  // of the plan: the training's own is measured
  return plan;
}

/// What is to come, before it does.
void describe_plan(const Communicator& comm, const TrainingPlan& plan) {
  if (comm.rank() != 0) return;
  const Prediction& p = plan.interpolated;
  fmt::print("plan      {:.4g} ms a step, {}, {} a rank\n", 1e3 * p.step(), duration_text(plan),
             bytes_text(std::max(p.memory_bytes, p.device_bytes)));
  if (!plan.refused.empty()) fmt::print("warning   does not fit: {}\n", plan.refused);
}

/// Writes the prediction, once it is known with what was measured. On rank 0.
void write_plan(const std::string& run, const TrainingPlan& plan) {
  atomic_write(plan_file_of(run), json_of(plan).dump(2) + "\n");
}

/// Holds the prediction against the training that has ended, whose last epoch was made on other ranks than
/// these where they found nothing left to train: then there is nothing to hold it against.
template <class T>
void report_plan(const Communicator& comm, const Training<T>& training, const std::string& run,
                 const std::string& metrics, TrainingPlan plan) {
  const Stage stage(comm, "writing the plan");
  agree(comm, [&] {
    if (comm.rank() != 0 || !training.last_trained_here(metrics)) return;
    plan.measured = measured_in(metrics);
    write_plan(run, plan);
    if (plan.measured.empty()) return;
    const double predicted = plan.interpolated.step(), measured = plan.measured.front().step;
    fmt::print("plan      {:.4g} ms a step predicted, {:.4g} measured ({:+.1f} %)\n", 1e3 * predicted,
               1e3 * measured, 100 * (predicted / measured - 1));
    const double validation = plan.interpolated.validation, took = plan.measured.front().validation;
    if (validation > 0 && took > 0)
      fmt::print("plan      {:.4g} ms a validation predicted, {:.4g} measured ({:+.1f} %)\n",
                 1e3 * validation, 1e3 * took, 100 * (validation / took - 1));
    fmt::print("{}", caveats(plan.interpolated));
  });
}

/// Whether a run that has ended has no prediction, and was trained with these settings on ranks as these are.
/// Collective.
template <class T>
bool takes_plan(const Communicator& comm, const Config& asked, const Training<T>& training,
                const std::string& run, const std::string& metrics) {
  const bool takes = agree(comm, [&] {
    const std::string settings = run + "/config.toml";
    return comm.rank() == 0 && !std::filesystem::exists(plan_file_of(run)) &&
           std::filesystem::exists(settings) && Config::load(settings, {}).to_toml() == asked.to_toml() &&
           training.last_trained_here(metrics);
  });
  return !broadcast(comm, takes ? "yes" : "").empty();
}

template <class T>
int train_with(const Communicator& comm, const Config& asked, const Train& arguments) {
  Start start = look(comm, arguments);
  const Config config = start.checkpoint ? settings_to_resume(comm, asked, *start.checkpoint) : asked;
  // Everything that can be wrong with data and settings is found before the run directory is changed.
  std::optional<TrainingPlan> plan = predict(comm, config, arguments, start.checkpoint.has_value());
  const auto made = make_run<T>(comm, config, start.checkpoint ? Purpose::resuming : Purpose::training);
  ModelRun<T>& run = *made;
  if (start.checkpoint && !run.device()) warn_of_other_blas(comm, *start.checkpoint);
  const std::string evaluation = agree(comm, [&] {
    try {
      return check_evaluation(config, run.domain());
    } catch (const UserError& error) {  // what is refused today does not stop a run that goes on
      if (!start.checkpoint) throw;
      return fmt::format("warning   evaluate would fail: {}\n", error.what());
    }
  });
  Training<T> training(comm, asked, arguments.run, run);
  if (start.checkpoint) {
    training.resume(*start.checkpoint, std::move(start.older));
    // What the run holds is of the settings that it was trained with, and stays as it is.
    if (const auto over = ended(comm, training, arguments.run)) {
      describe(comm, run, config, evaluation, run.reducer());
      report_resumption(comm, config, *start.checkpoint, training);
      if (comm.rank() == 0)
        fmt::print("done      nothing is left to do: {}{}\n", to_string(*over), advice_for(*over));
      const std::string metrics = start.directory ? start.directory->metrics_file() : "";
      if (plan && takes_plan(comm, asked, training, arguments.run, metrics))
        report_plan(comm, training, arguments.run, metrics, std::move(*plan));
      return 0;
    }
  }
  {
    const Stage stage(comm, "preparing the run directory", patience_with_files);
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      prepare(start, asked, arguments);
      if (plan) write_plan(arguments.run, *plan);
    });
    expect_shared(comm, arguments.run);
    training.use(start.directory ? &*start.directory : nullptr);
  }
  describe(comm, run, config, evaluation, run.reducer());
  if (comm.rank() == 0) fmt::print("{}", training.doubts());
  if (plan) describe_plan(comm, *plan);
  if (start.checkpoint) report_resumption(comm, config, *start.checkpoint, training);
  const TrainingResult result = training.fit();
  if (result.reason == StopReason::paused)
    return leave(comm, arguments, training.saved(), training.why_paused());
  run.save(state_file_of(arguments.run), run_metadata(config, run, result));
  report_end(comm, config, training, result, keeps_best(config, run.domain()), worst_peak(run.reducer()),
             arguments.run);
  if (plan)
    report_plan(comm, training, arguments.run, start.directory ? start.directory->metrics_file() : "",
                std::move(*plan));
  return 0;
}

}  // namespace

int train(const Communicator& comm, const Train& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (!arguments.device.empty()) sets.push_back("parallel.device=" + arguments.device);
  if (!arguments.device_memory.empty()) sets.push_back("parallel.device_memory=" + arguments.device_memory);
  if (!arguments.stop_after.empty()) sets.push_back("train.stop_after=" + arguments.stop_after);
  watch(comm, default_watchdog_seconds);
  Config config = agree(comm, [&] { return Config::load(arguments.config, sets); });
  agree_same(comm, config.to_toml(), arguments.config);
  if (arguments.plan == "auto") config = choose_plan(comm, arguments, sets);
  watch(comm, config.parallel.watchdog_seconds, arguments.run);
  return config.model.precision == "double" ? train_with<double>(comm, config, arguments)
                                            : train_with<float>(comm, config, arguments);
}

}  // namespace rossby::commands
