#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// The weight of one node's influence on another.
struct RelationEdge {
  int relation = 0;
  Index source = 0;  // the node that acts
  Index target = 0;
  double weight = 0;
};

/// Contents of a file of learned relations, with n nodes and r relations. Lists that may be empty are then
/// not written.
struct RelationLayout {
  Index nodes = 0;
  std::vector<Index> file_node;            // each node's place in the data file
  std::vector<double> node_lat, node_lon;  // degrees; empty: no coordinates
  std::vector<std::string> node_ids;       // the data file's names; empty: none
  std::vector<std::string> relations;      // names
  std::vector<Index> searched;             // per relation: nodes whose weights were searched for edges
  std::vector<RelationEdge> edges;
  std::vector<double> edge_distance;  // km; with coordinates
  std::vector<double> edge_bearing;   // degrees clockwise from north at which the target sees the source
  std::vector<double> self_weight;    // per node; empty: no self relation
  std::vector<Index> places;          // nodes whose influence is mapped; empty: none
  /// (r, places, n), NaN if there is no weight: weights of nodes on a place, and of a place on nodes.
  std::vector<double> on_place, of_place;
  /// Centres of bins, and (r, distances, bearings): means of |weight| over pairs, and the number of pairs;
  /// with coordinates.
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
