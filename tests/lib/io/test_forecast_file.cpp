#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/forecast_file.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/series_writer.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;

/// A forecast file in which each value encodes its (init, lead, node, feature).
struct Made {
  std::vector<double> inits{0, 1, 2}, leads{1, 2};
  std::string init_units = "hours since 2001-01-01", lead_units, units = "m";
  std::vector<double> lat, lon;    // of the grid, if any
  std::vector<std::string> names;  // of the sensors, if any
  Index features = 1;
  std::string variable = "v";

  static double value(double init, double lead, Index node, Index feature) {
    return 1000 * init + 100 * lead + static_cast<double>(node) + 0.25 * static_cast<double>(feature);
  }

  std::string write(const std::string& path) const {
    NetcdfFile file = NetcdfFile::create(path);
    std::vector<int> shape;
    std::vector<std::pair<int, const std::vector<double>*>> coordinates;
    const auto axis = [&](const std::string& name, const std::vector<double>& values,
                          const std::string& unit) {
      shape.push_back(file.define_dimension(name, std::ssize(values)));
      const int id = file.define_variable(name, NetcdfType::float64, {&shape.back(), 1});
      if (!unit.empty()) file.put_text(id, "units", unit);
      coordinates.emplace_back(id, &values);
    };
    axis("init_time", inits, init_units);
    axis("lead", leads, lead_units);
    int labels = -1;
    if (!lat.empty()) {
      axis("lat", lat, "degrees_north");
      axis("lon", lon, "degrees_east");
    } else {
      shape.push_back(file.define_dimension("node", std::ssize(names)));
      labels = file.define_variable("node", NetcdfType::text, {&shape.back(), 1});
    }
    if (features > 1) shape.push_back(file.define_dimension("feature", features));
    const int id = file.define_variable(variable, NetcdfType::float64, shape);
    if (!units.empty()) file.put_text(id, "units", units);
    file.end_define();
    for (const auto& [of, values] : coordinates) {
      const Index start = 0, count = std::ssize(*values);
      file.write(of, {&start, 1}, {&count, 1}, values->data());
    }
    if (labels >= 0) file.write(labels, names);
    const Index nodes = lat.empty() ? std::ssize(names) : std::ssize(lat) * std::ssize(lon);
    std::vector<double> values;
    for (const double init : inits)
      for (const double lead : leads)
        for (Index i = 0; i < nodes; ++i)
          for (Index f = 0; f < features; ++f) values.push_back(value(init, lead, i, f));
    std::vector<Index> start(shape.size(), 0), count{std::ssize(inits), std::ssize(leads)};
    if (lat.empty())
      count.push_back(nodes);
    else
      count.insert(count.end(), {std::ssize(lat), std::ssize(lon)});
    if (features > 1) count.push_back(features);
    file.write(id, start, count, values.data());
    file.close();
    return path;
  }
};

SeriesInfo grid_of(const std::string& path) {
  SeriesLayout layout;
  layout.gridded = true;
  layout.lat = {-10, 0, 10};
  layout.lon = {100, 110};
  layout.nodes = 6;
  layout.variables = {{"v", "m", "", "", 1}};
  layout.time = TimeAxis::monthly(8, "1999-11");
  write_series(path, layout, std::vector<float>(48));
  return SeriesFile::open(path, {}).info();
}

SeriesInfo sensors_of(const std::string& path, Index features = 1) {
  SeriesLayout layout;
  layout.nodes = 3;
  layout.node_labels = {"a", "b", "c"};
  layout.variables = {{"v", "m", "", "", features}};
  layout.time = TimeAxis::regular(6, "hours since 2001-01-01", 0, 0.5);
  write_series(path, layout, std::vector<float>(static_cast<std::size_t>(18 * features)));
  return SeriesFile::open(path, {}).info();
}

std::vector<float> read(const ForecastFile& file, std::vector<Index> nodes, std::vector<Index> origins,
                        Index horizons, Index features = 1, std::vector<double> centers = {}) {
  std::vector<float> out(nodes.size() * origins.size() * static_cast<std::size_t>(horizons * features));
  file.read(nodes, origins, horizons, centers, out.data());
  return out;
}

TEST(ForecastFiles, OfGridsWithMonths) {
  const TemporaryDirectory folder;
  const SeriesInfo series = grid_of(folder / "series.nc");
  Made made;
  made.init_units = series.time.units();
  made.inits = {series.time.values()[2], series.time.values()[5]};
  made.lead_units = "months";
  made.leads = {0, 2, 1};
  made.lat = series.lat;
  made.lon = {100, 470};  // 470 is 110, once around the globe
  const ForecastFile file = ForecastFile::open(made.write(folder / "f.nc"), series);
  EXPECT_EQ(file.horizons(), 2);
  EXPECT_FALSE(file.has(1));
  EXPECT_TRUE(file.has(2) && file.has(5));
  const std::vector<float> found = read(file, {5, 0, 2}, {5, 2}, 2);
  std::vector<float> wanted;
  for (const double lead : {1.0, 2.0})
    for (const double init : {made.inits[1], made.inits[0]})
      for (const Index node : {5, 0, 2})
        wanted.push_back(static_cast<float>(Made::value(init, lead, node, 0)));
  EXPECT_EQ(found, wanted);
  made.lat = {-10, 0, 11};
  EXPECT_HAS(user_message([&] { (void)ForecastFile::open(made.write(folder / "g.nc"), series); }),
             "lat is 11, but in");
}

TEST(ForecastFiles, NodesAreMatchedByTheirNamesAndLeadsByTheirTimes) {
  const TemporaryDirectory folder;
  const SeriesInfo series = sensors_of(folder / "series.nc");  // every half hour
  Made made;
  made.lead_units = "minutes";
  made.leads = {15, 30, 60, 90};
  made.names = {"c", "x", "a", "b"};
  const ForecastFile file = ForecastFile::open(made.write(folder / "f.nc"), series);
  EXPECT_EQ(file.remark(), "");
  EXPECT_EQ(file.horizons(), 3);
  EXPECT_TRUE(file.has(0) && file.has(2) && file.has(4));  // 0, 1 and 2 hours
  EXPECT_FALSE(file.has(1) || file.has(3) || file.has(5));
  const std::vector<float> found = read(file, {0, 1, 2}, {2}, 2, 1, {1, 0, 0.5});
  const auto value = [&](double lead, Index node) {
    return static_cast<float>(Made::value(1, lead, node, 0));
  };
  EXPECT_EQ(found, (std::vector<float>{value(30, 2) - 1, value(30, 3), value(30, 0) - 0.5F, value(60, 2) - 1,
                                       value(60, 3), value(60, 0) - 0.5F}));
}

TEST(ForecastFiles, HaveTheFeaturesOfTheSeries) {
  const TemporaryDirectory folder;
  const SeriesInfo series = sensors_of(folder / "series.nc", 2);
  Made made;
  made.features = 2;
  made.names = {"a", "b", "c"};
  made.units = "";
  const ForecastFile file = ForecastFile::open(made.write(folder / "f.nc"), series);
  EXPECT_EQ(read(file, {1}, {4}, 1, 2), (std::vector<float>{2101, 2101.25F}));
  made.features = 3;
  EXPECT_HAS(user_message([&] { (void)ForecastFile::open(made.write(folder / "g.nc"), series); }),
             "(init_time, lead, node, feature = 2) in this order");
}

TEST(ForecastFiles, SayWhatIsWrong) {
  const TemporaryDirectory folder;
  const SeriesInfo series = sensors_of(folder / "series.nc");
  const auto message = [&](const Made& made) {
    return user_message([&] { (void)ForecastFile::open(made.write(folder / "f.nc"), series); });
  };
  Made made;
  made.names = {"a", "b", "a"};
  EXPECT_HAS(message(made), "two nodes have the id \"a\"");
  made.names = {"a", "b", "c"};
  made.units = "K";
  EXPECT_HAS(message(made), "has units \"K\", but the data have units \"m\"");
  made.units = "metre";  // the same unit by another name
  EXPECT_EQ(ForecastFile::open(made.write(folder / "f.nc"), series).horizons(), 2);
  made.leads = {2, 3};
  EXPECT_HAS(message(made), "no forecast of the first step");
  made.leads = {1, 1};
  EXPECT_HAS(message(made), "lead has the lead time 1 twice");
  made.leads = {1, 2};
  made.variable = "w";
  EXPECT_HAS(message(made), "no variable v");
  made.variable = "v";
  made.inits = {1, 0, 2};
  EXPECT_HAS(message(made), "init_time");
  EXPECT_HAS(user_message([&] { (void)ForecastFile::open(folder / "none.nc", series); }), "none.nc");
}

}  // namespace
}  // namespace rossby
