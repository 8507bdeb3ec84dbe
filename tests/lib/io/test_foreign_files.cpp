// Files as other programs write them, made with the C library: packed, with extra dimensions, classic,
// hostile.
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netcdf.h>

#include "rossby/io/series_file.hpp"
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

/// sst(time, lev = 1, lat, lon) as packed shorts, two steps of a 2 x 2 grid, latitude descending.
void write_packed(const std::string& path, int mode,
                  const std::function<void(int file, int variable)>& more = nullptr) {
  int file, time, lev, lat, lon, t, y, x, sst;
  ok(nc_create(path.c_str(), mode | NC_CLOBBER, &file));
  ok(nc_def_dim(file, "time", NC_UNLIMITED, &time));
  ok(nc_def_dim(file, "lev", 1, &lev));
  ok(nc_def_dim(file, "Latitude", 2, &lat));
  ok(nc_def_dim(file, "Longitude", 2, &lon));
  ok(nc_def_var(file, "time", NC_DOUBLE, 1, &time, &t));
  ok(nc_put_att_text(file, t, "units", 30, "days since 1854-01-15 00:00:00"));
  ok(nc_def_var(file, "Latitude", NC_FLOAT, 1, &lat, &y));
  ok(nc_def_var(file, "Longitude", NC_FLOAT, 1, &lon, &x));
  const int shape[] = {time, lev, lat, lon};
  ok(nc_def_var(file, "sst", NC_SHORT, 4, shape, &sst));
  const double scale = 0.01, offset = 5;
  const short fill = -32768, missing = -1000;
  ok(nc_put_att_double(file, sst, "scale_factor", NC_DOUBLE, 1, &scale));
  ok(nc_put_att_double(file, sst, "add_offset", NC_DOUBLE, 1, &offset));
  ok(nc_put_att_short(file, sst, "_FillValue", NC_SHORT, 1, &fill));
  ok(nc_put_att_short(file, sst, "missing_value", NC_SHORT, 1, &missing));
  if (more) more(file, sst);
  ok(nc_enddef(file));
  const std::size_t zero[] = {0, 0, 0, 0}, two[] = {2}, all[] = {2, 1, 2, 2};
  const double times[] = {0, 31}, lats[] = {1, -1}, lons[] = {10, 12};
  const short values[] = {100, 200, -32768, 300, -1000, 400, 500, 600};
  ok(nc_put_vara_double(file, t, zero, two, times));
  ok(nc_put_vara_double(file, y, zero, two, lats));
  ok(nc_put_vara_double(file, x, zero, two, lons));
  ok(nc_put_vara_short(file, sst, zero, all, values));
  ok(nc_close(file));
}

TEST(ForeignFiles, PackedShortsWithALevelInEveryFormat) {
  const TemporaryDirectory folder;
  for (const int mode : {NC_NETCDF4, NC_NETCDF4 | NC_CLASSIC_MODEL, 0, NC_64BIT_OFFSET, NC_64BIT_DATA}) {
    const std::string path = folder / "a.nc";
    write_packed(path, mode);
    const SeriesFile file = SeriesFile::open(path, {});
    EXPECT_EQ(file.info().variables[0].name, "sst");
    EXPECT_TRUE(file.info().gridded);
    EXPECT_EQ(file.info().time.text(1), "1854-02-15");
    EXPECT_EQ(file.info().node_lat, (std::vector<double>{1, 1, -1, -1}));
    const auto values = read_all(file);
    const float expected[] = {6, 7, NAN, 8, NAN, 9, 10, 11};
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_TRUE(std::isnan(expected[k]) ? std::isnan(values[k]) : values[k] == expected[k])
          << k << " " << values[k];
    EXPECT_EQ(file.observed(0, 4), (std::vector<std::uint8_t>{1, 1, 1, 1}));
  }
}

/// Packed zeros become zeros again: relative errors leave them out.
TEST(ForeignFiles, PackedByFloatsAreUnpackedInFloats) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a.nc";
  const float scale = 0.1F, offset = -10;
  for (const bool both : {true, false}) {
    write_packed(path, NC_NETCDF4, [&](int file, int variable) {
      ok(nc_put_att_float(file, variable, "scale_factor", NC_FLOAT, 1, &scale));
      if (both) ok(nc_put_att_float(file, variable, "add_offset", NC_FLOAT, 1, &offset));
      const double wide = -10;
      if (!both) ok(nc_put_att_double(file, variable, "add_offset", NC_DOUBLE, 1, &wide));
    });
    const float first = read_all(SeriesFile::open(path, {}))[0];  // 100, packed
    EXPECT_EQ(first == 0, both) << first;
    EXPECT_NEAR(first, 0, 1e-6);
  }
}

/// The attribute _Unsigned contradicts the type of values, missing values and bounds.
TEST(ForeignFiles, IntegersHaveTheSignThatTheirAttributeSays) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a.nc";
  write_packed(path, NC_NETCDF4, [](int file, int variable) {
    ok(nc_put_att_text(file, variable, "_Unsigned", 4, "true"));
    const short range[] = {0, -100};  // to 65436
    ok(nc_put_att_short(file, variable, "valid_range", NC_SHORT, 2, range));
    const short missing[] = {100, 400};
    ok(nc_put_att_short(file, variable, "missing_value", NC_SHORT, 2, missing));
  });
  const auto values = read_all(SeriesFile::open(path, {}));
  // 100 and 400 are missing, so is -32768, the fill value; -1000 is 64536.
  const float expected[] = {NAN, 7, NAN, 8, 5 + 645.36F, NAN, 10, 11};
  for (std::size_t k = 0; k < 8; ++k)
    EXPECT_TRUE(std::isnan(expected[k]) ? std::isnan(values[k]) : std::abs(values[k] - expected[k]) < 1e-4F)
        << k << " " << values[k];
}

TEST(ForeignFiles, ABoundThatIsARealNumberHasItsOwnSign) {
  const TemporaryDirectory folder;
  write_packed(folder / "a.nc", NC_NETCDF4, [](int file, int variable) {
    ok(nc_put_att_text(file, variable, "_Unsigned", 4, "true"));
    const float least = -273.15F;
    ok(nc_put_att_float(file, variable, "valid_min", NC_FLOAT, 1, &least));
  });
  EXPECT_EQ(read_all(SeriesFile::open(folder / "a.nc", {}))[0], 6);
}

/// Integers bound the stored values, real numbers the unpacked ones.
TEST(ForeignFiles, ValidRangesOfPackedValuesAreInTheUnitsOfTheirType) {
  const TemporaryDirectory folder;
  const auto attribute = [](const char* name, auto put, auto... values) {
    return [=](int file, int variable) {
      const std::array list{values...};
      ok(put(file, variable, name, list));
    };
  };
  const auto shorts = [](int file, int variable, const char* name, const auto& list) {
    return nc_put_att_short(file, variable, name, NC_SHORT, list.size(), list.data());
  };
  const auto floats = [](int file, int variable, const char* name, const auto& list) {
    return nc_put_att_float(file, variable, name, NC_FLOAT, list.size(), list.data());
  };
  using Short = short;
  const std::function<void(int, int)> ways[] = {attribute("valid_range", shorts, Short{200}, Short{500}),
                                                attribute("valid_range", floats, 6.5F, 10.0F),
                                                [&](int file, int variable) {
                                                  attribute("valid_min", shorts, Short{150})(file, variable);
                                                  attribute("valid_max", floats, 10.0F)(file, variable);
                                                }};
  for (const auto& way : ways) {
    write_packed(folder / "a.nc", NC_NETCDF4, way);
    const auto values = read_all(SeriesFile::open(folder / "a.nc", {}));
    const float expected[] = {NAN, 7, NAN, 8, NAN, 9, 10, NAN};
    for (std::size_t k = 0; k < 8; ++k)
      EXPECT_TRUE(std::isnan(expected[k]) ? std::isnan(values[k]) : values[k] == expected[k])
          << &way - ways << " " << k << " " << values[k];
  }
}

TEST(ForeignFiles, BoundsOfAnotherPrecisionHoldTheirOwnValue) {
  const TemporaryDirectory folder;
  int file, dims[2], t, x;
  ok(nc_create((folder / "a.nc").c_str(), NC_NETCDF4, &file));
  ok(nc_def_dim(file, "time", 2, &dims[0]));
  ok(nc_def_dim(file, "node", 2, &dims[1]));
  ok(nc_def_var(file, "time", NC_INT, 1, dims, &t));
  ok(nc_def_var(file, "x", NC_FLOAT, 2, dims, &x));
  const double most = 1.1;  // in double, less than in float
  ok(nc_put_att_double(file, x, "valid_max", NC_DOUBLE, 1, &most));
  const float none = NAN;
  ok(nc_put_att_float(file, x, "valid_min", NC_FLOAT, 1, &none));
  const float values[] = {1.0F, 1.1F, 1.2F, 0.0F};
  const int times[] = {0, 1};
  ok(nc_put_var_int(file, t, times));
  ok(nc_put_var_float(file, x, values));
  ok(nc_close(file));
  const auto read = read_all(SeriesFile::open(folder / "a.nc", {}));
  EXPECT_EQ(read[1], 1.1F);
  EXPECT_EQ(read[3], 0.0F) << "NaN bounds nothing";
  EXPECT_TRUE(std::isnan(read[2])) << read[2];
}

TEST(ForeignFiles, ATruncatedClassicFileIsNotReadAsZeros) {
  const TemporaryDirectory folder;
  for (const int mode : {0, NC_64BIT_OFFSET, NC_64BIT_DATA}) {
    write_packed(folder / "a.nc", mode);
    const auto size = std::filesystem::file_size(folder / "a.nc");
    for (const auto cut : {size - 1, size - 20, size / 2, size / 8, std::uintmax_t{5}}) {
      std::filesystem::copy_file(folder / "a.nc", folder / "cut.nc",
                                 std::filesystem::copy_options::overwrite_existing);
      std::filesystem::resize_file(folder / "cut.nc", cut);
      EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "cut.nc", {}); }), "truncated or damaged")
          << cut;
    }
  }
}

TEST(ForeignFiles, FilesOfAnotherKindAreNamed) {
  const TemporaryDirectory folder;
  const std::pair<std::string, const char*> kinds[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"},
      {"<!DOCTYPE html><html></html>", "login or an error page"},
      {"\x1f\x8b\x08", "gunzip"},
      {std::string("\x28\xb5\x2f\xfd\x04"), "unzstd"},
      {"\x0e\x03\x13\x01", "an HDF4 file. Convert the file"},
      {"", "empty"},
      {std::string(4096, '\0'), "zeros"}};
  for (const auto& [content, name] : kinds) {
    std::ofstream(folder / "a.nc", std::ios::binary) << content;
    EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "a.nc", {}); }), name);
  }
}

TEST(ForeignFiles, ValuesThatWereNeverWrittenAreMissing) {
  const TemporaryDirectory folder;
  int file, dims[2], t, x;
  ok(nc_create((folder / "a.nc").c_str(), NC_NETCDF4, &file));
  ok(nc_def_dim(file, "time", 2, &dims[0]));
  ok(nc_def_dim(file, "node", 3, &dims[1]));
  ok(nc_def_var(file, "time", NC_INT, 1, dims, &t));
  ok(nc_def_var(file, "x", NC_FLOAT, 2, dims, &x));
  const int times[] = {0, 1};
  ok(nc_put_var_int(file, t, times));
  const std::size_t start[] = {1, 1}, count[] = {1, 1};
  const float one = 1;
  ok(nc_put_vara_float(file, x, start, count, &one));
  ok(nc_close(file));
  EXPECT_EQ(SeriesFile::open(folder / "a.nc", {}).observed(0, 3), (std::vector<std::uint8_t>{0, 1, 0}));
}

TEST(ForeignFiles, ANodeIsObservedWhereverItsOneValueLies) {
  const TemporaryDirectory folder;
  const std::size_t steps = 700;  // several pieces, whatever their first values
  for (const std::size_t at : {0, 15, 16, 17, 143, 144, 145, 698, 699}) {
    int file, dims[2], t, x;
    ok(nc_create((folder / "a.nc").c_str(), NC_NETCDF4, &file));
    ok(nc_def_dim(file, "time", steps, &dims[0]));
    ok(nc_def_dim(file, "node", 3, &dims[1]));
    ok(nc_def_var(file, "time", NC_INT, 1, dims, &t));
    ok(nc_def_var(file, "x", NC_FLOAT, 2, dims, &x));
    std::vector<int> times(steps);
    std::iota(times.begin(), times.end(), 0);
    ok(nc_put_var_int(file, t, times.data()));
    const float one = 1;
    for (const auto& [step, node] : {std::pair{at, std::size_t{1}}, {std::size_t{3}, std::size_t{0}}}) {
      const std::size_t start[] = {step, node}, count[] = {1, 1};
      ok(nc_put_vara_float(file, x, start, count, &one));
    }
    ok(nc_close(file));
    const SeriesFile series = SeriesFile::open(folder / "a.nc", {});
    EXPECT_EQ(series.observed(0, 3), (std::vector<std::uint8_t>{1, 1, 0})) << at;
    EXPECT_EQ(series.observed(0, 2), (std::vector<std::uint8_t>{1, 1})) << at;
  }
}

/// CF identifies a latitude by its units or its standard_name; the attribute `coordinates` names both.
TEST(ForeignFiles, NodesLieWhereUnitsOrNamesSay) {
  const TemporaryDirectory folder;
  struct Case {
    const char *attribute, *latitude, *longitude;
    bool found;
  };
  for (const auto& [attribute, latitude, longitude, found] :
       {Case{"units", "degrees_north", "degrees_east", true}, Case{"units", "degree_N", "degree_E", true},
        Case{"standard_name", "latitude", "longitude", true}, Case{"units", "metres", "metres", false}}) {
    int file, dims[2], t, x, y, v;
    ok(nc_create((folder / "a.nc").c_str(), NC_NETCDF4 | NC_CLOBBER, &file));
    ok(nc_def_dim(file, "time", 2, &dims[0]));
    ok(nc_def_dim(file, "station", 3, &dims[1]));
    ok(nc_def_var(file, "time", NC_INT, 1, dims, &t));
    ok(nc_def_var(file, "where_east", NC_DOUBLE, 1, dims + 1, &x));
    ok(nc_def_var(file, "where_north", NC_DOUBLE, 1, dims + 1, &y));
    ok(nc_def_var(file, "v", NC_FLOAT, 2, dims, &v));
    const auto put = [&](int variable, const char* name, std::string_view text) {
      ok(nc_put_att_text(file, variable, name, text.size(), text.data()));
    };
    put(t, "units", "hours since 2001-01-01");
    put(x, attribute, longitude);
    put(y, attribute, latitude);
    put(v, "coordinates", "where_east where_north");
    ok(nc_enddef(file));
    const int times[] = {0, 1};
    const double east[] = {10, 20, 30}, north[] = {1, 2, 3};
    const float values[] = {1, 2, 3, 4, 5, 6};
    ok(nc_put_var_int(file, t, times));
    ok(nc_put_var_double(file, x, east));
    ok(nc_put_var_double(file, y, north));
    ok(nc_put_var_float(file, v, values));
    ok(nc_close(file));
    const SeriesFile series = SeriesFile::open(folder / "a.nc", {});
    EXPECT_EQ(series.info().node_lat, found ? (std::vector<double>{1, 2, 3}) : std::vector<double>())
        << latitude;
    EXPECT_EQ(series.info().node_lon, found ? (std::vector<double>{10, 20, 30}) : std::vector<double>());
  }
}

TEST(ForeignFiles, SizesBeyondTheMachineAreRefusedBeforeMemoryIsTaken) {
  const TemporaryDirectory folder;
  for (const std::size_t length : {std::size_t{1} << 45, std::size_t{1} << 55}) {
    int file, dims[2], t, x;
    ok(nc_create((folder / "a.nc").c_str(), NC_NETCDF4 | NC_CLOBBER, &file));
    ok(nc_def_dim(file, "time", 16, &dims[0]));
    ok(nc_def_dim(file, "node", length, &dims[1]));
    ok(nc_def_var(file, "time", NC_INT, 1, dims, &t));
    ok(nc_def_var(file, "node_lat", NC_DOUBLE, 1, dims + 1, &x));
    const std::size_t chunk[] = {1, 1024};
    ok(nc_def_var_chunking(file, x, NC_CHUNKED, chunk + 1));
    ok(nc_def_var(file, "x", NC_FLOAT, 2, dims, &x));
    ok(nc_def_var_chunking(file, x, NC_CHUNKED, chunk));
    int times[16];
    for (int k = 0; k < 16; ++k) times[k] = k;
    ok(nc_put_var_int(file, t, times));
    const int status = nc_close(file);
    if (status != NC_NOERR) continue;  // a library that refuses to make such a file also passes
    EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "a.nc", {}); }), "a.nc") << length;
  }
}

/// A file of a few kilobytes, plus `others` integers, whose time axis, series or edges claim `length` places.
std::string claimed(const std::string& path, const std::string& what, std::size_t length,
                    std::size_t others = 0) {
  int file, time, node, edge, id;
  const auto long_or = [&](const char* name, std::size_t other) { return what == name ? length : other; };
  ok(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file));
  ok(nc_def_dim(file, "time", long_or("time", 2), &time));
  ok(nc_def_dim(file, "node", long_or("x", 3), &node));
  ok(nc_def_dim(file, "edge", long_or("edge_src", 1), &edge));
  const int shape[] = {time, node};
  const std::size_t chunk[] = {1, 1};
  ok(nc_def_var(file, "time", NC_INT, 1, &time, &id));
  ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
  const std::size_t start = 0, two = 2;
  const int times[] = {0, 1};
  ok(nc_put_vara_int(file, id, &start, &two, times));
  ok(nc_def_var(file, "x", NC_FLOAT, 2, shape, &id));
  ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
  for (const char* name : {"edge_src", "edge_dst"}) {
    ok(nc_def_var(file, name, NC_INT, 1, &edge, &id));
    ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
  }
  if (others > 0) {
    const std::vector<int> values(others, 1);
    ok(nc_def_dim(file, "other", others, &edge));
    ok(nc_def_var(file, "other", NC_INT, 1, &edge, &id));
    ok(nc_put_var_int(file, id, values.data()));
  }
  ok(nc_close(file));
  return user_message([&] { SeriesFile::open(path, {}); });
}

TEST(ForeignFiles, MoreValuesThanTheFileHoldsAreRefused) {
  const TemporaryDirectory folder;
  // 4 GiB of float32, which this machine has: the file cannot hold them, so nothing is read.
  for (const char* what : {"time", "x", "edge_src"})
    EXPECT_HAS(claimed(folder / "a.nc", what, std::size_t{1} << 30), "more than a file of") << what;
}

TEST(ForeignFiles, AnAxisOfMoreBytesThanTheFileHasWasNotWritten) {
  const TemporaryDirectory folder;
  // A file of 4 MiB: enough for that many deflated values, but these are not deflated.
  for (const char* what : {"time", "edge_src"})
    EXPECT_HAS(claimed(folder / "a.nc", what, std::size_t{1} << 28, std::size_t{1} << 20),
               "more than a file of")
        << what;
}

TEST(ForeignFiles, AnAxisThatIsDeflatedHasMoreBytesThanTheFile) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a.nc";
  constexpr std::size_t steps = std::size_t{5} << 20;
  int file, dimensions[2], id;
  ok(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file));
  ok(nc_def_dim(file, "time", steps, &dimensions[0]));
  ok(nc_def_dim(file, "node", 1, &dimensions[1]));
  const std::size_t chunk[] = {std::size_t{1} << 20, 1};
  ok(nc_def_var(file, "time", NC_INT64, 1, dimensions, &id));
  ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
  ok(nc_def_var_deflate(file, id, 1, 1, 9));
  ok(nc_put_att_text(file, id, "units", 24, "hours since 1900-01-01 0"));
  std::vector<long long> times(steps);
  std::iota(times.begin(), times.end(), 0);
  ok(nc_put_var_longlong(file, id, times.data()));
  ok(nc_def_var(file, "x", NC_FLOAT, 2, dimensions, &id));
  ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
  ok(nc_close(file));
  ASSERT_LT(std::filesystem::file_size(path), steps);
  EXPECT_EQ(SeriesFile::open(path, {}).info().steps, static_cast<Index>(steps));
}

TEST(ForeignFiles, ADamagedChunkIsNamed) {
  const TemporaryDirectory folder;
  const std::string path = folder / "a.nc";
  for (const bool deflated : {true, false}) {
    constexpr std::size_t steps = 200, nodes = 40;
    int file, dimensions[2], id;
    ok(nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file));
    ok(nc_def_dim(file, "time", steps, &dimensions[0]));
    ok(nc_def_dim(file, "node", nodes, &dimensions[1]));
    ok(nc_def_var(file, "time", NC_INT, 1, dimensions, &id));
    ok(nc_put_att_text(file, id, "units", 24, "hours since 1900-01-01 0"));
    std::vector<int> times(steps);
    std::iota(times.begin(), times.end(), 0);
    ok(nc_put_var_int(file, id, times.data()));
    ok(nc_def_var(file, "x", NC_FLOAT, 2, dimensions, &id));
    const std::size_t chunk[] = {50, nodes};
    ok(nc_def_var_chunking(file, id, NC_CHUNKED, chunk));
    ok(deflated ? nc_def_var_deflate(file, id, 0, 1, 1) : nc_def_var_fletcher32(file, id, NC_FLETCHER32));
    std::vector<float> values(steps * nodes);
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = std::sin(static_cast<float>(k));
    ok(nc_put_var_float(file, id, values.data()));
    ok(nc_close(file));
    ASSERT_EQ(read_all(SeriesFile::open(path, {})), values);
    std::ifstream sound(path, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(sound)), {});
    bytes.replace(bytes.size() / 2 + 1000, 64, std::string(64, '\xff'));
    std::ofstream(path, std::ios::binary) << bytes;
    const std::string message = user_message([&] { read_all(SeriesFile::open(path, {})); });
    EXPECT_HAS(message, "variable x: the chunk with index 50 of dimension time does not decompress");
  }
}

TEST(ForeignFiles, AClassicHeaderOfEndlessAndEmptyDimensionsIsDamaged) {
  // CDF-5: one dimension of 2^64 − 1, one of length 0 (records), a variable over both many times.
  std::string bytes = "CDF\x05";
  const auto put = [&](int width, std::uint64_t value) {
    for (int i = width - 1; i >= 0; --i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  };
  put(8, 0), put(4, 10), put(8, 2);
  for (const auto& [name, length] : {std::pair{'n', ~std::uint64_t{0}}, std::pair{'r', std::uint64_t{0}}})
    put(8, 1), bytes += name, bytes += std::string(3, '\0'), put(8, length);
  put(4, 0), put(8, 0), put(4, 11), put(8, 1);
  put(8, 1), bytes += std::string("v\0\0\0", 4), put(8, 400);
  for (int d = 0; d < 400; ++d) put(8, d == 399 ? 1 : 0);
  put(4, 0), put(8, 0), put(4, 5), put(8, 4), put(8, 100);
  const TemporaryDirectory folder;
  std::ofstream(folder / "a.nc", std::ios::binary) << bytes;
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "a.nc", {}); }), "header is incomplete");
}

TEST(ForeignFiles, DamagedBytesGiveOneLineOrAnAnswer) {
  const TemporaryDirectory folder;
  write_packed(folder / "a.nc", NC_NETCDF4);
  std::ifstream in(folder / "a.nc", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); at += 499) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(~damaged[at]);
    std::ofstream(folder / "b.nc", std::ios::binary | std::ios::trunc) << damaged;
    try {
      const SeriesFile file = SeriesFile::open(folder / "b.nc", {});
      (void)file.observed(0, file.info().file_nodes);
    } catch (const UserError& error) {
      ++refused;
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace rossby
