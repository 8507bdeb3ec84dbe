#pragma once

#include <span>
#include <vector>

#include "rossby/relation/builders.hpp"

namespace rossby {

// Graphs for sensors from their locations. Edges ascend by (source, destination); relation 0.

/// Great-circle distance in kilometres on a sphere with the Earth's mean radius (6371.0088 km), degrees in.
[[nodiscard]] double great_circle_km(double lat_a, double lon_a, double lat_b, double lon_b);

/// Standard deviation (divided by the count) of distances, which are stored as weights; 0 for an empty list.
[[nodiscard]] double spread_of(std::span<const Edge> distances);

/// Gaussian kernel with threshold (Shuman et al., IEEE Signal Processing Magazine 30(3), 2013, eq. 1, with
/// 1/σ² for 1/2σ², as Li et al., ICLR 2018, publish it for METR-LA). W = exp(−d²/σ²) if that is at least
/// `threshold`, otherwise no edge. `distances` holds d ≥ 0 as weights, in any unit; the last listing of a
/// pair counts. Directed: d(i → j) and d(j → i) may differ. σ = 0 means spread_of(distances), with each pair
/// once. Throws UserError if a distance is negative or not finite. Without σ, also throws if all distances
/// are equal or too large for a standard deviation.
struct GaussianKernel {
  double sigma = 0;
  double threshold = 0.1;
};
struct GaussianGraph {
  std::vector<Edge> edges;
  double sigma = 0;
  Index pairs = 0;  // pairs with a listed distance
};
[[nodiscard]] GaussianGraph gaussian_graph(std::vector<Edge> distances, const GaussianKernel& kernel);

/// Edges from each node's k nearest other nodes to the node (nearest_neighbours), with the great-circle
/// distance in kilometres as weight. `nodes`: ascending indices into the coordinates of the nodes to join.
/// Sources and destinations are such indices, too.
[[nodiscard]] std::vector<Edge> nearest_distances(std::span<const double> latitude,
                                                  std::span<const double> longitude,
                                                  std::span<const Index> nodes, int k);

/// Makes every edge bidirectional, with the larger weight.
[[nodiscard]] std::vector<Edge> both_directions(std::vector<Edge> edges);

}  // namespace rossby
