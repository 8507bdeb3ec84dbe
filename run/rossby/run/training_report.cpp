#include "rossby/run/training_report.hpp"

#include <cmath>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/io/node_values.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/observed_steps.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/training_options.hpp"

namespace rossby {
namespace {

/// Returns " (1970-01 to 1985-12)"; empty if a part has no steps or the series no dates.
std::string dates_text(const Domain& domain, const StepRange& part) {
  const TimeAxis& time = domain.info.time;
  return part.empty() || !time.dated()
             ? ""
             : fmt::format(" ({} to {})", time.text(part.first), time.text(part.last - 1));
}

/// Names the BLAS kernels if they differ from the BLAS's own choice, or should differ.
void describe_blas() {
  const std::string found = blas_core_found(), used = blas_core(), wanted = wanted_blas_core(used);
  if (used != found)
    fmt::print(
        "blas      kernels for {}: this OpenBLAS does not know the processor, and took it for {}. To choose "
        "other kernels, set OPENBLAS_CORETYPE\n",
        used, found);
  else if (wanted != used && !std::getenv("OPENBLAS_CORETYPE"))
    fmt::print(
        "warning   OpenBLAS uses kernels for {}. For faster kernels on this processor, set "
        "OPENBLAS_CORETYPE={}\n",
        used, wanted);
}

}  // namespace

namespace {

bool goes_without_graph(const Config& config) {
  return config.windows() && config.windows()->supports().kind == Supports::Kind::none;
}

}  // namespace

template <class T>
void describe(const Communicator& comm, ModelRun<T>& run, const Config& config, const std::string& evaluation,
              Reducer& reducer) {
  const int copies = run.grid().groups() * run.grid().stages();
  double sums[4] = {0, 0, static_cast<double>(run.entries()), static_cast<double>(run.unseen_nodes())};
  for (const Parameter<T>* parameter : run.parameters())
    (parameter->placement == Placement::replicated ? sums[0] : sums[1]) +=
        static_cast<double>(parameter->size()) / (parameter->split() ? 1 : copies);
  sums[0] /= run.grid().space().size();
  sums[2] /= copies;
  sums[3] /= copies;
  reducer.sum(sums);
  const std::string threads = different_numbers(comm, run.exec().threads);
  const Domain& domain = run.domain();
  const Index end = last_observed_step(comm, config, domain, domain.info.steps - 1),
              padded = repeated_steps(comm, config, domain, end);
  if (comm.rank() != 0) return;
  fmt::print("data      {}: {} nodes, {} steps, {} feature{}\n", domain.info.path, domain.nodes(),
             domain.info.steps, domain.info.features, domain.info.features == 1 ? "" : "s");
  fmt::print("{}", time_lines(domain.info));
  const std::vector<ValueSummary>& summaries = run.summaries();
  const std::vector<SeriesVariable> variables = domain.variables();
  for (std::size_t v = 0; v < summaries.size(); ++v)
    fmt::print("{}", variable_lines(variables[v], summaries[v], "the training part", domain.role(v)));
  if (!config.data.fixed.empty())
    fmt::print("static    {}{}\n", fmt::join(config.data.fixed, ", "),
               config.data.fixed_file.empty() ? "" : fmt::format(" ({})", config.data.fixed_file));
  for (const std::string& name : config.data.fixed)
    if (matched_by_position(domain.info, name, config.data.fixed_file)) {
      fmt::print(
          "warning   {} (data.static_file): the nodes have no ids and are matched by position with the nodes "
          "of {}. Check that both files have the same order of nodes, or add node ids\n",
          config.data.fixed_file, domain.info.path);
      break;
    }
  if (domain.nodes() < domain.info.file_nodes)
    fmt::print("nodes     {} of {} in the file are used (data.nodes = \"{}\")\n", domain.nodes(),
               domain.info.file_nodes, config.data.nodes);
  fmt::print("split     train {} steps{}, validation {}{}, test {}{}\n", domain.split.training_steps().size(),
             dates_text(domain, domain.split.train), domain.split.validation.size(),
             dates_text(domain, domain.split.validation), domain.split.test.size(),
             dates_text(domain, domain.split.test));
  fmt::print("model     {}, {} parameters, {} relations with {} non-zeros, {}\n", config.model.name,
             count_text(sums[0] + sums[1]), run.relations(), count_text(sums[2]), config.model.precision);
  fmt::print("ranks     {} x {} threads, {}\n", comm.size(), run.exec().threads, to_string(run.exec().isa));
  if (!run.device()) describe_blas();
  fmt::print("{}", run.products_remark());
  if (!threads.empty())
    fmt::print(
        "warning   ranks have different numbers of threads, and reports assume {} on each: {}. Set the same "
        "OMP_NUM_THREADS or parallel.threads on all ranks\n",
        run.exec().threads, threads);
  if (const auto cores = static_cast<int>(std::thread::hardware_concurrency());
      cores > 0 && run.exec().threads > 2 * cores)
    fmt::print(
        "warning   {} threads a rank wait for each other on {} core{}. Lower OMP_NUM_THREADS or "
        "parallel.threads\n",
        run.exec().threads, cores, cores == 1 ? "" : "s");
  const std::string& graph = config.relation.graph;
  if (sums[2] == 0 && graph != "none" && !goes_without_graph(config) && config.relation.storage != "dense" &&
      (run.relations() == 0 || config.relation.mode == "given"))
    fmt::print("warning   the graph has no edges{}. Check relation.graph = \"{}\"\n",
               config.relation.discover == "none" ? ", so that every node is forecast by itself" : "", graph);
  if (sums[3] > 0 && config.data.nodes != "all")
    fmt::print(
        "warning   {} of {} nodes {} a feature without a value in the training part. {} scaled with the "
        "values of all nodes, and forecast with what the model has learned from other nodes\n",
        sums[3], domain.nodes(), sums[3] == 1 ? "has" : "have",
        sums[3] == 1 ? "This node is" : "These nodes are");
  if (copies > 1)
    fmt::print("grid      {} row blocks x {}{} time groups\n", run.grid().space().size(),
               run.grid().stages() > 1 ? fmt::format("{} stages x ", run.grid().stages()) : "",
               run.grid().groups());
  if (!run.device_remark().empty()) fmt::print("{}\n", run.device_remark());
  if (const std::vector<std::string> idle = config.idle(); !idle.empty())
    fmt::print(
        "warning   model.name = \"{}\" does not use these settings: {}. Remove these settings, or choose "
        "another model\n",
        config.model.name, fmt::join(idle, ", "));
  if (padded > 0)
    fmt::print(
        "warning   the {}. Leave these steps out with data.last_step = {} if they are not observations\n",
        repetition_text(domain.info.time, end, padded), config.data.first_step + end - padded + 2);
  fmt::print("{}{}{}", data_remarks(config, domain), run.remarks(), evaluation);
  std::fflush(stdout);
}

namespace {

/// Returns a warning if a longer schedule raises the rate after the shorter one had ended; empty if not.
std::string rise_of_rate(const Config& config, const Checkpoint& checkpoint, Index epoch) {
  if (epoch < 1) return "";
  const Config before =
      Config::parse(checkpoint.metadata->value("config", std::string()), checkpoint.path, {});
  const double then = Schedule(schedule_options(before)).rate(epoch - 1),
               now = Schedule(schedule_options(config)).rate(epoch);
  constexpr double much = 1.05;
  const std::string& name = config.schedule.name;
  if (!(now > much * then) || (name != "cosine" && name != "linear")) return "";
  const ScheduleOptions old = schedule_options(before);
  return fmt::format(
      "          the learning rate rises from {:.3g} to {:.3g}, because the {} schedule is stretched to {} "
      "epochs. To keep the rate low, set schedule.length = {}\n",
      then, now, name, schedule_options(config).epochs, old.epochs);
}

}  // namespace

template <class T>
void report_resumption(const Communicator& comm, const Config& config, const Checkpoint& checkpoint,
                       const Training<T>& training) {
  const TrainingState at = training.state();
  if (comm.rank() != 0) return;
  fmt::print("resumed   {}: after {} steps, in epoch {}\n", training.saved(), at.steps, at.epoch + 1);
  const auto changes = changes_of_learning(config, checkpoint);
  if (!changes.empty()) fmt::print("          from here on with {}\n", fmt::join(changes, ", "));
  fmt::print("{}", rise_of_rate(config, checkpoint, at.epoch));
}

template <class T>
void report_end(const Communicator& comm, const Config& config, const Training<T>& training,
                const TrainingResult& result, bool kept_best, bool validation_seen, double peak,
                const std::string& run) {
  if (comm.rank() != 0) return;
  fmt::print("done      {}: {} epochs, {} steps in {}, at most {} a rank\n", to_string(result.reason),
             result.epochs, result.steps, seconds_text(result.seconds), bytes_text(peak));
  if (training.updates().any()) fmt::print("updates   {}\n", updates_text(training.updates()));
  if (const std::string saves = training.checkpoint_summary(result.seconds); !saves.empty())
    fmt::print("saved     {}\n", saves);
  if (result.best_epoch >= 0 && std::isfinite(result.best_metric))
    fmt::print(
        "best      {} after epoch {}{}\n",
        config.schedule.metric == "validation"
            ? training.validation_text(result.best_metric)
            : fmt::format("{} {:.5g}", config.schedule.metric, result.best_metric),
        result.best_epoch + 1,
        kept_best || result.best_epoch + 1 == result.epochs ? "" : "; the last state is kept (train.keep)");
  else if (result.epochs > 0 && kept_best)
    fmt::print(
        "warning   the {} error was not finite after any epoch. The state of the last epoch is kept. {}\n",
        config.schedule.metric,
        validation_seen
            ? "Try a smaller optimiser.lr"
            : "No target of the validation part is observed: move this part with split.validation");
  fmt::print("state     {}\n", state_file_of(run));
}

#define ROSSBY_INSTANTIATE(T)                                                                             \
  template void describe(const Communicator&, ModelRun<T>&, const Config&, const std::string&, Reducer&); \
  template void report_resumption(const Communicator&, const Config&, const Checkpoint&,                  \
                                  const Training<T>&);                                                    \
  template void report_end(const Communicator&, const Config&, const Training<T>&, const TrainingResult&, \
                           bool, bool, double, const std::string&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
