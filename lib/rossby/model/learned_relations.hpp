#pragma once

#include <functional>
#include <span>
#include <string>

#include "rossby/base/index.hpp"

namespace rossby {

/// A relation between nodes that a model has learned, on one rank. Row i is the rank's node i in local order;
/// other nodes are named by their global row. It refers to the model, which must outlive it. Exactly one of
/// `self`, `entries`, `all` and `factors` is set.
struct LearnedRelation {
  std::string name;  // "refined", "discovered", …: unique in its model
  /// False: a row holds the weights with which other nodes act on its node. True: the weights with which its
  /// node acts on others.
  bool row_acts = false;

  /// Returns the weight of a node on itself; there are no other weights.
  std::function<double(Index row)> self = {};
  /// Weights on a given pattern: visits the weights of a row.
  std::function<void(Index row, const std::function<void(Index node, double weight)>& visit)> entries = {};
  /// Weights between all nodes, stored by the model: fills the weights of a row, (n).
  std::function<void(Index row, std::span<double> weights)> all = {};

  /// Weights between all nodes, given by factors: scale · left_i · right_j for nodes i and j, followed by
  /// `finish` of a row, if set. No rank holds all weights.
  struct Factors {
    Index width = 0;
    double scale = 1;
    std::function<void(Index row, std::span<float> values)> left = {},
                                                            right = {};  // of an owned row, (width)
    std::function<void(std::span<double> weights)> finish = {};          // of a row, (n), in place
  };
  Factors factors = {};

  [[nodiscard]] bool of_factors() const { return factors.width > 0; }
  /// True if it may connect any two nodes, not only those of a given pattern.
  [[nodiscard]] bool joins_all() const { return of_factors() || all; }
};

}  // namespace rossby
