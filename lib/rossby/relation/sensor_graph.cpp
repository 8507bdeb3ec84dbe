#include "rossby/relation/sensor_graph.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <tuple>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

bool same_pair(const Edge& a, const Edge& b) {
  return a.source == b.source && a.destination == b.destination;
}

/// Sorts by (source, destination), stable.
void sort_pairs(std::vector<Edge>& edges) {
  std::stable_sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.source, a.destination) < std::tie(b.source, b.destination);
  });
}

}  // namespace

double great_circle_km(double lat_a, double lon_a, double lat_b, double lon_b) {
  constexpr double earth_radius_km = 6371.0088, degree = std::numbers::pi / 180;
  // The haversine formula is accurate for small distances.
  const double lat = std::sin((lat_b - lat_a) * degree / 2);
  const double lon = std::sin((lon_b - lon_a) * degree / 2);
  const double h = lat * lat + std::cos(lat_a * degree) * std::cos(lat_b * degree) * lon * lon;
  return 2 * earth_radius_km * std::asin(std::min(1.0, std::sqrt(h)));
}

double spread_of(std::span<const Edge> distances) {
  if (distances.empty()) return 0;
  const auto count = static_cast<double>(distances.size());
  double mean = 0, squares = 0;
  for (const Edge& e : distances) mean += e.weight / count;
  for (const Edge& e : distances) squares += (e.weight - mean) * (e.weight - mean) / count;
  return std::sqrt(squares);
}

GaussianGraph gaussian_graph(std::vector<Edge> distances, const GaussianKernel& kernel) {
  for (const Edge& e : distances)
    if (!(e.weight >= 0) || !std::isfinite(e.weight))
      user_error(
          "the distance from node {} to node {} is {}, but distances have to be finite and not negative. "
          "Correct this distance",
          e.source, e.destination, e.weight);
  sort_pairs(distances);
  GaussianGraph graph;
  for (const Edge& e : distances)
    if (!graph.edges.empty() && same_pair(graph.edges.back(), e))
      graph.edges.back() = e;
    else
      graph.edges.push_back(e);
  graph.pairs = static_cast<Index>(graph.edges.size());
  graph.sigma = kernel.sigma > 0 ? kernel.sigma : spread_of(graph.edges);
  if (!graph.edges.empty() && !(graph.sigma > 0))
    user_error(
        "all {} distances are equal, so that they have no standard deviation. Give the width of the kernel "
        "with --sigma",
        graph.pairs);
  if (!std::isfinite(graph.sigma))
    user_error(
        "the standard deviation of {} distances is not finite, because they are too large. Give the width of "
        "the kernel with --sigma",
        graph.pairs);
  for (Edge& e : graph.edges) e.weight = std::exp(-(e.weight / graph.sigma) * (e.weight / graph.sigma));
  std::erase_if(graph.edges, [&](const Edge& e) { return e.weight < kernel.threshold || e.weight == 0; });
  return graph;
}

std::vector<Edge> nearest_distances(std::span<const double> latitude, std::span<const double> longitude,
                                    std::span<const Index> nodes, int k) {
  std::vector<double> lat, lon;
  for (const Index node : nodes) {
    lat.push_back(latitude[static_cast<std::size_t>(node)]);
    lon.push_back(longitude[static_cast<std::size_t>(node)]);
    if (!std::isfinite(lat.back()) || !std::isfinite(lon.back()) || std::abs(lat.back()) > 90)
      user_error(
          "node {} has latitude {}, longitude {}. Give finite numbers in degrees, with latitudes from -90 to "
          "90",
          node, lat.back(), lon.back());
  }
  const auto count = static_cast<Index>(nodes.size());
  const GlobalEdges near = nearest_neighbours(lat, lon, k, RowPartition::blocks(count, 1), 0);
  std::vector<Edge> edges;
  for (Index i = 0; i < count; ++i)
    for (Index e = near.begin(i, 0); e < near.end(i, 0); ++e) {
      const auto row = static_cast<std::size_t>(i);
      const auto column = static_cast<std::size_t>(near.column[static_cast<std::size_t>(e)].value);
      edges.push_back(
          {nodes[column], nodes[row], 0, great_circle_km(lat[column], lon[column], lat[row], lon[row])});
    }
  sort_pairs(edges);
  return edges;
}

std::vector<Edge> both_directions(std::vector<Edge> edges) {
  const std::size_t count = edges.size();
  for (std::size_t e = 0; e < count; ++e) {
    Edge back = edges[e];
    std::swap(back.source, back.destination);
    edges.push_back(back);
  }
  sort_pairs(edges);
  std::vector<Edge> unique;
  for (const Edge& e : edges)
    if (!unique.empty() && same_pair(unique.back(), e))
      unique.back().weight = std::max(unique.back().weight, e.weight);
    else
      unique.push_back(e);
  return unique;
}

}  // namespace rossby
