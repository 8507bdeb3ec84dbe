#include <cstdio>
#include <exception>
#include <functional>
#include <new>

#include <CLI/CLI.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/error.hpp"
#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/blas_setup.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/version.hpp"

namespace {

using namespace rossby;

void define_graph(CLI::App& data, std::function<int(const Communicator&)>& chosen, commands::Graph& graph) {
  auto* g = data.add_subcommand("graph", "make a graph for the nodes of a series, which relation.file reads");
  g->add_option("file", graph.file, "NetCDF-4/CF file with the series")->required();
  g->add_option(
       "--from", graph.from,
       "distances: a table of source,destination,distance, or edge_distance of the file, through a Gaussian "
       "kernel; coordinates: k nearest nodes; correlation: of the training part; edges: a table of "
       "source,destination[,weight]; matrix: a table of n x n weights")
      ->required()
      ->check(CLI::IsMember({"distances", "coordinates", "correlation", "edges", "matrix"}));
  g->add_option("-o,--output", graph.output, "file to write")->required();
  g->add_option("--table", graph.table, "file of comma-separated values");
  g->add_option("--ids", graph.ids,
                "variable with the names that the table uses; default: node numbers from 0");
  g->add_flag("--skip-unknown", graph.skip_unknown, "leave out lines of the table with unknown nodes");
  g->add_option("--threshold", graph.threshold,
                "smallest weight; default: 0.1, for correlations 0.5, or 0 with --neighbours")
      ->check(non_negative_number());
  g->add_option(
       "--sigma", graph.sigma,
       "width of the Gaussian kernel, in the unit of the distances; default: their standard deviation")
      ->check(non_negative_number());
  g->add_option("--neighbours", graph.neighbours,
                "nearest (default: 8) or most correlated nodes of each node")
      ->check(whole_number(1));
  g->add_option("--kernel", graph.kernel,
                "weights of coordinates: none: 1; gaussian: of kilometres; default: none")
      ->check(CLI::IsMember({"none", "gaussian"}));
  g->add_option("--variable", graph.variable, "variable to correlate; default: the only one that fits");
  g->add_option("--null-value", graph.null_value, "a number that stands for a missing value");
  g->add_option("--train", graph.train, "training part, as split.train; default: 0.7");
  g->add_option("--first-step", graph.first_step, "first step used, as data.first_step")
      ->check(whole_number(0));
  g->add_option("--last-step", graph.last_step, "one past the last step used, as data.last_step")
      ->check(whole_number(0));
  g->add_option("--overlap", graph.overlap,
                "fewest steps that two correlated nodes have in common; default: 30")
      ->check(whole_number(2));
  g->add_flag("--symmetric", graph.symmetric, "both directions of every edge, with the larger weight");
  g->callback([&] { chosen = [&](const Communicator& comm) { return commands::graph(comm, graph); }; });
}

void define_data(CLI::App& app, std::function<int(const Communicator&)>& chosen, commands::Inspect& inspect,
                 commands::Synth& synth, commands::Graph& graph) {
  auto* data = app.add_subcommand("data", "look at data, make data")->require_subcommand(1);
  auto* i = data->add_subcommand("inspect", "describe a NetCDF series");
  i->add_option("file", inspect.file, "NetCDF-4/CF file")->required();
  i->add_option("--variable", inspect.variables,
                "variable to describe; may be repeated; default: all that fit")
      ->take_all()
      ->allow_extra_args(false);
  i->add_option("--null-value", inspect.null_value, "a number that stands for a missing value");
  i->callback([&] { chosen = [&](const Communicator& comm) { return commands::inspect(comm, inspect); }; });
  auto* s = data->add_subcommand("synth", "write a synthetic series");
  s->add_option("--kind", synth.kind,
                "pacific: a sea surface temperature; heat: diffusion with known relations")
      ->check(CLI::IsMember({"pacific", "heat"}))
      ->capture_default_str();
  s->add_option("--lat", synth.lat, "rows of the grid")->check(whole_number(1))->capture_default_str();
  s->add_option("--lon", synth.lon, "columns of the grid")->check(whole_number(1))->capture_default_str();
  s->add_option("--steps", synth.steps, "time steps")->check(whole_number(1))->capture_default_str();
  s->add_option("--seed", synth.seed, "seed")->check(whole_number(0))->capture_default_str();
  s->add_option("--noise", synth.noise, "standard deviation of the noise; default: the kind's own")
      ->check(non_negative_number());
  s->add_option("-o,--output", synth.output, "file to write")->required();
  s->callback([&] { chosen = [&](const Communicator& comm) { return commands::synth(comm, synth); }; });
  define_graph(*data, chosen, graph);
}

/// Defines the subcommands up to data; `chosen` becomes the one on the command line.
void define(CLI::App& app, std::function<int(const Communicator&)>& chosen, commands::Train& train,
            commands::StateFile& checkpoint, commands::Evaluate& evaluate, commands::Forecast& forecast) {
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  const char* set_help = "set a configuration key, for example --set train.epochs=20; may be repeated";

  auto* t = app.add_subcommand("train", "train a model and keep its state in a run directory");
  t->add_option("config", train.config, "configuration (TOML); 'rossby config' lists the keys")->required();
  t->add_option("--run", train.run, "run directory, made if it is not there")->required();
  t->add_option(
       "--resume", train.resume,
       "auto: go on from the newest good checkpoint in the run directory, if there is one; never; or a "
       "checkpoint's file")
      ->capture_default_str();
  t->add_option("--stop-after", train.stop_after,
                "write a checkpoint and leave with exit code 75 after so much time, for example 1h50m");
  t->add_option("--device", train.device, "what trains: auto, cpu, cuda (parallel.device)");
  t->add_option(
      "--machine", train.machine,
      "measurements of 'rossby calibrate': predicts the training, and holds it against what it takes");
  t->add_option(
       "--plan", train.plan,
       "given: as configured; auto: as the candidate that is predicted to be fastest (needs --machine): "
       "process grid, "
       "parallel.entry_cost, relation.memory and, for windows, train.recompute and stages with their "
       "window.micro_batches, of those that are not set")
      ->check(CLI::IsMember({"given", "auto"}));
  t->add_option("--device-memory", train.device_memory,
                "most memory of a GPU that a rank takes, for example 4GiB (parallel.device_memory)");
  add_settings(*t, train.sets, set_help);
  t->callback([&] { chosen = [&](const Communicator& comm) { return commands::train(comm, train); }; });

  const char* device_help =
      "what forecasts: auto, cpu, cuda; default: what the run was trained on, without a GPU the cores";
  auto* e =
      app.add_subcommand("evaluate", "score a trained model and the classical baselines on the test part");
  e->add_option("run", evaluate.run, "run directory")->required();
  e->add_option("-o,--output", evaluate.output,
                "file to write; default: evaluation.json in the run directory");
  e->add_option("--device", evaluate.device, device_help);
  add_settings(
      *e, evaluate.sets,
      "set a key that does not change the model, such as evaluate.horizons, or data.file, for data that "
      "have gone on");
  e->callback([&] { chosen = [&](const Communicator& comm) { return commands::evaluate(comm, evaluate); }; });

  auto* f = app.add_subcommand("forecast", "write a forecast as CF NetCDF");
  f->add_option("run", forecast.run, "run directory")->required();
  f->add_option("--steps", forecast.steps, "steps to forecast")->required()->check(whole_number(1));
  f->add_option("--origin", forecast.origin,
                "date of the last known values (where the data have no dates, their value of the time axis); "
                "default: the last "
                "of the data");
  f->add_option("-o,--output", forecast.output, "file to write; default: forecast.nc in the run directory");
  f->add_option("--device", forecast.device, device_help);
  add_settings(
      *f, forecast.sets,
      "set a key that does not change the model, such as relation.stream_folder, or data.file, for data "
      "that have gone on");
  f->callback([&] { chosen = [&](const Communicator& comm) { return commands::forecast(comm, forecast); }; });

  auto* k = app.add_subcommand("checkpoint", "look at checkpoints and state files")->require_subcommand(1);
  auto* ki = k->add_subcommand("inspect", "say what a file holds");
  ki->add_option("file", checkpoint.file, "checkpoint or state file")->required();
  ki->add_flag("--json", checkpoint.json, "as JSON");
  ki->callback([&] {
    chosen = [&](const Communicator& comm) { return commands::checkpoint_inspect(comm, checkpoint); };
  });
  auto* kv = k->add_subcommand("verify", "hold every checksum of a file against its values");
  kv->add_option("file", checkpoint.file, "checkpoint or state file")->required();
  kv->callback([&] {
    chosen = [&](const Communicator& comm) { return commands::checkpoint_verify(comm, checkpoint); };
  });
}

void define_config(CLI::App& app, std::function<int(const Communicator&)>& chosen,
                   commands::PrintConfig& config) {
  auto* c = app.add_subcommand("config", "print every configuration key with default, unit and meaning");
  c->add_option("config", config.config, "print this file's resolved configuration instead");
  add_settings(*c, config.sets,
               "set a configuration key, for example --set train.epochs=20; may be repeated");
  c->callback(
      [&] { chosen = [&](const Communicator& comm) { return commands::print_config(comm, config); }; });
}

void define_step_graph(CLI::App& app, std::function<int(const Communicator&)>& chosen,
                       commands::StepGraphFile& graph) {
  auto* g =
      app.add_subcommand("graph", "what a training step computes: blocks of the model, shapes, flops, bytes");
  g->add_option("config", graph.config, "configuration (TOML)")->required();
  g->add_option("-o,--output", graph.output,
                "file to write: .txt, .json, .dot, or .svg (by Graphviz); default: text to the console");
  g->add_flag("--measure", graph.measure, "compute the steps on the host, and time their blocks");
  add_settings(*g, graph.sets, "set a configuration key, for example --set window.batch=16; may be repeated");
  g->callback([&] { chosen = [&](const Communicator& comm) { return commands::step_graph(comm, graph); }; });
}

void define_plan(CLI::App& app, std::function<int(const Communicator&)>& chosen,
                 commands::Calibrate& calibrate, commands::PlanTraining& plan) {
  auto* c = app.add_subcommand("calibrate", "measure this machine, under all ranks, for 'rossby plan'");
  c->add_option("-o,--output", calibrate.output, "file (JSON) to write, or to add to")->required();
  c->add_option("--config", calibrate.configs,
                "a training of yours (TOML) to measure beside the built-in ones; may be repeated");
  c->add_option(
       "--precision", calibrate.precision,
       "of the built-in trainings: float or double; tf32, bf16: float on GPUs whose products are of operands "
       "rounded to that")
      ->check(CLI::IsMember({"float", "double", "tf32", "bf16"}));
  c->add_option(
       "--device", calibrate.device,
       "measured beside the host: cuda, simulated (for tests), none; auto: GPUs, where there are some")
      ->check(CLI::IsMember({"auto", "none", "cuda", "simulated"}))
      ->capture_default_str();
  c->add_option("--only", calibrate.only,
                "measure ops, messages or rates of the host alone, or all of its devices, for example "
                "messages over the "
                "hosts of a network; may be repeated")
      ->check(CLI::IsMember({"ops", "messages", "rates", "device"}));
  c->add_flag("--replace", calibrate.replace, "forget what the file holds, instead of adding to it");
  c->add_flag("--quick", calibrate.quick, "a few small cases for a moment each: to try it out");
  c->callback(
      [&] { chosen = [&](const Communicator& comm) { return commands::calibrate(comm, calibrate); }; });

  auto* p = app.add_subcommand("plan", "predict what a training will take on a measured machine");
  auto* config = p->add_option("config", plan.config, "configuration (TOML)");
  auto* machine = p->add_option("--machine", plan.machine, "measurements of 'rossby calibrate'");
  auto* output = p->add_option("-o,--output", plan.output, "file (JSON) to write");
  auto* candidates = p->add_flag("--candidates", plan.candidates,
                                 "every process grid of these ranks, cut of the rows, place of dense "
                                 "relations and, for windows, train.recompute "
                                 "and stages with their micro-batches: which is fastest");
  auto* ranks = p->add_option(
      "--ranks", plan.ranks,
      "candidates for jobs of so many ranks, which need not be there: 1,2,6 or 1..1024 (powers of two)");
  p->add_option("--ranks-per-host", plan.ranks_per_host,
                "of those ranks; default: the most that were measured")
      ->check(CLI::Range(1, 1 << 16))
      ->needs(ranks);
  p->add_option("--vary", plan.vary,
                "candidates with each of these values, for example window.batch=32,64,128; may be repeated");
  auto* target =
      p->add_option("--target-batch", plan.target_batch,
                    "refuse candidates whose batch is far from this (windows, pairs or slab steps)")
          ->check(CLI::PositiveNumber)
          ->check(non_negative_number());  // nan passes for positive
  p->add_option("--tolerance", plan.tolerance, "how far, as a share of the target")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->needs(target);
  auto* what_if = p->add_option(
      "--what-if", plan.what_if,
      "beside it, the plan for a machine with network, latency, memory, compute or transfer (to "
      "devices) so many times as fast, in another precision, or with the GPUs that another machine "
      "was measured with, for example network=2x,memory=2x,precision=bf16,gpu=h200.json");
  auto* check =
      p->add_option("--check", plan.check, "run directories: their predictions against what was measured");
  p->add_flag("--regions", plan.regions, "with --check: where in the step they differ")->needs(check);
  auto* residuals =
      p->add_flag("--residuals", plan.residuals,
                  "instead: by how much each op's polynomial, and interpolation, miss what was measured");
  add_settings(*p, plan.sets, "set a configuration key, for example --set model.latent=8; may be repeated");
  check->excludes(config)
      ->excludes(output)
      ->excludes(machine)
      ->excludes(ranks)
      ->excludes(candidates)
      ->excludes(residuals)
      ->excludes(what_if);
  residuals->excludes(config)->excludes(ranks)->excludes(what_if);
  p->callback([&, config, machine, check, ranks] {
    if (!*check && !*config && !plan.residuals) throw CLI::RequiredError("config, --check or --residuals");
    if (*ranks && plan.ranks.empty())
      throw CLI::ValidationError("--ranks", "give whole numbers, as 1,2,6 or 1..1024");
    if (!*check && !*machine) throw CLI::RequiredError("--machine");
    chosen = [&](const Communicator& comm) { return commands::plan(comm, plan); };
  });
}

void define_report(CLI::App& app, std::function<int(const Communicator&)>& chosen,
                   commands::ReportScaling& scaling) {
  auto* report = app.add_subcommand("report", "tables and plots of several runs")->require_subcommand(1);
  auto* s = report->add_subcommand("scaling", "speed-up and efficiency of trainings on different ranks");
  s->add_option("folder", scaling.folder, "folder with run directories, one or two levels below it")
      ->required();
  s->add_option("-o,--output", scaling.output,
                "folder for table.md, scaling.json, plots (by gnuplot), their data and scripts");
  s->add_option("--kind", scaling.kind, "of runs beside which there is no study.json: strong or weak")
      ->check(CLI::IsMember({"strong", "weak"}))
      ->capture_default_str();
  s->add_option("--band", scaling.band,
                "half width of the band around predictions, per cent of them; default: their mean error")
      ->check(non_negative_number());
  s->callback(
      [&] { chosen = [&](const Communicator& comm) { return commands::report_scaling(comm, scaling); }; });
}

int parse_and_run(const Communicator& comm, int argc, char** argv) {
  CLI::App app{
      "Rossby: trains spatio-temporal forecasters on clusters. Start with mpirun or srun for more than one "
      "rank.",
      "rossby"};
  std::function<int(const Communicator&)> chosen;
  commands::Train train;
  commands::StateFile checkpoint;
  commands::Evaluate evaluate;
  commands::Forecast forecast;
  commands::Inspect inspect;
  commands::Synth synth;
  commands::Graph graph;
  commands::StepGraphFile step_graph;
  commands::Calibrate calibrate;
  commands::PlanTraining plan;
  commands::ReportScaling scaling;
  commands::PrintConfig config;
  define(app, chosen, train, checkpoint, evaluate, forecast);
  define_data(app, chosen, inspect, synth, graph);
  define_step_graph(app, chosen, step_graph);
  define_plan(app, chosen, calibrate, plan);
  define_report(app, chosen, scaling);
  define_config(app, chosen, config);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Every rank sees the same arguments: one speaks, all leave.
    if (error.get_exit_code() == 0) return comm.rank() == 0 ? app.exit(error) : 0;
    if (comm.rank() == 0) std::fprintf(stderr, "rossby: %s\n", what_is_wrong(app, error).c_str());
    return 2;
  }
  return chosen(comm);
}

}  // namespace

int main(int argc, char** argv) {
  const FlushSubnormals flush;  // before the first threads start
  const Environment environment;
  const Communicator comm = environment.world();
  set_up_blas();
  try {
    const int code = parse_and_run(comm, argc, argv);
    if (code == 0) expect_printed(comm);
    return code;
  } catch (const UserError& error) {
    // Thrown by all ranks alike (agree): one line, one exit code. But a device may fail some of them in a
    // step: the lowest one speaks.
    end_unless_all_come(error.what());
    if (comm.rank() == 0) std::fprintf(stderr, "rossby: %s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    abort_all("out of memory; use more ranks or a smaller problem");
  } catch (const std::exception& error) {
    abort_all(error.what());
  }
}
