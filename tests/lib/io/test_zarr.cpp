// Zarr stores, version 2: layouts, compressors, missing parts, and kinds that are refused by name.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/zarr_metadata.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/io/zarr_maker.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;
using testing_support::ZarrMaker;
using Place = std::vector<Index>;

using test::nan;

float field(const Place& at) {
  return static_cast<float>(100 * at[0] + 10 * at[1] + at[2]) + 0.5F;
}

class Zarr : public ::testing::Test {
 protected:
  static std::vector<float> values(const SeriesFile& file, std::vector<Index> nodes = {}) {
    const SeriesInfo& info = file.info();
    if (nodes.empty()) {
      nodes.resize(static_cast<std::size_t>(info.file_nodes));
      std::iota(nodes.begin(), nodes.end(), Index{0});
    }
    std::vector<float> out(static_cast<std::size_t>(info.steps * info.features) * nodes.size());
    file.read(nodes, out.data());
    return out;
  }
  SeriesFile open(const std::string& name = "a.zarr", const std::vector<std::string>& variables = {}) const {
    return SeriesFile::open(folder_ / name, variables);
  }
  std::string refusal(const std::string& name = "a.zarr",
                      const std::vector<std::string>& variables = {}) const {
    return user_message([&] { (void)values(open(name, variables)); });
  }

  /// A store as xarray writes it: x(time, lat, lon) of 5 x 3 x 4 in chunks of 2 x 2 x 3.
  ZarrMaker make(const ZarrMaker::Array& x = {}, const std::string& name = "a.zarr") const {
    ZarrMaker store(folder_ / name, R"({"title": "a field"})");
    store.array<std::int64_t>({"time",
                               {5},
                               {3},
                               "<i8",
                               x.codec,
                               ".",
                               "\"time\"",
                               R"(, "units": "days since 2000-01-01", "calendar": "proleptic_gregorian")",
                               "null"},
                              [](const Place& at) { return at[0]; });
    store.array<double>({"lat", {3}, {3}, "<f8", x.codec, ".", "\"lat\"", R"(, "units": "degrees_north")"},
                        [](const Place& at) { return 10.0 * static_cast<double>(at[0]); });
    store.array<double>({"lon", {4}, {4}, "<f8", x.codec, ".", "\"lon\"", R"(, "units": "degrees_east")"},
                        [](const Place& at) { return 5.0 * static_cast<double>(at[0]); });
    ZarrMaker::Array array = x;
    array.name = "x";
    if (array.shape.empty()) array.shape = {5, 3, 4};
    if (array.chunks.empty()) array.chunks = {2, 2, 3};
    if (array.dimensions.empty()) array.dimensions = R"("time", "lat", "lon")";
    store.array<float>(array, field);
    return store;
  }

  static ZarrMaker::Array with(const std::string& codec, const std::string& separator = ".") {
    ZarrMaker::Array array;
    array.codec = codec;
    array.separator = separator;
    return array;
  }

  const TemporaryDirectory folder_;
};

TEST_F(Zarr, EveryCodecAndSeparator) {
  for (const char* codec : {"none", "zlib", "gzip", "zstd", "lz4", "blosc"})
    for (const char* separator : {".", "/"}) {
      const std::string name = fmt::format("{}{}.zarr", codec, separator[0] == '.');
      (void)make(with(codec, separator), name);
      const SeriesFile file = open(name);
      const SeriesInfo& info = file.info();
      EXPECT_TRUE(info.gridded);
      EXPECT_EQ(info.title, "a field");
      EXPECT_EQ(info.steps, 5);
      EXPECT_EQ(info.time.text(4), "2000-01-05");
      EXPECT_EQ(info.lat, (std::vector<double>{0, 10, 20}));
      const std::vector<float> x = values(file), some = values(file, {11, 4});
      for (Index t = 0; t < 5; ++t) {
        for (Index i = 0; i < 12; ++i)
          EXPECT_EQ(x[static_cast<std::size_t>(12 * t + i)], field({t, i / 4, i % 4})) << codec << separator;
        EXPECT_EQ(some[static_cast<std::size_t>(2 * t)], field({t, 2, 3}));
        EXPECT_EQ(some[static_cast<std::size_t>(2 * t + 1)], field({t, 1, 0}));
      }
    }
}

TEST_F(Zarr, ConsolidatedMetadata) {
  const ZarrMaker store = make(with("zlib"));
  const auto text = [&](const char* file) {
    std::ifstream in(store.path + "/" + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string all;
  for (const char* name : {"time", "lat", "lon", "x"})
    for (const char* file : {".zarray", ".zattrs"}) {
      all += fmt::format(", \"{0}/{1}\": {2}", name, file, text(fmt::format("{}/{}", name, file).c_str()));
      std::filesystem::remove(fmt::format("{}/{}/{}", store.path, name, file));
    }
  store.put(".zmetadata",
            fmt::format("{{\"zarr_consolidated_format\": 1, \"metadata\": {{\".zgroup\": {{\"zarr_format\": "
                        "2}}, \".zattrs\": {{\"note\": NaN, \"title\": \"NaN \\\"quoted\\\"\"}}, "
                        "\"deep/y/.zarray\": 3, \"deep/.zgroup\": {{}}{}}}}}",
                        all));
  const SeriesFile file = open();
  EXPECT_EQ(values(file).back(), field({4, 2, 3}));
  EXPECT_EQ(file.info().title, "NaN \"quoted\"");
}

TEST_F(Zarr, MissingChunksAreTheFillValue) {
  ZarrMaker::Array x;
  x.keeps = [](const Place& chunk) { return chunk != Place{1, 0, 1}; };
  (void)make(x);
  std::vector<float> read = values(open());
  EXPECT_TRUE(std::isnan(read[2 * 12 + 3]));
  EXPECT_EQ(read[2 * 12 + 2], field({2, 0, 2}));
  x.fill = "-5.0";
  (void)make(x, "b.zarr");
  EXPECT_TRUE(std::isnan(values(open("b.zarr"))[2 * 12 + 3])) << "fill_value is missing, as it is for xarray";
  x.fill = "null";
  (void)make(x, "c.zarr");
  EXPECT_HAS(refusal("c.zarr"), "lacks chunk " + (folder_ / "c.zarr") + "/x/1.0.1, and has no fill_value");
  std::filesystem::remove(folder_ / "a.zarr/lat/0");
  EXPECT_HAS(refusal(), "variable lat needs all chunks, but chunk ");
}

TEST_F(Zarr, PackedIntegersAndMarks) {
  const ZarrMaker store = make();
  store.array<std::int16_t>({"packed",
                             {5, 3, 4},
                             {5, 3, 4},
                             "<i2",
                             "blosc",
                             ".",
                             R"("time", "lat", "lon")",
                             R"(, "scale_factor": 0.1, "add_offset": 273.15, "missing_value": 99)",
                             "-32768"},
                            [](const Place& at) { return at[0] == 1   ? -32768
                                                         : at[0] == 2 ? 99
                                                                      : at[2]; });
  const std::vector<float> x = values(open("a.zarr", {"packed"}));
  EXPECT_EQ(x[3], 273.45F);
  EXPECT_TRUE(std::isnan(x[12]) && std::isnan(x[24]));
  EXPECT_EQ(x[36], 273.15F);
}

TEST_F(Zarr, ZeroIsAFillValueOfDataAlone) {
  ZarrMaker store(folder_ / "a.zarr");
  store.array<std::int64_t>(
      {"time", {3}, {3}, "<i8", "none", ".", "\"time\"", R"(, "units": "days since 2000-01-01")", "0"},
      [](const Place& at) { return at[0]; });
  store.array<float>({"x", {3, 2}, {3, 2}, "<f4", "none", ".", R"("time", "node")", "", "0.0"},
                     [](const Place& at) { return static_cast<float>(at[0]); });
  const SeriesFile file = open();
  EXPECT_EQ(file.info().time.text(0), "2000-01-01");
  EXPECT_TRUE(std::isnan(values(file)[0]));
  EXPECT_EQ(values(file)[2], 1);
  EXPECT_HAS(remark_lines(file.info()), "x: fill_value is 0: values of 0 are read as missing, as in xarray");
}

TEST_F(Zarr, NodesWithNames) {
  const auto check = [&](const std::string& name) {
    const SeriesInfo info = open(name).info();
    EXPECT_EQ(info.node_labels, (std::vector<std::string>{"a", "\xC3\xA4q", "c"})) << name;
  };
  const auto base = [&](const std::string& name) {
    ZarrMaker store(folder_ / name);
    store.array<std::int64_t>({"time", {2}, {2}, "<M8[ns]", "none", ".", "\"time\"", "", "null"},
                              [](const Place& at) { return 946684800000000000 + at[0] * 3600000000000; });
    store.array<double>({"x", {2, 3}, {1, 2}, "<f8", "zstd", ".", R"("time", "node")"},
                        [](const Place& at) { return static_cast<double>(at[1]); });
    return store;
  };
  struct Characters {
    char32_t text[2];
  };
  const ZarrMaker a = base("u.zarr");
  a.array<Characters>({"node", {3}, {2}, "<U2", "lz4", ".", "\"node\"", "", "\"\""}, [](const Place& at) {
    return at[0] == 1 ? Characters{{0xE4, 'q'}} : Characters{{static_cast<char32_t>('a' + at[0]), 0}};
  });
  check("u.zarr");
  EXPECT_EQ(open("u.zarr").info().time.text(1), "2000-01-01T01:00");
  EXPECT_TRUE(open("u.zarr").finer_than_float());
  for (const char* codec : {"none", "zlib", "gzip", "zstd", "lz4", "blosc"}) {
    const ZarrMaker b = base(std::string(codec) + "texts.zarr");
    b.put("node/.zarray",
          fmt::format(R"({{"zarr_format": 2, "shape": [3], "chunks": [3], "dtype": "|O", "order": "C",
      "compressor": {}, "fill_value": null, "filters": [{{"id": "vlen-utf8"}}]}})",
                      codec == std::string("none") ? "null" : fmt::format("{{\"id\": \"{}\"}}", codec)));
    b.put("node/.zattrs", R"({"_ARRAY_DIMENSIONS": ["node"]})");
    b.put("node/0", testing_support::compressed(
                        codec, std::string("\3\0\0\0\1\0\0\0a\3\0\0\0\xC3\xA4q\1\0\0\0c", 21), 1));
    check(std::string(codec) + "texts.zarr");
  }
}

TEST_F(Zarr, Anemoi) {
  ZarrMaker store(folder_ / "a.zarr",
                  R"({"variables": ["2t", "tp"], "ensemble_dimension": 2, "field_shape": [3, 1]})");
  store.array<float>({"data", {4, 2, 1, 3}, {1, 2, 1, 3}, "<f4", "blosc", ".", ""}, [](const Place& at) {
    return at[0] == 2 ? nan : static_cast<float>(100 * at[1] + 10 * at[0] + at[3]);
  });
  store.array<std::int64_t>({"dates", {4}, {4}, "<M8[s]", "blosc", ".", "", "", "null"},
                            [](const Place& at) { return 946684800 + 21600 * at[0]; });
  store.array<double>({"latitudes", {3}, {3}, "<f8", "none"},
                      [](const Place& at) { return 10.0 * static_cast<double>(at[0]); });
  store.array<double>({"longitudes", {3}, {3}, "<f8", "none"}, [](const Place&) { return 7.0; });
  store.array<double>({"mean", {2}, {2}, "<f8", "none"}, [](const Place&) { return 7.0; });
  EXPECT_EQ(SeriesFile::candidates(folder_ / "a.zarr"), (std::vector<std::string>{"2t", "tp"}));
  const SeriesFile file = open("a.zarr", {"tp", "2t"});
  EXPECT_EQ(file.info().node_lat, (std::vector<double>{0, 10, 20}));
  EXPECT_EQ(file.info().node_lon[2], 7);
  EXPECT_EQ(file.info().time.step_text(), "6 hours");
  const std::vector<float> x = values(file);
  EXPECT_EQ(x[0], 100);
  EXPECT_EQ(x[1], 0);
  EXPECT_EQ(x[6 + 4], 112);
  EXPECT_TRUE(std::isnan(x[12]));
  EXPECT_HAS(inspect_series(folder_ / "a.zarr"), "variable  tp");
  store.put(".zattrs", R"({"variables": ["2t"]})");
  EXPECT_HAS(refusal(), "Use an Anemoi dataset with data(time, variable, ensemble, cell)");
}

TEST_F(Zarr, OnlyChunksThatAreAskedForAreRead) {
  const ZarrMaker store = make(with("zstd"));
  store.put("x/2.1.1", "damaged");
  store.put("x/0.0.1", "damaged");
  const SeriesFile file = open();
  const std::vector<Index> nodes{0, 1};
  std::vector<float> out(10);
  file.read_steps(nodes, 0, 5, out.data());
  EXPECT_EQ(out[9], field({4, 0, 1}));
  const std::vector<Index> far{3};
  EXPECT_HAS(user_message([&] { file.read_steps(far, 0, 1, out.data()); }),
             "x/0.0.1: cannot decompress this chunk");
}

TEST_F(Zarr, DamagedChunks) {
  for (const char* codec : {"none", "zlib", "gzip", "zstd", "lz4", "blosc"}) {
    const std::string name = std::string(codec) + ".zarr";
    const ZarrMaker store = make(with(codec), name);
    const std::string path = store.path + "/x/0.0.0";
    std::ifstream in(path, std::ios::binary);
    const std::string whole(std::istreambuf_iterator<char>(in), {});
    for (std::size_t length = 0; length < whole.size();
         length += std::max<std::size_t>(1, whole.size() / 9)) {
      store.put("x/0.0.0", whole.substr(0, length));
      EXPECT_HAS(refusal(name), "x/0.0.0: ") << codec << " " << length;
    }
    const std::string longer = testing_support::compressed(codec, std::string(100, '\0'), 4),
                      shorter = testing_support::compressed(codec, std::string(8, '\0'), 4);
    for (const std::string& other : {longer, shorter, std::string("nonsense, and more of it, and more")}) {
      store.put("x/0.0.0", other);
      EXPECT_HAS(refusal(name), "The store may be damaged") << codec;
    }
    store.put("x/0.0.0", whole);
    EXPECT_EQ(values(open(name))[0], field({0, 0, 0}));
  }
}

TEST_F(Zarr, WhatIsNotReadIsRefusedByName) {
  const auto changed = [&](const std::string& from, const std::string& to) {
    const ZarrMaker store = make();
    std::ifstream in(store.path + "/x/.zarray");
    std::string text(std::istreambuf_iterator<char>(in), {});
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    store.put("x/.zarray", text.replace(at, from.size(), to));
    const std::string named = refusal("a.zarr", {"x"});
    EXPECT_HAS(named, "a.zarr: array x: ");
    EXPECT_HAS(refusal("a.zarr"), named.substr(named.find("array x:")));
    return named;
  };
  EXPECT_HAS(changed("\"order\": \"C\"", "\"order\": \"F\""), "Fortran order");
  EXPECT_HAS(changed("\"filters\": null", R"("filters": [{"id": "delta"}])"), "filter \"delta\" is not read");
  EXPECT_HAS(changed("\"compressor\": null", R"("compressor": {"id": "bz2"})"),
             "compressor \"bz2\" is not read");
  EXPECT_HAS(changed("<f4", ">f4"), "big-endian");
  EXPECT_HAS(changed("<f4", "|O"), "Python objects");
  EXPECT_HAS(changed("<f4", "<f2"), "is not read, only integers, float32, float64");
  EXPECT_HAS(changed("<f4", "<c8"), "is not read, only integers, float32, float64");
  EXPECT_HAS(changed("<f4", "<M8[Y]"), "counts time in an unsupported unit");
  EXPECT_HAS(changed("\"<f4\"", R"([["a", "<f4"]])"), "several fields");
  EXPECT_HAS(changed("\"zarr_format\": 2", "\"zarr_format\": 3"), "zarr_format is not 2");
  EXPECT_HAS(changed("\"shape\": [5, 3, 4]", "\"shape\": [5, 3]"), "2 dimensions, but chunks of 3");
  EXPECT_HAS(changed("\"shape\": [5, 3, 4]", "\"shape\": [5, -3, 4]"), "contains -3, which is not a length");
  EXPECT_HAS(changed("\"chunks\": [2, 2, 3]", "\"chunks\": [2, 0, 3]"), "contains 0, which is not a length");
  EXPECT_HAS(changed("\"chunks\": [2, 2, 3]", "\"chunks\": [2000, 2000, 3000]"),
             "more than the limit of 2 GiB");
  EXPECT_HAS(changed("\"chunks\": [2, 2, 3]", "\"chunks\": 2"), "is not a list of lengths");
  EXPECT_HAS(changed("\"fill_value\": \"NaN\"", "\"fill_value\": {}"), "is not a number");
}

TEST_F(Zarr, StoresThatAreNone) {
  const auto with_file = [&](const std::string& name, const std::string& file) {
    const std::string path = folder_ / name;
    std::filesystem::create_directories(path);
    std::ofstream(path + "/" + file) << "{}";
    return refusal(name);
  };
  EXPECT_HAS(with_file("v3.zarr", "zarr.json"), "version 3, which is not read. Write version 2");
  EXPECT_HAS(with_file("array.zarr", ".zarray"), "one array of a Zarr store");
  EXPECT_HAS(with_file("folder", "a.nc"), "/folder/*.nc\"");
  EXPECT_HAS(with_file("v1.zarr", ".zgroup"), "zarr_format is not 2");
  const ZarrMaker store = make();
  for (const char* text : {"", "{", "[]", "{\"a\": }", "\xFF"}) {
    store.put("lat/.zarray", text);
    EXPECT_HAS(refusal(), "lat/.zarray: the file is not a JSON object. The store may be damaged") << text;
  }
  store.put(".zmetadata", "{\"metadata\": 5}");
  EXPECT_HAS(refusal(), ".zmetadata: the file has no entry \"metadata\"");
}

TEST_F(Zarr, ClaimsAreHeldAgainstTheChunks) {
  ZarrMaker store(folder_ / "a.zarr");
  store.array<std::int64_t>(
      {"time", {2}, {2}, "<i8", "none", ".", "\"time\"", R"(, "units": "days since 2000-01-01")", "null"},
      [](const Place& at) { return at[0]; });
  store.put(
      "x/.zarray",
      R"({"zarr_format": 2, "shape": [2, 1000000000], "chunks": [1, 10], "dtype": "<f4", "order": "C", "compressor": null, "fill_value": null, "filters": null})");
  store.put("x/.zattrs", R"({"_ARRAY_DIMENSIONS": ["time", "node"]})");
  EXPECT_HAS(refusal(), "claims 2e+09 values, but has 0 chunks of 10");
  store.put(
      "x/.zarray",
      R"({"zarr_format": 2, "shape": [2, 2000000000000, 10000000], "chunks": [1, 10, 10], "dtype": "<f4", "order": "C", "compressor": null, "fill_value": null, "filters": null})");
  store.put("x/.zattrs", R"({"_ARRAY_DIMENSIONS": ["time", "lat", "lon"]})");
  EXPECT_HAS(refusal(), "a.zarr: variable x claims an impossible number of values");
}

TEST_F(Zarr, PartsOfASeries) {
  const ZarrMaker first = make();
  ZarrMaker second(folder_ / "b.zarr");
  second.array<std::int64_t>(
      {"time", {2}, {2}, "<i8", "none", ".", "\"time\"", R"(, "units": "days since 2000-01-06")", "null"},
      [](const Place& at) { return at[0]; });
  for (const char* axis : {"lat", "lon"})
    std::filesystem::copy(first.path + "/" + axis, second.path + "/" + axis,
                          std::filesystem::copy_options::recursive);
  second.array<float>({"x", {2, 3, 4}, {1, 3, 4}, "<f4", "none", ".", R"("time", "lat", "lon")"}, field);
  const SeriesFile file = SeriesFile::open(std::vector<std::string>{folder_ / "*.zarr"}, {});
  EXPECT_EQ(file.info().steps, 7);
  EXPECT_EQ(values(file).back(), field({1, 2, 3}));
}

}  // namespace
}  // namespace rossby
