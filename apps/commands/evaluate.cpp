#include "rossby/run/evaluate.hpp"

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {

void add_evaluate(CLI::App& app, Chosen& chosen) {
  struct Arguments : EvaluateOptions {
    std::string run;
  };
  const auto arguments = std::make_shared<Arguments>();
  Arguments& a = *arguments;
  a.prints = true;
  auto* e = app.add_subcommand(
      "evaluate", "score a trained model, or an average, and the classical baselines on the test part");
  e->add_option("run", a.run, "directory of a run or an average")->required();
  e->add_option("-o,--output", a.output, "file to write; default: evaluation.json in the run directory");
  e->add_option("--baseline", a.baselines, "NetCDF file of forecasts that is scored, too; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  e->add_flag("--accept-changed-data", a.accept_changed_data,
              "go on if values of the training part were corrected, or its first steps are gone, and report what "
              "has changed; scaling and cycles stay those of the training");
  e->add_option("--device", a.device, device_help);
  add_settings(
      *e, a.sets,
      "set a key that does not change the model, such as evaluate.horizons, or data.file, for data that "
      "have gone on");
  choose(*e, chosen, arguments, [](const Communicator& comm, const Arguments& given) {
    evaluate(comm, given.run, given);
    return 0;
  });
}

}  // namespace rossby::commands
