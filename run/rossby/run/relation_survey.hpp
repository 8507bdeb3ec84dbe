#pragma once

#include <span>
#include <vector>

#include "rossby/io/relation_file.hpp"
#include "rossby/model/learned_relations.hpp"
#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/mpi/mpi_reducer.hpp"

namespace rossby {

/// Searches a model's learned relations, each rank in the rows of its nodes. No rank holds an (n, n) array:
/// rows of relations of factors are made one at a time, from the factors of all nodes.
class RelationSurvey {
 public:
  /// Keeps `edges_of_node` edges of a node, of relations between all nodes. The others must outlive this.
  RelationSurvey(const Communicator& comm, const Domain& domain, Index edges_of_node);

  /// Adds a relation to the layout: its edges, self weights, and strength by distance and bearing. If it is
  /// of factors between very many nodes, searches some rows, evenly spread. Collective.
  void add(const LearnedRelation& relation, RelationLayout& layout);
  /// Returns the node whose weights on others have the largest sum in the added relations between all nodes;
  /// −1 if there are none. Collective.
  [[nodiscard]] Index strongest_node();
  /// Adds the weights of a relation between the places of the layout and all nodes. Collective.
  void add_places(const LearnedRelation& relation, RelationLayout& layout);

 private:
  using Row = std::span<double>;
  [[nodiscard]] bool mapped() const { return !domain_->latitude.empty(); }
  [[nodiscard]] Index stride(const LearnedRelation& relation) const;
  [[nodiscard]] std::vector<float> right_factors(const LearnedRelation& relation) const;
  void fill(const LearnedRelation& relation, std::span<const float> right, Index row, Row weights) const;
  void keep_strongest(const LearnedRelation& relation, int number, Index row, Row weights);
  void count(const LearnedRelation& relation, Index row, Row weights, std::vector<double>& sums) const;
  void append_edges(RelationLayout& layout);
  void append_strength(std::vector<double> sums, RelationLayout& layout);

  Communicator comm_;
  const Domain* domain_;
  Index edges_of_node_;
  MpiReducer reducer_;
  std::vector<double> axes_;  // unit vectors up, east and north of each node; empty without coordinates
  double widest_ = 0;         // about the largest distance between nodes, in km
  std::vector<RelationEdge> found_;
  std::vector<double> acting_;  // |weights| of each node on others, summed over this rank's rows
  bool joins_all_ = false;
};

}  // namespace rossby
