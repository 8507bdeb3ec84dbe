#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/sensor_graph.hpp"

namespace rossby {
namespace {

TEST(SensorGraph, GreatCircles) {
  EXPECT_EQ(great_circle_km(34, -118, 34, -118), 0);
  EXPECT_NEAR(great_circle_km(0, 0, 90, 77), 10007.557, 1e-3);   // a quarter of a meridian
  EXPECT_NEAR(great_circle_km(10, 179.5, 10, -180.5), 0, 1e-9);  // the same place
  EXPECT_NEAR(great_circle_km(0, 0, 0, 180), 20015.115, 1e-3);   // antipodes
  EXPECT_NEAR(great_circle_km(34, -118, 34.00001, -118), 1.11195e-3, 1e-8);
}

/// Distances of four nodes. One pair differs in each direction; (0, 1) comes twice and the second counts.
std::vector<Edge> distances() {
  return {{1, 0, 0, 2}, {0, 1, 0, 77}, {0, 0, 0, 0}, {2, 3, 0, 6}, {0, 1, 0, 1}, {3, 0, 0, 3}};
}

TEST(SensorGraph, GaussianKernelWithThreshold) {
  const double mean = (2 + 0 + 6 + 1 + 3) / 5.0;
  const double sigma = std::sqrt((std::pow(2 - mean, 2) + mean * mean + std::pow(6 - mean, 2) +
                                  std::pow(1 - mean, 2) + std::pow(3 - mean, 2)) /
                                 5);
  const GaussianGraph graph = gaussian_graph(distances(), {});
  EXPECT_EQ(graph.pairs, 5);
  EXPECT_NEAR(graph.sigma, sigma, 1e-14);
  ASSERT_EQ(graph.edges.size(), 4u) << "2 -> 3 is too far";
  EXPECT_EQ(graph.edges[0].weight, 1);
  EXPECT_EQ(graph.edges[1].source, 0);
  EXPECT_EQ(graph.edges[1].destination, 1);
  EXPECT_NEAR(graph.edges[1].weight, std::exp(-1 / (sigma * sigma)), 1e-15);
  EXPECT_NEAR(graph.edges[2].weight, std::exp(-4 / (sigma * sigma)), 1e-15);
  EXPECT_EQ(graph.edges[3].source, 3);

  const GaussianGraph all = gaussian_graph(distances(), {3, 0});
  EXPECT_EQ(all.edges.size(), 5u);
  EXPECT_EQ(all.sigma, 3);
  EXPECT_NEAR(all.edges[3].weight, std::exp(-4.0), 1e-15);
  EXPECT_TRUE(gaussian_graph({}, {}).edges.empty());
  EXPECT_THROW(gaussian_graph({{0, 1, 0, 1e300}, {1, 0, 0, 1}}, {}), UserError) << "no finite spread";
  EXPECT_EQ(gaussian_graph({{0, 1, 0, 1e300}, {1, 0, 0, 1}}, {2, 0.1}).edges.size(), 1U);
  EXPECT_TRUE(gaussian_graph({{0, 1, 0, 1e200}}, {1, 0}).edges.empty()) << "a weight of 0 is no edge";
}

TEST(SensorGraph, BadDistances) {
  for (const double bad : {-1.0, -0.001, std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_THROW((void)gaussian_graph({{0, 1, 0, 1}, {1, 2, 0, bad}}, {}), UserError) << bad;
  EXPECT_THROW((void)gaussian_graph({{0, 1, 0, 4}, {1, 0, 0, 4}}, {}), UserError) << "no standard deviation";
  EXPECT_EQ(gaussian_graph({{0, 1, 0, 4}, {1, 0, 0, 4}}, {4, 0.1}).edges.size(), 2u);
}

TEST(SensorGraph, NearestOfSomeNodes) {
  const std::vector<double> lat{0, 0, 0, 0, 0}, lon{0, 1, 3, std::nan(""), 7};
  const std::vector<Index> nodes{0, 2, 4};  // 1 and 3 are left out: 1 would be the nearest, 3 has no place
  const auto edges = nearest_distances(lat, lon, nodes, 1);
  ASSERT_EQ(edges.size(), 3u);
  EXPECT_EQ(edges[0].source, 0);
  EXPECT_EQ(edges[0].destination, 2) << "0 is the nearest of 2 and acts on it";
  EXPECT_EQ(edges[1].source, 2);
  EXPECT_EQ(edges[1].destination, 0);
  EXPECT_EQ(edges[2].destination, 4);
  EXPECT_NEAR(edges[2].weight, great_circle_km(0, 3, 0, 7), 1e-12);
  EXPECT_EQ(nearest_distances(lat, lon, nodes, 9).size(), 6u);
  EXPECT_TRUE(nearest_distances(lat, lon, std::vector<Index>{0}, 2).empty());
  const std::vector<Index> placeless{0, 3};
  try {
    (void)nearest_distances(lat, lon, placeless, 1);
    ADD_FAILURE();
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("node 3 has latitude 0, longitude nan"))
        << error.what();
  }
}

TEST(SensorGraph, BothDirections) {
  const auto edges = both_directions({{0, 1, 0, 0.25}, {1, 0, 0, 0.5}, {2, 2, 0, 1}, {2, 0, 0, 3}});
  ASSERT_EQ(edges.size(), 5u);
  EXPECT_EQ(edges[0].weight, 0.5);
  EXPECT_EQ(edges[1].destination, 2);
  EXPECT_EQ(edges[1].weight, 3);
  EXPECT_EQ(edges[2].weight, 0.5);
  EXPECT_EQ(edges[4].weight, 1);
}

}  // namespace
}  // namespace rossby
