#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_file.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using testing_support::data_folder;
using testing_support::TemporaryDirectory;
using testing_support::user_message;

using test::nan;

float value_at(Index t, Index i, Index f) {
  return static_cast<float>(1000 * t + i) + 0.25F * static_cast<float>(f);
}

/// Builds files that are nearly valid: each test breaks one thing.
struct SeriesMaker {
  Index steps = 5, nodes = 7, features = 1;
  bool feature_dimension = false, packed = false, time_variable = true;
  std::vector<double> times{0, 1, 2, 3, 4};
  std::string time_units = "days since 2000-01-01";
  std::vector<std::string> variables{"speed"};
  std::vector<Index> edge_src, edge_dst;
  std::vector<double> edge_weight;
  bool node_first = false;
  double fill = -999;

  void write(const std::string& path) const {
    NetcdfFile file = NetcdfFile::create(path);
    const int time = file.define_dimension("time", steps), node = file.define_dimension("node", nodes);
    std::vector<int> shape{time, node};
    if (node_first) std::swap(shape[0], shape[1]);
    if (feature_dimension) shape.push_back(file.define_dimension("feature", features));
    const int t = time_variable ? file.define_variable("time", NetcdfType::float64, std::span(&time, 1)) : -1;
    if (t >= 0) file.put_text(t, "units", time_units);
    std::vector<int> ids;
    for (const auto& name : variables) ids.push_back(file.define_variable(name, NetcdfType::float64, shape));
    int src = -1, dst = -1, weight = -1;
    if (!edge_src.empty()) {
      const int edge = file.define_dimension("edge", static_cast<Index>(edge_src.size()));
      const int other = edge_src.size() == edge_dst.size()
                            ? edge
                            : file.define_dimension("edge2", static_cast<Index>(edge_dst.size()));
      src = file.define_variable("edge_src", NetcdfType::int32, std::span(&edge, 1));
      dst = file.define_variable("edge_dst", NetcdfType::int32, std::span(&other, 1));
      if (!edge_weight.empty())
        weight = file.define_variable("edge_weight", NetcdfType::float64, std::span(&edge, 1));
    }
    file.end_define();
    const Index zero = 0;
    const auto list = [&](int id, const auto& values) {
      const auto count = static_cast<Index>(values.size());
      if (id >= 0) file.write(id, std::span(&zero, 1), std::span(&count, 1), values.data());
    };
    if (t >= 0 && steps > 0) list(t, times);
    list(src, edge_src);
    list(dst, edge_dst);
    list(weight, edge_weight);
    if (!node_first && steps > 0) write_values(file, ids);
    file.close();
  }

  void write_values(NetcdfFile& file, const std::vector<int>& ids) const {
    std::vector<Index> start{0, 0}, count{steps, nodes};
    if (feature_dimension) {
      start.push_back(0);
      count.push_back(features);
    }
    for (std::size_t v = 0; v < ids.size(); ++v) {
      std::vector<double> values;
      for (Index s = 0; s < steps; ++s)
        for (Index i = 0; i < nodes; ++i)
          for (Index f = 0; f < features; ++f) values.push_back(value_at(s, i, f + static_cast<Index>(v)));
      values[0] = std::numeric_limits<double>::infinity();
      file.write(ids[v], start, count, values.data());
    }
  }
};

SeriesFile open(const std::string& path, const std::vector<std::string>& names = {}, Index first = 0,
                Index last = -1) {
  return SeriesFile::open(path, names, first, last);
}

TEST(SeriesFile, ReadsChosenNodesAndSteps) {
  const TemporaryDirectory folder;
  SeriesMaker{}.write(folder / "a.nc");
  const SeriesFile file = open(folder / "a.nc", {}, 1, 4);
  EXPECT_EQ(file.info().steps, 3);
  EXPECT_EQ(file.info().all_steps, 5);
  EXPECT_EQ(file.info().file_nodes, 7);
  EXPECT_EQ(file.info().variables[0].name, "speed");
  EXPECT_EQ(file.info().time.text(0), "2000-01-02");
  EXPECT_FALSE(file.info().has_edges);
  const std::vector<Index> nodes{0, 3, 6};
  std::vector<float> values(9 + 1, -77);
  file.read(nodes, values.data());
  for (Index t = 0; t < 3; ++t)
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_EQ(values[static_cast<std::size_t>(t) * 3 + k], value_at(t + 1, nodes[k], 0));
  EXPECT_EQ(values[9], -77) << "nothing is written behind the end";
  const std::vector<Index> other_order{6, 0, 5, 3, 4};
  std::vector<float> reordered(15);
  file.read(other_order, reordered.data());
  for (Index t = 0; t < 3; ++t)
    for (std::size_t k = 0; k < 5; ++k)
      EXPECT_EQ(reordered[static_cast<std::size_t>(t) * 5 + k], value_at(t + 1, other_order[k], 0));
  file.read({}, nullptr);  // a rank without nodes
}

TEST(SeriesFile, FillsGapsOfItsTimeAxis) {
  const TemporaryDirectory folder;
  SeriesMaker maker;
  maker.times = {0, 1, 4, 5, 7};
  maker.write(folder / "a.nc");
  const SeriesFile file = SeriesFile::open(folder / "a.nc", {}, 1, -1, {}, true);
  const std::vector<Index> source{1, -1, -1, 2, 3, -1, 4};  // steps of the file
  ASSERT_EQ(file.info().steps, std::ssize(source));
  EXPECT_EQ(file.info().filled_gaps, 2);
  EXPECT_EQ(file.info().filled_steps, 3);
  EXPECT_EQ(file.info().time.text(1), "2000-01-03");
  EXPECT_TRUE(file.info().time.gaps().empty());
  const std::vector<Index> nodes{5, 2};
  for (Index first = 0; first < std::ssize(source); ++first)
    for (Index count = 0; first + count <= std::ssize(source); ++count) {
      std::vector<float> values(static_cast<std::size_t>(2 * count) + 1, -77);
      file.read_steps(nodes, first, count, values.data());
      EXPECT_EQ(values.back(), -77);
      for (Index t = 0; t < count; ++t)
        for (std::size_t k = 0; k < 2; ++k) {
          const Index step = source[static_cast<std::size_t>(first + t)];
          const float value = values[static_cast<std::size_t>(2 * t) + k];
          if (step < 0)
            EXPECT_TRUE(std::isnan(value)) << first << " " << t;
          else
            EXPECT_EQ(value, value_at(step, nodes[k], 0)) << first << " " << t;
        }
    }
  const auto seen = file.observed(0, 7);
  EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 7);
  maker.times = {0, 1, 2, 3, 4};
  maker.write(folder / "whole.nc");
  EXPECT_EQ(SeriesFile::open(folder / "whole.nc", {}, 0, -1, {}, true).info().filled_steps, 0);
  maker.times = {0, 1, 2, 3.4, 5};
  maker.write(folder / "jitter.nc");
  EXPECT_HAS(user_message([&] { SeriesFile::open(folder / "jitter.nc", {}, 0, -1, {}, true); }),
             "not regular, so the gaps of the time axis cannot be filled");
}

TEST(SeriesFile, InfinityIsMissing) {
  const TemporaryDirectory folder;
  SeriesMaker maker;
  maker.steps = 1;
  maker.times = {0};
  maker.write(folder / "a.nc");
  const SeriesFile file = open(folder / "a.nc");
  const std::vector<Index> nodes{0, 1};
  std::vector<float> values(2);
  file.read(nodes, values.data());
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], value_at(0, 1, 0));
  EXPECT_EQ(file.observed(0, 7), (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(file.observed(3, 2), (std::vector<std::uint8_t>{1, 1}));
  EXPECT_TRUE(file.observed(7, 0).empty());
}

TEST(SeriesFile, NullValueIsMissing) {
  const TemporaryDirectory folder;
  SeriesMaker maker;
  maker.variables = {"a", "b"};
  maker.write(folder / "a.nc");  // a: 1000 t + i, b: a quarter more
  const std::vector<std::string> names{"a", "b"};
  const auto missing = [&](double null) {
    const SeriesFile file = SeriesFile::open(folder / "a.nc", names, 1, 3, null);
    const std::vector<Index> nodes{2, 3};
    std::vector<float> values(2 * 2 * 2);
    file.read(nodes, values.data());
    std::vector<std::size_t> places;
    for (std::size_t k = 0; k < values.size(); ++k)
      if (std::isnan(values[k])) places.push_back(k);
    return places;
  };
  EXPECT_EQ(missing(2003), (std::vector<std::size_t>{6}));
  EXPECT_EQ(missing(1002.25), (std::vector<std::size_t>{1})) << "of every variable";
  EXPECT_TRUE(missing(1002.3).empty());
  EXPECT_TRUE(missing(0).empty());
  SeriesMaker one;
  one.steps = 1;
  one.times = {0};
  one.write(folder / "one.nc");
  EXPECT_EQ(SeriesFile::open(folder / "one.nc", {}, 0, -1, 3.0).observed(0, 7),
            (std::vector<std::uint8_t>{0, 1, 1, 0, 1, 1, 1}));
}

TEST(SeriesFile, NullValueIsANumber) {
  EXPECT_FALSE(parse_null_value(""));
  EXPECT_EQ(parse_null_value("0"), 0);
  EXPECT_EQ(parse_null_value("-999.5"), -999.5);
  for (const char* text : {"none", "nan", "inf", "1e999", "0 ", " 0", "1,5", "0x"})
    EXPECT_HAS(user_message([&] { (void)parse_null_value(text); }), "data.null_value");
}

TEST(SeriesFile, FeatureDimensionAndSeveralVariables) {
  const TemporaryDirectory folder;
  SeriesMaker maker;
  maker.feature_dimension = true;
  maker.features = 3;
  maker.variables = {"a", "b"};
  maker.write(folder / "a.nc");
  const SeriesFile one = open(folder / "a.nc", {"b"});
  EXPECT_EQ(one.info().features, 3);
  const SeriesFile both = open(folder / "a.nc", {"b", "a"});
  EXPECT_EQ(both.info().features, 6);
  const std::vector<Index> nodes{2, 5};
  std::vector<float> values(5 * 2 * 6);
  both.read(nodes, values.data());
  for (Index t = 0; t < 5; ++t)
    for (Index k = 0; k < 2; ++k)
      for (Index f = 0; f < 6; ++f)
        EXPECT_EQ(values[static_cast<std::size_t>((t * 2 + k) * 6 + f)],
                  value_at(t, nodes[static_cast<std::size_t>(k)], f < 3 ? f + 1 : f - 3));
}

TEST(SeriesFile, Edges) {
  const TemporaryDirectory folder;
  SeriesMaker maker;
  maker.edge_src = {0, 1, 2};
  maker.edge_dst = {1, 2, 0};
  maker.write(folder / "plain.nc");
  const SeriesFile plain = open(folder / "plain.nc");
  EXPECT_TRUE(plain.info().has_edges);
  EXPECT_EQ(plain.info().edges, 3);
  const auto edges = plain.edges(1, 2);
  EXPECT_EQ(edges[1].source, 2);
  EXPECT_EQ(edges[1].destination, 0);
  EXPECT_EQ(edges[1].weight, 1.0);
  EXPECT_TRUE(plain.edges(3, 0).empty());
  maker.edge_weight = {0.5, 0.25, 0.125};
  maker.write(folder / "weighted.nc");
  EXPECT_EQ(open(folder / "weighted.nc").edges(0, 3)[2].weight, 0.125);
  maker.edge_weight = {};
  maker.edge_dst = {1, 2};
  maker.write(folder / "unequal.nc");
  EXPECT_HAS(user_message([&] { open(folder / "unequal.nc"); }),
             "the edge arrays have unequal lengths: edge_src has 3, edge_dst has 2");
}

TEST(SeriesFile, Refusals) {
  const TemporaryDirectory folder;
  const std::string path = folder / "bad.nc";
  const auto refusal = [&](const std::function<void(SeriesMaker&)>& breakage,
                           const std::vector<std::string>& names = {}, Index first = 0, Index last = -1) {
    SeriesMaker maker;
    breakage(maker);
    maker.write(path);
    const std::string message = user_message([&] { open(path, names, first, last); });
    EXPECT_EQ(message.find(path), 0u) << message;
    return message;
  };
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.time_variable = false; }), "no time axis");
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.times = {0, 1, 3, 2, 4}; }), "time does not ascend: step 3");
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.node_first = true; }), "(node, time)");
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.node_first = true; }, {"speed"}), "order (node, time)");
  EXPECT_HAS(refusal([](SeriesMaker& m) {
               m.variables = {"tmax", "tmin"};
             }),
             "several variables fit: tmax, tmin");
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.variables = {"tmax", "tmin"}; }, {"tmx"}), "did you mean tmax?");
  EXPECT_HAS(refusal([](SeriesMaker&) {}, {"zzzzzzz"}), "Variables that fit: speed");
  EXPECT_HAS(refusal([](SeriesMaker&) {}, {"time"}), "variable time");
  EXPECT_HAS(refusal([](SeriesMaker&) {}, {"speed", "speed"}), "twice");
  EXPECT_HAS(refusal([](SeriesMaker&) {}, {}, 3, 9), "steps 3 to 9");
  EXPECT_HAS(refusal([](SeriesMaker&) {}, {}, 3, 3), "steps 3 to 3");
  EXPECT_HAS(refusal([](SeriesMaker& m) { m.time_units = "months since 2000-01"; }), "months");
}

TEST(SeriesFile, MissingDamagedAndForeignFiles) {
  const TemporaryDirectory folder;
  EXPECT_HAS(user_message([&] { open(folder / "none.nc"); }), "no such file");
  EXPECT_HAS(user_message([&] { open(folder.path()); }), "not a Zarr store");
  EXPECT_HAS(user_message([&] { open(""); }), "data.file");
  EXPECT_HAS(user_message([&] { open("http://localhost/a.nc"); }), "no such file");
  std::ofstream(folder / "text.nc") << "not a NetCDF file, only words";
  EXPECT_HAS(user_message([&] { open(folder / "text.nc"); }),
             "not a NetCDF file, but a table of text (CSV?)");
  std::ofstream(folder / "empty.nc").close();
  EXPECT_HAS(user_message([&] { open(folder / "empty.nc"); }), "empty: download or copy the file again");
  SeriesMaker{}.write(folder / "whole.nc");
  const auto size = std::filesystem::file_size(folder / "whole.nc");
  for (const auto cut : {size - 1, size / 2, size / 10, std::uintmax_t{9}}) {
    std::filesystem::copy_file(folder / "whole.nc", folder / "cut.nc",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder / "cut.nc", cut);
    EXPECT_HAS(user_message([&] { open(folder / "cut.nc"); }), "cut.nc: this is not a readable NetCDF file")
        << cut;
  }
}

/// Every file of the data folder, by variable, against the numbers in its documentation.
TEST(SeriesFile, RealFilesLoad) {
  if (!std::filesystem::is_directory(data_folder())) GTEST_SKIP() << "no data folder; ROSSBY_DATA names one";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder())) {
    if (entry.path().extension() != ".nc") continue;
    ++files;
    SCOPED_TRACE(entry.path().filename().string());
    const auto names = SeriesFile::candidates(entry.path());
    ASSERT_FALSE(names.empty());
    if (names.size() > 1) {
      EXPECT_HAS(user_message([&] { open(entry.path()); }), "several variables fit: " + names[0]);
    }
    for (const auto& name : names) {
      const SeriesFile file = open(entry.path(), {name});
      const SeriesInfo& info = file.info();
      EXPECT_GT(info.steps, 1);
      EXPECT_TRUE(info.time.regular());
      std::vector<Index> nodes(static_cast<std::size_t>(info.file_nodes));
      std::iota(nodes.begin(), nodes.end(), Index{0});
      std::vector<float> all(static_cast<std::size_t>(info.steps * info.file_nodes));
      file.read(nodes, all.data());
      // Every third node, read on its own, is the same.
      std::vector<Index> some;
      for (Index i = 1; i < info.file_nodes; i += 3) some.push_back(i);
      std::vector<float> part(static_cast<std::size_t>(info.steps) * some.size());
      file.read(some, part.data());
      for (Index t = 0; t < info.steps; ++t)
        for (std::size_t k = 0; k < some.size(); ++k) {
          const float a = all[static_cast<std::size_t>(t * info.file_nodes + some[k])];
          const float b = part[static_cast<std::size_t>(t) * some.size() + k];
          ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b)));
        }
      if (info.has_edges) {
        EXPECT_EQ(static_cast<Index>(file.edges(0, info.edges).size()), info.edges);
      }
    }
  }
  EXPECT_GT(files, 0);
}

TEST(SeriesFile, PacificHasItsOceanCells) {
  const auto path = data_folder() / "pacific_sst_2deg_monthly.nc";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no data folder; ROSSBY_DATA names one";
  const SeriesFile file = open(path, {"sst_anomaly"});
  const SeriesInfo& info = file.info();
  EXPECT_TRUE(info.gridded);
  EXPECT_EQ(info.steps, 399);
  EXPECT_EQ(info.n_lat, 30);
  EXPECT_EQ(info.n_lon, 84);
  EXPECT_EQ(info.node_lat[85], -27);
  EXPECT_EQ(info.node_lon[85], 126);
  EXPECT_EQ(info.variables[0].units, "degree_Celsius");
  EXPECT_EQ(info.time.text(398), "2003-03");
  EXPECT_EQ(info.time.step_text(), "1 month");
  const auto seen = file.observed(0, 2520);
  EXPECT_EQ(std::accumulate(seen.begin(), seen.end(), 0), 2261);
  std::vector<Index> nodes;
  for (Index i = 0; i < 2520; ++i)
    if (seen[static_cast<std::size_t>(i)]) nodes.push_back(i);
  std::vector<float> values(399 * nodes.size());
  file.read(nodes, values.data());
  double sum = 0;
  float low = 0, high = 0;
  for (const float v : values) {
    sum += v;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  EXPECT_NEAR(sum / static_cast<double>(values.size()), 0.1387, 5e-5);
  EXPECT_NEAR(low, -3.583, 5e-4);
  EXPECT_NEAR(high, 6.525, 5e-4);
  EXPECT_HAS(user_message([&] { open(path, {"land_mask"}); }), "no time axis");
  EXPECT_HAS(user_message([&] { open(path, {"sst_anomly"}); }), "did you mean sst_anomaly?");
}

}  // namespace
}  // namespace rossby
