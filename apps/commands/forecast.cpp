#include "rossby/run/forecast.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {

void add_forecast(CLI::App& app, Chosen& chosen) {
  struct Arguments : ForecastOptions {
    std::string run;
  };
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  a.prints = true;
  auto* f = app.add_subcommand("forecast", "write a forecast as CF NetCDF");
  f->add_option("run", a.run, "directory of a run or an average")->required();
  f->add_option("--steps", a.steps, "steps to forecast")->required()->check(whole_number(1));
  f->add_option("--origin", a.origin,
                "date of the last known values, or value of the time axis if this axis has no dates; "
                "default: the last step of the data");
  f->add_option("--inputs", a.inputs,
                "NetCDF file with data.known_inputs at the forecast steps; default: the data");
  f->add_option("-o,--output", a.output, "file to write; default: forecast.nc in the run directory");
  f->add_option("--intervals", a.intervals,
                "central intervals in percent, such as 50,90, written as quantiles. Run evaluate first: "
                "this command computes the intervals in the validation part")
      ->delimiter(',')
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  f->add_flag("--members", a.members, "also write the forecasts of the members of an average");
  f->add_option("--dressed", a.dressed,
                "number of realizations of an average to write: members, dressed with residuals that "
                "evaluate finds in the validation part")
      ->check(whole_number(1));
  f->add_flag("--accept-changed-data", a.accept_changed_data,
              "accept data whose training part was corrected or has lost its first steps, and report the "
              "changes. Scaling and cycles stay those of the training");
  f->add_option("--device", a.device, device_help);
  add_settings(*f, a.sets,
               "set a key that does not change the model, such as relation.stream_folder, or data.file for "
               "newer data");
  choose(*f, chosen, arguments, [](const Communicator& comm, const Arguments& given) {
    forecast(comm, given.run, given);
    return 0;
  });
}

}  // namespace rossby::commands
