#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

using test::Lists;

struct Places {
  std::vector<double> latitude;
  std::vector<double> longitude;
  [[nodiscard]] Index count() const { return static_cast<Index>(latitude.size()); }
  void add(double lat, double lon) {
    latitude.push_back(lat);
    longitude.push_back(lon);
  }
};

/// Central angle by the haversine formula in extended precision, rounded to 1e-8 rad (6 cm on Earth). The
/// builder uses another formula. Regular grids have ties here.
Index angle(const Places& at, std::size_t i, std::size_t j) {
  constexpr long double degree = std::numbers::pi_v<long double> / 180;
  const long double lat = (at.latitude[j] - at.latitude[i]) * degree / 2;
  const long double lon = (at.longitude[j] - at.longitude[i]) * degree / 2;
  const long double a = std::sin(lat) * std::sin(lat) + std::cos(at.latitude[i] * degree) *
                                                            std::cos(at.latitude[j] * degree) *
                                                            std::sin(lon) * std::sin(lon);
  return std::llround(2 * std::asin(std::min(1.0L, std::sqrt(a))) * 1e8L);
}

Lists brute_force(const Places& at, int k) {
  Lists lists;
  for (std::size_t i = 0; i < at.latitude.size(); ++i) {
    std::vector<std::pair<Index, Index>> all;
    for (std::size_t j = 0; j < at.latitude.size(); ++j)
      if (j != i) all.emplace_back(angle(at, i, j), static_cast<Index>(j));
    std::sort(all.begin(), all.end());
    all.resize(std::min(all.size(), static_cast<std::size_t>(k)));
    test::List list;
    for (const auto& [distance, j] : all) list.emplace_back(j, 1.0);
    std::sort(list.begin(), list.end());
    lists.push_back({list});
  }
  return lists;
}

void expect_brute_force(const Places& at, int k) {
  const Lists expected = brute_force(at, k);
  for (const int parts : test::part_counts)
    for (const RowPartition& partition : test::partitions(at.count(), parts)) {
      std::vector<GlobalEdges> blocks;
      for (int p = 0; p < parts; ++p)
        blocks.push_back(nearest_neighbours(at.latitude, at.longitude, k, partition, p));
      ASSERT_EQ(test::united(blocks, partition), expected)
          << at.count() << " nodes, k " << k << ", " << parts;
    }
}

Places scattered(Index n) {
  Places at;
  const Random random(31, "places");
  for (Index i = 0; i < n; ++i) {
    const double u = random.uniform(static_cast<std::uint64_t>(2 * i), -1, 1);
    at.add(std::asin(u) * 180 / std::numbers::pi,
           random.uniform(static_cast<std::uint64_t>(2 * i + 1), -180, 360));
  }
  return at;
}

TEST(NearestNeighbours, AreThoseOfBruteForce) {
  for (const Index n : {0, 1, 2, 3, 12, 13, 27, 101, 307})
    for (const int k : {1, 5, 8, 200}) expect_brute_force(scattered(n), k);
}

TEST(NearestNeighbours, TiesOfARegularGridGoToTheSmallerRow) {
  Places at;
  for (int lat = -6; lat <= 6; lat += 2)
    for (int lon = 170; lon <= 190; lon += 2) at.add(lat, lon);
  for (const int k : {1, 2, 3, 4, 7, 8, 11}) expect_brute_force(at, k);
}

TEST(NearestNeighbours, AcrossTheDateLineHoweverLongitudesAreWritten) {
  Places at;
  at.add(0, 179.5);
  at.add(0, -179.5);  // one degree from the first
  at.add(0, 177);
  at.add(0, 183.5);  // three degrees from the second
  at.add(0, 0);
  const auto edges = nearest_neighbours(at.latitude, at.longitude, 1, RowPartition::blocks(5, 1), 0);
  const std::vector<Index> expected{1, 0, 0, 1, 2};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(edges.column[i].value, expected[i]) << "node " << i;
}

TEST(NearestNeighbours, ThePoleIsOnePlaceAtEveryLongitude) {
  Places at;
  at.add(90, 0);
  at.add(89, 10);
  at.add(90, 123);
  at.add(90, -77);
  at.add(89.5, -170);
  at.add(-90, 5);
  at.add(-89, 5);
  const auto edges = nearest_neighbours(at.latitude, at.longitude, 2, RowPartition::blocks(7, 1), 0);
  const auto list = [&](Index i) {
    return std::vector<Index>{edges.column[static_cast<std::size_t>(2 * i)].value,
                              edges.column[static_cast<std::size_t>(2 * i + 1)].value};
  };
  EXPECT_EQ(list(0), (std::vector<Index>{2, 3}));
  EXPECT_EQ(list(2), (std::vector<Index>{0, 3}));
  EXPECT_EQ(list(4), (std::vector<Index>{0, 2}));  // three nodes are equally near
  EXPECT_EQ(list(1), (std::vector<Index>{0, 2}));
  EXPECT_EQ(list(6)[1], 5);
  expect_brute_force(at, 3);
}

TEST(NearestNeighbours, ManyNodesAtOnePlace) {
  Places at;
  for (int i = 0; i < 40; ++i) at.add(12.5, 33.25);
  at.add(12.5, 33.5);
  expect_brute_force(at, 4);
}

TEST(NearestNeighbours, NamesTheNodeWithoutAPlace) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const auto& [lat, lon] : {std::pair{nan, 0.0}, {0.0, nan}, {0.0, infinity}, {90.5, 0.0}}) {
    Places at = scattered(9);
    at.latitude[6] = lat;
    at.longitude[6] = lon;
    try {
      (void)nearest_neighbours(at.latitude, at.longitude, 2, RowPartition::blocks(9, 3), 1);
      ADD_FAILURE() << lat << ", " << lon << " must be refused";
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("node 6 "), std::string::npos) << error.what();
    }
  }
  const Places at = scattered(3);
  EXPECT_THROW((void)nearest_neighbours(at.latitude, at.longitude, 0, RowPartition::blocks(3, 1), 0),
               UserError);
}

}  // namespace
}  // namespace rossby
