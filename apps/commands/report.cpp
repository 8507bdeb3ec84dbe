#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/scaling_plots.hpp"
#include "rossby/run/scaling_report.hpp"

namespace rossby::commands {
namespace {

void make_folder(const std::string& folder) {
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (!std::filesystem::is_directory(folder))
    user_error("--output {}: cannot make this folder: {}", folder,
               code ? code.message() : "a file has that name");
}

}  // namespace

int report_scaling(const Communicator& comm, const ReportScaling& arguments) {
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

}  // namespace rossby::commands
