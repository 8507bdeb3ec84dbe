#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/base/index.hpp"

namespace rossby {

/// A relation between nodes that a model has learned, as one rank has it: row i is the rank's node i in local
/// order, other nodes are named by their global row. It refers to the model, which has to outlive it. One of
/// `self`, `entries`, `all` and `factors` is set.
struct LearnedRelation {
  std::string name;  // "refined", "discovered", …: unique in its model
  /// False: the weights of a row are those with which other nodes act on its node. True: those with which it
  /// acts on others.
  bool row_acts = false;

  /// The weight of a node on itself; there are no others.
  std::function<double(Index row)> self = {};
  /// Weights on a given pattern: visits those of a row.
  std::function<void(Index row, const std::function<void(Index node, double weight)>& visit)> entries = {};
  /// Weights between all nodes, which the model stores: fills those of a row, (n).
  std::function<void(Index row, std::span<double> weights)> all = {};

  /// Weights between all nodes that are made of factors: of nodes i and j scale · left_i · right_j, and
  /// `finish` of a row of these, if there is one. No rank holds them all.
  struct Factors {
    Index width = 0;
    double scale = 1;
    std::function<void(Index row, std::span<float> values)> left = {},
                                                            right = {};  // of an owned row, (width)
    std::function<void(std::span<double> weights)> finish = {};          // of a row, (n), in place
  };
  Factors factors = {};

  [[nodiscard]] bool of_factors() const { return factors.width > 0; }
  /// Whether it may join any two nodes, not only those of a given pattern.
  [[nodiscard]] bool joins_all() const { return of_factors() || all; }
};

}  // namespace rossby
