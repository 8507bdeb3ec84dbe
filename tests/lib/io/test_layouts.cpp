// Shapes in which other programs write series, made with the C library, and the files written from them.
#include <cmath>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <netcdf.h>

#include "rossby/io/series_file.hpp"
#include "rossby/io/series_writer.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/io/netcdf_ok.hpp"
#include "tests/lib/io/read_all.hpp"

namespace rossby {
namespace {

using testing_support::ok;
using testing_support::read_all;
using testing_support::TemporaryDirectory;
using testing_support::user_message;

/// A file with dimensions and variables, each filled with 0, 1, 2, ….
class Maker {
 public:
  explicit Maker(const std::string& path) { ok(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file_)); }
  ~Maker() { ok(nc_close(file_)); }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  int variable(const std::string& name, nc_type type,
               const std::vector<std::pair<std::string, std::size_t>>& shape,
               std::vector<double> values = {}) {
    std::vector<int> ids;
    std::size_t size = 1;
    for (const auto& [dimension, length] : shape) {
      int id = -1;
      if (nc_inq_dimid(file_, dimension.c_str(), &id) != NC_NOERR)
        ok(nc_def_dim(file_, dimension.c_str(), length, &id));
      ids.push_back(id);
      size *= length;
    }
    int id = -1;
    ok(nc_def_var(file_, name.c_str(), type, static_cast<int>(ids.size()), ids.data(), &id));
    for (std::size_t k = values.size(); k < size; ++k) values.push_back(static_cast<double>(k));
    if (type == NC_CHAR) {
      const std::string letters(values.begin(), values.end());
      ok(nc_put_var_text(file_, id, letters.data()));
    } else if (type != NC_STRING)
      ok(nc_put_var_double(file_, id, values.data()));
    return id;
  }
  void text(int variable, const char* name, const std::string& value) {
    ok(nc_put_att_text(file_, variable, name, value.size(), value.c_str()));
  }
  void number(int variable, const char* name, double value) {
    ok(nc_put_att_double(file_, variable, name, NC_DOUBLE, 1, &value));
  }
  void strings(int variable, std::vector<const char*> values) {
    ok(nc_put_var_string(file_, variable, values.data()));
  }
  void days(std::size_t steps, const std::string& dimension = "time") {
    text(variable(dimension, NC_DOUBLE, {{dimension, steps}}), "units", "days since 2000-01-01");
  }

 private:
  int file_ = -1;
};

std::vector<float> ramp(std::size_t size) {
  std::vector<float> values;
  for (std::size_t k = 0; k < size; ++k) values.push_back(static_cast<float>(k));
  return values;
}

TEST(Layouts, CurvilinearGridsAreNodesWithCoordinatesOfTheirOwn) {
  const TemporaryDirectory folder;
  const std::string path = folder / "pop.nc";
  {
    Maker make(path);
    make.days(3);
    const int lat =
        make.variable("TLAT", NC_DOUBLE, {{"nlat", 2}, {"nlon", 4}}, {1, 2, 3, 4, 5, 6, 7, 9.96921e36});
    const int lon = make.variable("TLONG", NC_DOUBLE, {{"nlat", 2}, {"nlon", 4}});
    make.text(lat, "units", "degrees_north");
    make.text(lon, "units", "degrees_east");
    make.text(make.variable("SST", NC_FLOAT, {{"time", 3}, {"z_t", 1}, {"nlat", 2}, {"nlon", 4}}),
              "coordinates", "TLONG TLAT");
  }
  const SeriesFile file = SeriesFile::open(path, {});
  const SeriesInfo& info = file.info();
  EXPECT_FALSE(info.gridded);
  EXPECT_TRUE(info.curvilinear);
  EXPECT_EQ(info.file_nodes, 8);
  EXPECT_EQ(info.features, 1);
  EXPECT_EQ(info.node_lat[6], 7);
  EXPECT_TRUE(std::isnan(info.node_lat[7])) << "a fill value is no latitude";
  EXPECT_EQ(info.node_lon[5], 5);
  EXPECT_EQ(read_all(file), ramp(24));

  // Written files have the same dimensions and read back.
  write_series(folder / "copy.nc", layout_of(info), ramp(24));
  const SeriesFile copy = SeriesFile::open(folder / "copy.nc", {});
  EXPECT_TRUE(copy.info().curvilinear);
  EXPECT_EQ(copy.info().row_name, "nlat");
  EXPECT_EQ(copy.info().column_name, "nlon");
  EXPECT_EQ(copy.info().lat_name, "TLAT");
  EXPECT_EQ(copy.info().node_lon, info.node_lon);
  EXPECT_EQ(read_all(copy), ramp(24));
}

TEST(Layouts, StaggeredGridsHaveTheCoordinatesThatTheyName) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    make.days(2);
    for (const auto& [name, units, first] : {std::tuple{"ULONG", "degrees_east", 50},
                                             {"TLAT", "degrees_north", 1},
                                             {"TLONG", "degrees_east", 10},
                                             {"ULAT", "degrees_north", 60}})
      make.text(make.variable(name, NC_DOUBLE, {{"j", 1}, {"i", 2}}, {1.0 * first, 1.0 * first + 1}), "units",
                units);
    make.text(make.variable("t", NC_FLOAT, {{"time", 2}, {"j", 1}, {"i", 2}}), "coordinates", "TLONG TLAT");
    make.text(make.variable("u", NC_FLOAT, {{"time", 2}, {"j", 1}, {"i", 2}}), "coordinates", "ULAT ULONG");
  }
  const auto corner = [&](const char* name) {
    const std::vector<std::string> names{name};
    const SeriesInfo info = SeriesFile::open(folder / "a.nc", names).info();
    return std::pair{info.node_lat[0], info.node_lon[0]};
  };
  EXPECT_EQ(corner("t"), std::pair(1.0, 10.0));
  EXPECT_EQ(corner("u"), std::pair(60.0, 50.0));
}

TEST(Layouts, LatitudesThatMoveAreRefused) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "wrf.nc");
    make.days(2, "Time");
    for (const auto& [name, units] : {std::pair{"XLAT", "degree_north"}, {"XLONG", "degree_east"}})
      make.text(make.variable(name, NC_FLOAT, {{"Time", 2}, {"south_north", 2}, {"west_east", 2}}), "units",
                units);
    make.variable("T2", NC_FLOAT, {{"Time", 2}, {"south_north", 2}, {"west_east", 2}});
  }
  const std::vector<std::string> names{"T2"};
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "wrf.nc", names); }), "XLAT changes with time");
}

TEST(Layouts, DimensionsOfLengthOneAreNone) {
  const TemporaryDirectory folder;
  const auto shape_of = [&](const std::vector<std::pair<std::string, std::size_t>>& shape) {
    {
      Maker make(folder / "a.nc");
      make.days(3);
      make.variable("v", NC_FLOAT, shape);
    }
    const SeriesFile file = SeriesFile::open(folder / "a.nc", {});
    EXPECT_EQ(file.info().steps, 3);
    const auto size = static_cast<std::size_t>(3 * file.info().file_nodes * file.info().features);
    EXPECT_EQ(read_all(file), ramp(size));
    return std::pair{file.info().file_nodes, file.info().features};
  };
  using Pair = std::pair<Index, Index>;
  EXPECT_EQ(shape_of({{"time", 3}, {"depth", 1}, {"station", 5}}), Pair(5, 1));
  EXPECT_EQ(shape_of({{"ensemble", 1}, {"time", 3}, {"lat", 2}, {"lon", 2}}), Pair(4, 1));
  EXPECT_EQ(shape_of({{"time", 3}, {"node", 4}, {"feature", 1}}), Pair(4, 1));
  EXPECT_EQ(shape_of({{"time", 3}, {"node", 1}, {"feature", 4}}), Pair(1, 4));
  EXPECT_EQ(shape_of({{"time", 3}, {"sensor", 1}}), Pair(1, 1));
  EXPECT_EQ(shape_of({{"time", 3}, {"sensor", 1}, {"kind", 4}}), Pair(1, 4)) << "one sensor";
  EXPECT_EQ(shape_of({{"time", 3}, {"member", 1}, {"sensor", 4}}), Pair(4, 1));
  EXPECT_EQ(shape_of({{"time", 3}, {"depth", 4}}), Pair(4, 1)) << "levels are the nodes";
  EXPECT_EQ(shape_of({{"time", 3}, {"station", 4}, {"height", 2}}), Pair(4, 2)) << "or their features";
  EXPECT_EQ(shape_of({{"time", 3}, {"lat", 1}, {"lon", 2}}), Pair(2, 1));
  {
    Maker make(folder / "deep.nc");
    make.days(3);
    make.variable("v", NC_FLOAT, {{"time", 3}, {"depth", 2}, {"station", 5}});
  }
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "deep.nc", {}); }), "v has 2 levels along depth");
}

TEST(Layouts, CountsAreDataWhereNothingElseIs) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    make.days(2);
    make.variable("flow", NC_INT, {{"time", 2}, {"sensor", 3}});
    make.variable("speed", NC_FLOAT, {{"time", 2}, {"sensor", 3}});
  }
  EXPECT_EQ(SeriesFile::candidates(folder / "a.nc"), std::vector<std::string>{"speed"});
  {
    Maker make(folder / "b.nc");
    make.days(2);
    make.variable("flow", NC_INT, {{"time", 2}, {"sensor", 3}}, {0, -2147483647, 2, 3, 4, 5});
    make.text(make.variable("quality", NC_SHORT, {{"time", 2}, {"sensor", 3}}), "flag_meanings", "good bad");
  }
  {
    Maker make(folder / "c.nc");
    make.days(2);
    make.variable("temp", NC_FLOAT, {{"time", 2}, {"depth", 2}, {"sensor", 3}});
    make.variable("temp_qc", NC_INT, {{"time", 2}, {"sensor", 3}});
  }
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "c.nc", {}); }), "; temp has 2 levels along depth");
  const SeriesFile file = SeriesFile::open(folder / "b.nc", {});
  EXPECT_EQ(file.info().variables[0].name, "flow");
  const std::vector<float> values = read_all(file);
  EXPECT_TRUE(std::isnan(values[1])) << "what was never written, as the library marks it";
  EXPECT_EQ(values[5], 5);
}

TEST(Layouts, PackedCoordinatesAreUnpacked) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    const int time = make.variable("time", NC_SHORT, {{"time", 3}}, {-32768, 0, -32767});
    make.text(time, "units", "hours since 2000-01-01 00:00:00");
    make.text(time, "_Unsigned", "true");
    make.number(time, "scale_factor", 1.0 / 32768);
    const int lat = make.variable("lat", NC_SHORT, {{"lat", 2}}, {-100, 100}),
              lon = make.variable("lon", NC_SHORT, {{"lon", 2}});
    for (const int axis : {lat, lon}) {
      make.number(axis, "scale_factor", 0.1);
      make.number(axis, "add_offset", 20);
    }
    make.variable("v", NC_FLOAT, {{"time", 3}, {"lat", 2}, {"lon", 2}});
  }
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "a.nc", {}); }),
             "step 1 has 0 (2000-01-01T00:00), but the step before has 1 (2000-01-01T01:00)");
  {
    Maker make(folder / "b.nc");
    make.days(3);
    const int lat = make.variable("lat", NC_SHORT, {{"lat", 2}}, {-100, 100});
    make.number(lat, "scale_factor", 0.1);
    make.number(lat, "add_offset", 20);
    make.variable("lon", NC_DOUBLE, {{"lon", 2}});
    make.variable("v", NC_FLOAT, {{"time", 3}, {"lat", 2}, {"lon", 2}});
  }
  EXPECT_EQ(SeriesFile::open(folder / "b.nc", {}).info().lat, (std::vector<double>{10, 30}));
  {
    Maker make(folder / "c.nc");
    make.days(2);
    const int lat = make.variable("lat", NC_SHORT, {{"station", 3}}, {-100, -1, -32767}),
              lon = make.variable("lon", NC_SHORT, {{"station", 3}});
    for (const int axis : {lat, lon}) make.number(axis, "scale_factor", 0.01);
    make.text(lat, "units", "degrees_north");
    make.text(lon, "units", "degrees_east");
    make.text(make.variable("v", NC_FLOAT, {{"time", 2}, {"station", 3}}), "coordinates", "lat lon");
  }
  const std::vector<double> lat = SeriesFile::open(folder / "c.nc", {}).info().node_lat;
  EXPECT_EQ(lat[0], -1);
  EXPECT_EQ(lat[1], -0.01);
  EXPECT_TRUE(std::isnan(lat[2])) << "the library's mark";
}

TEST(Layouts, NamesOfDimensionsNodesAndFeaturesAreKept) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    make.days(2, "valid_time");
    make.strings(make.variable("sensor", NC_STRING, {{"sensor", 3}}), {"0773", "x", "A 1"});
    make.strings(make.variable("kind", NC_STRING, {{"kind", 2}}), {"flow", "speed"});
    make.variable("v", NC_FLOAT, {{"valid_time", 2}, {"sensor", 3}, {"kind", 2}});
    make.variable("w", NC_FLOAT, {{"valid_time", 2}, {"sensor", 3}, {"kind", 2}});
  }
  const std::vector<std::string> names{"v", "w"};
  const SeriesFile file = SeriesFile::open(folder / "a.nc", names);
  write_series(folder / "b.nc", layout_of(file.info()), ramp(24));
  const SeriesInfo info = SeriesFile::open(folder / "b.nc", names).info();
  EXPECT_EQ(info.time_name, "valid_time");
  EXPECT_EQ(info.column_name, "sensor");
  EXPECT_EQ(info.node_labels, (std::vector<std::string>{"0773", "x", "A 1"}));
  EXPECT_EQ(info.variables[1].feature_name, "kind");
  EXPECT_EQ(info.variables[1].feature_labels, (std::vector<std::string>{"flow", "speed"}));

  // Numbers stay numbers; station identifiers have a variable of their own (CF-1.8, chapter 9).
  {
    Maker make(folder / "c.nc");
    make.days(2);
    make.text(make.variable("id", NC_INT, {{"station", 2}}, {773869, 12}), "cf_role", "timeseries_id");
    make.variable("v", NC_FLOAT, {{"time", 2}, {"station", 2}});
  }
  write_series(folder / "d.nc", layout_of(SeriesFile::open(folder / "c.nc", {}).info()), ramp(4));
  const NetcdfFile written = NetcdfFile::open(folder / "d.nc");
  ASSERT_NE(written.find("id"), nullptr);
  EXPECT_EQ(written.read_all(*written.find("id")), (std::vector<double>{773869, 12}));
  EXPECT_EQ(written.text(*written.find("v"), "coordinates"), "id");
}

TEST(Layouts, NamesThatAreTakenAreTheUsualOnes) {
  const TemporaryDirectory folder;
  const auto forecast = [&](const char* time, const char* node, const char* feature, const char* label) {
    {
      Maker make(folder / "a.nc");
      make.days(2, time);
      make.variable("v", NC_FLOAT, {{time, 2}, {node, 3}, {feature, 3}});
      if (*label) make.text(make.variable(label, NC_INT, {{node, 3}}), "cf_role", "timeseries_id");
    }
    const std::vector<std::string> names{"v"};
    SeriesLayout layout = layout_of(SeriesFile::open(folder / "a.nc", names).info());
    layout.reference = 0;
    write_series(folder / "b.nc", layout, ramp(18));
    const SeriesFile written = SeriesFile::open(folder / "b.nc", names);
    EXPECT_EQ(read_all(written), ramp(18));
    return written.info().time_name + " " + written.info().column_name + " " +
           written.info().variables[0].feature_name;
  };
  EXPECT_EQ(forecast("valid_time", "sensor", "kind", "id"), "valid_time sensor kind");
  EXPECT_EQ(forecast("forecast_reference_time", "sensor", "kind", ""), "time sensor kind");
  EXPECT_EQ(forecast("time", "sensor", "lead_time", ""), "time sensor feature_of_v");
  EXPECT_EQ(forecast("time", "node", "node", ""), "time node feature_of_v");
  EXPECT_EQ(forecast("time", "v", "kind", ""), "time node kind");
  EXPECT_EQ(forecast("time", "sensor", "v", ""), "time sensor feature_of_v");
  EXPECT_EQ(forecast("time", "sensor", "kind", "lead_time"), "time sensor kind");
}

// pandas makes floats of whole numbers.
TEST(Layouts, WholeFloatsAreIds) {
  const TemporaryDirectory folder;
  const auto labels = [&](nc_type type, std::vector<double> ids, const char* units) {
    {
      Maker make(folder / "a.nc");
      make.days(2);
      const int id = make.variable("station", type, {{"station", 3}}, std::move(ids));
      if (*units) make.text(id, "units", units);
      make.variable("v", NC_FLOAT, {{"time", 2}, {"station", 3}});
    }
    return SeriesFile::open(folder / "a.nc", {}).info().node_labels;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(labels(NC_DOUBLE, {773869, 12, 0}, ""), (Texts{"773869", "12", "0"}));
  EXPECT_EQ(labels(NC_FLOAT, {7, 12, -1}, "1"), (Texts{"7", "12", "-1"}));
  EXPECT_EQ(labels(NC_FLOAT, {0, 1, 2}, "km"), Texts());
  EXPECT_EQ(labels(NC_DOUBLE, {0, 0.5, 1}, ""), Texts());
  EXPECT_EQ(labels(NC_DOUBLE, {3, 3, 1}, ""), Texts());
  EXPECT_EQ(labels(NC_FLOAT, {16777216, 1, 2}, ""), Texts()) << "float32 cannot tell it from 16777217";
  EXPECT_EQ(labels(NC_DOUBLE, {1, NAN, 2}, ""), Texts());
}

TEST(Layouts, LabelsThatAreNoNamesAreLeftOut) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    make.days(2);
    make.variable("station", NC_CHAR, {{"station", 3}}, {65, 66, 67});
    make.variable("v", NC_FLOAT, {{"time", 2}, {"station", 3}});
  }
  EXPECT_TRUE(SeriesFile::open(folder / "a.nc", {}).info().node_labels.empty());
}

TEST(Layouts, GridsKeepTheNamesOfTheirAxes) {
  const TemporaryDirectory folder;
  {
    Maker make(folder / "a.nc");
    make.days(2);
    make.text(make.variable("latitude", NC_DOUBLE, {{"latitude", 2}}), "units", "degrees_north");
    make.text(make.variable("longitude", NC_DOUBLE, {{"longitude", 2}}), "units", "degrees_east");
    make.variable("v", NC_FLOAT, {{"time", 2}, {"latitude", 2}, {"longitude", 2}});
  }
  write_series(folder / "b.nc", layout_of(SeriesFile::open(folder / "a.nc", {}).info()), ramp(8));
  const SeriesInfo info = SeriesFile::open(folder / "b.nc", {}).info();
  EXPECT_TRUE(info.gridded);
  EXPECT_EQ(info.row_name, "latitude");
  EXPECT_EQ(info.lat, (std::vector<double>{0, 1}));
}

TEST(Layouts, WhatDoesNotFitIsTold) {
  const TemporaryDirectory folder;
  const auto message = [&](const auto& fill) {
    {
      Maker make(folder / "a.nc");
      make.days(3);
      fill(make);
    }
    return user_message([&] { SeriesFile::open(folder / "a.nc", {}); });
  };
  EXPECT_HAS(message([](Maker& make) {
               make.variable("s1", NC_FLOAT, {{"time", 3}});
               make.variable("s2", NC_FLOAT, {{"time", 3}});
             }),
             "2 variables have time as their only dimension. Join");
  EXPECT_HAS(message([](Maker& make) {
               make.variable("small", NC_FLOAT, {{"y", 2}, {"x", 2}});
               make.variable("large", NC_FLOAT, {{"lat", 2}, {"lon", 3}, {"time", 3}});
             }),
             "; large has dimensions in the order (lat, lon, time)");
  for (const auto& [bytes, kind] : {std::pair<std::string, const char*>{"time,a,b\n2000-01-01,1,2\n", "CSV"},
                                    {"\x93NUMPY\x01", "a NumPy array"},
                                    {std::string("PK\x03\x04\0\0", 6), "npz"},
                                    {"\x80\x04\x95", "pickle"}}) {
    std::ofstream(folder / "table.csv", std::ios::binary) << bytes;
    const std::string text = user_message([&] { SeriesFile::open(folder / "table.csv", {}); });
    EXPECT_HAS(text, kind);
    EXPECT_HAS(text, "not a NetCDF file, but ");
  }
}

}  // namespace
}  // namespace rossby
