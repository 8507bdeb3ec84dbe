#include <cstdlib>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/external_program.hpp"
#include "rossby/run/step_graph_run.hpp"

namespace rossby::commands {
namespace {

struct StepGraphArguments {
  std::string config;
  std::string output;             // .txt, .json, .dot, .svg; empty: text to the console
  bool measure = false;           // compute the steps on the host and time them
  std::vector<std::string> sets;  // --set key=value
};

/// Draws with Graphviz: the program `dot`, or the program that GRAPHVIZ_DOT names. Throws UserError if
/// drawing fails.
void draw(const std::string& dot, const std::string& file) {
  // Absolute paths, so that no name looks like an option.
  const std::string source = std::filesystem::absolute(file).string() + ".dot", drawn = source + ".svg";
  atomic_write(source, dot);
  const std::string command =
      fmt::format("{} -Tsvg -o {} {} 2>/dev/null", quoted(program_named("GRAPHVIZ_DOT", "dot")),
                  quoted(drawn), quoted(source));
  const bool done = std::system(command.c_str()) == 0;
  std::error_code error;
  if (done) std::filesystem::rename(drawn, file, error);
  std::filesystem::remove(source);
  std::filesystem::remove(drawn);
  if (error) user_error("{}: cannot write this file: {}. Name another file with -o", file, error.message());
  if (!done)
    user_error("{}: Graphviz could not draw this file. Install graphviz, or write a .dot file", file);
}

int step_graph(const Communicator& comm, const StepGraphArguments& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (arguments.measure) sets.emplace_back("parallel.device=cpu");
  const Config config = agree(comm, [&] { return Config::load(arguments.config, sets); });
  const std::string ending = std::filesystem::path(arguments.output).extension().string();
  agree(comm, [&] {
    if (arguments.output.empty()) return;
    for (const char* known : {".txt", ".json", ".dot", ".svg"})
      if (ending == known) return;
    user_error("-o {}: unknown kind of file. Use a name that ends with .txt, .json, .dot or .svg",
               arguments.output);
  });
  const auto stages = trace_step_graph(comm, config, arguments.measure);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arguments.output.empty())
      fmt::print("{}", text_of(stages));
    else if (ending == ".svg")
      draw(dot_of(stages), arguments.output);
    else
      atomic_write(arguments.output, ending == ".json"  ? json_of(stages).dump(2) + "\n"
                                     : ending == ".dot" ? dot_of(stages)
                                                        : text_of(stages));
  });
  return 0;
}

}  // namespace

void add_graph(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<StepGraphArguments>();
  StepGraphArguments& a = *arguments;
  auto* g = app.add_subcommand(
      "graph", "show what a training step computes: blocks of the model, shapes, flops, bytes");
  g->add_option("config", a.config, "configuration (TOML)")->required();
  g->add_option("-o,--output", a.output,
                "file to write: .txt, .json, .dot, or .svg (by Graphviz); default: text to the console");
  g->add_flag("--measure", a.measure, "also run the steps on the host, and measure the time of each block");
  add_settings(*g, a.sets, "set a configuration key, for example --set window.batch=16; may be repeated");
  choose(*g, chosen, arguments, step_graph);
}

}  // namespace rossby::commands
