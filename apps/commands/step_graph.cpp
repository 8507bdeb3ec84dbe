#include "rossby/plan/step_graph.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "apps/external_program.hpp"
#include "apps/model_run.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

template <class T>
StepGraph trace(const Communicator& comm, const Config& config, bool measure) {
  constexpr int repeats = 5;
  const auto run = make_run<T>(comm, config, measure ? Purpose::training : Purpose::tracing);
  const auto task = run->make_task();
  Optimiser<T> optimiser(optimiser_options(config), run->parameters(), run->device());
  StepGraph graph = trace_steps<T>(*task, optimiser, run->reducer(), config.real("optimiser.clip"),
                                   run->training_exec(), run->time_groups(), measure ? repeats : 0);
  graph.model = config.text("model.name");
  graph.ranks = comm.size();
  return graph;
}

/// Graphviz draws it: the program `dot`, or the one that GRAPHVIZ_DOT names. Throws UserError where there is
/// none.
void draw(const std::string& dot, const std::string& file) {
  // Whole path names: none of them begins like an option.
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
  if (error) user_error("{}: {}", file, error.message());
  if (!done) user_error("{}: Graphviz could not draw it; install graphviz, or write a .dot file", file);
}

}  // namespace

int step_graph(const Communicator& comm, const StepGraphFile& arguments) {
  std::vector<std::string> sets = arguments.sets;
  if (arguments.measure) sets.emplace_back("parallel.device=cpu");
  const Config config = agree(comm, [&] { return Config::load(arguments.config, sets); });
  const std::string ending = std::filesystem::path(arguments.output).extension().string();
  agree(comm, [&] {
    if (arguments.output.empty()) return;
    for (const char* known : {".txt", ".json", ".dot", ".svg"})
      if (ending == known) return;
    user_error("-o {}: its ending must be .txt, .json, .dot or .svg", arguments.output);
  });
  const bool is_double = config.text("model.precision") == "double";
  const StepGraph graph = is_double ? trace<double>(comm, config, arguments.measure)
                                    : trace<float>(comm, config, arguments.measure);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arguments.output.empty())
      fmt::print("{}", text_of(graph));
    else if (ending == ".svg")
      draw(dot_of(graph), arguments.output);
    else
      atomic_write(arguments.output, ending == ".json"  ? json_of(graph).dump(2) + "\n"
                                     : ending == ".dot" ? dot_of(graph)
                                                        : text_of(graph));
  });
  return 0;
}

}  // namespace rossby::commands
