#include "rossby/run/train.hpp"

#include <filesystem>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/candidates.hpp"
#include "rossby/run/default_average.hpp"
#include "rossby/run/default_settings.hpp"
#include "rossby/run/external_program.hpp"
#include "rossby/run/profile.hpp"

namespace rossby::commands {
namespace {

struct TrainArguments {
  std::string config;             // TOML file, or a series
  std::string profile;            // --profile DIR: its chosen candidate, in place of config
  std::string run;                // --run DIR; empty: DIR/best of a profile, else default_run()
  std::string resume = "auto";    // --resume auto|never|FILE
  bool write_state = false;       // --write-state
  std::string stop_after;         // --stop-after 1h50m; empty: as configured
  std::string from;               // --from RUN; empty: as configured
  std::string device;             // --device auto|cpu|cuda; empty: as configured
  std::string device_memory;      // --device-memory 4GiB; empty: as configured
  std::string machine;            // --machine FILE: measurements for a prediction; empty: none
  bool measures = true;           // unless --no-measure
  std::string record;             // --record FILE; empty: updates are not recorded
  std::string replay;             // --replay FILE; empty: nothing is repeated
  std::string plan = "given";     // --plan given|auto: as configured, or the fastest candidate
  std::vector<std::string> sets;  // --set key=value

  /// The values of --set, and the options that set a key.
  [[nodiscard]] std::vector<std::string> settings() const {
    std::vector<std::string> all = sets;
    if (!device.empty()) all.push_back("parallel.device=" + device);
    if (!device_memory.empty()) all.push_back("parallel.device_memory=" + device_memory);
    if (!from.empty()) all.push_back("train.from=" + from);
    if (!stop_after.empty()) all.push_back("train.stop_after=" + stop_after);
    return all;
  }

  /// The shell command that goes on with the run.
  [[nodiscard]] std::string command_to_resume(int ranks) const {
    std::string line = fmt::format("{}rossby train {} --run {} --resume auto", launcher_prefix(ranks),
                                   quoted(config), quoted(run));
    const auto add = [&](const char* option, const std::string& value) {
      if (!value.empty()) line += fmt::format(" {} {}", option, quoted(value));
    };
    add("--stop-after", stop_after);
    add("--from", from);
    add("--device", device);
    add("--device-memory", device_memory);
    add("--machine", machine);
    if (!measures) line += " --no-measure";
    add("--record", record);
    add("--replay", replay);
    add("--plan", plan == "given" ? "" : plan);
    for (const std::string& set : sets) add("--set", set);
    return line;
  }
};

/// Returns the run directory of a training without --run.
std::string default_run(const std::string& series) {
  std::string name = std::filesystem::path(series).stem().string();
  std::erase_if(name, [](char c) { return c == '*' || c == '?' || c == '[' || c == ']'; });
  return (name.empty() ? "series" : name) + ".run";
}

/// Loads the configuration with `more` settings.
using Load = std::function<Config(const std::vector<std::string>& more)>;

/// Loads the configuration file, or the default settings of a series, and then --set. Collective.
Load loader(const Communicator& comm, const TrainArguments& arguments) {
  std::vector<std::string> sets;
  if (names_series(arguments.config)) {
    const std::string file = "data.file=" + arguments.config;
    std::vector<std::string> given = arguments.settings();
    given.insert(given.begin(), file);
    sets = settings_suiting(comm, given);
    sets.push_back(file);
  }
  for (const std::string& set : arguments.settings()) sets.push_back(set);
  const std::string path = names_series(arguments.config) ? "" : arguments.config;
  return [path, sets](const std::vector<std::string>& more) {
    std::vector<std::string> all = sets;
    all.insert(all.end(), more.begin(), more.end());
    return Config::load(path, all);
  };
}

/// Returns the configuration of the fastest candidate. Throws UserError if none fits.
Config choose_plan(const Communicator& comm, const TrainArguments& arguments, const Load& load) {
  if (arguments.machine.empty())
    user_error("--plan auto needs a machine file. Name a file of 'rossby calibrate' with --machine");
  MeasuredMachine machine{agree(comm, [&] { return read_profile(arguments.machine); })};
  OnDemand on_demand{arguments.machine, seconds_for_candidates};
  CandidateSpace space;
  if (arguments.measures) space.on_demand = &on_demand;
  const std::vector<Candidate> candidates = plan_candidates(comm, machine, load, space);
  const Candidate* best = fastest(candidates);
  if (!best)
    user_error(
        "--plan auto: no candidate fits. The first candidate is refused: {}. Use more ranks, or a smaller "
        "batch",
        candidates.front().refused);
  if (comm.rank() == 0)
    fmt::print("plan      fastest of {} candidates: {}\n", candidates.size(),
               fmt::join(best->settings, ", "));
  return agree(comm, [&] { return load(best->settings); });
}

int train_run(const Communicator& comm, const TrainArguments& given) {
  watch(comm, default_watchdog_seconds);
  TrainArguments arguments = given;
  if (!arguments.profile.empty()) {
    arguments.config = agree(comm, [&] { return best_config_of(arguments.profile); });
    if (arguments.run.empty()) arguments.run = arguments.profile + "/best";
  }
  if (arguments.run.empty()) arguments.run = default_run(arguments.config);
  const Load load = loader(comm, arguments);
  Config config = agree(comm, [&] { return load({}); });
  agree_same(comm, config.to_toml(), arguments.config);
  if (arguments.plan == "auto") config = choose_plan(comm, arguments, load);
  watch(comm, config.parallel.watchdog_seconds, arguments.run);
  TrainOptions options;
  options.run = arguments.run;
  options.resume = arguments.resume;
  options.machine = arguments.machine;
  options.measures = arguments.measures;
  options.record = arguments.record;
  options.replay = arguments.replay;
  options.write_state = arguments.write_state;
  options.signals = options.prints = true;
  const Trained trained = train(comm, config, options);
  if (trained.result.reason != StopReason::paused || trained.had_ended) {
    if (names_series(arguments.config) && !arguments.write_state) average_with_baselines(comm, arguments.run);
    return 0;
  }
  if (comm.rank() == 0)
    fmt::print("paused    {}\npaused    checkpoint written: {}; resume with: {}\n", trained.why_paused,
               trained.checkpoint, arguments.command_to_resume(comm.size()));
  return exit_resume;
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<TrainArguments>();
  TrainArguments& a = *arguments;
  auto* t = app.add_subcommand("train", "train a model and keep its state in a run directory");
  t->add_option(
      "config", a.config,
      "configuration (TOML; 'rossby config' lists the keys), or a series (NetCDF, Zarr, a pattern, or "
      "a .txt list of files), which is trained with settings that suit its time step");
  t->add_option("--profile", a.profile,
                "directory of 'rossby profile': train the candidate that the profile has chosen; default of "
                "--run: folder \"best\" of this directory")
      ->excludes("config");
  t->add_option("--run", a.run,
                "run directory, made if it is missing; default without a configuration: the name of the "
                "series, with the ending .run");
  t->parse_complete_callback([&a] {
    if (a.config.empty() && a.profile.empty()) throw CLI::RequiredError("config");
    if (a.run.empty() && a.profile.empty() && !names_series(a.config)) throw CLI::RequiredError("--run");
  });
  t->add_option("--resume", a.resume,
                "auto: go on from the newest good checkpoint of the run directory, if there is one; never: "
                "start a new run; FILE: go on from this checkpoint")
      ->capture_default_str();
  t->add_flag("--write-state", a.write_state,
              "do not train: write the state of the newest checkpoint, so that evaluate and forecast can use "
              "this state");
  t->add_option("--from", a.from, "start from the weights of another run (train.from)");
  t->add_option("--stop-after", a.stop_after,
                "write a checkpoint and exit with code 75 after this time, for example 1h50m");
  t->add_option("--device", a.device, "device that trains: auto, cpu, cuda (parallel.device)");
  t->add_option("--machine", a.machine,
                "machine file of 'rossby calibrate': predict the time of the training, and compare it with "
                "the measured time");
  add_no_measure(*t, a.measures);
  t->add_option("--record", a.record,
                "asynchronous updates: record the order of events in this file, for --replay");
  t->add_option("--replay", a.replay,
                "repeat a recorded training: bit by bit on the same row blocks, up to rounding on other row "
                "blocks. The number of time groups must divide that of the recording");
  t->add_option("--plan", a.plan,
                "given: train as configured; auto: choose settings of process grid, partition and memory "
                "with the shortest predicted time, except those that are set (needs --machine)")
      ->check(CLI::IsMember({"given", "auto"}));
  t->add_option("--device-memory", a.device_memory,
                "largest GPU memory that a rank uses, for example 4GiB (parallel.device_memory)");
  add_settings(*t, a.sets, set_help);
  choose(*t, chosen, arguments, train_run);
}

}  // namespace rossby::commands
