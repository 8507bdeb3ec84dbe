#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/core.h>

#include "rossby/plan/json_fields.hpp"
#include "rossby/plan/step_graph.hpp"

namespace rossby {
static void each_field(SameAs<Cost> auto& cost, const auto& field) {
  field("flops", cost.flops);
  field("bytes", cost.bytes);
  field("messages", cost.messages);
  field("message_bytes", cost.message_bytes);
}
static void each_field(SameAs<TracedBlock> auto& block, const auto& field) {
  field("name", block.name);
  field("calls", block.calls);
  field("rows", block.rows);
  field("columns", block.cols);
  field("channels", block.channels);
  field("parameters", block.parameters);
  field("parameter_bytes", block.parameter_bytes);
  field("activation_bytes", block.activation_bytes);
  field("forward_seconds", block.forward_seconds);
  field("backward_seconds", block.backward_seconds);
  field("forward", block.forward);
  field("backward", block.backward);
}
static void each_field(SameAs<TracedHandOver> auto& over, const auto& field) {
  field("to_stage", over.to);
  field("backward", over.backward);
  field("messages", over.messages);
  field("bytes", over.bytes);
}
static void each_field(SameAs<StepGraph::Op> auto& op, const auto& field) {
  field("name", op.name);
  field("calls", op.calls);
  each_field(op.cost, field);
}
/// All but what differs in files: edges by the names of blocks, and values for other stages if there are any.
static void each_field(SameAs<StepGraph> auto& graph, const auto& field) {
  field("model", graph.model);
  field("rank", graph.rank);
  field("ranks", graph.ranks);
  field("stage", graph.stage);
  field("stages", graph.stages);
  field("steps", graph.steps);
  field("parameters", graph.parameters);
  field("parameter_bytes", graph.parameter_bytes);
  field("activation_bytes", graph.activation_bytes);
  field("device_bytes", graph.device_bytes);
  field("step_seconds", graph.step_seconds);
  field("forward", graph.forward);
  field("backward", graph.backward);
  field("blocks", graph.blocks);
  field("ops", graph.ops);
  field("rest", graph.rest);
}

namespace {

using Json = nlohmann::ordered_json;

/// Returns a number with 3 significant digits and a prefix: 1.23 G, 45.6 Mi.
std::string scaled(double value, double base, const char* const (&prefixes)[6]) {
  std::size_t k = 0;
  while (value >= 0.9995 * base && k + 1 < std::size(prefixes)) value /= base, ++k;
  const int decimals = value == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, k == 0 ? 0 : decimals);
  if (*prefixes[k]) text += fmt::format(" {}", prefixes[k]);
  return text;
}
std::string decimal(double value) {
  return scaled(value, 1000, {"", "k", "M", "G", "T", "P"});
}
std::string flops(double value) {
  return scaled(value, 1000, {"flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"});
}
std::string bytes(double value) {
  return scaled(value, 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

double share(const TracedBlock& block, const StepGraph& graph) {
  const double all = graph.forward.flops + graph.backward.flops;
  return all > 0 ? (block.forward.flops + block.backward.flops) / all : 0;
}

std::string shape_of(const TracedBlock& block) {
  return block.channels > 0 ? fmt::format("{} x {} x {}", block.rows, block.cols, block.channels) : "-";
}

std::string line(const TracedBlock& block, const StepGraph& graph) {
  return fmt::format("{:<18}{:>6}  {:<20}{:>10}{:>11}{:>10}{:>11}{:>10}{:>11}{:>7.1f}\n", block.name,
                     block.calls, shape_of(block), decimal(static_cast<double>(block.parameters)),
                     bytes(block.activation_bytes), decimal(block.forward.flops), bytes(block.forward.bytes),
                     decimal(block.backward.flops), bytes(block.backward.bytes), 100 * share(block, graph));
}

std::string time_line(const std::string& name, double forward, double backward, double all,
                      const Cost& cost) {
  const double seconds = forward + backward;
  std::string text = fmt::format("{:<30}{:>12.3f}{:>12.3f}{:>8.1f}", name, 1e3 * forward, 1e3 * backward,
                                 all > 0 ? 100 * seconds / all : 0);
  if (cost.bytes > 0 && seconds > 0)
    text += fmt::format("{:>10.1f}{:>10.1f}", cost.flops / seconds / 1e9, cost.bytes / seconds / 1e9);
  return text + "\n";
}

/// Returns the table of time by block.
std::string times_of(const StepGraph& graph) {
  std::string text = fmt::format("\n{:<30}{:>12}{:>12}{:>8}{:>10}{:>10}\n", "block", "forward ms",
                                 "backward ms", "time%", "Gflop/s", "GB/s");
  double rest = graph.step_seconds;
  const auto add = [&](const std::string& name, const TracedBlock& block) {
    Cost cost = block.forward;
    cost += block.backward;
    rest -= block.forward_seconds + block.backward_seconds;
    text += time_line(name, block.forward_seconds, block.backward_seconds, graph.step_seconds, cost);
  };
  for (const TracedBlock& block : graph.blocks) add(block.name, block);
  add("(no block)", graph.rest);
  text += fmt::format("{:<30}{:>24.3f}{:>8.1f}\n", "optimiser, sums, waiting", 1e3 * rest,
                      graph.step_seconds > 0 ? 100 * rest / graph.step_seconds : 0);
  return text + fmt::format("{:<30}{:>24.3f}{:>8.1f}\n", "all", 1e3 * graph.step_seconds, 100.0);
}

std::string stage_of(const StepGraph& graph) {
  return graph.stages > 1 ? fmt::format(", stage {} of {}", graph.stage + 1, graph.stages) : "";
}

std::string text_of(const StepGraph& graph) {
  std::string text =
      fmt::format("{}: {} of rank {} of {}{}\n\n", graph.model,
                  graph.steps == 1 ? "a step" : fmt::format("{} steps, one of each kind,", graph.steps),
                  graph.rank, graph.ranks, stage_of(graph));
  text += fmt::format("{:<18}{:>6}  {:<20}{:>10}{:>11}{:>10}{:>11}{:>10}{:>11}{:>7}\n", "block", "calls",
                      "rows x cols x chan.", "param.", "kept", "forward", "", "backward", "", "flop%");
  for (const TracedBlock& block : graph.blocks) text += line(block, graph);
  TracedBlock rest = graph.rest;
  rest.name = "(no block)";
  if (rest.forward.bytes + rest.backward.bytes > 0) text += line(rest, graph);
  text += fmt::format("{:<18}{:>6}  {:<20}{:>10}{:>11}{:>10}{:>11}{:>10}{:>11}{:>7.1f}\n", "all", "", "",
                      decimal(graph.parameters), bytes(graph.activation_bytes), decimal(graph.forward.flops),
                      bytes(graph.forward.bytes), decimal(graph.backward.flops), bytes(graph.backward.bytes),
                      100.0);
  double kept = rest.activation_bytes;
  for (const TracedBlock& block : graph.blocks) kept += block.activation_bytes;
  if (kept > 1.01 * graph.activation_bytes)
    text += "kept: the sum over all calls of a block; all: the most that is kept at the same time\n";
  text += "\n";
  text += fmt::format("{:<26}{:>8}{:>10}{:>11}{:>10}{:>11}\n", "op", "calls", "flops", "bytes", "messages",
                      "sent");
  auto ops = graph.ops;
  std::stable_sort(ops.begin(), ops.end(),
                   [](const auto& a, const auto& b) { return a.cost.bytes > b.cost.bytes; });
  for (const StepGraph::Op& op : ops)
    text += fmt::format("{:<26}{:>8}{:>10}{:>11}{:>10}{:>11}\n", op.name, op.calls, decimal(op.cost.flops),
                        bytes(op.cost.bytes), op.cost.messages, bytes(op.cost.message_bytes));
  for (const TracedHandOver& over : graph.handed_over)
    text += fmt::format("{}{} to stage {}: {} messages, {}\n", &over == graph.handed_over.data() ? "\n" : "",
                        over.backward ? "gradients back" : "values", over.to + 1, over.messages,
                        bytes(over.bytes));
  if (graph.step_seconds > 0) text += times_of(graph);
  if (graph.device_bytes > 0)
    text += fmt::format("\na device would hold at most {}\n", bytes(graph.device_bytes));
  return text;
}

Json json_of(const StepGraph& graph) {
  Json json = graph;
  json["edges"] = Json::array();
  const auto name = [&](int block) { return graph.blocks[static_cast<std::size_t>(block)].name; };
  for (const TracedEdge& edge : graph.edges)
    json["edges"].push_back({{"from", name(edge.from)}, {"to", name(edge.to)}, {"bytes", edge.bytes}});
  if (!graph.handed_over.empty()) json["handed_over"] = graph.handed_over;
  return json;
}

/// Returns nodes and edges, named after the stage.
std::string nodes_of(const StepGraph& graph) {
  std::string text;
  for (std::size_t b = 0; b < graph.blocks.size(); ++b) {
    const TracedBlock& block = graph.blocks[b];
    std::string label = block.calls > 1 ? fmt::format("{} x {}", block.name, block.calls) : block.name;
    label += "\\n" + shape_of(block);
    if (block.parameters > 0)
      label += fmt::format("\\n{} parameters", decimal(static_cast<double>(block.parameters)));
    label += fmt::format("\\n{} + {}", flops(block.forward.flops), flops(block.backward.flops));
    if (block.activation_bytes > 0) label += fmt::format("\\nkeeps {}", bytes(block.activation_bytes));
    if (graph.step_seconds > 0)
      label +=
          fmt::format("\\n{:.3g} + {:.3g} ms", 1e3 * block.forward_seconds, 1e3 * block.backward_seconds);
    // White to orange, by share of the work.
    text += fmt::format("  s{}b{} [label=\"{}\", fillcolor=\"0.08 {:.3f} 1.0\"];\n", graph.stage, b, label,
                        0.7 * share(block, graph));
  }
  for (const TracedEdge& edge : graph.edges)
    text += fmt::format("  s{0}b{1} -> s{0}b{2} [label=\"{3}\"];\n", graph.stage, edge.from, edge.to,
                        bytes(edge.bytes));
  return text;
}

/// Returns the index of the stage's block of that name; the first block if there is none.
std::size_t block_named(const StepGraph& graph, std::string_view name) {
  for (std::size_t b = 0; b < graph.blocks.size(); ++b)
    if (graph.blocks[b].name == name) return b;
  return 0;
}

/// Returns the edges between stages: values from sender to receiver, and gradients the other way.
std::string between_stages(const std::vector<StepGraph>& stages) {
  std::string text;
  for (const StepGraph& from : stages)
    for (const TracedHandOver& over : from.handed_over) {
      const auto to = std::find_if(stages.begin(), stages.end(),
                                   [&](const StepGraph& graph) { return graph.stage == over.to; });
      if (to == stages.end()) continue;
      text += fmt::format("  s{}b{} -> s{}b{} [label=\"{}\", {}];\n", from.stage,
                          block_named(from, over.backward ? "take_over" : "hand_over"), to->stage,
                          block_named(*to, over.backward ? "hand_over" : "take_over"), bytes(over.bytes),
                          over.backward ? "style=dashed, constraint=false" : "penwidth=2");
    }
  return text;
}

}  // namespace

std::string text_of(const std::vector<StepGraph>& stages) {
  std::string text;
  for (const StepGraph& graph : stages) text += (text.empty() ? "" : "\n\n") + text_of(graph);
  return text;
}

Json json_of(const std::vector<StepGraph>& stages) {
  Json json = json_of(stages.front());
  for (std::size_t s = 1; s < stages.size(); ++s) json["other_stages"].push_back(json_of(stages[s]));
  return json;
}

StepGraph step_graph_of(const Json& json) {
  auto graph = json.get<StepGraph>();
  for (const Json& edge : json.at("edges")) {
    const auto number = [&](const char* end) {
      return static_cast<int>(block_named(graph, edge.at(end).get<std::string>()));
    };
    graph.edges.push_back({number("from"), number("to"), edge.at("bytes")});
  }
  if (json.contains("handed_over")) json.at("handed_over").get_to(graph.handed_over);
  return graph;
}

std::string dot_of(const std::vector<StepGraph>& stages) {
  const StepGraph& first = stages.front();
  const bool pipeline = stages.size() > 1;
  std::string text = fmt::format(
      "digraph step {{\n  label=\"{}, {} of {} of {}\";\n  labelloc=t;\n  fontname=\"Helvetica\";\n"
      "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11];\n"
      "  edge [fontname=\"Helvetica\", fontsize=9, color=gray40];\n",
      first.model, first.steps == 1 ? "a step" : fmt::format("{} steps", first.steps),
      pipeline ? "the stages" : fmt::format("rank {}", first.rank), first.ranks);
  for (const StepGraph& graph : stages) {
    if (pipeline)
      text += fmt::format("  subgraph cluster_stage{} {{\n  label=\"rank {}{}\";\n", graph.stage, graph.rank,
                          stage_of(graph));
    text += nodes_of(graph);
    if (pipeline) text += "  }\n";
  }
  return text + between_stages(stages) + "}\n";
}

}  // namespace rossby
