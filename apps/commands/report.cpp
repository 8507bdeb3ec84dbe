#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/average_file.hpp"
#include "rossby/run/compare.hpp"
#include "rossby/run/relations.hpp"
#include "rossby/run/report_drawing.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/run/scaling_report.hpp"
#include "rossby/run/version.hpp"

namespace rossby::commands {
namespace {

struct ScalingArguments {
  std::string folder;           // contains the run directories
  std::string output;           // folder for table.md, scaling.json and plots; empty: table to the console
  std::string kind = "strong";  // strong | weak: for runs without study.json
  double band = -1;             // per cent around predictions; −1: the mean error of the predictions
};

void make_folder(const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (!std::filesystem::is_directory(folder))
    user_error("--output {}: cannot make this folder: {}. Name another folder", folder,
               code ? code.message() : "a file has that name");
}

struct RunArguments {
  std::string run;                 // directory of a run or of an average
  std::string output;              // folder for the page; empty: <run>/report
  std::vector<std::string> nodes;  // nodes whose forecasts are drawn; empty: some
};

struct CompareArguments : CompareOptions {
  std::string output;  // JSON file; empty: none
};

int report_scaling(const Communicator& comm, const ScalingArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const ScalingReport report = make_scaling_report(arguments.folder, arguments.kind);
    const std::string table = markdown_of(report);
    fmt::print("{}", table);
    if (arguments.output.empty()) return;
    const std::string& folder = arguments.output;
    make_folder(folder);
    atomic_write(folder + "/table.md", table);
    atomic_write(folder + "/scaling.json", json_of(report).dump(2) + "\n");
    std::vector<std::string> words{"scaling", folder};
    if (arguments.band >= 0) words.push_back(fmt::format("--band={}", arguments.band));
    const std::vector<std::string> modules{"matplotlib"};
    if (const std::string why = draw_report(find_drawing(modules), words).why; !why.empty())
      fmt::print(stderr, "rossby: warning: no plots in {}: {}; only table.md and scaling.json are written\n",
                 folder, why);
  });
  return 0;
}

/// Returns relations.nc of the run; empty if it is missing or older than the state.
std::string present_relations(const std::string& run) {
  namespace fs = std::filesystem;
  const fs::path file = fs::path(run) / "relations.nc";
  std::error_code none;
  const bool newer = fs::exists(file, none) &&
                     fs::last_write_time(file, none) >= fs::last_write_time(state_file_of(run), none);
  return newer ? file.string() : "";
}

/// Returns the file with the run's learned relations, and writes it if it is missing. Empty if there are
/// none; if writing failed, `why` says why. Collective.
std::string relations_for(const Communicator& comm, const std::string& run, const std::string& folder,
                          std::string& why) {
  const std::string present = broadcast(comm, comm.rank() == 0 ? present_relations(run) : "");
  if (!present.empty()) return present;
  const bool trained =
      !broadcast(comm, comm.rank() == 0 && std::filesystem::exists(state_file_of(run)) && !is_average(run)
                           ? "trained"
                           : "")
           .empty();
  if (!trained) return "";
  RelationOptions options;
  options.output = folder + "/relations.nc";
  options.may_lack = true;
  try {
    return write_relations(comm, run, options);
  } catch (const UserError& error) {  // thrown on all ranks
    why = error.what();
    return "";
  }
}

int report_run(const Communicator& comm, const RunArguments& arguments) {
  const std::string folder = arguments.output.empty() ? arguments.run + "/report" : arguments.output;
  const std::vector<std::string> modules{"matplotlib", "netCDF4"};
  Drawing drawing;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (!std::filesystem::is_directory(arguments.run))
      user_error("{}: the directory does not exist. Name the directory of a run or an average",
                 arguments.run);
    drawing = find_drawing(modules);
    if (!drawing.missing.empty()) user_error("report run: {}", drawing.missing);
    make_folder(folder);
  });
  std::string why;
  const std::string relations = relations_for(comm, arguments.run, folder, why);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    std::vector<std::string> words{"run", arguments.run, "--output=" + folder, "--version=" + version_short(),
                                   "--relations=" + relations};
    if (!why.empty()) words.push_back("--remark=Learned relations are not drawn: " + why);
    for (const std::string& node : arguments.nodes) words.push_back("--node=" + node);
    const Drawn drawn = draw_report(drawing, words);
    if (!drawn.why.empty()) user_error("report run: {}", drawn.why);
    fmt::print("written to {}\n", drawn.line);
  });
  return 0;
}

int report_compare(const Communicator& comm, const CompareArguments& arguments) {
  const Comparison found = compare(comm, arguments);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (!arguments.output.empty()) {
      refuse_to_replace(arguments.output, arguments.forecasters);
      atomic_write(arguments.output, found.json().dump(2) + "\n");
    }
    fmt::print("{}", found.text());
    if (!arguments.output.empty()) fmt::print("\nwritten to {}\n", arguments.output);
  });
  return 0;
}

void add_compare(CLI::App& report, Chosen& chosen) {
  const auto arguments = std::make_shared<CompareArguments>();
  CompareArguments& a = *arguments;
  auto* c =
      report.add_subcommand("compare", "compare several forecasters with the first one, on common origins");
  c->add_option("forecasters", a.forecasters,
                "directories of runs or averages, names of baselines, or NetCDF files of forecasts")
      ->required();
  c->add_option("-o,--output", a.output, "JSON file to write");
  c->add_option("--device", a.device, device_help);
  add_settings(
      *c, a.sets,
      "set a key that does not change the models, such as evaluate.horizons, split.test or data.file");
  choose(*c, chosen, arguments, report_compare);
}

void add_run(CLI::App& report, Chosen& chosen) {
  const auto arguments = std::make_shared<RunArguments>();
  RunArguments& a = *arguments;
  auto* r = report.add_subcommand("run", "make a page with pictures of a run or an average");
  r->add_option("run", a.run, "directory of a run or an average")->required();
  r->add_option("-o,--output", a.output,
                "folder for index.html and its pictures; default: report in the run directory");
  r->add_option("--node", a.nodes,
                "draw the forecast of this node: id, number or latitude,longitude; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  choose(*r, chosen, arguments, report_run);
}

void add_scaling(CLI::App& report, Chosen& chosen) {
  const auto arguments = std::make_shared<ScalingArguments>();
  ScalingArguments& a = *arguments;
  auto* s = report.add_subcommand(
      "scaling", "tabulate speed-up and efficiency of trainings on different numbers of ranks");
  s->add_option("folder", a.folder, "folder that holds the run directories, one or two levels down")
      ->required();
  s->add_option("-o,--output", a.output, "folder for table.md, scaling.json and plots");
  s->add_option("--kind", a.kind, "kind of scaling for runs without a study.json: strong or weak")
      ->check(CLI::IsMember({"strong", "weak"}))
      ->capture_default_str();
  s->add_option(
       "--band", a.band,
       "half width of the error band of predictions, in percent; default: the mean error of the predictions")
      ->check(non_negative_number());
  choose(*s, chosen, arguments, report_scaling);
}

}  // namespace

void add_report(CLI::App& app, Chosen& chosen) {
  auto* report =
      app.add_subcommand("report", "make pictures of a run, and compare runs")->require_subcommand(1);
  add_run(*report, chosen);
  add_compare(*report, chosen);
  add_scaling(*report, chosen);
}

}  // namespace rossby::commands
