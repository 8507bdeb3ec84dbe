#include "rossby/run/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/forecast_file.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/ksp_solver.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/average_run.hpp"
#include "rossby/run/members.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_baselines.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/train/evaluation.hpp"
#include "rossby/train/stnn_task.hpp"

namespace rossby {
namespace {

/// What is scored: origins and horizons of the test part.
struct Test {
  std::vector<Index> origins;
  Index horizons = 0;
  std::string remark = {};  // a line, if files of forecasts lack some of the origins
};

/// How many steps a forecaster can be asked for; what puts it so.
struct Reach {
  Index steps = 0;  // 0: any number
  std::string why = {};
};

Reach reach_of(const Config& config) {
  if (!config.windows()) return {};
  return {config.window.outputs,
          fmt::format("the model puts out window.outputs = {}", config.window.outputs)};
}

/// One rollout over the test part. Throws UserError where the model does not reach its end.
Rollout rollout_of(const Reach& reach, const Split& split) {
  Rollout rollout = rollout_over(split.test);
  if (reach.steps > 0 && rollout.horizons > reach.steps)
    user_error(
        "evaluate.kind = \"rollout\" is one forecast over the whole test part, {} steps, and {}; set "
        "evaluate.kind = \"origins\"",
        rollout.horizons, reach.why);
  return rollout;
}

/// evaluate.horizons, or as many as the model puts out.
Index horizons_of(const Config& config, const Reach& reach) {
  const Index horizons = config.evaluate.horizons;
  return reach.steps > 0 ? std::min(horizons, reach.steps) : horizons;
}

Test test_of(const Config& config, const Reach& reach, const Split& split) {
  if (config.evaluate.kind == "rollout") {
    if (split.test.size() < 1) user_error("evaluate: there is no test part; set split.test");
    Rollout rollout = rollout_of(reach, split);
    return {std::move(rollout.origins), rollout.horizons};
  }
  const Index horizons = horizons_of(config, reach);
  return {split.test_origins(horizons, config.evaluate.first_origin, config.evaluate.last_origin), horizons};
}

/// What is scored beside the model: the classical forecasters, which work in original units, and files.
struct Beside {
  std::vector<std::unique_ptr<Baseline>> baselines;
  std::vector<ForecastFile> files;

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& baseline : baselines) names.emplace_back(baseline->name());
    for (const ForecastFile& file : files) names.push_back(name_of(file.path()));
    return names;
  }

  /// A key of evaluation.json: lower_snake_case.
  static std::string name_of(const std::string& path) {
    std::string name = "file_" + lower_case(std::filesystem::path(path).stem().string());
    for (char& c : name)
      if ((c < 'a' || c > 'z') && (c < '0' || c > '9')) c = '_';
    return name;
  }
};

Beside beside(const Config& config, const KspSolver& solver, const Domain& domain, int threads,
              Index horizons, std::span<const std::string> files) {
  Beside all;
  // One long rollout has no regression for each horizon.
  const Index regressions = config.evaluate.kind == "rollout" ? 0 : horizons;
  if (config.evaluate.baselines)
    all.baselines = run_baselines(config, domain, regressions, threads, solver, domain.info.time);
  for (const std::string& path : files) {
    all.files.push_back(ForecastFile::open(path, domain.info));
    all.files.back().expect_nodes(domain.file_node);
    const std::vector<std::string> names = all.names();
    if (std::count(names.begin(), names.end(), names.back()) > 1)
      user_error("{}: two files of forecasts would be called {} in the tables; rename one", path,
                 names.back());
  }
  return all;
}

/// Adds the errors of the test part to `errors`, and of baselines those of the validation part to `earlier`.
template <class Run>
void add_beside(const Communicator& comm, const Config& config, Run& run, const Test& test,
                const Beside& beside, HorizonErrors& errors, HorizonErrors& earlier) {
  if (beside.baselines.empty() && beside.files.empty()) return;
  const Series series = read_series(comm, config, run.domain());
  const std::vector<Index> validation = run.domain().split.origins(Role::validation, test.horizons);
  int number = 1;
  for (const auto& baseline : beside.baselines) {
    baseline->fit(series, run.domain().split, run.reducer());
    if (!validation.empty())
      baseline->forecast(series, validation, test.horizons, run.reducer(),
                         [&](Index horizon, NodeView<const float> x) {
                           earlier.add<float>(number, horizon, x, series, validation);
                         });
    baseline->forecast(series, test.origins, test.horizons, run.reducer(),
                       [&](Index horizon, NodeView<const float> x) {
                         errors.add<float>(number, horizon, x, series, test.origins);
                       });
    ++number;
  }
  const std::span<const Index> origins(test.origins);
  for (const ForecastFile& file : beside.files) {
    forecast_from_file(comm, file, run.domain(), origins, test.horizons,
                       [&](Index first, Index horizon, NodeView<const float> x) {
                         errors.add<float>(number, horizon, x, series,
                                           origins.subspan(static_cast<std::size_t>(first),
                                                           static_cast<std::size_t>(x.cols)));
                       });
    ++number;
  }
}

void drop_relative(HorizonScores& scores) {
  for (double& value : scores.mape_percent) value = std::numeric_limits<double>::quiet_NaN();
  for (double& count : scores.ratio_count) count = 0;
}

/// What is scored on its own: each of several variables, or each of the features that the one has.
struct Part {
  const SeriesVariable* variable;
  Index features;
  std::string feature = {};  // of one, what it is called: its coordinate, or its number

  [[nodiscard]] std::string units() const { return variable->units.empty() ? "1" : variable->units; }
};

std::vector<Part> parts_of(const Domain& domain) {
  constexpr Index most_features = 32;
  std::vector<Part> parts;
  const auto& variables = domain.info.variables;
  const SeriesVariable& only = variables.front();
  if (variables.size() > 1)
    for (const SeriesVariable& variable : variables) parts.push_back({&variable, variable.features});
  else if (only.features > 1 && only.features <= most_features)
    for (Index f = 0; f < only.features; ++f) {
      const auto place = static_cast<std::size_t>(f);
      const bool labelled = place < only.feature_labels.size() && !only.feature_labels[place].empty();
      parts.push_back({&only, 1, labelled ? only.feature_labels[place] : std::to_string(f)});
    }
  return parts;
}

/// Tables of each part, if they are few, and of all together, or of the one that there is.
std::string tables_of(const Domain& domain, const std::vector<Part>& parts,
                      const std::vector<HorizonScores>& of_parts, const HorizonScores& scores,
                      std::span<const Lead> leads, std::span<const Index> report) {
  constexpr std::size_t few_features = 4;
  const std::string units = units_of(domain.info), all = evaluation_table(scores, units, leads, report);
  const SeriesVariable& first = domain.info.variables.front();
  if (parts.empty())
    return (first.features > 1 ? fmt::format("the {} features of {} together\n", first.features, first.name)
                               : "") +
           all;
  const bool of_features = !parts.front().feature.empty();
  std::string text;
  for (std::size_t p = 0; p < parts.size() && !(of_features && parts.size() > few_features); ++p)
    text += (of_features
                 ? fmt::format("{}, {} {}\n", first.name,
                               first.feature_name.empty() ? "feature" : first.feature_name, parts[p].feature)
                 : fmt::format("variable {}\n", parts[p].variable->name)) +
            evaluation_table(of_parts[p], parts[p].units(), leads, report) + "\n";
  if (of_features)
    return text + fmt::format(
                      "all {} features of {} together: where their units differ, those with large "
                      "values rule{}\n{}",
                      first.features, first.name, text.empty() ? "; each by itself is in the file" : "", all);
  return text + fmt::format(
                    "all variables together{}\n{}",
                    units == "mixed" ? ", though their units differ: those with large values rule" : "", all);
}

/// What was found, on its way to file and console.
struct Found {
  const Domain& domain;
  const Test& test;
  std::vector<Part> parts;
  HorizonScores scores;
  std::vector<HorizonScores> of_parts;
  std::vector<Lead> leads;
  Index chosen = -1;  // the baseline with the smallest mean RMSE of the validation part; -1: there is none
  Index epochs = -1;  // of the run's state; -1: it does not say
  PairedSkill paired = {};   // against that
  DataChanges changes = {};  // of the training part, if they were accepted

  [[nodiscard]] bool seen() const {
    return std::any_of(test.origins.begin(), test.origins.end(),
                       [&](Index origin) { return domain.split.reaches_training(origin, test.horizons); });
  }

  [[nodiscard]] nlohmann::ordered_json json() const {
    const TimeAxis& time = domain.info.time;
    nlohmann::ordered_json all = evaluation_json(scores, units_of(domain.info), leads);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      nlohmann::ordered_json part{{"variable", parts[p].variable->name}};
      if (!parts[p].feature.empty()) part["feature"] = parts[p].feature;
      part.update(evaluation_json(of_parts[p], parts[p].units(), leads));
      all["variables"].push_back(std::move(part));
    }
    if (chosen >= 0) {
      nlohmann::ordered_json& against = all["skill"]["validated"];
      against["baseline"] = scores.names[static_cast<std::size_t>(chosen)];
      const auto figure = [](double x) { return std::isfinite(x) ? nlohmann::ordered_json(x) : nullptr; };
      against["rmse"] = figure(paired.skill);
      against["interval"] = {{"low", figure(paired.low)}, {"high", figure(paired.high)}};
      against["block"] = paired.block;
    }
    if (epochs >= 0) all["state"] = {{"epochs", epochs}};
    all["data"] = {{"file", domain.info.path},
                   {"first_origin", time.text(test.origins.front())},
                   {"last_origin", time.text(test.origins.back())},
                   {"origins", test.origins.size()},
                   {"seen", seen()}};
    if (changes.changed + changes.gone > 0)
      all["data"]["accepted"] = {{"changed_steps", changes.changed}, {"missing_steps", changes.gone}};
    return all;
  }
};

/// "+3.1 % (95 % interval +1.0 to +5.2 %): better".
std::string paired_text(const PairedSkill& paired) {
  const auto share = [](double x) { return fmt::format("{:+.1f}", 100 * x); };
  if (!std::isfinite(paired.low)) return share(paired.skill) + " %, too few origins for an interval";
  return fmt::format("{} % (95 % interval {} to {} %): {}", share(paired.skill), share(paired.low),
                     share(paired.high),
                     paired.tie()     ? "a tie"
                     : paired.low > 0 ? "better"
                                      : "worse");
}

/// Remarks that come before the tables.
void print_remarks(const Config& config, const Reach& reach, const Test& test, const Beside& beside) {
  for (const auto& baseline : beside.baselines)
    if (const std::string remark = baseline->remark(); !remark.empty()) fmt::print("{}\n", remark);
  fmt::print("{}", test.remark);
  if (config.evaluate.kind != "rollout" && test.horizons < config.evaluate.horizons)
    fmt::print("evaluate.horizons = {}: {} steps, which are scored\n", config.evaluate.horizons, reach.why);
}

void print_tables(const Found& found, std::span<const Index> report, const std::string& path) {
  const TimeAxis& time = found.domain.info.time;
  const std::vector<Index>& origins = found.test.origins;
  if (found.seen())
    fmt::print("warning: forecasts of the training part are among them, which the model has seen\n");
  fmt::print("{} origins from {} to {}\n{}", origins.size(), time.text(origins.front()),
             time.text(origins.back()),
             tables_of(found.domain, found.parts, found.of_parts, found.scores, found.leads, report));
  if (found.chosen >= 0)
    fmt::print("against {}, the baseline with the smallest mean RMSE of the validation part: {}\n",
               found.scores.names[static_cast<std::size_t>(found.chosen)], paired_text(found.paired));
  fmt::print("\nwritten to {}\n", path);
}

/// Scores a run, or what looks like one: a ModelRun or an AverageRun.
template <class Run>
Evaluation score(const Communicator& comm, const Config& config, Run& run, const Reach& reach,
                 const std::string& path, const EvaluateOptions& options, Index epochs = -1,
                 const DataChanges& changes = {}) {
  const Domain& domain = run.domain();
  const KspSolver solver(comm);
  Test test = agree(comm, [&] { return test_of(config, reach, domain.split); });
  const Beside others = agree(comm, [&] {
    return beside(config, solver, domain, run.exec().threads, test.horizons, options.baselines);
  });
  agree(comm, [&] {
    test.origins = run.usable(std::move(test.origins), test.horizons);
    if constexpr (requires { run.remark(); }) test.remark = run.remark();
    std::vector<const ForecastFile*> files;
    for (const ForecastFile& file : others.files) files.push_back(&file);
    test.origins =
        origins_of_files(files, domain.info.time, std::move(test.origins), test.horizons, test.remark);
  });
  const TimeAxis& time = domain.info.time;
  const auto report =
      agree(comm, [&] { return reported_horizons(config.evaluate.report, time, test.horizons); });

  std::vector<std::string> names{"model"};
  for (std::string& name : others.names()) names.push_back(std::move(name));
  Found found{domain, test, parts_of(domain), {}, {}, {}};
  found.epochs = epochs;
  found.changes = changes;
  std::vector<Index> part_features;
  for (const Part& part : found.parts) part_features.push_back(part.features);
  HorizonErrors errors(names, test.horizons, part_features, run.exec().threads);
  HorizonErrors earlier(names, test.horizons, {}, run.exec().threads);
  const std::span<const Index> origins(test.origins);
  errors.keep_origins(origins);
  in_exchanges(comm, [&] { run.add_errors(errors, origins, test.horizons); });
  add_beside(comm, config, run, test, others, errors, earlier);
  found.scores = errors.reduce(run.reducer());
  found.chosen = earlier.reduce(run.reducer()).best_baseline();
  if (found.chosen >= 0)
    found.paired = paired_skill(errors.reduce_origins(0, run.reducer()),
                                errors.reduce_origins(found.chosen, run.reducer()));
  if (!found.parts.empty()) found.of_parts = errors.reduce_parts(run.reducer());
  if (!domain.centers.empty()) {  // of values whose offset is subtracted there are no relative errors
    drop_relative(found.scores);
    for (HorizonScores& part : found.of_parts) drop_relative(part);
  }
  found.leads = horizon_leads(time, origins, test.horizons);

  const Stage stage(comm, "writing the evaluation", patience_with_files);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (options.prints) print_remarks(config, reach, test, others);
    atomic_write(path, found.json().dump(2) + "\n");
    if (options.prints) print_tables(found, report, path);
  });
  return {broadcast(comm, path), std::move(found.scores)};
}

template <class T>
Evaluation evaluate_run(const Communicator& comm, const OpenRun& open, const EvaluateOptions& options) {
  const std::string path = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    if (!options.output.empty()) refuse_to_replace(options.output, options.baselines);
    return open.output(options.output, open.directory->evaluation_file());
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", open.remark);
  const auto made = make_run<T>(comm, open.config, Purpose::forecasting, nullptr, open.record);
  const DataChanges changes = made->load(open.state, open.other_file, open.accepts);
  if (options.prints && comm.rank() == 0) {
    fmt::print("{}", changes.text);
    if (changes.changed + changes.gone > 0 && open.config.evaluate.baselines)
      fmt::print("remark    baselines are fitted to the training part as it is now\n");
  }
  if (options.prints && comm.rank() == 0 && !made->device_remark().empty())
    fmt::print("{}\n", made->device_remark());
  return score(comm, open.config, *made, reach_of(open.config), path, options, open.epochs, changes);
}

Evaluation evaluate_average(const Communicator& comm, const std::string& directory,
                            const EvaluateOptions& options) {
  AverageRun run(comm, directory, options.sets, options.device, options.output);
  const Watch watching(comm, run.config().parallel.watchdog_seconds, directory);
  const std::string path = agree(comm, [&] {
    if (comm.rank() != 0) return std::string();
    if (!options.output.empty()) refuse_to_replace(options.output, options.baselines);
    return run.output("evaluation.json");
  });
  if (options.prints && comm.rank() == 0) fmt::print("{}", run.remarks());
  const Reach reach{run.horizons(), fmt::format("the average has weights for {}", run.horizons())};
  return score(comm, run.config(), run, reach, path, options);
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
  const Reach reach = reach_of(config);
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
      "warning   the test part has {} steps: 'rossby evaluate' finds no origin in it with {} horizons "
      "(evaluate.horizons)\n",
      domain.split.test.size(), horizons);
}

Evaluation evaluate(const Communicator& comm, const std::string& run, const EvaluateOptions& options) {
  if (averages(comm, run)) {
    if (options.accept_changed_data)
      user_error("{}: an average; --accept-changed-data is of a run: name one of its members", run);
    return as_run(comm, [&](const Communicator& ranks) {
      return or_on_the_cores([&] { return evaluate_average(ranks, run, options); });
    });
  }
  return with_run(comm, run, options.sets, options.device, options.accept_changed_data,
                  [&]<class T>(const Communicator& ranks, const OpenRun& open) {
                    return evaluate_run<T>(ranks, open, options);
                  });
}

}  // namespace rossby
