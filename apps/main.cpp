#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

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

/// Adds the commands in the order in which --help lists them.
void add_commands(CLI::App& app, commands::Chosen& chosen) {
  commands::add_train(app, chosen);
  commands::add_evaluate(app, chosen);
  commands::add_forecast(app, chosen);
  commands::add_average(app, chosen);
  commands::add_profile(app, chosen);
  commands::add_relations(app, chosen);
  commands::add_checkpoint(app, chosen);
  CLI::App* data = app.add_subcommand("data", "inspect and make data")->require_subcommand(1);
  commands::add_data_inspect(*data, chosen);
  commands::add_data_synth(*data, chosen);
  commands::add_data_graph(*data, chosen);
  commands::add_graph(app, chosen);
  commands::add_calibrate(app, chosen);
  commands::add_plan(app, chosen);
  commands::add_report(app, chosen);
  commands::add_config(app, chosen);
}

/// True if the arguments, or the files that they name, contain "asynchronous". The thread of asynchronous
/// updates calls MPI, and MPI has to know before the configuration is read.
bool may_be_asynchronous(std::span<char* const> arguments) {
  constexpr std::string_view word = "asynchronous";
  constexpr std::streamsize most = std::streamsize{1} << 20;  // configurations are shorter
  for (const std::string_view argument : arguments) {
    if (argument.find(word) != std::string_view::npos) return true;
    std::error_code code;
    if (!argument.ends_with(".toml") || !std::filesystem::is_regular_file(argument, code)) continue;
    std::ifstream file{std::string(argument)};
    std::string text(most, '\0');
    file.read(text.data(), most);
    if (text.find(word) != std::string::npos) return true;
  }
  return false;
}

int parse_and_run(const Communicator& comm, int argc, char** argv) {
  CLI::App app{
      "Rossby: trains spatio-temporal forecasters on clusters. Start with mpirun or srun for more than one "
      "rank.",
      "rossby"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text());
  commands::Chosen chosen;
  add_commands(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // All ranks have the same arguments: rank 0 prints, every rank leaves.
    if (error.get_exit_code() == 0) return comm.rank() == 0 ? app.exit(error) : 0;
    if (comm.rank() == 0) std::fprintf(stderr, "rossby: %s\n", what_is_wrong(app, error).c_str());
    return 2;
  }
  return chosen(comm);
}

}  // namespace

int main(int argc, char** argv) {
  const FlushSubnormals flush;  // before the first threads start
  const bool threads = may_be_asynchronous({argv, static_cast<std::size_t>(argc)});
  const Environment environment(threads ? ThreadLevel::multiple : ThreadLevel::funneled, false);
  const Communicator comm = environment.world();
  set_up_blas();
  try {
    const int code = parse_and_run(comm, argc, argv);
    if (code == 0) expect_printed(comm);
    return code;
  } catch (const UserError& error) {
    // All ranks throw the same error (agree): one line, one exit code. In a step, a device may fail on some
    // ranks only; the lowest of them then prints.
    end_unless_all_come(comm, error.what());
    if (comm.rank() == 0) std::fprintf(stderr, "rossby: %s\n", error.what());
    return 1;
  } catch (const std::bad_alloc&) {
    abort_all("out of memory. Use more ranks or a smaller problem");
  } catch (const std::exception& error) {
    abort_all(error.what());
  }
}
