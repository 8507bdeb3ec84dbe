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
  e->add_flag(
      "--accept-changed-data", a.accept_changed_data,
      "go on if values of the training part were corrected, or its first steps are gone, and report what "
      "has changed; scaling and cycles stay those of the training");
  e->add_option("--against", a.against, "name of a baseline that the model is compared with, too");
  e->add_option(
      "--weights", a.weights,
      "weights of the nodes in all scores: area (cosine of the latitude), or a variable of the data");
  e->add_option("--by", a.by, "scores by the time that is forecast: season, month or hour")
      ->check(CLI::IsMember({"season", "month", "hour"}));
  e->add_option(
       "--region", a.regions,
       "scores of a region: NAME=lat_min,lat_max,lon_min,lon_max, or NAME=VARIABLE, a mask in the data; "
       "may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  e->add_option("--hindcasts", a.hindcasts,
                "NetCDF file for all forecasts that are scored, with observations");
  e->add_option("--scores", a.scores, "NetCDF file for maps of scores");
  e->add_option("--deflate", a.deflate, "level at which these are compressed, 1 to 9; default: not at all")
      ->check(CLI::Range(0, 9));
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
