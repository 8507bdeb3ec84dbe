// Builders on the graphs and grids of real files. Skipped if the files are missing.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/relation/builders.hpp"
#include "tests/lib/relation/halo.hpp"
#include "tests/lib/relation/netcdf_file.hpp"
#include "tests/lib/relation/parts.hpp"

namespace rossby {
namespace {

TEST(GoldenRelations, NormalisedPowersAreThoseOfTheReference) {
  const std::string path = test::folder("ROSSBY_GOLDEN", ROSSBY_TEST_GOLDEN) + "/stnn_random_given_2hop.nc";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << "no golden file stnn_random_given_2hop.nc; set ROSSBY_GOLDEN";
  const test::NetcdfFile file(path);
  const Index n = file.dimension("node");
  const Index types = file.dimension("edge_type");
  const auto adjacency = file.read("adjacency", types * n * n);
  const auto expected = file.read("W", 2 * types * n * n);
  std::vector<Edge> edges;
  for (Index k = 0; k < types; ++k)
    for (Index i = 0; i < n; ++i)
      for (Index j = 0; j < n; ++j)
        if (const double weight = adjacency[static_cast<std::size_t>((k * n + i) * n + j)]; weight != 0)
          edges.push_back({j, i, static_cast<int>(k), weight});
  for (const int parts : {1, 3}) {
    const auto partition = test::partitions(n, parts).back();
    const auto blocks = test::on_parts(parts, [&](Mailbox& mailbox) {
      auto own = from_edge_list(test::slice(edges, mailbox.part(), parts), static_cast<int>(types), partition,
                                mailbox);
      normalise_rows(own);
      const std::vector<int> hops{1, 2};
      return powers(own, hops, partition, mailbox);
    });
    const auto lists = test::united(blocks, partition);
    std::vector<double> w(expected.size(), 0.0);
    for (std::size_t i = 0; i < lists.size(); ++i)
      for (std::size_t k = 0; k < lists[i].size(); ++k)
        for (const auto& [j, value] : lists[i][k])
          w[(k * lists.size() + i) * lists.size() + static_cast<std::size_t>(j)] = value;
    for (std::size_t at = 0; at < w.size(); ++at) ASSERT_NEAR(w[at], expected[at], 1e-15) << "at " << at;
  }
}

Grid sea_of(const test::NetcdfFile& file, bool periodic) {
  Grid grid{file.dimension("lat"), file.dimension("lon"), {}, periodic};
  Index node = 0;
  for (const double land : file.read("land_mask", grid.n_lat * grid.n_lon))
    grid.node_of_cell.push_back(land == 0 ? node++ : -1);
  return grid;
}

struct Sea {
  std::string file;
  bool periodic;
  Index cells;
  int parts;
  Index tiles;      // ghosts of all tiles together, 8 neighbours
  Index rows;       // the same for contiguous blocks of cells
  Index four_hops;  // ghosts of tiles with hops 1, 2 and 4
};

// These counts are in docs/design/relations.md.
TEST(RealGrids, TilesNeedFewGhosts) {
  const std::string data = test::folder("ROSSBY_DATA", ROSSBY_TEST_DATA);
  if (data.empty()) GTEST_SKIP() << "no data files; set ROSSBY_DATA";
  const std::vector<Sea> seas{{"pacific_sst_2deg_monthly.nc", false, 2261, 4, 186, 469, 736},
                              {"pacific_sst_2deg_monthly.nc", false, 2261, 16, 621, 2307, 2798},
                              {"ersst_v5_global_2deg_monthly.nc", true, 10988, 4, 514, 854, 2038},
                              {"ersst_v5_global_2deg_monthly.nc", true, 10988, 16, 1371, 4284, 5810}};
  const std::vector<int> hops{1, 2, 4};
  for (const Sea& sea : seas) {
    const std::string path = data + "/" + sea.file;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "no data file " << sea.file;
    const Grid grid = sea_of(test::NetcdfFile(path), sea.periodic);
    const RowPartition partition = test::tiles(grid, sea.parts);
    ASSERT_EQ(partition.rows(), sea.cells);
    EXPECT_LE(test::halo(grid, partition).total, sea.tiles) << sea.file << ", " << sea.parts << " parts";
    EXPECT_LE(test::halo(grid, partition, hops).total, sea.four_hops)
        << sea.file << ", " << sea.parts << " parts";
    EXPECT_EQ(test::halo(grid, RowPartition::blocks(sea.cells, sea.parts)).total, sea.rows);
  }
}

}  // namespace
}  // namespace rossby
