#include "rossby/io/graph_file.hpp"

#include <charconv>
#include <numeric>

#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_coordinates.hpp"

namespace rossby {
namespace detail {

Index count_edges(const ArrayFile& file) {
  const NetcdfVariable* source = file.find("edge_src");
  const NetcdfVariable* destination = file.find("edge_dst");
  if (source == nullptr && destination == nullptr) return -1;
  if (source == nullptr || destination == nullptr)
    user_error("{}: edges need both edge_src and edge_dst, but {} is missing. Add this variable", file.path(),
               source == nullptr ? "edge_src" : "edge_dst");
  const Index edges = source->dimensions.empty() ? 0 : source->dimensions[0].length;
  for (const char* name : {"edge_src", "edge_dst", "edge_weight"}) {
    const NetcdfVariable* v = file.find(name);
    if (v == nullptr) continue;
    if (v->dimensions.size() != 1 || v->type == NetcdfType::text)
      user_error("{}: variable {} is not a list of numbers. Write the variable as {}(edge)", file.path(),
                 name, name);
    file.check_written(*v);
    if (v->dimensions[0].length != edges)
      user_error(
          "{}: the edge arrays have unequal lengths: edge_src has {}, {} has {}. Write one value per edge "
          "in each array",
          file.path(), edges, name, v->dimensions[0].length);
  }
  return edges;
}

std::vector<FileEdge> read_edges(const ArrayFile& file, const char* value, Index first, Index count) {
  if (count == 0) return {};
  check_memory(count, sizeof(FileEdge) + 24, file.path() + ": its edges");
  std::vector<Index> source(static_cast<std::size_t>(count)), destination(source.size());
  std::vector<double> number(source.size(), 1.0);
  const std::span<const Index> begin(&first, 1), length(&count, 1);
  file.read(*file.find("edge_src"), begin, length, source.data());
  file.read(*file.find("edge_dst"), begin, length, destination.data());
  if (const NetcdfVariable* v = file.find(value)) file.read(*v, begin, length, number.data());
  std::vector<FileEdge> edges(source.size());
  for (std::size_t e = 0; e < edges.size(); ++e) edges[e] = {source[e], destination[e], number[e]};
  return edges;
}

}  // namespace detail

GraphFile::GraphFile(std::unique_ptr<ArrayFile> file) : file_(std::move(file)) {}
GraphFile::GraphFile(GraphFile&&) noexcept = default;
GraphFile& GraphFile::operator=(GraphFile&&) noexcept = default;
GraphFile::~GraphFile() = default;

GraphFile GraphFile::open(const std::string& path) {
  GraphFile graph(ArrayFile::open(path));
  graph.size_ = detail::count_edges(*graph.file_);
  if (graph.size_ < 0)
    user_error(
        "{} has no edges (edge_src, edge_dst). Choose another relation.graph, or make a graph with 'rossby "
        "data graph'",
        path);
  for (const NetcdfVariable& variable : graph.file_->variables())
    for (const NetcdfDimension& dimension : variable.dimensions)
      if (dimension.name == "node") graph.nodes_ = dimension.length;
  return graph;
}

bool holds_edges(const std::string& path) {
  return detail::count_edges(*ArrayFile::open(path)) >= 0;
}

std::string GraphFile::meaning() const {
  const NetcdfVariable* weight = file_->find("edge_weight");
  return weight == nullptr ? "" : file_->text(*weight, "meaning").value_or("");
}

std::vector<std::string> GraphFile::ids() const {
  const NetcdfVariable *found = file_->find("node_id"), *number = file_->find("node");
  const auto of_nodes = [&](const NetcdfVariable* v) {
    return v != nullptr && !v->dimensions.empty() && v->dimensions[0].name == "node" &&
           v->type != NetcdfType::float32 && v->type != NetcdfType::float64 &&
           v->dimensions.size() <= (v->type == NetcdfType::text ? 2U : 1U);
  };
  for (const NetcdfVariable& v : file_->variables())
    if (!of_nodes(found) && of_nodes(&v) && file_->text(v, "cf_role") == "timeseries_id") found = &v;
  if (of_nodes(found)) return file_->read_names(*found);
  if (!of_nodes(number)) return {};
  std::vector<std::string> names = file_->read_names(*number);
  bool counts = true;
  for (std::size_t i = 0; i < names.size(); ++i) counts = counts && names[i] == std::to_string(i);
  if (counts) names.clear();
  return names;
}

std::string GraphFile::ids_of() const {
  const NetcdfVariable* v = file_->find("node_id");
  return v == nullptr ? "" : file_->text(*v, "series_variable").value_or("");
}

std::vector<double> GraphFile::coordinate(const char* name) const {
  const NetcdfVariable* v = file_->find(name);
  if (v == nullptr || v->type == NetcdfType::text || v->dimensions.size() != 1 ||
      v->dimensions[0].length != nodes_)
    return {};
  std::vector<std::string> remarks;
  return detail::read_degrees(*file_, *v, remarks);
}

void GraphFile::renumber(std::vector<Index> places) {
  require(places.empty() || static_cast<Index>(places.size()) == nodes_, "every node has a place");
  places_ = std::move(places);
}

std::vector<FileEdge> GraphFile::edges(Index first, Index count) const {
  require(first >= 0 && count >= 0 && first + count <= size_, "the edges are in the file");
  std::vector<FileEdge> edges = detail::read_edges(*file_, "edge_weight", first, count);
  const auto renumber = [&](Index& node) {  // callers that know the series refuse invalid nodes
    if (node >= 0 && node < static_cast<Index>(places_.size()))
      node = places_[static_cast<std::size_t>(node)];
  };
  for (FileEdge& edge : edges) {
    renumber(edge.source);
    renumber(edge.destination);
  }
  return edges;
}

std::vector<FileEdge> GraphFile::distances() const {
  const NetcdfVariable* v = file_->find("edge_distance");
  if (v == nullptr)
    user_error("{} has no variable edge_distance. Give a table of distances with --table", file_->path());
  if (v->dimensions.size() != 1 || v->type == NetcdfType::text || v->dimensions[0].length != size_)
    user_error(
        "{}: variable edge_distance is not a list of {} numbers, one for each edge. Give a table of "
        "distances with --table",
        file_->path(), size_);
  return detail::read_edges(*file_, "edge_distance", 0, size_);
}

namespace {

void put_list(NetcdfFile& file, int id, const auto& values) {
  const Index start = 0, count = static_cast<Index>(values.size());
  file.write(id, std::span(&start, 1), std::span(&count, 1), values.data());
}

int define(NetcdfFile& file, const char* name, NetcdfType type, const int& dimension, const char* meaning) {
  const int id = file.define_variable(name, type, std::span(&dimension, 1));
  file.put_text(id, "long_name", meaning);
  return id;
}

void define_coordinate(NetcdfFile& file, int id, const char* name, const char* units) {
  file.put_text(id, "standard_name", name);
  file.put_text(id, "units", units);
}

/// The labels as integers; none if a label is another text, such as 0012.
std::vector<Index> whole_numbers(const std::vector<std::string>& labels) {
  std::vector<Index> numbers;
  for (const std::string& label : labels) {
    Index number = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (error != std::errc{} || fmt::format("{}", number) != label) return {};
    numbers.push_back(number);
  }
  return numbers;
}

void write_to(NetcdfFile& file, const GraphLayout& layout) {
  const int node = file.define_dimension("node", layout.nodes);
  const int edge = file.define_dimension("edge", static_cast<Index>(layout.edges.size()));
  const int number = define(file, "node", NetcdfType::int32, node, "number of the node in its series file");
  const int source =
      define(file, "edge_src", NetcdfType::int32, edge, "index (0-based) along node of the edge start");
  const int destination =
      define(file, "edge_dst", NetcdfType::int32, edge, "index (0-based) along node of the edge end");
  const int weight =
      define(file, "edge_weight", NetcdfType::float64, edge, "edge weight, larger means closer");
  file.put_text(weight, "units", "1");
  for (const auto& [name, value] : layout.weight_attributes) file.put_text(weight, name.c_str(), value);
  const std::vector<Index> id_numbers = whole_numbers(layout.node_ids);
  int id = -1, lat = -1, lon = -1;
  if (!layout.node_ids.empty()) {
    id = define(file, "node_id", id_numbers.empty() ? NetcdfType::text : NetcdfType::other_integer, node,
                "what the series file calls the node");
    file.put_text(id, "cf_role", "timeseries_id");
    if (!layout.ids_of.empty()) file.put_text(id, "series_variable", layout.ids_of);
  }
  if (!layout.node_lat.empty()) {
    lat = define(file, "node_lat", NetcdfType::float64, node, "node latitude");
    lon = define(file, "node_lon", NetcdfType::float64, node, "node longitude");
    define_coordinate(file, lat, "latitude", "degrees_north");
    define_coordinate(file, lon, "longitude", "degrees_east");
  }
  file.put_text(-1, "Conventions", "CF-1.8");
  if (!layout.title.empty()) file.put_text(-1, "title", layout.title);
  for (const auto& [name, value] : layout.attributes) file.put_text(-1, name.c_str(), value);
  file.end_define();

  std::vector<Index> numbers(static_cast<std::size_t>(layout.nodes)), from, to;
  std::iota(numbers.begin(), numbers.end(), Index{0});
  std::vector<double> weights;
  for (const FileEdge& e : layout.edges) {
    from.push_back(e.source);
    to.push_back(e.destination);
    weights.push_back(e.weight);
  }
  put_list(file, number, numbers);
  put_list(file, source, from);
  put_list(file, destination, to);
  put_list(file, weight, weights);
  if (id >= 0 && id_numbers.empty()) file.write(id, layout.node_ids);
  if (id >= 0 && !id_numbers.empty()) put_list(file, id, id_numbers);
  if (lat >= 0) put_list(file, lat, layout.node_lat);
  if (lon >= 0) put_list(file, lon, layout.node_lon);
  file.close();
}

}  // namespace

void write_graph(const std::string& path, const GraphLayout& layout) {
  require(layout.node_lat.size() == layout.node_lon.size() &&
              (layout.node_lat.empty() || static_cast<Index>(layout.node_lat.size()) == layout.nodes),
          "coordinates have all nodes");
  require(layout.node_ids.empty() || static_cast<Index>(layout.node_ids.size()) == layout.nodes,
          "all nodes have ids, or none");
  if (layout.edges.empty() || layout.nodes == 0)
    user_error(
        "{}: a graph of {} nodes and {} edges cannot be written, because a graph needs at least one node and "
        "one edge. Lower --threshold, or check the input files",
        path, layout.nodes, layout.edges.size());
  const std::string temporary = temporary_name(path);
  try {
    NetcdfFile file = NetcdfFile::create(temporary, path);
    write_to(file, layout);
    commit_file(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

}  // namespace rossby
