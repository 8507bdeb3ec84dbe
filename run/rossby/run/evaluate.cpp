#include "rossby/run/evaluate.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/average_run.hpp"
#include "rossby/run/evaluation_report.hpp"
#include "rossby/run/hindcasts.hpp"
#include "rossby/run/intervals.hpp"
#include "rossby/run/members.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/refit.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/scored_beside.hpp"
#include "rossby/run/scored_reach.hpp"
#include "rossby/run/slices.hpp"
#include "rossby/run/validation_residuals.hpp"
#include "rossby/train/evaluation.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby {
namespace {

/// Remarks that come before the tables.
void print_remarks(const Config& config, const ScoredReach& reach, const TestForecasts& test,
                   const ScoredBeside& beside) {
  for (const auto& baseline : beside.baselines)
    if (const std::string remark = baseline->remark(); !remark.empty()) fmt::print("{}\n", remark);
  for (const ForecastFile& file : beside.files) fmt::print("{}", file.remark());
  fmt::print("{}", test.remark);
  if (config.evaluate.kind != "rollout" && test.horizons < config.evaluate.horizons)
    fmt::print("evaluate.horizons = {}, but {} steps: only these steps are scored\n",
               config.evaluate.horizons, reach.why);
}

/// Where results go.
struct Destination {
  std::string directory;   // of the run or the average
  std::string run;         // the run, or the average's first one
  std::string path;        // of evaluation.json; rank 0's
  std::string source;      // who makes the forecasts
  std::string state = {};  // of a run: its file
};

/// Scores a run, or what looks like one: a ModelRun or an AverageRun. Collective.
template <class Run>
class Scoring {
 public:
  Scoring(const Communicator& comm, const Config& config, Run& run, const ScoredReach& reach,
          const EvaluateOptions& options)
      : comm_(comm),
        config_(config),
        run_(run),
        reach_(reach),
        options_(options),
        domain_(run.domain()),
        solver_(comm),
        test_(agree(comm, [&] { return test_of(config, reach, domain_.split); })),
        beside_(agree(comm,
                      [&] {
                        return ScoredBeside(config, solver_, domain_, run.exec().threads, test_.horizons,
                                            options.baselines);
                      })),
        parts_(scored_parts(domain_)) {
    agree(comm_, [&] {
      test_.origins = run_.usable(std::move(test_.origins), test_.horizons);
      if constexpr (requires { run.remark(); }) test_.remark = run.remark();
      std::vector<const ForecastFile*> files;
      for (const ForecastFile& file : beside_.files) files.push_back(&file);
      test_.origins =
          origins_of_files(files, domain_.info.time, std::move(test_.origins), test_.horizons, test_.remark);
      report_ = reported_horizons(config_.evaluate.report, domain_.info.time, test_.horizons);
      for (std::string& name : beside_.names()) names_.push_back(std::move(name));
      against_ = asked_baseline(names_, options_.against);
      slices_ = make_slices(domain_, options_.weights, options_.by, options_.regions);
    });
    expect_nodes(comm_, slices_);
    for (const ScoredPart& part : parts_) part_features_.push_back(part.features);
  }

  /// Intervals are from `earlier` residuals, if there are any, or from the validation part of the run.
  Evaluation evaluate(const Destination& to, std::optional<Residuals> earlier, Index epochs,
                      const DataChanges& changes) {
    series_ = read_series(comm_, config_, domain_);
    run_of_ = to.run;
    climatology_ = beside_.climatology(domain_, run_.reducer(), test_, series_);
    // Rank 0 alone knows where it writes.
    std::string folder = broadcast(comm_, std::filesystem::path(to.path).parent_path().string());
    if (folder.empty()) folder = ".";
    residuals_ = earlier ? std::move(earlier) : residuals_of(comm_, config_, run_, test_.horizons, folder);
    if (residuals_) in_intervals_.emplace(residuals_->quantiles, test_.horizons, slices_.weights);
    if (!options_.hindcasts.empty()) {
      ResultFile written = file(options_.hindcasts, to);
      if (comm_.rank() == 0 && !to.state.empty())
        written.identity = identity_of_forecasts(config_, to.state, domain_.info, scored());
      written.identity = broadcast(comm_, std::move(written.identity));
      hindcasts_ = std::make_unique<Hindcasts>(comm_, domain_, written, scored(), names_.size() > 1);
    }
    if (!options_.scores.empty()) of_model_ = std::make_unique<NodeMoments>(node_moments());
    Verification verification(std::ssize(names_), test_.horizons, part_features_, slices_, anomalies_from());
    EvaluationReport found = add_up(verification);
    found.epochs = epochs;
    found.changes = changes;
    write(to, found);
    return {broadcast(comm_, to.path), std::move(found.scores)};
  }

 private:
  [[nodiscard]] ScoredForecasts scored() const { return {test_.origins, test_.horizons}; }
  [[nodiscard]] ResultFile file(const std::string& path, const Destination& to) const {
    return {path, to.source, options_.deflate};
  }
  [[nodiscard]] Climatology anomalies_from() const {
    return [this](Index step) { return climatology_.at(step); };
  }
  [[nodiscard]] NodeMoments node_moments() const {
    return NodeMoments(std::ssize(domain_.rows), test_.horizons, domain_.info.features, anomalies_from());
  }

  /// All forecasters' errors.
  EvaluationReport add_up(Verification& verification) {
    HorizonErrors errors(names_, test_.horizons, part_features_, run_.exec().threads);
    HorizonErrors earlier(names_, test_.horizons, {}, run_.exec().threads);
    errors.keep_origins(test_.origins);
    errors.weigh(slices_.weights);
    earlier.weigh(slices_.weights);
    errors.watch([&](const ScoredValues& values) {
      verification.add(values);
      if (values.forecaster > 0) return;
      if (in_intervals_) in_intervals_->add(values);
      if (hindcasts_) hindcasts_->add_forecast(values);
      if (of_model_) of_model_->add(values);
    });
    const std::span<const Index> origins(test_.origins);
    const Index kept = hindcasts_ ? hindcasts_->kept() : 0;
    if (kept > 0) {
      hindcasts_->visit_kept([&](Index number, Index horizon, NodeView<const float> x) {
        errors.add<float>(0, horizon, x, series_, origins.subspan(static_cast<std::size_t>(number), 1));
      });
      if (options_.prints && comm_.rank() == 0)
        fmt::print("{}: continues after {} of {} origins, which an interrupted evaluation has written\n",
                   options_.hindcasts, kept, origins.size());
    }
    if (const auto rest = origins.subspan(static_cast<std::size_t>(kept)); !rest.empty())
      in_exchanges(comm_, [&] { run_.add_errors(errors, rest, test_.horizons); });
    EvaluationReport found{domain_, test_, slices_, verification, parts_, {}, {}, {}};
    add_distributions(found);
    Reducer& reducer = run_.reducer();
    test_.remark +=
        beside_.add_errors(comm_, domain_, reducer, test_, series_,
                           split_before_refit(comm_, config_, domain_.split, run_of_), errors, earlier);
    verification.reduce(reducer);
    found.scores = errors.reduce(reducer);
    found.chosen = earlier.reduce(reducer).best_baseline();
    found.against = against_;
    const OriginErrors of_model = errors.reduce_origins(0, reducer);
    std::optional<OriginErrors> of_chosen;
    if (found.chosen >= 0) of_chosen = errors.reduce_origins(found.chosen, reducer);
    if (of_chosen) found.paired = paired_skill(of_model, *of_chosen);
    if (against_ >= 0) found.against_it = paired_skill(of_model, errors.reduce_origins(against_, reducer));
    found.add_lead_intervals(of_model, of_chosen ? &*of_chosen : nullptr);
    if (!parts_.empty()) found.of_parts = errors.reduce_parts(reducer);
    describe(found);
    return found;
  }

  /// What an ensemble or quantiles of the model predict.
  void add_distributions(EvaluationReport& found) {
    if constexpr (std::is_same_v<Run, AverageRun>) {
      found.spread = run_.spread();
      if (!residuals_) return;
      DressedErrors dressed(residuals_->quantiles, test_.horizons, slices_.weights);
      run_.visit_members([&](const MemberValues& values) { dressed.add(values); });
      found.dressed = dressed.reduce(run_.reducer());
    } else if (found.levels = run_.quantiles(); !found.levels.empty()) {
      QuantileErrors errors(found.levels, test_.horizons, slices_.weights);
      const std::span<const Index> origins(test_.origins);
      in_exchanges(comm_, [&] {
        run_.forecast_quantiles(
            origins, test_.horizons, [&](Index first, Index horizon, Index level, auto x) {
              errors.add(level, horizon, x, series_, origins.subspan(static_cast<std::size_t>(first)));
            });
      });
      found.quantiles = errors.reduce(run_.reducer());
    }
  }

  /// What else is known of the scores.
  void describe(EvaluationReport& found) {
    found.weights = options_.weights;
    found.climatology = beside_.climatology_name;
    add_moments(found.scores, found.verification, 0, -1, std::ssize(parts_));
    for (std::size_t p = 0; p < found.of_parts.size(); ++p)
      add_moments(found.of_parts[p], found.verification, 0, static_cast<Index>(p), std::ssize(parts_));
    std::vector<bool> meant = has_relative_errors(series_, test_, part_features_, run_.reducer());
    // Of values whose offset is subtracted there are no relative errors.
    if (!domain_.centers.empty()) meant.assign(meant.size(), false);
    keep_relative(found, meant);
    found.leads = horizon_leads(domain_.info.time, test_.origins, test_.horizons);
    if (in_intervals_) found.intervals = in_intervals_->reduce(run_.reducer());
    if (!residuals_) return;
    found.residual_origins = residuals_->origins;
    found.left_out = residuals_->left_out;
  }

  void write(const Destination& to, const EvaluationReport& found) {
    const Index best = found.scores.best_baseline();
    const Index reference = against_ >= 0 ? against_ : found.chosen >= 0 ? found.chosen : best;
    const std::string name = reference >= 0 ? names_[static_cast<std::size_t>(reference)] : "";
    std::unique_ptr<NodeMoments> of_reference;
    if (of_model_ && reference >= 0) of_reference = std::make_unique<NodeMoments>(node_moments());
    if (reference >= 0 && (hindcasts_ || of_reference))
      beside_.visit_again(comm_, domain_, run_.reducer(), test_, series_, reference - 1,
                          [&](const ScoredValues& values) {
                            if (hindcasts_) hindcasts_->add_baseline(values);
                            if (of_reference) of_reference->add(values);
                          });
    const Stage stage(comm_, "writing the evaluation", patience_with_files);
    if (hindcasts_) hindcasts_->finish(series_, climatology_, name, found.climatology);
    if (of_model_)
      write_score_maps(comm_, domain_, file(options_.scores, to), scored(), *of_model_, of_reference.get(),
                       name, found.climatology);
    if (residuals_ && options_.output.empty())
      write_intervals(comm_, to.directory, domain_, residuals_->quantiles, residuals_->origins);
    agree(comm_, [&] {
      if (comm_.rank() != 0) return;
      if (options_.prints) print_remarks(config_, reach_, test_, beside_);
      atomic_write(to.path, found.json().dump(2) + "\n");
      if (!options_.prints) return;
      found.print(report_, to.path);
      for (const std::string& written : {options_.hindcasts, options_.scores})
        if (!written.empty()) fmt::print("written to {}\n", written);
    });
  }

  const Communicator& comm_;
  const Config& config_;
  Run& run_;
  const ScoredReach& reach_;
  const EvaluateOptions& options_;
  const Domain& domain_;
  KspSolver solver_;
  TestForecasts test_;
  ScoredBeside beside_;
  std::vector<ScoredPart> parts_;
  std::vector<Index> part_features_, report_;
  std::vector<std::string> names_{"model"};
  Index against_ = -1;
  std::string run_of_;
  Slices slices_;
  Series series_, climatology_;
  std::optional<Residuals> residuals_;
  std::optional<IntervalErrors> in_intervals_;
  std::unique_ptr<Hindcasts> hindcasts_;
  std::unique_ptr<NodeMoments> of_model_;
};

/// Rank 0: throws UserError where files of results would replace each other or what is read, which `check`
/// looks at.
template <class Check>
void check_outputs(const EvaluateOptions& options, const Check& check) {
  for (const std::string* file : {&options.output, &options.hindcasts, &options.scores}) {
    if (file->empty()) continue;
    refuse_to_replace(*file, options.baselines);
    check(*file);
  }
  const std::pair<const char*, const std::string*> files[] = {
      {"-o", &options.output}, {"--hindcasts", &options.hindcasts}, {"--scores", &options.scores}};
  const auto path = [](const std::string& file) {
    return std::filesystem::absolute(file).lexically_normal();
  };
  for (const auto& [option, file] : files)
    for (const auto& [other, same] : files)
      if (file < same && !file->empty() && !same->empty() && path(*file) == path(*same))
        user_error("{} and {} name the same file {}. Name two different files", option, other, *file);
}

/// After train.refit there is no validation part: the residuals are those of the training that chose the
/// epochs.
template <class T>
std::optional<Residuals> residuals_before_refit(const Communicator& comm, const std::string& run,
                                                const Config& config, const EvaluateOptions& options) {
  const std::string chosen = run + "/chosen";
  if (config.split.validation != "0" || config.evaluate.kind == "rollout") return std::nullopt;
  if (broadcast(comm, comm.rank() == 0 && std::filesystem::exists(state_file_of(chosen)) ? "yes" : "")
          .empty())
    return std::nullopt;
  const OpenRun open = open_run(comm, chosen, {}, options.device, options.accept_changed_data);
  const auto made = make_run<T>(comm, open.config, Purpose::forecasting, nullptr, open.record);
  (void)made->load(open.state, open.other_file, open.accepts);
  return residuals_of(comm, open.config, *made, horizons_of(config, reach_of(config)), chosen);
}

template <class T>
Evaluation evaluate_run(const Communicator& comm, const std::string& run, const OpenRun& open,
                        const EvaluateOptions& options) {
  Destination to{run, run, "", fmt::format("{}, {}", open.config.model.name, run)};
  to.path = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    check_outputs(options, [&](const std::string& file) { (void)open.output(file, ""); });
    return open.output(options.output, open.directory->evaluation_file());
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", open.remark);
  std::optional<Residuals> earlier = residuals_before_refit<T>(comm, run, open.config, options);
  const auto made = make_run<T>(comm, open.config, Purpose::forecasting, nullptr, open.record);
  const DataChanges changes = made->load(open.state, open.other_file, open.accepts);
  if (options.prints && comm.rank() == 0) {
    fmt::print("{}", changes.text);
    if (changes.changed + changes.gone > 0 && open.config.evaluate.baselines)
      fmt::print("remark    baselines are fitted to the current values of the training part\n");
  }
  if (options.prints && comm.rank() == 0 && !made->device_remark().empty())
    fmt::print("{}\n", made->device_remark());
  const ScoredReach reach = reach_of(open.config);
  to.state = open.state;
  return Scoring(comm, open.config, *made, reach, options)
      .evaluate(to, std::move(earlier), open.epochs, changes);
}

Evaluation evaluate_average(const Communicator& comm, const std::string& directory,
                            const EvaluateOptions& options) {
  AverageRun run(comm, directory, options.sets, options.device, options.output);
  const Watch watching(comm, run.config().parallel.watchdog_seconds, directory);
  Destination to{directory, run.members().first_run(), "", run.text()};
  to.path = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    check_outputs(options, [&](const std::string& file) { run.members().expect_output(file); });
    return run.output("evaluation.json");
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", run.remarks());
  const ScoredReach reach{run.horizons(), fmt::format("the average has weights for {}", run.horizons())};
  return Scoring(comm, run.config(), run, reach, options).evaluate(to, std::nullopt, -1, {});
}

/// The classical forecasters that the test part will be scored beside.
std::string baselines_line(const Config& config, const Domain& domain, Index horizons) {
  if (!config.evaluate.baselines) return "";
  std::vector<std::string> names;
  for (const auto& baseline :
       classical_baselines({.horizons = config.evaluate.kind == "rollout" ? 0 : horizons}, &domain.info.time))
    names.emplace_back(baseline->name());
  return fmt::format("baselines {}\n", fmt::join(names, ", "));
}

}  // namespace

std::string check_evaluation(const Config& config, const Domain& domain) {
  const bool rollout = config.evaluate.kind == "rollout";
  const ScoredReach reach = reach_of(config);
  const Index horizons = rollout ? domain.split.test.size() : horizons_of(config, reach);
  if (horizons > 0) (void)reported_horizons(config.evaluate.report, domain.info.time, horizons);
  const Index first = config.evaluate.first_origin, last = config.evaluate.last_origin;
  if (rollout && !domain.split.test.empty()) (void)rollout_of(reach, domain.split);
  if (domain.split.test.empty()) return "";
  if (rollout) return baselines_line(config, domain, horizons);
  if (first >= 0 || last >= 0) (void)domain.split.test_origins(horizons, first, last);
  if (first >= 0 || last >= 0 || !domain.split.origins(Role::test, horizons).empty())
    return baselines_line(config, domain, horizons);
  return fmt::format(
      "warning   the test part has {} steps: 'rossby evaluate' finds no origin in this part with {} "
      "horizons. Lower evaluate.horizons, or lengthen the test part with split.test\n",
      domain.split.test.size(), horizons);
}

Evaluation evaluate(const Communicator& comm, const std::string& run, const EvaluateOptions& options) {
  if (averages(comm, run)) {
    if (options.accept_changed_data)
      user_error(
          "{}: this is an average, but --accept-changed-data works only with runs. Name a member of this "
          "average instead",
          run);
    return as_run(comm, [&](const Communicator& ranks) {
      return or_on_the_cores([&] { return evaluate_average(ranks, run, options); });
    });
  }
  return with_run(comm, run, options.sets, options.device, options.accept_changed_data,
                  [&]<class T>(const Communicator& ranks, const OpenRun& open) {
                    return evaluate_run<T>(ranks, run, open, options);
                  });
}

}  // namespace rossby
