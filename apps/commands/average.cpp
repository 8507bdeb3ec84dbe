#include "rossby/run/average.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/run/profile.hpp"

namespace rossby::commands {
namespace {

struct AverageArguments : AverageOptions {
  std::string profile;  // directory of a profile whose best candidates are members
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
  auto* f =
      app.add_subcommand("average", "average several forecasters: runs, baselines and files of forecasts");
  f->add_option("members", a.members,
                "run directories, names of baselines (as evaluate prints them), NetCDF files of forecasts");
  auto* profile = f->add_option(
      "--profile", a.profile,
      "directory of 'rossby profile': finish the training of its best candidates, and average them");
  auto* best = f->add_option("--best", a.best, "with --profile: number of candidates to average")
                   ->check(whole_number(1))
                   ->needs(profile);
  profile->needs(best);
  f->parse_complete_callback([&a] {
    if (a.members.empty() && a.profile.empty()) throw CLI::RequiredError("members");
  });
  f->add_option("-o,--output", a.output, "directory to write; evaluate and forecast accept it like a run")
      ->required();
  f->add_option("--weights", a.weighting,
                "weights of the members at each lead time: equal; validation: inverse squared error in the "
                "validation part; stacking: weights with the smallest error in the validation part")
      ->check(CLI::IsMember({"equal", "validation", "stacking"}))
      ->capture_default_str();
  f->add_option("--device", a.device, device_help);
  add_settings(*f, a.sets,
               "set a key that does not change the models, such as evaluate.horizons (number of lead times)");
  choose(*f, chosen, arguments, make_average);
}

}  // namespace rossby::commands
