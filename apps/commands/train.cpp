#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "apps/console.hpp"
#include "apps/run_files.hpp"
#include "apps/stnn_run.hpp"
#include "apps/version.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"

namespace rossby::commands {
namespace {

using Json = nlohmann::ordered_json;

/// JSON has no NaN: a figure that is not finite becomes null.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json epoch_json(const EpochReport& report, double peak_bytes) {
  Json json;
  json["epoch"] = report.epoch;
  json["steps"] = report.steps;
  json["lr"] = report.lr;
  json["loss"] = number(report.loss);
  for (const TermMean& term : report.terms) json["losses"][std::string(term.name)] = number(term.value);
  json["validation_rmse"] = number(report.validation);
  json["best"] = report.best;
  json["epoch_seconds"] = report.epoch_seconds;
  json["total_seconds"] = report.total_seconds;
  json["batches_per_second"] = report.batches_per_second;
  json["node_steps_per_second"] = report.node_steps_per_second;
  json["peak_rss_bytes"] = static_cast<std::int64_t>(peak_bytes);
  return json;
}

double worst_peak(Reducer& reducer) {
  double peak = peak_resident_bytes();
  reducer.max(std::span<double>(&peak, 1));
  return peak;
}

template <class T>
void describe(const Communicator& comm, StnnRun<T>& run, const Config& config, Reducer& reducer) {
  double sums[3] = {0, 0, static_cast<double>(run.model().relations().entries())};
  for (const Parameter<T>* parameter : run.model().parameters())
    (parameter->placement == Placement::replicated ? sums[0] : sums[1]) +=
        static_cast<double>(parameter->size());
  sums[0] /= comm.size();
  reducer.sum(sums);
  if (comm.rank() != 0) return;
  const Domain& domain = run.domain();
  fmt::print("data      {}: {} nodes, {} steps, {} feature{}\n", domain.info.path, domain.nodes(),
             domain.info.steps, domain.info.features, domain.info.features == 1 ? "" : "s");
  fmt::print("split     train {} steps, validation {}, test {}\n", domain.split.training_steps().size(),
             domain.split.validation.size(), domain.split.test.size());
  fmt::print("model     stnn, {} parameters, {} relations with {} non-zeros, {}\n",
             count_text(sums[0] + sums[1]), run.model().relations().bank().relations(), count_text(sums[2]),
             config.text("model.precision"));
  fmt::print("ranks     {} x {} threads, {}\n", comm.size(), run.exec().threads, to_string(run.exec().isa));
  if (run.model().relations().needs_all())
    fmt::print("dense     products: {}\n", to_string(run.dense_choice()));
  std::fflush(stdout);
}

template <class T>
Json run_metadata(const Config& config, StnnRun<T>& run, const TrainingResult& result) {
  Json json;
  json["format"] = 1;
  json["rossby"] = version_short();
  json["model"] = config.text("model.name");
  json["precision"] = config.text("model.precision");
  json["config_hash"] = config.hash();
  json["isa"] = std::string(to_string(run.exec().isa));
  json["nodes"] = run.domain().nodes();
  json["steps"] = run.domain().info.steps;
  if (run.model().relations().needs_all())
    json["dense_kernel"] = std::string(to_string(run.dense_choice().product));
  json["epochs"] = result.epochs;
  json["optimiser_steps"] = result.steps;
  json["best_epoch"] = result.best_epoch;
  return json;
}

/// Refuses a directory that holds a trained run; writes the resolved configuration. What a run left that
/// ended before it had a state is replaced.
void prepare(const RunDirectory& directory, const Config& config) {
  if (directory.has_run() && std::filesystem::exists(state_file_of(directory.path())))
    user_error("{} already holds a run: choose another --run directory, or remove this one",
               directory.path());
  std::filesystem::remove(directory.metrics_file());
  directory.make_checkpoints();
  atomic_write(directory.config_file(), config.to_toml());
}

template <class T>
TrainingResult fit(const Communicator& comm, const Config& config, StnnRun<T>& run, StnnTask<T>& task,
                   const RunDirectory* directory) {
  Reducer& reducer = run.reducer();
  const bool has_validation = !run.domain().split.validation.empty();
  const TrainerOptions options = trainer_options(config, has_validation);
  Optimiser<T> optimiser(optimiser_options(config), run.model().parameters());
  Trainer<T> trainer(options, schedule_options(config), task, optimiser, reducer, run.exec());
  ProgressLine progress(comm.rank() == 0, config.real("log.seconds"), options.epochs);
  return trainer.run([&](const EpochReport& report) {
    const double peak = worst_peak(reducer);
    agree(comm, [&] {
      if (directory) directory->append_metrics(epoch_json(report, peak).dump());
    });
    progress.show(report, report.epoch + 1 == options.epochs);
  });
}

template <class T>
int train_with(const Communicator& comm, const Config& config, const Train& arguments) {
  // Everything that can be wrong with data and settings is found before the run directory is touched.
  Domain domain = make_domain(comm, config);
  StnnRun<T> run(comm, config, std::move(domain));
  const auto task = run.make_task();
  (void)trainer_options(config, !run.domain().split.validation.empty());
  std::optional<RunDirectory> directory;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    directory = RunDirectory::create(arguments.run);
    prepare(*directory, config);
  });
  describe(comm, run, config, run.reducer());
  const TrainingResult result = fit(comm, config, run, *task, directory ? &*directory : nullptr);
  run.save(state_file_of(arguments.run), run_metadata(config, run, result));
  const double peak = worst_peak(run.reducer());
  if (comm.rank() == 0) {
    fmt::print("done      {}: {} epochs, {} steps in {}, at most {} a rank\n", to_string(result.reason),
               result.epochs, result.steps, seconds_text(result.seconds), bytes_text(peak));
    if (result.best_epoch >= 0 && std::isfinite(result.best_metric))
      fmt::print("best      {} {:.5g} after epoch {}\n", config.text("schedule.metric"), result.best_metric,
                 result.best_epoch + 1);
    fmt::print("state     {}\n", state_file_of(arguments.run));
  }
  return 0;
}

}  // namespace

int train(const Communicator& comm, const Train& arguments) {
  const Config config = agree(comm, [&] { return Config::load(arguments.config, arguments.sets); });
  agree_same(comm, config.to_toml(), arguments.config);
  return config.text("model.precision") == "double" ? train_with<double>(comm, config, arguments)
                                                    : train_with<float>(comm, config, arguments);
}

}  // namespace rossby::commands
