#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// A weight with which a node acts on another one.
struct RelationEdge {
  int relation = 0;
  Index source = 0;  // the node that acts
  Index target = 0;
  double weight = 0;
};

/// What a file of learned relations holds, n nodes and r relations. Lists may be empty where it says so: they
/// are not written then.
struct RelationLayout {
  Index nodes = 0;
  std::vector<Index> file_node;            // of each node, its place among those of the data file
  std::vector<double> node_lat, node_lon;  // degrees; empty: no coordinates
  std::vector<std::string> node_ids;       // what the data file calls them; empty: nothing
  std::vector<std::string> relations;      // names
  std::vector<Index> searched;             // of each relation: nodes whose weights were searched for edges
  std::vector<RelationEdge> edges;
  std::vector<double> edge_distance;  // km; with coordinates
  std::vector<double> edge_bearing;   // degrees clockwise from north at which the target sees the source
  std::vector<double> self_weight;    // of each node; empty: no self relation
  std::vector<Index> places;          // nodes whose influence is mapped; empty: none
  /// (r, places, n), NaN where there is no weight: with which nodes act on a place, and a place on nodes.
  std::vector<double> on_place, of_place;
  /// Middles of bins, and (r, distances, bearings): means of |weight| over pairs, and how many; with
  /// coordinates.
  std::vector<double> distance, bearing, strength, pairs;
  std::string title;
  std::vector<std::pair<std::string, std::string>> attributes;  // further global ones
};

/// Writes a CF-1.8 NetCDF-4 file: relation(relation), node_lat(node), node_lon(node), node(node),
/// file_node(node), edge_source(edge), edge_target(edge), edge_relation(edge), edge_weight(edge),
/// edge_distance(edge), edge_bearing(edge), self_weight(node), place(place), weight_on_place(relation, place,
/// node), weight_of_place(relation, place, node), strength(relation, distance, bearing), pairs(relation,
/// distance, bearing). It appears whole or not at all. Throws UserError if it cannot be written.
void write_relations(const std::string& path, const RelationLayout& layout);

}  // namespace rossby
