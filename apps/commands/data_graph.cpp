#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/data/correlation.hpp"
#include "rossby/data/split.hpp"
#include "rossby/io/edge_table.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/relation/sensor_graph.hpp"

namespace rossby::commands {
namespace {

struct GraphArguments {
  std::string file;  // the series whose nodes are joined
  std::string output;
  std::string from;        // distances | coordinates | correlation | edges | matrix
  std::string table;       // comma-separated values; empty: none
  std::string ids;         // names in the table; empty: node numbers
  std::string kernel;      // of coordinates: none | gaussian; empty: none
  std::string variable;    // empty: the only suitable one
  std::string null_value;  // empty: none
  std::string train;       // as split.train; empty: its default
  double threshold = -1;   // −1: default of the kind
  double sigma = -1;       // −1: standard deviation of the distances
  Index neighbours = 0;    // 0: default of the kind
  Index overlap = 0;       // 0: its default
  Index first_step = 0;    // like data.first_step and data.last_step
  Index last_step = -1;
  bool skip_unknown = false;
  bool symmetric = false;
};

/// Edges and a description of their weights.
struct Made {
  std::vector<Edge> edges;
  std::string meaning;
};

/// Refuses options that this kind of graph does not use.
void check_options(const GraphArguments& a) {
  const std::string& from = a.from;
  const bool table = from == "distances" || from == "edges" || from == "matrix";
  const bool names = (from == "distances" || from == "edges") && !a.table.empty();
  const bool near = from == "coordinates", correlation = from == "correlation";
  const bool gaussian = from == "distances" || (near && a.kernel == "gaussian");
  const std::pair<const char*, bool> misplaced[] = {
      {"--table", !a.table.empty() && !table},
      {"--ids", !a.ids.empty() && !names},
      {"--skip-unknown", a.skip_unknown && !names},
      {"--sigma", a.sigma >= 0 && !gaussian},
      {"--threshold", a.threshold >= 0 && !gaussian && !correlation},
      {"--neighbours", a.neighbours > 0 && !near && !correlation},
      {"--kernel", !a.kernel.empty() && !near},
      {"--variable", !a.variable.empty() && !near && !correlation},
      {"--null-value", !a.null_value.empty() && !near && !correlation},
      {"--train", !a.train.empty() && !correlation},
      {"--first-step", a.first_step > 0 && !correlation},
      {"--last-step", a.last_step >= 0 && !correlation},
      {"--overlap", a.overlap > 0 && !correlation},
  };
  for (const auto& [option, wrong] : misplaced)
    if (wrong)
      user_error("{} does not work with --from {}{}. Leave this option out", option, from,
                 near && !gaussian ? " without --kernel gaussian"
                 : names || !table ? ""
                                   : " without --table");
  if (a.table.empty() && (from == "edges" || from == "matrix"))
    user_error("--from {} needs a table. Name a file of comma-separated values with --table", from);
  if (a.sigma == 0) user_error("--sigma 0 is too small. Give a width above 0");
}

std::vector<Edge> relation_edges(const std::vector<FileEdge>& edges) {
  std::vector<Edge> out;
  for (const FileEdge& e : edges) out.push_back({e.source, e.destination, 0, e.weight});
  return out;
}

NodeNames names_of(const GraphArguments& a, const SeriesInfo& info) {
  return a.ids.empty() ? NodeNames(info.file_nodes) : NodeNames::read(a.file, a.ids, info.file_nodes);
}

void check_nodes(const std::vector<Edge>& edges, const std::string& path, Index nodes) {
  for (std::size_t e = 0; e < edges.size(); ++e)
    for (const Index node : {edges[e].source, edges[e].destination})
      if (node < 0 || node >= nodes)
        user_error("{}: edge {} ({} -> {}) names node {}, but nodes are 0 to {}. Correct this edge", path, e,
                   edges[e].source, edges[e].destination, node, nodes - 1);
}

GaussianKernel kernel_of(const GraphArguments& a) {
  GaussianKernel kernel;
  if (a.sigma > 0) kernel.sigma = a.sigma;
  if (a.threshold >= 0) kernel.threshold = a.threshold;
  return kernel;
}

std::string kernel_text(const GraphArguments& a, const GaussianGraph& graph, const char* distance) {
  return fmt::format("exp(-({}/sigma)^2), sigma = {:.8g}{}, entries below {:g} dropped", distance,
                     graph.sigma,
                     a.sigma > 0 ? "" : fmt::format(" (standard deviation of {} distances)", graph.pairs),
                     kernel_of(a).threshold);
}

Made from_distances(const GraphArguments& a, const SeriesInfo& info) {
  std::vector<Edge> distances;
  if (a.table.empty()) {
    distances = relation_edges(GraphFile::open(a.file).distances());
    check_nodes(distances, a.file, info.file_nodes);
  } else {
    const EdgeTable table = read_edge_table(a.table, names_of(a, info), {true, a.skip_unknown});
    for (std::size_t e = 0; e < table.edges.size(); ++e)
      if (table.edges[e].weight < 0)
        user_error("{}:{}: the distance {} is negative. Correct this line", a.table, table.lines[e],
                   table.edges[e].weight);
    if (table.skipped > 0)
      fmt::print("{}: {} lines with unknown nodes are left out\n", a.table, table.skipped);
    distances = relation_edges(table.edges);
  }
  GaussianGraph graph = gaussian_graph(std::move(distances), kernel_of(a));
  std::string meaning = kernel_text(a, graph, "distance");
  return {std::move(graph.edges), std::move(meaning)};
}

Made from_coordinates(const GraphArguments& a, const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  if (info.node_lat.empty())
    user_error("--from coordinates needs latitudes and longitudes, but {} has none{}. Use --from correlation",
               info.path, why_no_coordinates(info));
  const auto seen = file.observed(0, info.file_nodes);
  std::vector<Index> nodes;
  for (Index i = 0; i < info.file_nodes; ++i)
    if (seen[static_cast<std::size_t>(i)]) nodes.push_back(i);
  const auto k = static_cast<int>(a.neighbours > 0 ? a.neighbours : 8);
  std::vector<Edge> distances = nearest_distances(info.node_lat, info.node_lon, nodes, k);
  const std::string near = fmt::format("{} nearest nodes by great-circle distance", k);
  if (a.kernel != "gaussian") {
    for (Edge& e : distances) e.weight = 1;
    return {std::move(distances), "1 for the " + near};
  }
  GaussianGraph graph = gaussian_graph(std::move(distances), kernel_of(a));
  std::string meaning = kernel_text(a, graph, "kilometres") + ", of the " + near;
  return {std::move(graph.edges), std::move(meaning)};
}

Made from_correlation(const GraphArguments& a, const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  if (info.features != 1)
    user_error(
        "{}: --from correlation needs one feature, but variable {} has {}. Name another variable "
        "with --variable",
        info.path, info.variables.front().name, info.features);
  if (info.file_nodes > most_correlated_nodes)
    user_error(
        "{}: {} nodes are too many for --from correlation, which takes at most {}. Use --from coordinates",
        info.path, info.file_nodes, most_correlated_nodes);
  SplitSettings spec;
  if (!a.train.empty()) spec.train = a.train;
  const Split split =
      make_split(info.steps, spec, [&](std::string_view date) { return info.time.steps_before(date); });
  const Index steps = split.train.size();
  check_memory(steps * info.file_nodes, sizeof(float), info.path + ": its training part");
  std::vector<float> values(static_cast<std::size_t>(steps * info.file_nodes));
  std::vector<Index> nodes(static_cast<std::size_t>(info.file_nodes));
  std::iota(nodes.begin(), nodes.end(), Index{0});
  file.read_steps(nodes, split.train.first, steps, values.data());
  CorrelationRule rule;
  rule.neighbours = a.neighbours;
  rule.threshold = a.threshold >= 0 ? a.threshold : a.neighbours > 0 ? 0 : rule.threshold;
  if (a.overlap > 0) rule.overlap = a.overlap;
  std::string meaning =
      fmt::format("correlation of {} over {} training steps ({} to {}), ", info.variables.front().name, steps,
                  info.time.text(split.train.first), info.time.text(split.train.last - 1));
  meaning += a.neighbours > 0 ? fmt::format("{} strongest a node, ", a.neighbours) : "";
  meaning +=
      fmt::format("above 0 and at least {:g}, over {} common steps or more", rule.threshold, rule.overlap);
  return {correlation_graph(values, steps, info.file_nodes, rule), std::move(meaning)};
}

SeriesFile open_series(const GraphArguments& a) {
  std::vector<std::string> variables;
  if (!a.variable.empty()) variables = {a.variable};
  // If values do not matter, any variable defines the nodes.
  if (a.variable.empty() && a.from != "correlation")
    if (const auto fitting = SeriesFile::candidates(a.file); !fitting.empty()) variables = {fitting.front()};
  return SeriesFile::open(a.file, variables, a.first_step, a.last_step, parse_null_value(a.null_value));
}

Made make(const GraphArguments& a, const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  if (a.from == "distances") return from_distances(a, info);
  if (a.from == "coordinates") return from_coordinates(a, file);
  if (a.from == "correlation") return from_correlation(a, file);
  if (a.from == "matrix") return {relation_edges(read_edge_matrix(a.table, info.file_nodes)), "as given"};
  EdgeTable table = read_edge_table(a.table, names_of(a, info), {false, a.skip_unknown});
  if (table.skipped > 0) fmt::print("{}: {} lines with unknown nodes are left out\n", a.table, table.skipped);
  return {relation_edges(table.edges),
          table.is_of_distances
              ? "as given, though the table calls them distances: --from distances makes weights that "
                "fall with the distance"
              : "as given"};
}

GraphLayout layout_of(const GraphArguments& a, const SeriesInfo& info, const Made& made) {
  GraphLayout layout;
  layout.nodes = info.file_nodes;
  for (const Edge& e : made.edges) layout.edges.push_back({e.source, e.destination, e.weight});
  layout.node_lat = info.node_lat;
  layout.node_lon = info.node_lon;
  layout.ids_of = a.ids.empty() ? info.label_name : a.ids;
  layout.node_ids = node_ids(info, layout.ids_of);
  layout.title = info.title.empty() ? "Graph of sensors" : "Graph: " + info.title;
  const std::string origin = a.table.empty() ? a.file : a.table;
  layout.weight_attributes = {{"meaning", made.meaning},
                              {"directed", a.symmetric ? "no, both directions are listed" : "yes"},
                              {"origin", std::filesystem::path(origin).filename().string()}};
  layout.attributes = {{"source", fmt::format("rossby data graph --from {}", a.from)},
                       {"series", std::filesystem::path(a.file).filename().string()}};
  return layout;
}

void report(const GraphArguments& a, const GraphLayout& layout, const std::string& meaning) {
  std::vector<char> joined(static_cast<std::size_t>(layout.nodes), 0);
  for (const FileEdge& e : layout.edges)
    if (e.source != e.destination)
      joined[static_cast<std::size_t>(e.source)] = joined[static_cast<std::size_t>(e.destination)] = 1;
  const auto [low, high] =
      std::minmax_element(layout.edges.begin(), layout.edges.end(),
                          [](const auto& x, const auto& y) { return x.weight < y.weight; });
  fmt::print(
      "{}: {} nodes, {} edges ({:.3g} a node), weights {:.6g} to {:.6g}; {} nodes are joined to no other\n",
      a.output, layout.nodes, layout.edges.size(),
      static_cast<double>(layout.edges.size()) / static_cast<double>(layout.nodes), low->weight, high->weight,
      std::count(joined.begin(), joined.end(), 0));
  fmt::print("weights: {}\n", meaning);
  std::vector<std::pair<Index, Index>> pairs;
  for (const FileEdge& e : layout.edges) pairs.emplace_back(e.source, e.destination);
  std::sort(pairs.begin(), pairs.end());
  const auto repeated = pairs.end() - std::unique(pairs.begin(), pairs.end());
  if (repeated > 0)
    fmt::print(
        "warning: {} edges repeat another one: their weights add up. Remove these edges if they are not "
        "meant\n",
        repeated);
}

void write(const GraphArguments& a) {
  check_options(a);
  std::error_code code;
  for (const std::string& input : {a.file, a.table})
    if (!input.empty() && std::filesystem::equivalent(a.output, input, code))
      user_error("{}: the graph would replace one of its input files. Name another file with -o", a.output);
  const SeriesFile file = open_series(a);
  Made made = make(a, file);
  if (a.symmetric) made.edges = both_directions(std::move(made.edges));
  if (made.edges.empty())
    user_error(
        "{}: no edge is left ({}), so that the graph is not written. Lower --threshold, or choose "
        "another --from",
        a.file, made.meaning);
  for (const std::string& remark : file.info().remarks) fmt::print("remark: {}\n", remark);
  const GraphLayout layout = layout_of(a, file.info(), made);
  write_graph(a.output, layout);
  report(a, layout, made.meaning);
}

int graph(const Communicator& comm, const GraphArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() == 0) write(arguments);
  });
  return 0;
}

}  // namespace

void add_data_graph(CLI::App& data, Chosen& chosen) {
  const auto arguments = std::make_shared<GraphArguments>();
  GraphArguments& a = *arguments;
  auto* g = data.add_subcommand("graph", "make a graph of the nodes of a series, for relation.file");
  g->add_option("file", a.file, "NetCDF-4/CF file with the series")->required();
  g->add_option("--from", a.from,
                "distances: table of source,destination,distance (or edge_distance of the file), weighted by "
                "a Gaussian kernel; coordinates: k nearest nodes; correlation: in the training part; edges: "
                "table of source,destination[,weight]; matrix: table of n x n weights")
      ->required()
      ->check(CLI::IsMember({"distances", "coordinates", "correlation", "edges", "matrix"}));
  g->add_option("-o,--output", a.output, "file to write")->required();
  g->add_option("--table", a.table, "file of comma-separated values");
  g->add_option("--ids", a.ids,
                "variable with the node names that the table uses; default: node numbers from 0");
  g->add_flag("--skip-unknown", a.skip_unknown, "skip lines of the table that name unknown nodes");
  g->add_option("--threshold", a.threshold,
                "drop edges with smaller weights; default: 0.1; for correlations 0.5, or 0 with --neighbours")
      ->check(non_negative_number());
  g->add_option(
       "--sigma", a.sigma,
       "width of the Gaussian kernel, in the unit of the distances; default: their standard deviation")
      ->check(non_negative_number());
  g->add_option("--neighbours", a.neighbours,
                "number of neighbours of each node: nearest (default: 8) or most correlated")
      ->check(whole_number(1));
  g->add_option("--kernel", a.kernel,
                "with --from coordinates: none: all weights are 1; gaussian: Gaussian kernel of the distance "
                "in km; default: none")
      ->check(CLI::IsMember({"none", "gaussian"}));
  g->add_option("--variable", a.variable,
                "variable whose correlation is computed; default: the only one that fits");
  g->add_option("--null-value", a.null_value, "a number that stands for a missing value");
  g->add_option("--train", a.train, "training part, like split.train; default: 0.7");
  g->add_option("--first-step", a.first_step, "first step to use, like data.first_step")
      ->check(whole_number(0));
  g->add_option("--last-step", a.last_step, "step after the last used step, like data.last_step")
      ->check(whole_number(0));
  g->add_option("--overlap", a.overlap,
                "smallest number of common steps of two correlated nodes; default: 30")
      ->check(whole_number(2));
  g->add_flag("--symmetric", a.symmetric, "make the graph symmetric, with the larger of the two weights");
  choose(*g, chosen, arguments, graph);
}

}  // namespace rossby::commands
