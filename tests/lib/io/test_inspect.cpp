#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/io/inspect.hpp"
#include "rossby/io/series_writer.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::data_folder;
using testing_support::TemporaryDirectory;
using testing_support::user_message;

TEST(Inspect, CountsWhatIsThere) {
  const TemporaryDirectory folder;
  SeriesLayout layout;
  layout.nodes = 3;
  layout.variables = {{"flow", "m3 s-1", "discharge", "", 1}, {"stage", "m", "", "", 1}};
  layout.time = TimeAxis::parse({0, 1, 2, 5}, "days since 2000-01-30", "standard", "t");
  layout.has_edges = true;
  layout.edges = {{0, 1, 1}, {1, 2, 1}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> values;
  for (Index t = 0; t < 4; ++t)
    for (Index i = 0; i < 3; ++i) {
      values.push_back(i == 1 ? nan : static_cast<float>(10 * t + i));
      values.push_back(t == 0 ? nan : 1.0F);
    }
  write_series(folder / "a.nc", layout, values);
  const std::string text = inspect_series(folder / "a.nc");
  EXPECT_HAS(text, "shape     time 4 x node 3\n");
  EXPECT_HAS(text, "time      2000-01-30 to 2000-02-04, 4 steps, step 1 day\n");
  EXPECT_HAS(text,
             "gaps      1, 2 steps missing in all\n            2000-02-01 to 2000-02-04: 2 steps missing\n");
  EXPECT_HAS(text, "edges     2 (0.667 a node)");
  EXPECT_HAS(text,
             "variable  flow: discharge\nunits     m3 s-1\nvalues    0 to 32, mean 16\nmissing   33.33 %");
  EXPECT_HAS(text, "nodes     2 observed, 1 never");
  EXPECT_HAS(text, "variable  stage\nunits     m\nvalues    1 to 1, mean 1\nmissing   25.00 %");
  EXPECT_HAS(text, "48 B with 1 rank, 32 B with 2, 16 B with 4");
  const std::vector<std::string> one{"stage"};
  EXPECT_EQ(inspect_series(folder / "a.nc", one).find("flow"), std::string::npos);
  EXPECT_HAS(user_message([&] { (void)inspect_series(folder / "b.nc"); }), "no such file");
}

TEST(Inspect, EveryRealFile) {
  if (!std::filesystem::is_directory(data_folder())) GTEST_SKIP() << "no data folder; ROSSBY_DATA names one";
  for (const auto& entry : std::filesystem::directory_iterator(data_folder())) {
    if (entry.path().extension() != ".nc") continue;
    const std::string text = inspect_series(entry.path().string()), name = entry.path().stem().string();
    // These figures come from the documentation of the data folder.
    if (name == "ersst_v5_global_2deg_monthly") {
      EXPECT_HAS(text, "10988 observed, 5032 never");
      EXPECT_HAS(text, "2010-01 to 2020-08, 128 steps, step 1 month");
      EXPECT_HAS(text, "missing   31.41 %");
    } else if (name == "germany_pm10_daily") {
      EXPECT_HAS(text, "missing   51.39 %");
      EXPECT_HAS(text, "mean 17.6973");
    } else if (name == "hangzhou_metro_10min") {
      EXPECT_HAS(text, "gaps      24, 864 steps missing in all");
    } else if (name == "hungary_chickenpox_weekly") {
      EXPECT_HAS(text, "step 7 days");
    } else if (name == "noaa_us_stations_daily") {
      EXPECT_HAS(text, "variable  precipitation");
      EXPECT_HAS(text, "edges     1278");
    } else if (name == "heat_diffusion_1d") {
      EXPECT_HAS(text, "time      0 to 199, 200 steps, step 1 step");
    }
    if (name != "hangzhou_metro_10min") {
      EXPECT_HAS(text, "gaps      none");
    }
  }
}

}  // namespace
}  // namespace rossby
