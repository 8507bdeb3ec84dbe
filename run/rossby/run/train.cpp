#include "rossby/run/train.hpp"

#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/evaluate.hpp"
#include "rossby/run/refit.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/run_prediction.hpp"
#include "rossby/run/run_start.hpp"
#include "rossby/run/training.hpp"
#include "rossby/run/training_options.hpp"
#include "rossby/run/training_report.hpp"
#include "rossby/run/version.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

bool keeps_best(const Config& config, const Domain& domain) {
  return trainer_options(config, !domain.split.validation.empty()).keep_best;
}

template <class T>
Json run_metadata(const Config& config, ModelRun<T>& run, const TrainingResult& result) {
  Json json;
  json["format"] = 1;
  json["rossby"] = version_short();
  json["model"] = config.model.name;
  json["precision"] = config.model.precision;
  json["config_hash"] = config.hash();
  json["isa"] = std::string(to_string(run.exec().isa));
  json["nodes"] = run.domain().nodes();
  json["steps"] = run.domain().info.steps;
  // In a longer file, shares would give other parts: record counts of steps, which do not change.
  const Split& split = run.domain().split;
  const bool folds = config.split.folds > 0;
  json["training_steps"] = folds ? split.test.first : split.train.last;
  if (!folds) json["validation_steps"] = split.validation.size();
  json["training_hash"] = run.training_hash();
  if (const std::string nodes = node_hash(run.domain()); !nodes.empty()) json["node_hash"] = nodes;
  json["first_time"] = run.domain().info.time.text(0);
  json["units"] = Json::array();
  for (const SeriesVariable& variable : run.domain().variables()) json["units"].push_back(variable.units);
  run.add_metadata(json);
  json["epochs"] = result.epochs;
  json["optimiser_steps"] = result.steps;
  json["best_epoch"] = result.best_epoch;
  json["kept"] = keeps_best(config, run.domain()) ? "best" : "last";  // which state is kept
  json["config"] = config.to_toml();
  return json;
}

/// Advice on how a finished run can go on.
std::string advice_for(StopReason over) {
  switch (over) {
    case StopReason::epochs:
      return ". Raise train.epochs to go on";
    case StopReason::early_stop:
      return ". Raise train.early_stop to go on";
    case StopReason::time:
      return ". Raise train.max_seconds to go on";
    case StopReason::plateau:
    case StopReason::asked:
    case StopReason::paused:
      return "";
  }
  return "";
}

/// Returns why an ended run has nothing left to do, or nullopt. Collective.
template <class T>
std::optional<StopReason> ended(const Communicator& comm, const Training<T>& training,
                                const std::string& run) {
  const auto over = training.over();
  if (!over) return std::nullopt;
  const Stage stage(comm, "reading the state", patience_with_files);
  const bool final = agree(comm, [&] { return comm.rank() == 0 && has_final_state(run, training.state()); });
  return broadcast(comm, final ? "yes" : "").empty() ? std::nullopt : over;
}

/// Returns remarks on what evaluate would do with these settings, whole lines. A refusal stops only a new
/// run.
std::string remarks_on_evaluation(const Communicator& comm, const Config& config, const Domain& domain,
                                  bool resumes) {
  return agree(comm, [&] {
    try {
      return check_evaluation(config, domain);
    } catch (const UserError& error) {
      if (!resumes) throw;
      return fmt::format("warning   rossby evaluate will fail: {}\n", error.what());
    }
  });
}

/// One start of a training.
template <class T>
class Started {
 public:
  Started(const Communicator& comm, const Config& asked, const TrainOptions& options)
      : comm_(comm),
        options_(options),
        start_(look_at_run(comm, options)),
        asked_(settle_files(comm, asked, start_.checkpoint)),
        config_(start_.checkpoint ? settings_to_resume(comm, asked_, *start_.checkpoint) : asked_),
        // Find every error in data and settings before the run directory changes.
        plan_(predict_run(comm, config_, options, resumes())),
        run_(make_run<T>(comm, config_, resumes() ? Purpose::resuming : Purpose::training, nullptr, nullptr,
                         recorded_groups(comm, config_, options))) {
    if (!resumes() && !config_.train.from.empty()) started_from_ = run_->start_from(config_.train.from);
  }

  Trained train() {
    if (resumes() && !run_->device()) warn_of_other_blas(comm_, *start_.checkpoint);
    evaluation_ = remarks_on_evaluation(comm_, config_, run_->domain(), resumes());
    Training<T> training(comm_, asked_, options_, *run_);
    if (resumes()) {
      training.resume(*start_.checkpoint, std::move(start_.older));
      // The files of the run belong to the settings that it was trained with, so they stay unchanged.
      if (const auto over = ended(comm_, training, options_.run)) return leave_as_it_is(training, *over);
    }
    prepare(training);
    describe_all(training);
    const TrainingResult result = options_.write_state ? training.finish() : training.fit();
    if (result.reason == StopReason::paused) return paused(training, result);
    Json metadata = run_metadata(config_, *run_, result);
    if (options_.write_state) metadata["epochs_asked"] = config_.train.epochs;
    move_earlier_results();
    run_->save_record(data_record_of(options_.run));  // first: only older versions saved no record
    run_->save(state_file_of(options_.run), metadata);
    const double peak = worst_peak_resident(run_->reducer());
    if (options_.prints)
      report_end(comm_, config_, training, result, keeps_best(config_, run_->domain()),
                 run_->validation_seen(), peak, options_.run);
    if (plan_ && !options_.write_state) compare(training);
    return {result, "", false, training.saved(), training.all_steps()};
  }

 private:
  Trained paused(Training<T>& training, const TrainingResult& result) {
    Trained trained{result, training.why_paused(), false, training.saved(), training.all_steps()};
    if (options_.pause_at == 0 || result.steps != options_.pause_at) return trained;
    const Stopwatch begin;
    in_exchanges(comm_, [&] { trained.validation = training.validate(); });
    trained.validation_seconds = begin.seconds();
    return trained;
  }

  [[nodiscard]] bool resumes() const { return start_.checkpoint.has_value(); }
  [[nodiscard]] bool speaks() const { return options_.prints && comm_.rank() == 0; }
  [[nodiscard]] std::string metrics() const {
    return start_.directory ? start_.directory->metrics_file() : "";
  }

  /// Moves scores and forecasts of the state to be replaced, which must not pass for those of the new state.
  void move_earlier_results() {
    std::vector<std::string> moved;
    agree(comm_, [&] {
      namespace fs = std::filesystem;
      if (comm_.rank() != 0 || !fs::exists(state_file_of(options_.run))) return;
      const fs::path run(options_.run), target = run / "earlier_state";
      for (const char* name : {"evaluation.json", "forecast.nc", "intervals.h5"}) {
        if (!fs::exists(run / name)) continue;
        std::error_code code;
        fs::create_directories(target, code);
        fs::rename(run / name, target / name, code);
        if (code)
          user_error(
              "{}: cannot move {} of the earlier state to this folder: {}. Check the permissions of "
              "the run directory",
              target.string(), name, code.message());
        moved.emplace_back(name);
      }
    });
    if (speaks() && !moved.empty())
      fmt::print("moved     {} of the earlier state to {}/earlier_state\n", fmt::join(moved, ", "),
                 options_.run);
  }

  void prepare(Training<T>& training) {
    const Stage stage(comm_, "preparing the run directory", patience_with_files);
    agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      prepare_run(start_, asked_, options_.run);
      if (plan_) write_prediction(options_.run, *plan_);
    });
    expect_shared_run(comm_, options_.run);
    training.use(start_.directory ? &*start_.directory : nullptr);
  }

  void describe_all(const Training<T>& training) {
    if (!options_.prints) return;
    describe(comm_, *run_, config_, evaluation_, run_->reducer());
    if (speaks()) fmt::print("{}{}{}", started_from_, training.updates_remark(), training.doubts());
    if (plan_ && speaks()) print_prediction(*plan_);
    if (resumes()) report_resumption(comm_, config_, *start_.checkpoint, training);
  }

  Trained leave_as_it_is(const Training<T>& training, StopReason over) {
    if (options_.prints) {
      describe(comm_, *run_, config_, evaluation_, run_->reducer());
      report_resumption(comm_, config_, *start_.checkpoint, training);
    }
    restore_files();
    if (speaks()) fmt::print("done      nothing is left to do: {}{}\n", to_string(over), advice_for(over));
    if (plan_ &&
        lacks_prediction(comm_, asked_, options_.run, [&] { return training.last_trained_here(metrics()); }))
      compare(training);
    const TrainingState at = training.state();
    Trained trained{{}, "", true, training.saved()};
    trained.result.reason = over;
    trained.result.epochs = at.epoch;
    trained.result.steps = at.steps;
    trained.result.best_epoch = at.best_epoch;
    trained.result.best_metric = at.schedule.best;
    trained.all_steps = training.all_steps();
    return trained;
  }

  /// Writes what evaluations of an ended run need and somebody has removed or damaged.
  void restore_files() {
    const Stage stage(comm_, "looking at the files of the run", patience_with_files);
    const std::string record = data_record_of(options_.run);
    std::vector<std::string> restored;
    const bool damaged = agree(comm_, [&] {
      if (comm_.rank() != 0) return false;
      if (restore_configuration(start_, asked_, options_.run))
        restored.push_back(start_.directory->config_file());
      if (!is_damaged(record)) return false;
      restored.push_back(record);
      return true;
    });
    if (!broadcast(comm_, damaged ? "yes" : "").empty()) run_->save_record(record);
    if (speaks() && !restored.empty())
      fmt::print("restored  {}: missing or damaged\n", fmt::join(restored, ", "));
  }

  void compare(const Training<T>& training) {
    compare_prediction(comm_, options_, metrics(), std::move(*plan_),
                       [&] { return training.last_trained_here(metrics()); });
  }

  const Communicator& comm_;
  const TrainOptions& options_;
  RunStart start_;
  Config asked_;  // with the names of all files
  Config config_;
  std::optional<TrainingPlan> plan_;
  std::unique_ptr<ModelRun<T>> run_;
  std::string evaluation_;
  std::string started_from_;  // a line; empty: from its own start values
};

}  // namespace

double worst_peak_resident(Reducer& reducer) {
  double peak = peak_resident_bytes();
  reducer.max(std::span<double>(&peak, 1));
  return peak;
}

Trained train(const Communicator& comm, const Config& config, const TrainOptions& options) {
  if (config.train.refit) {
    if (!options.record.empty() || !options.replay.empty())
      user_error(
          "train.refit trains twice, but --record and --replay work with one training. Set "
          "train.refit = false, or leave --record and --replay out");
    return refit(comm, config, options);
  }
  return as_run(comm, [&](const Communicator& run) {
    const Watch watching(run, config.parallel.watchdog_seconds, options.run);
    agree_same(run, config.to_toml(), "the configuration");
    return config.model.precision == "double" ? Started<double>(run, config, options).train()
                                              : Started<float>(run, config, options).train();
  });
}

}  // namespace rossby
