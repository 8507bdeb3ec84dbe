#pragma once

#include <span>
#include <vector>

#include "rossby/relation/builders.hpp"

namespace rossby {

// Graphs for sensors from what is known of their places. Edges ascend by (source, destination); relation 0.

/// Great-circle distance in kilometres on a sphere with the Earth's mean radius (6371.0088 km), degrees in.
[[nodiscard]] double great_circle_km(double lat_a, double lon_a, double lat_b, double lon_b);

/// Standard deviation (divided by the count) of listed distances, which stand in place of weights; 0 of an
/// empty list.
[[nodiscard]] double spread_of(std::span<const Edge> distances);

/// Gaussian kernel with threshold (Shuman et al., IEEE Signal Processing Magazine 30(3), 2013, eq. 1, with
/// 1/σ² for 1/2σ², as Li et al., ICLR 2018, publish it for METR-LA): W = exp(−d²/σ²) where that is at least
/// `threshold`, no edge elsewhere. `distances` holds d in place of weights, d ≥ 0 in any unit; of a pair that
/// is listed more than once, the last counts. Directed: d(i → j) and d(j → i) may differ. σ of 0 stands for
/// spread_of(distances), each pair once. Throws UserError where a distance is negative or not finite, or all
/// are equal or too large for a standard deviation and no σ is given.
struct GaussianKernel {
  double sigma = 0;
  double threshold = 0.1;
};
struct GaussianGraph {
  std::vector<Edge> edges;
  double sigma = 0;
  Index pairs = 0;  // that a distance was listed of
};
[[nodiscard]] GaussianGraph gaussian_graph(std::vector<Edge> distances, const GaussianKernel& kernel);

/// Edges from each node's k nearest other nodes to it (nearest_neighbours) with their great-circle distance
/// in kilometres in place of the weight. `nodes`: those to join, ascending, as places in the coordinates;
/// sources and destinations are places too.
[[nodiscard]] std::vector<Edge> nearest_distances(std::span<const double> latitude,
                                                  std::span<const double> longitude,
                                                  std::span<const Index> nodes, int k);

/// Both directions of every edge, with the larger weight.
[[nodiscard]] std::vector<Edge> both_directions(std::vector<Edge> edges);

}  // namespace rossby
