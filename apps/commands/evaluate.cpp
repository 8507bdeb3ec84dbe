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
  auto* e =
      app.add_subcommand("evaluate", "score a trained model or an average, and baselines, on the test part");
  e->add_option("run", a.run, "directory of a run or an average")->required();
  e->add_option("-o,--output", a.output, "file to write; default: evaluation.json in the run directory");
  e->add_option("--baseline", a.baselines, "also score this NetCDF file of forecasts; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  e->add_flag("--accept-changed-data", a.accept_changed_data,
              "accept data whose training part was corrected or has lost its first steps, and report the "
              "changes. Scaling and cycles stay those of the training");
  e->add_option("--against", a.against, "also compare the model with this baseline");
  e->add_option(
      "--weights", a.weights,
      "weights of the nodes in all scores: area (cosine of the latitude), or the name of a variable");
  e->add_option("--by", a.by, "also print scores by season, month or hour of the forecast time")
      ->check(CLI::IsMember({"season", "month", "hour"}));
  e->add_option("--region", a.regions,
                "also print scores of a region: NAME=lat_min,lat_max,lon_min,lon_max, or NAME=VARIABLE (a "
                "mask in the data); may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  e->add_option("--hindcasts", a.hindcasts,
                "write all scored forecasts, with observations, to this NetCDF file");
  e->add_option("--scores", a.scores, "write maps of scores to this NetCDF file");
  e->add_option("--deflate", a.deflate,
                "compression level of --hindcasts and --scores, 1 to 9; default: no compression")
      ->check(CLI::Range(0, 9));
  e->add_option("--device", a.device, device_help);
  add_settings(
      *e, a.sets,
      "set a key that does not change the model, such as evaluate.horizons, or data.file for newer data");
  choose(*e, chosen, arguments, [](const Communicator& comm, const Arguments& given) {
    evaluate(comm, given.run, given);
    return 0;
  });
}

}  // namespace rossby::commands
