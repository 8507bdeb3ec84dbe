#include "rossby/run/average.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/run/profile.hpp"

namespace rossby::commands {
namespace {

struct AverageArguments : AverageOptions {
  std::string profile;  // directory of a profile, whose best candidates are members
  Index best = 0;
};

int make_average(const Communicator& comm, const AverageArguments& arguments) {
  AverageOptions options = arguments;
  if (!arguments.profile.empty()) {
    TrainedBest trained = train_best(comm, arguments.profile, arguments.best, arguments.prints);
    if (trained.paused) return exit_resume;
    options.members.insert(options.members.end(), trained.runs.begin(), trained.runs.end());
  }
  average(comm, options);
  return 0;
}

}  // namespace

void add_average(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<AverageArguments>();
  AverageArguments& a = *arguments;
  a.prints = true;
  auto* f = app.add_subcommand("average",
                               "make a forecaster of several: of runs, baselines and files of forecasts");
  f->add_option("members", a.members,
                "run directories, names of baselines (as evaluate prints them), NetCDF files of forecasts");
  auto* profile = f->add_option(
      "--profile", a.profile,
      "directory of 'rossby profile': its best candidates are members, and are trained to their end first");
  auto* best = f->add_option("--best", a.best, "how many of them")->check(whole_number(1))->needs(profile);
  profile->needs(best);
  f->parse_complete_callback([&a] {
    if (a.members.empty() && a.profile.empty()) throw CLI::RequiredError("members");
  });
  f->add_option("-o,--output", a.output, "directory to make, which evaluate and forecast take like a run")
      ->required();
  f->add_option(
       "--weights", a.weighting,
       "of the members at each lead: equal; validation, by the inverse squared error in the validation "
       "part; stacking, those that are best there")
      ->check(CLI::IsMember({"equal", "validation", "stacking"}))
      ->capture_default_str();
  f->add_option("--device", a.device, device_help);
  add_settings(
      *f, a.sets,
      "set a key that does not change the models, such as evaluate.horizons, the leads that are averaged");
  choose(*f, chosen, arguments, make_average);
}

}  // namespace rossby::commands
