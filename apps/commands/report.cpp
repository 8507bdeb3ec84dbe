#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/scaling_plots.hpp"
#include "rossby/run/scaling_report.hpp"

namespace rossby::commands {
namespace {

struct ReportArguments {
  std::string folder;           // that the run directories lie in
  std::string output;           // folder for table.md, scaling.json and plots; empty: table to the console
  std::string kind = "strong";  // strong | weak: of runs without study.json
  double band = -1;             // per cent, around predictions; −1: their mean error
};

void make_folder(const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (!std::filesystem::is_directory(folder))
    user_error("--output {}: cannot make this folder: {}", folder,
               code ? code.message() : "a file has that name");
}

int report_scaling(const Communicator& comm, const ReportArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const ScalingReport report = make_scaling_report(arguments.folder, arguments.kind);
    const std::string table = markdown_of(report);
    fmt::print("{}", table);
    if (arguments.output.empty()) return;
    const std::string& folder = arguments.output;
    make_folder(folder);
    const std::vector<std::string> earlier = plots_of_earlier_report(folder);
    atomic_write(folder + "/table.md", table);
    atomic_write(folder + "/scaling.json", json_of(report).dump(2) + "\n");
    std::optional<double> band;
    if (arguments.band >= 0) band = arguments.band / 100;
    const std::string why = write_scaling_plots(report, folder, band, earlier);
    if (!why.empty())
      fmt::print(stderr, "rossby: warning: no plots in {}: {}; table, data and scripts are there\n", folder,
                 why);
  });
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<ReportArguments>();
  ReportArguments& a = *arguments;
  auto* report = app.add_subcommand("report", "tables and plots of several runs")->require_subcommand(1);
  auto* s = report->add_subcommand("scaling", "speed-up and efficiency of trainings on different ranks");
  s->add_option("folder", a.folder, "folder with run directories, one or two levels below it")->required();
  s->add_option("-o,--output", a.output,
                "folder for table.md, scaling.json, plots (by gnuplot), their data and scripts");
  s->add_option("--kind", a.kind, "of runs beside which there is no study.json: strong or weak")
      ->check(CLI::IsMember({"strong", "weak"}))
      ->capture_default_str();
  s->add_option("--band", a.band,
                "half width of the band around predictions, per cent of them; default: their mean error")
      ->check(non_negative_number());
  choose(*s, chosen, arguments, report_scaling);
}

}  // namespace rossby::commands
