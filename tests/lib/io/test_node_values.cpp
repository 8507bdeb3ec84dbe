#include <cmath>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/netcdf.hpp"
#include "rossby/io/node_values.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

// Node values from other files: grid variables, packed and missing values, files of other grids.

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;

/// Writes sst(time = 2, lat = 2, lon = 3) with depth(lat, lon); latitudes begin at `first_lat`.
void write_grid(const std::string& path, float first_lat, Index rows = 2, const char* lat_name = "lat") {
  NetcdfFile file = NetcdfFile::create(path);
  const int time = file.define_dimension("time", 2), lat = file.define_dimension("lat", rows),
            lon = file.define_dimension("lon", 3);
  const int all[] = {time, lat, lon}, cells[] = {lat, lon}, lats[] = {lat}, lons[] = {lon}, times[] = {time};
  const int stamps = file.define_variable("time", NetcdfType::float64, times);
  file.put_text(stamps, "units", "days since 2001-01-01");
  const int lat_axis = file.define_variable(lat_name, NetcdfType::float32, lats);
  file.put_text(lat_axis, "units", "degrees_north");
  const int lon_axis = file.define_variable("lon", NetcdfType::float32, lons);
  file.put_text(lon_axis, "units", "degrees_east");
  const int sst = file.define_variable("sst", NetcdfType::float32, all);
  const int depth = file.define_variable("depth", NetcdfType::float32, cells);
  file.fill_with_nan(depth);
  file.end_define();
  const auto write = [&](int variable, std::vector<Index> count, float start) {
    std::vector<float> values(
        static_cast<std::size_t>(std::accumulate(count.begin(), count.end(), Index{1}, std::multiplies<>())));
    std::iota(values.begin(), values.end(), start);
    if (variable == depth) values[1] = NAN;
    const std::vector<Index> begin(count.size(), 0);
    file.write(variable, begin, count, values.data());
  };
  write(stamps, {2}, 0);
  write(lat_axis, {rows}, first_lat);
  write(lon_axis, {3}, 10);
  write(sst, {2, rows, 3}, 1);
  write(depth, {rows, 3}, 100);
  file.close();
}

TEST(NodeValues, OfAGridAreItsCells) {
  const TemporaryDirectory folder;
  write_grid(folder / "grid.nc", 40);
  const SeriesInfo info = SeriesFile::open(folder / "grid.nc", {}).info();
  const auto depth = read_node_values(info, "depth", "");
  ASSERT_EQ(depth.size(), 6U);
  EXPECT_TRUE(std::isnan(depth[1]));
  EXPECT_EQ(depth[5], 105);
  EXPECT_EQ(read_node_values(info, "latitude", "")[3], 41);
  EXPECT_EQ(read_node_values(info, "longitude", "")[3], 10);
  EXPECT_EQ(node_variables(info), std::vector<std::string>{"depth"});
  EXPECT_EQ(node_text(info, 4), "the cell at 41, 11 degrees");
  EXPECT_EQ(read_node_values(info, "depth", folder / "grid.nc")[5], 105);
}

TEST(NodeValues, OfAnotherGridAreRefused) {
  const TemporaryDirectory folder;
  write_grid(folder / "grid.nc", 40);
  write_grid(folder / "moved.nc", 41);
  write_grid(folder / "larger.nc", 40, 3);
  const SeriesInfo info = SeriesFile::open(folder / "grid.nc", {}).info();
  const auto refusal = [&](const std::string& name, const std::string& file) {
    return user_message([&] { (void)read_node_values(info, name, file.empty() ? "" : folder / file); });
  };
  EXPECT_NE(refusal("depth", "moved.nc").find("the grids differ"), std::string::npos);
  write_grid(folder / "bare.nc", 40, 2, "latitudes");
  EXPECT_NE(refusal("depth", "bare.nc").find("bare.nc: dimension lat has no coordinate variable"),
            std::string::npos);
  EXPECT_NE(refusal("depth", "larger.nc")
                .find("(lat = 3, lon = 3), but needs the dimensions of the nodes, (lat = 2, lon = 3)"),
            std::string::npos);
  EXPECT_NE(refusal("sst", "").find("has dimensions (time = 2, lat = 2, lon = 3)"), std::string::npos);
  EXPECT_NE(refusal("dept", "").find("did you mean depth?"), std::string::npos);
  std::ofstream(folder / "cells.csv") << "cell,depth\n0,1\n5,2\n6,3\n";
  EXPECT_EQ(read_node_values(info, "depth", folder / "cells.csv")[5], 2) << "cells are numbered";
}

}  // namespace
}  // namespace rossby
