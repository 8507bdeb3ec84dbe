#include "rossby/mpi/domain.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/centers.hpp"
#include "rossby/mpi/graph_partition.hpp"
#include "rossby/mpi/inputs.hpp"
#include "rossby/mpi/mpi_mailbox.hpp"
#include "rossby/mpi/row_order.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/relation/row_cost.hpp"

namespace rossby {
namespace {

/// A hash of everything in a file that all ranks must see alike: each rank opens it for itself.
std::uint64_t header_hash(const SeriesInfo& info) {
  TextHash hash;
  hash.add_format("{} steps from {}, {} nodes, {} features, {} edges; time ", info.steps, info.first_step,
                  info.file_nodes, info.features, info.edges);
  hash.add_list(info.time.values());
  hash.add("; space ");
  hash.add_list(info.node_lat);
  hash.add(" ");
  hash.add_list(info.node_lon);
  for (const SeriesVariable& variable : info.variables) hash.add_format("; {}", variable.name);
  return hash.value();
}

/// File nodes that become nodes of the run, ascending: all of them, or those observed at least once. Each
/// rank scans a share of the file.
std::vector<Index> pick_nodes(const Communicator& comm, const Config& config, const SeriesFile& file) {
  const Index n = file.info().file_nodes;
  std::vector<Index> nodes;
  if (config.data.nodes == "all") {
    nodes.resize(static_cast<std::size_t>(n));
    for (Index i = 0; i < n; ++i) nodes[static_cast<std::size_t>(i)] = i;
    return nodes;
  }
  const RowPartition shares = RowPartition::blocks(n, comm.size());
  const Index first = shares.begin(comm.rank());
  const auto flags = agree(comm, [&] { return file.observed(first, shares.size(comm.rank())); });
  std::vector<Index> mine;
  for (std::size_t i = 0; i < flags.size(); ++i)
    if (flags[i]) mine.push_back(first + static_cast<Index>(i));
  std::vector<std::byte> letter(mine.size() * sizeof(Index));
  if (!mine.empty()) std::memcpy(letter.data(), mine.data(), letter.size());
  MpiMailbox mailbox(comm);
  for (const auto& received : mailbox.swap(std::vector(static_cast<std::size_t>(comm.size()), letter))) {
    const std::size_t before = nodes.size();
    nodes.resize(before + received.size() / sizeof(Index));
    if (!received.empty()) std::memcpy(nodes.data() + before, received.data(), received.size());
  }
  if (nodes.empty())
    user_error(
        "{}: no node has an observed value in the steps that are used{}{}. Check data.first_step, "
        "data.last_step and data.null_value",
        file.info().path,
        config.data.null_value.empty() ? "" : " (data.null_value = " + config.data.null_value + ")",
        file.finer_than_float() ? ". Values beyond 3.4e38 count as missing: write such data in a larger unit"
                                : "");
  return nodes;
}

const std::string& graph_path(const Config& config, const SeriesInfo& info) {
  return config.relation.file.empty() ? info.first_file() : config.relation.file;
}

/// relation.graph with "auto" resolved for this file.
std::string graph_kind(const Config& config, const SeriesInfo& info) {
  const std::string& graph = config.relation.graph;
  if (!config.relation.file.empty()) {
    if (graph != "edges" && graph != "auto")
      user_error(
          "relation.file needs relation.graph = \"edges\" or \"auto\", but relation.graph is \"{}\". Set "
          "one of these two values",
          graph);
    return "edges";
  }
  if (graph != "auto") return graph;
  return info.has_edges ? "edges" : info.gridded ? "grid8" : info.node_lat.empty() ? "none" : "nearest";
}

Grid make_grid(const Config& config, const SeriesInfo& info, const std::vector<Index>& file_node) {
  Grid grid;
  if (!info.gridded) return grid;
  grid.n_lat = info.n_lat;
  grid.n_lon = info.n_lon;
  grid.node_of_cell.assign(static_cast<std::size_t>(info.file_nodes), -1);
  for (std::size_t i = 0; i < file_node.size(); ++i)
    grid.node_of_cell[static_cast<std::size_t>(file_node[i])] = static_cast<Index>(i);
  const std::string& periodic = config.relation.periodic_lon;
  ColumnJoins joins = join_columns(info.lon);
  grid.periodic_lon = periodic == "yes" || (periodic == "auto" && joins.round);
  grid.apart = std::move(joins.apart);
  return grid;
}

DateToStep dates_of(const SeriesInfo& info) {
  return [&info](std::string_view date) {
    const TimeAxis& time = info.time;
    if (time.ends_before(date))
      user_error("{}: {} is after the end of the data, {}. Give an earlier date", info.path, date,
                 time.text(time.size() - 1));
    return time.steps_before(date);
  };
}

std::string column_remarks(const Domain& domain) {
  std::string text;
  const std::vector<double>& lon = domain.info.lon;
  for (std::size_t j = 0; j < domain.grid.apart.size(); ++j)
    if (domain.grid.apart[j] != 0)
      text += fmt::format(
          "grid      columns at {:g} and {:g} degrees are not neighbours: {:g} degrees lie between the "
          "columns\n",
          lon[j], lon[j + 1], std::abs(lon[j + 1] - lon[j]));
  if (lon.size() > 3 && std::abs(std::abs(lon.back() - lon.front()) - 360) < 1e-3 * std::abs(lon[1] - lon[0]))
    text += fmt::format(
        "warning   the last column, at {:g} degrees, repeats the first, at {:g}. Remove the last column to "
        "join the grid there\n",
        lon.back(), lon.front());
  return text;
}

void add_coordinates(Domain& domain) {
  if (domain.info.node_lat.empty()) return;
  for (const Index node : domain.file_node) {
    domain.latitude.push_back(domain.info.node_lat[static_cast<std::size_t>(node)]);
    domain.longitude.push_back(domain.info.node_lon[static_cast<std::size_t>(node)]);
  }
}

/// The cost of each node per step, by global row. Empty without sparse relations, when all nodes cost the
/// same.
std::vector<double> node_costs(const Communicator& comm, const Config& config, const GlobalEdges& edges,
                               const RowPartition& blocks) {
  if (edges.relations == 0) return {};
  const double asked = config.parallel.entry_cost;
  const double entry_cost = asked > 0 ? asked : config.model.architecture->entry_cost(edges.relations);
  const auto owned = row_costs(edges, 1, entry_cost);
  MpiMailbox mailbox(comm);
  return gather_by_global_row(owned, blocks, mailbox);
}

/// Orders rows inside each rank as parallel.row_order says.
RowPartition order_rows(const Communicator& comm, const Config& config, const Domain& domain,
                        RowPartition partition) {
  const std::string& order = config.parallel.row_order;
  const std::string graph = graph_kind(config, domain.info);
  const bool dense = config.relation.discover == "dense" || config.relation.storage == "dense";
  if (order == "rcm" && graph == "none")
    user_error("parallel.row_order = \"rcm\" needs relations. Set relation.graph, for example to \"auto\"");
  if (order == "file" || graph == "none") return partition;
  if (dense) {
    if (order == "rcm")
      user_error(
          "parallel.row_order = \"rcm\" does not work with a dense relation, which keeps the order of the "
          "file. Set parallel.row_order = \"file\"");
    return partition;
  }
  constexpr Index few_rows = 4096;  // their node data stay in caches in any order
  if (order == "auto" && (graph == "grid" || graph == "grid8" || domain.nodes() < few_rows * comm.size()))
    return partition;
  const GlobalEdges edges = build_edges(comm, config, domain, partition);
  RowPartition ordered = reverse_cuthill_mckee(comm, edges, partition);
  if (order == "rcm") return ordered;
  double distances[] = {mean_distance(edges, partition, comm.rank()),
                        mean_distance(edges, ordered, comm.rank())};
  {
    const Wait wait(comm, "a comparison of row orders (allreduce)");
    MPI_Allreduce(MPI_IN_PLACE, distances, 2, MPI_DOUBLE, MPI_SUM, comm.handle());
  }
  return 2 * distances[1] < distances[0] ? ordered : partition;
}

/// Edges of the file whose two nodes are both in the run, in global numbering: this rank's share of the list.
std::vector<Edge> file_edges(const Communicator& comm, const Config& config, const Domain& domain) {
  const GraphFile file = open_graph(config, domain.info);
  const std::string& path = graph_path(config, domain.info);
  const RowPartition shares = RowPartition::blocks(file.size(), comm.size());
  const Index first = shares.begin(comm.rank());
  std::vector<Edge> edges;
  Index number = first;
  for (const FileEdge& edge : file.edges(first, shares.size(comm.rank()))) {
    for (const Index node : {edge.source, edge.destination})
      if (node < 0 || node >= domain.info.file_nodes)
        user_error("{}: edge {} ({} -> {}) names node {}, but nodes are 0 to {}. Correct this edge", path,
                   number, edge.source, edge.destination, node, domain.info.file_nodes - 1);
    if (!std::isfinite(edge.weight))
      user_error("{}: edge {} ({} -> {}) has weight {}, but weights have to be finite. Correct this edge",
                 path, number, edge.source, edge.destination, edge.weight);
    ++number;
    const auto row = [&](Index node) {
      const auto it = std::lower_bound(domain.file_node.begin(), domain.file_node.end(), node);
      return it != domain.file_node.end() && *it == node ? static_cast<Index>(it - domain.file_node.begin())
                                                         : Index{-1};
    };
    const Edge mapped{row(edge.source), row(edge.destination), 0, edge.weight};
    if (mapped.source >= 0 && mapped.destination >= 0) edges.push_back(mapped);
  }
  return edges;
}

GlobalEdges base_edges(const Communicator& comm, const Config& config, const Domain& domain,
                       const RowPartition& partition, Mailbox& mailbox) {
  const std::string graph = graph_kind(config, domain.info);
  const int part = comm.rank();
  if (graph == "none") {
    GlobalEdges none;
    none.rows = partition.size(part);
    none.ptr = {0};
    return none;
  }
  if (graph == "grid" || graph == "grid8") {
    if (!domain.info.gridded)
      user_error(
          "relation.graph = \"{}\" needs a gridded file. Set relation.graph = \"edges\" or \"nearest\"",
          graph);
    return grid_neighbours(domain.grid, graph == "grid" ? GridRelations::one : GridRelations::directional,
                           partition, part);
  }
  if (graph == "nearest") {
    if (domain.latitude.empty())
      user_error(
          "relation.graph = \"nearest\" needs coordinates, but {} has none{}. Add coordinates, or choose "
          "another relation.graph",
          domain.info.path, why_no_coordinates(domain.info));
    if (const auto without = std::count_if(domain.latitude.begin(), domain.latitude.end(),
                                           [](double latitude) { return std::isnan(latitude); });
        without > 0)
      user_error(
          "relation.graph = \"nearest\" needs coordinates of all nodes, but {} of {} nodes with values have "
          "none in variable {} of {}. Add these coordinates, or choose another relation.graph",
          without, domain.nodes(), domain.info.lat_name, domain.info.path);
    return agree(comm, [&] {
      return nearest_neighbours(domain.latitude, domain.longitude,
                                static_cast<int>(config.relation.neighbours), partition, part);
    });
  }
  const auto share = agree(comm, [&] { return file_edges(comm, config, domain); });
  return from_edge_list(share, 1, partition, mailbox);
}

/// Throws if a weight sum is negative: division by it would reverse the signs of weights.
void refuse_turned_signs(const GlobalEdges& edges, const Domain& domain) {
  for (std::size_t list = 0; list + 1 < edges.ptr.size(); ++list) {
    double sum = 0, magnitude = 0;
    for (Index e = edges.ptr[list]; e < edges.ptr[list + 1]; ++e) {
      sum += edges.value[static_cast<std::size_t>(e)];
      magnitude += std::abs(edges.value[static_cast<std::size_t>(e)]);
    }
    if (sum >= -1e-12 * magnitude) continue;  // zero up to rounding is left unchanged (normalise_rows)
    const GlobalRow row = domain.rows[list / static_cast<std::size_t>(edges.relations)];
    user_error(
        "the weights of the edges to node {} have a sum of {:.6g}, and dividing by this sum would change the "
        "signs of the weights. Set relation.normalise = false, or make the weights positive",
        domain.file_node[static_cast<std::size_t>(row.value)], sum);
  }
}

}  // namespace

GraphFile open_graph(const Config& config, const SeriesInfo& info, std::string* remark) {
  GraphFile graph = GraphFile::open(graph_path(config, info));
  if (graph.nodes() >= 0 && graph.nodes() != info.file_nodes && !config.relation.file.empty())
    user_error(
        "{}: the graph has {} nodes, but {} has {}. Make the graph from this series with 'rossby data "
        "graph' (relation.file)",
        graph_path(config, info), graph.nodes(), info.path, info.file_nodes);
  std::string said;
  if (graph.nodes() >= 0 && !config.relation.file.empty())
    graph.renumber(match_nodes(graph, graph_path(config, info), info, said));
  if (remark != nullptr) *remark = std::move(said);
  return graph;
}

GlobalEdges build_graph(const Communicator& comm, const Config& config, const Domain& domain,
                        const RowPartition& partition) {
  const Stage stage(comm, "building relations", patience_with_files);
  MpiMailbox mailbox(comm);
  const GlobalEdges edges = base_edges(comm, config, domain, partition, mailbox);
  if (edges.relations == 0 || !config.relation.self_loops) return edges;
  return with_self_loops(edges, 1, partition, comm.rank());
}

GlobalEdges build_edges(const Communicator& comm, const Config& config, const Domain& domain,
                        const RowPartition& partition, TurnedSigns turned) {
  const Stage stage(comm, "building relations", patience_with_files);
  MpiMailbox mailbox(comm);
  GlobalEdges edges = build_graph(comm, config, domain, partition);
  if (edges.relations == 0) return edges;
  if (config.relation.normalise) {
    if (turned == TurnedSigns::refused) agree(comm, [&] { refuse_turned_signs(edges, domain); });
    normalise_rows(edges);
  }
  std::vector<int> hops;
  for (const Index hop : config.relation.hops) hops.push_back(static_cast<int>(hop));
  if (hops.empty() || !std::is_sorted(hops.begin(), hops.end()))
    user_error("relation.hops is not a list of ascending powers. Set for example relation.hops = [1, 2, 4]");
  if (hops != std::vector<int>{1}) edges = powers(edges, hops, partition, mailbox);
  return edges;
}

std::string data_remarks(const Config& config, const Domain& domain) {
  std::string text = remark_lines(domain.info) + domain.graph_remark + domain.center_remark;
  if (domain.info.gridded && config.relation.graph != "nearest") text += column_remarks(domain);
  for (const std::string& count : years_as_counts(config.split, domain.info.steps, dates_of(domain.info)))
    text += fmt::format("warning   {} is a number of steps. If a year is meant, add a month: {}-01\n", count,
                        count.substr(count.size() - 4));
  return text;
}

std::string partition_kind(const Config& config, const Domain& domain, int parts) {
  const std::string graph = graph_kind(config, domain.info);
  const bool dense =
      config.relation.discover == "dense" || (graph != "none" && config.relation.storage == "dense");
  const std::string& kind = config.parallel.partition;
  if (kind == "auto")
    return dense || graph == "none" || parts == 1      ? "blocks"
           : domain.info.gridded && graph != "nearest" ? "tiles"
                                                       : "graph";
  if (dense && kind != "blocks")
    user_error(
        "parallel.partition = \"{}\" does not work with a dense relation, which gathers all rows anyway. Set "
        "parallel.partition = \"blocks\"",
        kind);
  return kind;
}

RowPartition choose_partition(const Communicator& comm, const Config& config, const Domain& domain,
                              int parts) {
  const std::string graph = graph_kind(config, domain.info), kind = partition_kind(config, domain, parts);
  if (kind == "blocks") return RowPartition::blocks(domain.nodes(), parts);
  if (kind == "tiles" && !domain.info.gridded)
    user_error(
        "parallel.partition = \"tiles\" needs a gridded file. Set parallel.partition = \"graph\" or "
        "\"blocks\"");
  if ((kind == "graph" || kind == "weighted") && graph == "none")
    user_error("parallel.partition = \"{}\" needs relations. Set relation.graph, for example to \"auto\"",
               kind);
  const RowPartition blocks = RowPartition::blocks(domain.nodes(), comm.size());
  const GlobalEdges edges = build_edges(comm, config, domain, blocks);
  const std::vector<double> costs = node_costs(comm, config, edges, blocks);
  if (kind == "graph") return graph_partition(comm, edges, blocks, parts, costs);
  if (kind == "weighted") return RowPartition::blocks(domain.nodes(), parts, costs);
  return RowPartition::from_owners(
      grid_tiles(domain.grid.n_lat, domain.grid.n_lon, domain.grid.node_of_cell, parts, costs), parts);
}

std::string_view Domain::role(std::size_t variable) const {
  if (variable < info.variables.size()) return "";
  Index channels = 0;
  for (std::size_t v = info.variables.size(); v < variable; ++v)
    channels += inputs.variables[v - info.variables.size()].features;
  return channels < inputs.past ? "input" : "input, known ahead";
}

std::size_t Domain::bytes() const {
  const std::size_t words = info.node_lat.size() + info.node_lon.size() + info.time.values().size() +
                            file_node.size() + grid.node_of_cell.size() + centers.size() + latitude.size() +
                            longitude.size() + rows.size() + fixed.size();
  return words * sizeof(double) + partition.bytes();
}

Domain make_domain(const Communicator& comm, const Config& config) {
  const Stage stage(comm, "looking at the data", patience_with_files);
  const SeriesFile file = open_series(comm, config);
  Domain domain;
  domain.info = file.info();
  agree(comm, [&] {
    if (config.relation.file.empty()) return;
    (void)graph_kind(config, domain.info);
    domain.info.edges = open_graph(config, domain.info, &domain.graph_remark).size();
    domain.info.has_edges = true;
  });
  agree_same(comm, header_hash(domain.info), domain.info.path);
  domain.file_node = pick_nodes(comm, config, file);
  domain.grid = make_grid(config, domain.info, domain.file_node);
  add_coordinates(domain);
  domain.split =
      agree(comm, [&] { return make_split(domain.info.steps, config.split, dates_of(domain.info)); });
  domain.centers = find_centers(comm, file, domain, domain.center_remark);
  domain.partition = order_rows(comm, config, domain, choose_partition(comm, config, domain, comm.size()));
  domain.cut_graph = comm.size() > 1 && partition_kind(config, domain, comm.size()) == "graph";
  domain.rows = domain.partition.rows_of(comm.rank());
  domain.inputs = input_variables(comm, config);
  check_input_precision(comm, domain);
  domain.fixed = agree(comm, [&] { return read_fixed(config, domain); });
  domain.files = file.pause();
  return domain;
}

}  // namespace rossby
