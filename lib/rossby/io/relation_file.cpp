#include "rossby/io/relation_file.hpp"

#include <span>

#include <unistd.h>

#include "rossby/base/error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

/// Variables of the file: defined first, written once the header is complete.
class RelationVariables {
 public:
  explicit RelationVariables(NetcdfFile& file) : file_(file) {}

  struct Meaning {
    const char* long_name;
    const char* units = nullptr;
    const char* standard_name = nullptr;
  };

  void add(const char* name, std::vector<int> shape, std::vector<double> values, const Meaning& meaning,
           std::vector<Index> counts = {}, NetcdfType type = NetcdfType::float64) {
    const int id = define(name, shape, type, meaning);
    if (counts.empty()) counts.push_back(std::ssize(values));
    numbers_.push_back({id, std::move(counts), std::move(values)});
  }
  void add(const char* name, int dimension, std::vector<Index> values, const Meaning& meaning) {
    lists_.push_back({define(name, {dimension}, NetcdfType::int32, meaning), std::move(values)});
  }
  void add(const char* name, int dimension, const std::vector<std::string>& values, const Meaning& meaning) {
    const int id = define(name, {dimension}, NetcdfType::text, meaning);
    texts_.push_back({id, values});
  }
  void put_text(const char* attribute, const std::string& value) { file_.put_text(last_, attribute, value); }

  void write() {
    for (const auto& [id, counts, values] : numbers_) {
      const std::vector<Index> start(counts.size(), 0);
      if (!values.empty()) file_.write(id, start, counts, values.data());
    }
    for (const auto& [id, values] : lists_) {
      const Index start = 0, count = std::ssize(values);
      if (count > 0) file_.write(id, std::span(&start, 1), std::span(&count, 1), values.data());
    }
    for (const auto& [id, values] : texts_) file_.write(id, values);
  }

 private:
  int define(const char* name, const std::vector<int>& shape, NetcdfType type, const Meaning& meaning) {
    last_ = file_.define_variable(name, type, shape);
    if (type == NetcdfType::float32 || type == NetcdfType::float64)
      file_.fill_with_nan(last_, type == NetcdfType::float64);
    file_.put_text(last_, "long_name", meaning.long_name);
    if (meaning.units != nullptr) file_.put_text(last_, "units", meaning.units);
    if (meaning.standard_name != nullptr) file_.put_text(last_, "standard_name", meaning.standard_name);
    return last_;
  }

  struct Numbers {
    int id;
    std::vector<Index> counts;
    std::vector<double> values;
  };
  NetcdfFile& file_;
  int last_ = -1;
  std::vector<Numbers> numbers_;
  std::vector<std::pair<int, std::vector<Index>>> lists_;
  std::vector<std::pair<int, std::vector<std::string>>> texts_;
};

void add_nodes(RelationVariables& all, const RelationLayout& layout, int node) {
  all.add("file_node", node, layout.file_node, {"place of the node among those of the data file"});
  if (!layout.node_ids.empty()) {
    all.add("node", node, layout.node_ids, {"what the data file calls the node"});
    all.put_text("cf_role", "timeseries_id");
  }
  if (layout.node_lat.empty()) return;
  all.add("node_lat", {node}, layout.node_lat, {"node latitude", "degrees_north", "latitude"});
  all.add("node_lon", {node}, layout.node_lon, {"node longitude", "degrees_east", "longitude"});
}

void add_edges(RelationVariables& all, const RelationLayout& layout, int edge) {
  std::vector<Index> source, target, relation;
  std::vector<double> weight;
  for (const RelationEdge& e : layout.edges) {
    source.push_back(e.source);
    target.push_back(e.target);
    relation.push_back(e.relation);
    weight.push_back(e.weight);
  }
  all.add("edge_source", edge, std::move(source), {"index along node of the node that acts"});
  all.add("edge_target", edge, std::move(target), {"index along node of the node that is acted on"});
  all.add("edge_relation", edge, std::move(relation), {"index along relation"});
  all.add("edge_weight", {edge}, std::move(weight), {"learned weight", "1"});
  if (layout.node_lat.empty()) return;
  all.add("edge_distance", {edge}, layout.edge_distance, {"great-circle distance", "km"});
  all.add("edge_bearing", {edge}, layout.edge_bearing,
          {"direction in which the target sees the source, clockwise from north", "degree"});
}

void add_relations(RelationVariables& all, NetcdfFile& file, const RelationLayout& layout, int node) {
  const Index count = std::ssize(layout.relations);
  const int relation = file.define_dimension("relation", count);
  const int edge = file.define_dimension("edge", std::ssize(layout.edges));
  all.add("relation", relation, layout.relations, {"learned relation"});
  all.add("searched_nodes", relation, layout.searched, {"nodes whose weights were searched for edges"});
  add_edges(all, layout, edge);
  if (const Index places = std::ssize(layout.places); places > 0) {
    const int place = file.define_dimension("place", places);
    const std::vector<Index> counts{count, places, layout.nodes};
    all.add("place", place, layout.places, {"index along node of a place"});
    all.add("weight_on_place", {relation, place, node}, layout.on_place,
            {"weight with which the node acts on the place", "1"}, counts, NetcdfType::float32);
    all.add("weight_of_place", {relation, place, node}, layout.of_place,
            {"weight with which the place acts on the node", "1"}, counts, NetcdfType::float32);
  }
  if (!layout.strength.empty()) {
    const Index far = std::ssize(layout.distance), around = std::ssize(layout.bearing);
    const int distance = file.define_dimension("distance", far),
              bearing = file.define_dimension("bearing", around);
    const std::vector<Index> counts{count, far, around};
    all.add("distance", {distance}, layout.distance, {"great-circle distance, middle of the bin", "km"});
    all.add(
        "bearing", {bearing}, layout.bearing,
        {"direction in which a node sees the one that acts on it, clockwise from north, middle of the bin",
         "degree"});
    all.add("strength", {relation, distance, bearing}, layout.strength,
            {"mean of the absolute weights of the pairs", "1"}, counts);
    all.add("pairs", {relation, distance, bearing}, layout.pairs, {"pairs of nodes", "1"}, counts);
  }
}

void write_to(NetcdfFile& file, const RelationLayout& layout) {
  const int node = file.define_dimension("node", layout.nodes);
  RelationVariables all(file);
  add_nodes(all, layout, node);
  if (!layout.self_weight.empty())
    all.add("self_weight", {node}, layout.self_weight, {"learned weight of the node on itself", "1"});
  if (!layout.relations.empty()) add_relations(all, file, layout, node);
  file.put_text(-1, "Conventions", "CF-1.8");
  if (!layout.title.empty()) file.put_text(-1, "title", layout.title);
  for (const auto& [name, value] : layout.attributes) file.put_text(-1, name.c_str(), value);
  file.end_define();
  all.write();
  file.close();
}
}  // namespace

void write_relations(const std::string& path, const RelationLayout& layout) {
  require(layout.nodes > 0, "relations are of nodes");
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
