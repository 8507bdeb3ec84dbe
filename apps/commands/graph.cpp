#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/plan/step_graph.hpp"
#include "rossby/run/external_program.hpp"
#include "rossby/run/model_run.hpp"

namespace rossby::commands {
namespace {

/// On rank 0 those of all stages with its rows and times. Collective.
std::vector<StepGraph> stages_of(const ProcessGrid& grid, const StepGraph& mine) {
  if (grid.stages() == 1) return {mine};
  const std::string text = json_of(std::vector{mine}).dump();
  std::vector<std::vector<std::byte>> letters(static_cast<std::size_t>(grid.stages()));
  letters.front().resize(text.size());
  std::memcpy(letters.front().data(), text.data(), text.size());
  std::vector<StepGraph> stages;
  for (const auto& letter : MpiMailbox(grid.pipeline()).swap(std::move(letters))) {
    if (letter.empty()) continue;
    const std::string_view json(reinterpret_cast<const char*>(letter.data()), letter.size());
    stages.push_back(step_graph_of(nlohmann::ordered_json::parse(json)));
  }
  return stages;
}

template <class T>
std::vector<StepGraph> trace(const Communicator& comm, const Config& config, bool measure) {
  constexpr int repeats = 5;
  const auto run = make_run<T>(comm, config, measure ? Purpose::training : Purpose::tracing);
  const auto task = run->make_task();
  Optimiser<T> optimiser(optimiser_options(config), run->parameters(), run->device());
  StepGraph graph = trace_steps<T>(*task, optimiser, run->step_reducer(), config.optimiser.clip,
                                   run->training_exec(), run->time_groups(), measure ? repeats : 0);
  graph.model = config.model.name;
  graph.rank = comm.rank();
  graph.ranks = comm.size();
  graph.stage = run->grid().stage();
  graph.stages = run->grid().stages();
  return stages_of(run->grid(), graph);
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
  const bool is_double = config.model.precision == "double";
  const auto stages = is_double ? trace<double>(comm, config, arguments.measure)
                                : trace<float>(comm, config, arguments.measure);
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

}  // namespace rossby::commands
