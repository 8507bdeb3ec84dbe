#include "rossby/run/average.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {

void add_average(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<AverageOptions>();
  AverageOptions& a = *arguments;
  a.prints = true;
  auto* f = app.add_subcommand("average",
                               "make a forecaster of several: of runs, baselines and files of forecasts");
  f->add_option("members", a.members,
                "run directories, names of baselines (as evaluate prints them), NetCDF files of forecasts")
      ->required();
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
  choose(*f, chosen, arguments, [](const Communicator& comm, const AverageOptions& given) {
    average(comm, given);
    return 0;
  });
}

}  // namespace rossby::commands
