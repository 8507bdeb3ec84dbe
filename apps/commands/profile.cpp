#include "rossby/run/profile.hpp"

#include <fmt/format.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby::commands {
namespace {

int make_profile(const Communicator& comm, const ProfileOptions& options) {
  watch(comm, default_watchdog_seconds);
  const Profiled profiled = profile(comm, options);
  if (comm.rank() == 0) {
    if (profiled.paused.empty())
      fmt::print("train it  rossby train --profile {}\n", options.directory);
    else
      fmt::print("paused    {}: give the same command again to go on\n", profiled.paused);
  }
  return profiled.paused.empty() ? 0 : exit_resume;
}

}  // namespace

void add_profile(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<ProfileOptions>();
  ProfileOptions& a = *arguments;
  a.prints = true;
  auto* p = app.add_subcommand(
      "profile", "find the model for a series by short trainings, compared on the validation part");
  p->add_option("config", a.config,
                "configuration (TOML) or series (NetCDF, Zarr, a pattern, or a .txt list of files)")
      ->required();
  p->add_option("-o,--output", a.directory,
                "directory for profile.json, profile.md, curves.svg, best.toml and the runs of the "
                "candidates; an interrupted profile goes on there")
      ->required();
  p->add_option("--budget", a.budget,
                "compute budget: share of the complete trainings of all candidates (3%), or a time (10m)")
      ->capture_default_str();
  p->add_option("--candidates", a.candidates,
                "candidates: all; models or candidates (gru,stid-small); or a TOML file with tables "
                "[[candidate]], each with a name and settings")
      ->capture_default_str();
  p->add_option("--folds", a.folds,
                "compare on this many folds of the training part; default: the validation part, or folds if "
                "a series without a configuration is short")
      ->check(CLI::Range(2, 100));
  p->add_option("--seed", a.seed, "seed of the trainings")->check(whole_number(0))->capture_default_str();
  auto* machine = p->add_option("--machine", a.machine,
                                "machine file of 'rossby calibrate': predict the costs of candidates instead "
                                "of measuring them, and leave out those that do not fit the memory");
  add_no_measure(*p, a.measures);
  p->add_option("--costs", a.costs,
                "directory of another profile: use the costs of candidates that it has measured")
      ->excludes(machine);
  add_settings(*p, a.sets, "set a configuration key for all candidates; may be repeated");
  choose(*p, chosen, arguments, make_profile);
}

}  // namespace rossby::commands
