#include "rossby/run/step_graph_run.hpp"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/process_grid.hpp"
#include "rossby/run/model_run.hpp"
#include "rossby/run/training_options.hpp"

namespace rossby {
namespace {

/// Returns on rank 0 the graphs of all stages with its rows and times. Collective.
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

}  // namespace

std::vector<StepGraph> trace_step_graph(const Communicator& comm, const Config& config, bool measure) {
  return config.model.precision == "double" ? trace<double>(comm, config, measure)
                                            : trace<float>(comm, config, measure);
}

}  // namespace rossby
