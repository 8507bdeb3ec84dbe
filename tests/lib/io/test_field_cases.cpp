// Files as instruments and other programs write them, with a test for every kind of reported trouble: files
// that must be read, and files that must be refused with a remedy.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netcdf.h>
#include <netcdf_filter.h>
#include <sys/file.h>
#include <unistd.h>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/calendar_rule.hpp"
#include "rossby/io/cf_time_units.hpp"
#include "rossby/io/dated_numbers.hpp"
#include "rossby/io/float_loss.hpp"
#include "rossby/io/graph_match.hpp"
#include "rossby/io/inspect.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/netcdf_locks.hpp"
#include "rossby/io/series_coordinates.hpp"
#include "rossby/io/series_file.hpp"
#include "tests/fuzz/netcdf_maker.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/io/read_all.hpp"

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;

/// The folder of the cases: ROSSBY_FIELD, or ../shared/field beside the source tree.
std::filesystem::path field_folder() {
  if (const char* folder = std::getenv("ROSSBY_FIELD")) return folder;
  return std::filesystem::path(ROSSBY_SOURCE_DIR) / ".." / "shared" / "field";
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

class FieldCases : public ::testing::Test {
 protected:
  std::string make(const std::string& statements) {
    std::string path = folder_ / (std::to_string(++files_) + ".nc");
    fuzz::make_netcdf(path, fuzz::read_statements(statements));
    return path;
  }
  SeriesFile open(const std::string& statements, const std::vector<std::string>& variables = {}) {
    return SeriesFile::open(make(statements), variables);
  }
  std::string refusal(const std::string& statements, const std::vector<std::string>& variables = {}) {
    return user_message([&] { (void)open(statements, variables); });
  }
  static std::vector<float> values(const SeriesFile& file) { return testing_support::read_all(file); }
  const TemporaryDirectory folder_;
  int files_ = 0;
};

/// x(time, node) of 4 steps and 3 nodes with values 0, 1, ….
const std::string small = R"(
dim time 4
dim node 3
var time double time
att time units char "days since 2000-01-01"
ramp time 0 1 4
var x float time node
ramp x 0 1 12
)";

// Coordinates whose unit is not degrees.

std::string with_coordinates(const std::string& units, const std::string& lats, const std::string& lons) {
  return small + "var la double node\natt la standard_name char latitude\natt la units char \"" + units +
         "\"\ndata la " + lats +
         "\nvar lo double node\natt lo standard_name char longitude\natt lo units char \"" + units +
         "\"\ndata lo " + lons + "\natt x coordinates char \"la lo\"\n";
}

TEST_F(FieldCases, CoordinatesInAnyAngleBecomeDegrees) {
  const struct {
    const char *units, *lats, *lons;
  } same[] = {
      {"degrees", "-45 0 30", "0 90 180"},
      {"radian", "-0.7853981633974483 0 0.5235987755982988", "0 1.5707963267948966 3.141592653589793"},
      {" Radians ", "-0.7853981633974483 0 0.5235987755982988", "0 1.5707963267948966 3.141592653589793"},
      {"arcminutes", "-2700 0 1800", "0 5400 10800"},
      {"arc_second", "-162000 0 108000", "0 324000 648000"},
      {"1e-6 degrees", "-45000000 0 30000000", "0 90000000 180000000"},
      {"microdegrees", "-45000000 0 30000000", "0 90000000 180000000"},
      {"gon", "-50 0 33.333333333333336", "0 100 200"}};
  for (const auto& c : same) {
    const SeriesFile file = open(with_coordinates(c.units, c.lats, c.lons));
    ASSERT_EQ(file.info().node_lat.size(), 3U) << c.units;
    const double lats[] = {-45, 0, 30}, lons[] = {0, 90, 180};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(file.info().node_lat[i], lats[i], 1e-9) << c.units;
      EXPECT_NEAR(file.info().node_lon[i], lons[i], 1e-9) << c.units;
    }
  }
  // Metres are no angle: they are ignored with a remark in the log.
  const SeriesFile metres = open(with_coordinates("m", "0 1000 2000", "0 1000 2000"));
  EXPECT_TRUE(metres.info().node_lat.empty());
  EXPECT_HAS(join(metres.info().remarks), "not an angle");
}

TEST_F(FieldCases, AxesAndCurvilinearGridsInRadians) {
  const SeriesFile axes = open(R"(
dim time 2
dim lat 2
dim lon 3
var time double time
att time units char "days since 2000-01-01"
ramp time 0 1 2
var lat double lat
att lat units char radians
att lat standard_name char latitude
data lat -0.5235987755982988 0.5235987755982988
var lon double lon
att lon units char rad
att lon standard_name char longitude
data lon 0 1.5707963267948966 3.141592653589793
var x float time lat lon
ramp x 0 1 12
)");
  EXPECT_TRUE(axes.info().gridded);
  EXPECT_NEAR(axes.info().node_lat[5], 30, 1e-9);
  EXPECT_NEAR(axes.info().node_lon[5], 180, 1e-9);
  const SeriesFile grid = open(R"(
dim time 2
dim y 1
dim x 2
var time double time
att time units char "days since 2000-01-01"
ramp time 0 1 2
var la float y x
att la standard_name char latitude
att la units char radian
data la 0.5 1.0
var lo float y x
att lo standard_name char longitude
att lo units char radian
data lo 0.1 0.2
var t float time y x
ramp t 0 1 4
)");
  EXPECT_TRUE(grid.info().curvilinear);
  EXPECT_NEAR(grid.info().node_lat[1], 180 / std::numbers::pi, 1e-5);
  EXPECT_HAS(join(grid.info().remarks), "radian");
}

TEST_F(FieldCases, CoordinatesThatOnlyTheirNamesTell) {
  const std::string grid = R"(
dim time 2
dim y 1
dim x 2
var time double time
att time units char "days since 2000-01-01"
ramp time 0 1 2
var nav_lat float y x
att nav_lat units char radian
data nav_lat 0.5 1.0
var east float y x
att east long_name char Longitude
att east units char radian
data east 0.1 0.2
var t float time y x
ramp t 0 1 4
)";
  const SeriesFile file = open(grid);
  EXPECT_TRUE(file.info().curvilinear);
  EXPECT_NEAR(file.info().node_lat[1], 180 / std::numbers::pi, 1e-5);
  EXPECT_NEAR(file.info().node_lon[0], 18 / std::numbers::pi, 1e-5);
}

TEST_F(FieldCases, CoordinatesToTheSouthAndWestAreNegative) {
  const auto with = [&](const std::string& lat_units, const std::string& lon_units,
                        const std::string& kinds) {
    const std::string text = small + "var lat double node\n" + lat_units + "data lat 10 20 -30\n" +
                             "var lon double node\n" + lon_units +
                             "data lon 5 6 -7\natt x coordinates char \"lat lon\"\n";
    const SeriesFile file = open(text + kinds);
    EXPECT_EQ(file.info().node_lat, (std::vector<double>{-10, -20, 30})) << lat_units;
    EXPECT_EQ(file.info().node_lon, (std::vector<double>{-5, -6, 7})) << lon_units;
    EXPECT_HAS(join(file.info().remarks), "lat is converted from degree");
  };
  const std::string kinds = "att lat standard_name char latitude\natt lon standard_name char longitude\n";
  with("att lat units char degrees_south\n", "att lon units char degrees_west\n", "");
  with("att lat units char degrees_south\n", "att lon units char degrees_west\n", kinds);
  with("att lat units char degree_S\n", "att lon units char degreesW\n", "");
  EXPECT_EQ(*detail::degrees_in("degrees"), 1);
  EXPECT_EQ(*detail::degrees_in("degrees_N"), 1);
}

TEST_F(FieldCases, NamesTellAnglesOfAnyUnit) {
  const auto node_lat = [&](const std::string& units, const std::string& values) {
    const std::string text = small + "var lat double node\n" +
                             (units.empty() ? "" : "att lat units char " + units + "\n") + "data lat " +
                             values + "\nvar lon double node\natt lon units char degree\ndata lon 1 2 3\n" +
                             "att x coordinates char \"lat lon\"\n";
    const SeriesFile file = open(text);
    return std::pair(file.info().node_lat, join(file.info().remarks));
  };
  EXPECT_EQ(node_lat("arcmin", "60 120 600").first, (std::vector<double>{1, 2, 10}));
  EXPECT_EQ(node_lat("", "1.5 2.5 80").first, (std::vector<double>{1.5, 2.5, 80}));
  const auto [none, remark] = node_lat("", "52000000 53000000 54000000");
  EXPECT_TRUE(none.empty());
  EXPECT_HAS(remark, "which is impossible for latitudes in degrees: these coordinates are not used");
  const auto [hours, no_angle] = node_lat("hours", "1 2 3");
  EXPECT_TRUE(hours.empty());
  EXPECT_HAS(no_angle, "\"hours\", which are not an angle: these coordinates are not used");
}

TEST_F(FieldCases, CoordinatesWithoutAUnitThatLookLikeRadiansAreSaid) {
  const SeriesFile file = open(with_coordinates("", "-1.2 0.3 1.1", "0.1 3.0 6.1"));
  EXPECT_HAS(join(file.info().remarks), "guessed");
  EXPECT_HAS(join(open(with_coordinates("degrees", "-1.2 95 1.1", "0.1 3.0 6.1")).info().remarks),
             "is impossible");
  EXPECT_TRUE(open(with_coordinates("degrees", "-1.2 0.3 1.1", "0.1 3.0 6.1")).info().remarks.empty());
}

// Numbers that are dates.

struct Dated {
  const char *type, *units, *stamps, *first, *last, *step;
};

TEST_F(FieldCases, NumbersThatAreDates) {
  const Dated cases[] = {
      {"int", "", "20150101 20150201 20150301 20150401", "2015-01", "2015-04", "1 month"},
      {"int64", "1", "20161230 20161231 20170101 20170102", "2016-12-30", "2017-01-02", "1 day"},
      {"double", "day as %Y%m%d.%f", "20010101.25 20010101.5 20010101.75 20010102", "2001-01-01T06:00",
       "2001-01-02T00:00", "6 hours"},
      {"int", "YYYYMM", "199911 199912 200001 200002", "1999-11", "2000-02", "1 month"},
      {"int", "", "2015364 2015365 2016001 2016002", "2015-12-30", "2016-01-02", "1 day"},
      {"int", "%Y%j", "2016359 2016366 2017007 2017014", "2016-12-24", "2017-01-14", "7 days"},
      {"int", "", "199911 199912 200001 200002", "1999-11", "2000-02", "1 month"},
      {"int", "years", "1999 2000 2001 2002", "1999-01", "2002-01", "1 year"},
      {"int64", "", "2020022812 2020022818 2020022900 2020022906", "2020-02-28T12:00", "2020-02-29T06:00",
       "6 hours"},
      {"double", "YYYYMMDDHHMMSS", "20200101000000 20200101000030 20200101000100 20200101000130",
       "2020-01-01T00:00:00", "2020-01-01T00:01:30", "30 seconds"},
      {"double", "decimal year", "2000.0417 2000.125 2000.2083 2000.2917", "2000-01-16", "2000-04-16",
       "1 month"}};
  for (const Dated& c : cases) {
    const SeriesFile file =
        open(std::string("dim time 4\ndim node 3\nvar time ") + c.type + " time\natt time units char \"" +
             c.units + "\"\ndata time " + c.stamps + "\nvar x float time node\nramp x 0 1 12\n");
    const TimeAxis& time = file.info().time;
    EXPECT_TRUE(time.dated()) << c.stamps;
    EXPECT_EQ(time.text(0).substr(0, std::string(c.first).size()), c.first) << c.stamps;
    EXPECT_EQ(time.text(3).substr(0, std::string(c.last).size()), c.last) << c.stamps;
    EXPECT_EQ(time.step_text(), c.step) << c.stamps;
    EXPECT_TRUE(time.gaps().empty()) << c.stamps;
    EXPECT_HAS(join(file.info().remarks), "are read as") << c.stamps;
  }
}

TEST_F(FieldCases, NumbersThatLookLikeDatesAndAreNone) {
  const auto with = [](const char* type, const std::string& stamps) {
    return std::string("dim time 12\ndim node 1\nvar time ") + type + " time\ndata time " + stamps +
           "\nvar x float time node\nramp x 0 1 12\n";
  };
  // One month 13 among dates.
  EXPECT_HAS(refusal(with("int",
                          "20150101 20150201 20150301 20150401 20150501 20150601 20150701 20150801 20150901 "
                          "20151001 20151101 20151301")),
             "step 11 has 20151301, which is not a date");
  EXPECT_HAS(refusal(with("float",
                          "20150100 20150200 20150300 20150400 20150500 20150600 20150700 20150800 20150900 "
                          "20151000 20151100 20151200")),
             "float32");
  // Numbers that look like years only at both ends are no dates, and years far away are refused.
  EXPECT_HAS(refusal(with("double", "2001 2e11 2001.5 2002 2003 2004 2005 2006 2007 2008 2009 2010")),
             "does not ascend");
  EXPECT_HAS(refusal("dim time 2\ndim node 1\nvar time double time\natt time units char \"decimal year\"\n"
                     "data time 2001.5 2e11\nvar x float time node\nramp x 0 1 2\n"),
             "step 1 has 200000000000, which is not a year");
  // Counts stay counts; so do years without a unit, with a remark.
  const SeriesFile counts = open(with("int", "0 1 2 3 4 5 6 7 8 9 10 11"));
  EXPECT_FALSE(counts.info().time.dated());
  EXPECT_TRUE(counts.info().remarks.empty());
  const SeriesFile years = open(with("int", "1990 1991 1992 1993 1994 1995 1996 1997 1998 1999 2000 2001"));
  EXPECT_FALSE(years.info().time.dated());
  EXPECT_HAS(join(years.info().remarks), "guessed");
}

TEST_F(FieldCases, CountsThatMayBeDatesAreSaid) {
  const auto remark = [&](const std::string& stamps) {
    const SeriesFile file = open("dim time 4\ndim node 2\nvar time double time\ndata time " + stamps +
                                 "\nvar x float time node\nramp x 0 1 8\n");
    EXPECT_FALSE(file.info().time.dated());
    return join(file.info().remarks);
  };
  EXPECT_HAS(remark("1420070400 1420074000 1420077600 1420081200"), "units = \"seconds since 1970-01-01\"");
  EXPECT_HAS(remark("1420070400000 1420074000000 1420077600000 1420081200000"),
             "milliseconds since 1970-01-01");
  EXPECT_HAS(remark("1420070400000000 1420074000000000 1420077600000000 1420081200000000"),
             "microseconds since 1970-01-01");
  EXPECT_HAS(remark("201501 201502 201552 201601"), "read as plain counts (guessed)");  // weeks
  EXPECT_HAS(remark("42005 42006 42007 42008"), "read as plain counts (guessed)");  // a spreadsheet's days
  EXPECT_EQ(remark("0 1 2 3"), "");
  EXPECT_EQ(remark("96 97 98 99"), "");
}

TEST_F(FieldCases, JulianDays) {
  const std::string data =
      "dim time 4\ndim node 3\nvar x float time node\nramp x 0 1 12\nvar time double time\n";
  const struct {
    const char *units, *first, *text;
  } cases[] = {{"Julian Day", "2451545", "2000-01-01T12:00"},
               {"MJD", "51544.5", "2000-01-01T12:00"},
               {"days since -4712-01-01 12:00:00", "2451545", "2000-01-01T12:00"},
               {"days since -4713-01-01T12:00:00Z", "2451545.5", "2000-01-02"}};
  for (const auto& c : cases)
    EXPECT_EQ(open(data + "att time units char \"" + c.units + "\"\nramp time " + c.first + " 1 4\n")
                  .info()
                  .time.text(0)
                  .substr(0, std::string(c.text).size()),
              c.text)
        << c.units;
  EXPECT_HAS(join(open(data + "ramp time 2451545 1 4\n").info().remarks), "look like Julian days");
  EXPECT_HAS(refusal(data + "att time units char \"days since -0044-03-15\"\nramp time 0 1 4\n"),
             "is not a date");
}

// Auxiliary variables.

TEST_F(FieldCases, VariablesThatDescribeOthersAreNoSeries) {
  const std::string with = small + "att x units char degC\n";
  for (const char* more :
       {"dim d2 2\nvar b double time d2\natt time bounds char b\nramp b 0 1 8\n",
        "dim d2 2\nvar time_bound double time d2\natt time_bound units char \"days since 2000-01-01\"\n",
        "dim d2 2\nvar cl double time d2\natt time climatology char cl\n",
        "var w double time node\natt x cell_measures char \"area: w\"\n",
        "var x_qc float time node\natt x ancillary_variables char x_qc\n",
        "var f float time node\natt f flag_meanings char \"good bad\"\n",
        "var n float time node\natt n standard_name char \"air_temperature number_of_observations\"\n",
        "var z float time node\natt z standard_name char depth\n", "var cell_area float time node\n",
        "var x_weights float time node\n", "var e float time node\natt x coordinates char e\n"}) {
    const SeriesFile file = open(with + more);
    ASSERT_EQ(file.info().variables.size(), 1U) << more;
    EXPECT_EQ(file.info().variables[0].name, "x") << more;
    EXPECT_EQ(file.info().variables[0].units, "degC");
  }
  // Alone it is refused with the reason; if named, it is taken.
  const std::string flags =
      "dim time 4\ndim node 3\nvar time double time\natt time units char \"days since 2000-01-01\"\nramp "
      "time 0 1 4\n"
      "var f float time node\natt f flag_meanings char \"good bad\"\nramp f 0 1 12\n";
  EXPECT_HAS(refusal(flags), "f would fit, but describes other variables");
  EXPECT_EQ(open(flags, {"f"}).info().variables[0].name, "f");
  // Only the name is a hint: the variable is taken if there is no other.
  EXPECT_EQ(
      open("dim time 4\ndim node 3\nvar time double time\natt time units char \"days since 2000-01-01\"\n"
           "ramp time 0 1 4\nvar soil_weight float time node\nramp soil_weight 0 1 12\n")
          .info()
          .variables[0]
          .name,
      "soil_weight");
}

// Units of time.

TEST_F(FieldCases, ExactUnitsOfTime) {
  const struct {
    const char *units, *stamps, *calendar, *last, *step;
  } cases[] = {{"nanoseconds", "0 100000000000 200000000000 300000000000", "standard", "2020-07-28T00:05",
                "100 seconds"},
               {"us", "0 500000 1000000 1500000", "standard", "2020-07-28T00:00:01", "0.5 seconds"},
               {"milliseconds", "0 20 40 60", "standard", "2020-07-28", "0.02 seconds"},
               {"weeks", "0 1 2 3", "standard", "2020-08-18", "7 days"},
               {"common_years", "0 1 2 3", "noleap", "2023-07-28", "1 year"},
               {"years", "0 1 2 3", "365_day", "2023-07-28", "1 year"},
               {"fortnights", "0 1 2 3", "", "2020-09-08", "14 days"}};
  for (const auto& c : cases) {
    const SeriesFile file =
        open(std::string("dim time 4\ndim node 3\nvar time double time\natt time units char \"") + c.units +
             " since 2020-07-28\"\natt time calendar char \"" + c.calendar + "\"\ndata time " + c.stamps +
             "\nvar x float time node\nramp x 0 1 12\n");
    EXPECT_EQ(file.info().time.text(3).substr(0, std::string(c.last).size()), c.last) << c.units;
    EXPECT_EQ(file.info().time.step_text(), c.step) << c.units;
    EXPECT_TRUE(file.info().time.regular()) << c.units;
  }
  for (const char* units : {"years", "months", "calendar_months"}) {
    const std::string message =
        refusal(std::string("dim time 4\ndim node 3\nvar time double time\natt time units char \"") + units +
                " since 1850-01-01\"\nramp time 0 1 4\nvar x float time node\nramp x 0 1 12\n");
    EXPECT_HAS(message, units);
    if (std::string(units) != "calendar_months") {
      EXPECT_HAS(message, "pd.date_range(\"1850-01-01\"");
    }
  }
}

// Attributes as text.

TEST_F(FieldCases, NumbersInTextAreNumbers) {
  EXPECT_EQ(numbers_in_text(" 0.1 "), std::vector<double>{0.1});
  EXPECT_EQ(numbers_in_text("-99.9f"), std::vector<double>{-99.9});
  EXPECT_EQ(numbers_in_text("0, 100"), (std::vector<double>{0, 100}));
  EXPECT_EQ(numbers_in_text("one"), std::nullopt);
  EXPECT_EQ(numbers_in_text("1.5 degC"), std::nullopt);
  EXPECT_EQ(numbers_in_text(""), std::nullopt);
  const std::string packed =
      "dim time 2\ndim node 2\nvar time double time\natt time units char \"days since 2000-01-01\"\nramp "
      "time 0 1 2\n"
      "var x short time node\ndata x 100 200 -999 50\n";
  const SeriesFile scaled = open(packed +
                                 "att x scale_factor char \"0.1\"\natt x add_offset string \" 5 \"\n"
                                 "att x missing_value char \"-999\"\n");
  const std::vector<float> got = values(scaled);
  EXPECT_FLOAT_EQ(got[0], 15);
  EXPECT_FLOAT_EQ(got[1], 25);
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_FLOAT_EQ(got[3], 10);
  EXPECT_HAS(join(scaled.info().remarks), "scale_factor");
  EXPECT_HAS(refusal(packed + "att x scale_factor char \"a tenth\"\n"),
             "scale_factor = \"a tenth\" is not a number");
  const SeriesFile ranged =
      open(small + "att x valid_range char \"2, 9\"\natt x missing_value char \"4.0f\"\n");
  const std::vector<float> kept = values(ranged);
  EXPECT_TRUE(std::isnan(kept[1]) && std::isnan(kept[4]) && std::isnan(kept[10]));
  EXPECT_EQ(kept[9], 9);
  // Unreadable attributes are reported, not ignored.
  EXPECT_HAS(join(open(small + "att x missing_value char \"none\"\n").info().remarks), "missing_value");
}

TEST_F(FieldCases, FactorsThatUnpackNothingAreRefused) {
  EXPECT_HAS(refusal(small + "att x scale_factor char \"0,1\"\n"),
             "scale_factor = \"0,1\" is text with 2 numbers");
  EXPECT_HAS(refusal(small + "att x add_offset char \"1 2\"\n"),
             "add_offset = \"1 2\" is text with 2 numbers");
  EXPECT_HAS(refusal(small + "att x scale_factor double 0\n"), "scale_factor = 0 makes all values equal");
  EXPECT_HAS(refusal(small + "att x scale_factor double nan\n"),
             "scale_factor = nan, add_offset = 0: no value");
  EXPECT_HAS(refusal(small + "att x add_offset float inf\n"), "scale_factor = 1, add_offset = inf: no value");
}

TEST_F(FieldCases, AttributesThatAreNearlyCalledSoAreNamed) {
  EXPECT_HAS(join(open(small + "att x FillValue float 7\n").info().remarks),
             "x: attribute FillValue is ignored. If _FillValue is meant, rename the attribute");
  EXPECT_HAS(join(open(small + "att x slope float 0.1\n").info().remarks), "If scale_factor is meant");
  EXPECT_HAS(join(open(small + "att x missing-value float -9\n").info().remarks),
             "If missing_value is meant");
  // Some files have both: the right one counts.
  EXPECT_EQ(join(open(small + "att x nodata float 7\natt x missing_value float 7\n").info().remarks), "");
}

TEST_F(FieldCases, AxesThatDoNotGoOneWayAreSaid) {
  const auto remarks = [&](const std::string& lats, const std::string& lons) {
    return join(
        open("dim time 2\ndim lat 3\ndim lon 4\nvar time double time\natt time units char \"days since "
             "2000-01-01\"\nramp time 0 1 2\nvar x float time lat lon\nramp x 0 1 24\n"
             "var lat double lat\natt lat units char degrees_north\ndata lat " +
             lats + "\nvar lon double lon\natt lon units char degrees_east\ndata lon " + lons + "\n")
            .info()
            .remarks);
  };
  EXPECT_EQ(remarks("60 50 40", "340 350 0 10"), "");
  EXPECT_EQ(remarks("40 50 60", "170 -170 -150 -130"), "");
  EXPECT_HAS(remarks("40 60 50", "0 10 20 30"), "lat is not monotonic (60 is followed by 50)");
  EXPECT_HAS(remarks("40 40 50", "0 10 20 30"), "lat is not monotonic (40 is followed by 40)");
  EXPECT_HAS(remarks("40 50 60", "0 20 10 30"), "lon is not monotonic (20 is followed by 10)");
}

TEST_F(FieldCases, BytesAreReadWhereNothingElseIs) {
  const std::string bytes = small.substr(0, small.find("var x")) + "var x byte time node\nramp x 0 1 12\n";
  EXPECT_EQ(values(open(bytes))[11], 11);
  EXPECT_EQ(open(bytes + "var n int time node\nramp n 0 1 12\n").info().variables[0].name, "n");
  EXPECT_HAS(refusal(bytes + "att x flag_values byte 0 1\n"), "no variable has the dimensions");
}

TEST_F(FieldCases, TextIsReadWithoutWhatPadsIt) {
  EXPECT_EQ(clean_text(std::string_view("  degC \0\0", 9)), "degC");
  EXPECT_EQ(clean_text("\xB0"
                       "C"),
            "\xC2\xB0"
            "C");
  EXPECT_EQ(utf8_text("\xC2\xB0"
                      "C"),
            "\xC2\xB0"
            "C");
  const std::string plain = R"(
dim time 3
dim j 2
dim i 2
var time double time
att time units char "days since 2000-01-01"
att time calendar char "noleap"
ramp time 58 1 3
var la float j i
att la units char "degrees_north"
data la 1 1 2 2
var lo float j i
att lo units char "degrees_east"
data lo 5 6 5 6
var t ubyte time j i
att t coordinates char "lo la"
att t scale_factor double 0.5
att t _Unsigned char "true"
att t units char "K"
ramp t 0 1 12
)";
  std::string padded = plain;
  for (const char* text :
       {"days since 2000-01-01", "noleap", "degrees_north", "degrees_east", "lo la", "true", "K"}) {
    const std::string quoted = '"' + std::string(text) + '"';
    padded.replace(padded.find(quoted), quoted.size(), "\" " + std::string(text) + "   \\x00\\x00\"");
  }
  const SeriesFile a = open(plain), b = open(padded);
  EXPECT_TRUE(a.info().curvilinear && b.info().curvilinear);
  EXPECT_EQ(a.info().node_lat, b.info().node_lat);
  EXPECT_EQ(b.info().variables[0].units, "K");
  EXPECT_EQ(a.info().time.text(1), "2000-03-01");  // no 29 February
  EXPECT_EQ(b.info().time.text(1), "2000-03-01");
  EXPECT_EQ(values(a), values(b));
}

TEST_F(FieldCases, TextThatTabsAndLinesPad) {
  // Names that attributes give, values and roles.
  const SeriesFile file = open(R"(
dim time 4
dim nv 2
dim row 2
dim col 3
var time double time
att time units char "\x09days since 2000-01-01 00:00:00\x0a"
att time bounds char "time_span\x00"
ramp time 0 1 4
var time_span double time nv
ramp time_span 0 0.5 8
var row double row
att row axis char "Y "
att row units char "degrees_north\x0d\x0a"
data row 10 20
var col double col
att col standard_name char " longitude\x00\x00\x00"
data col 0 1 2
var x short time row col
att x missing_value char " -99 "
att x scale_factor char "0.5 \x00"
att x cell_methods char "time: mean "
data x -99 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23
)");
  EXPECT_EQ(file.info().variables[0].name, "x");
  EXPECT_TRUE(file.info().gridded);
  EXPECT_EQ(file.info().n_lat, 2);
  EXPECT_EQ(file.info().lat.at(1), 20);
  EXPECT_EQ(file.info().time.text(3), "2000-01-04");
  const std::vector<float> x = values(file);
  EXPECT_TRUE(std::isnan(x[0]));
  EXPECT_EQ(x[1], 0.5F);
  EXPECT_EQ(x[23], 11.5F);
}

TEST_F(FieldCases, PaddedRolesAndFlags) {
  const SeriesFile file =
      open(small +
           "var id int node\natt id cf_role char \"timeseries_id \"\ndata id 7 8 9\n"
           "var la double node\natt la units char \"Degrees_North\\x00\"\ndata la 1 2 3\n"
           "var lo double node\natt lo units char \" degree_east\"\ndata lo 1 2 3\n"
           "var qc byte time node\natt qc flag_meanings char \"good bad \"\n"
           "att qc flag_values byte 0 1\n"
           "att x ancillary_variables char \" qc \\x00\"\natt x coordinates char \"la lo id\\x00\"\n");
  EXPECT_EQ(file.info().variables[0].name, "x");
  ASSERT_EQ(file.info().node_lat.size(), 3U) << join(file.info().remarks);
  EXPECT_EQ(file.info().node_lat.at(2), 3);
  ASSERT_EQ(file.info().node_labels.size(), 3U);
  EXPECT_EQ(file.info().node_labels[1], "8");
}

TEST_F(FieldCases, BytesThatAreNoUtf8AreLatin1) {
  const SeriesFile file =
      open(small +
           "att x units char \"\\xb0"
           "C\"\natt x long_name char \"Temp\\xe9rature\"\n"
           "att - title char \"M\\xfcller\"\ndim width 8\nvar name char node width\n"
           "att name cf_role char timeseries_id\ntexts name \"K\\xf6ln\" \"Bonn\" \"Ulm\"\n");
  EXPECT_EQ(file.info().variables[0].units,
            "\xC2\xB0"
            "C");
  EXPECT_EQ(file.info().variables[0].long_name, "Temp\xC3\xA9rature");
  EXPECT_EQ(file.info().title, "M\xC3\xBCller");
  ASSERT_EQ(file.info().node_labels.size(), 3U);
  EXPECT_EQ(file.info().node_labels[0], "K\xC3\xB6ln");
  EXPECT_EQ(file.info().node_labels[2], "Ulm");
}

// Auxiliary and textual time coordinates.

TEST_F(FieldCases, StampsOfAnotherNameOrAsText) {
  const std::string data = "dim Time 3\ndim node 2\nvar x float Time node\nramp x 0 1 6\n";
  const SeriesFile named = open(data +
                                "var XTIME float Time\natt XTIME units char \"minutes since 2020-01-01\"\n"
                                "ramp XTIME 0 60 3\natt x coordinates char XTIME\n");
  EXPECT_EQ(named.info().time.text(2), "2020-01-01T02:00");
  EXPECT_EQ(named.info().time.step_text(), "1 hour");
  EXPECT_HAS(join(named.info().remarks), "XTIME");
  const SeriesFile wrf = open(data +
                              "dim len 19\nvar Times char Time len\ntexts Times 2020-01-31_18:00:00 "
                              "2020-02-01_00:00:00 2020-02-01_06:00:00\n");
  EXPECT_EQ(wrf.info().time.text(1), "2020-02-01T00:00");
  EXPECT_EQ(wrf.info().time.step_text(), "6 hours");
  const SeriesFile iso = open(data +
                              "var date string Time\ntexts date 2020-01-01T00:00:00Z 2020-01-02T00:00:00Z "
                              "2020-01-03T00:00:00Z\n");
  EXPECT_EQ(iso.info().time.text(2), "2020-01-03");
  EXPECT_HAS(refusal(data + "var date string Time\ntexts date 2020-01-01 noon 2020-01-03\n"),
             "step 1 has \"noon\", which is not a date");
  // A dimension that says nothing itself, and stamps that say they are the time.
  const SeriesFile obs = open(
      "dim obs 3\ndim node 2\nvar x float obs node\nramp x 0 1 6\nvar when double obs\n"
      "att when units char \"hours since 2020-01-01\"\natt when standard_name char time\n"
      "ramp when 0 3 3\n");
  EXPECT_EQ(obs.info().time.step_text(), "3 hours");
}

TEST_F(FieldCases, MoreStampsOfAnotherNameOrAsText) {
  const std::string data = "dim t 3\ndim node 2\nvar x float t node\nramp x 0 1 6\n";
  // The time of a forecast's run is a time, but not that of the values.
  const SeriesFile cycles =
      open(data +
           "var reftime double t\natt reftime units char \"hours since 2020-01-01\"\n"
           "att reftime standard_name char forecast_reference_time\nramp reftime 0 6 3\n"
           "var valid double t\natt valid units char \"hours since 2020-01-01\"\n"
           "att valid standard_name char time\nramp valid 3 1 3\n"
           "att x coordinates char \"reftime valid\"\n");
  EXPECT_EQ(cycles.info().time.text(0), "2020-01-01T03:00");
  EXPECT_EQ(cycles.info().time.step_text(), "1 hour");
  // The same holds if it is the dimension's own coordinate.
  const SeriesFile runs = open(
      "dim time 3\ndim node 2\nvar x float time node\nramp x 0 1 6\n"
      "var time double time\natt time units char \"hours since 2020-01-01\"\n"
      "att time standard_name char forecast_reference_time\nramp time 0 6 3\n"
      "var valid double time\natt valid units char \"hours since 2020-01-01\"\n"
      "att valid standard_name char time\nramp valid 24 6 3\n");
  EXPECT_EQ(runs.info().time.text(0), "2020-01-02T00:00");
  EXPECT_HAS(join(runs.info().remarks), "valid: used as the times of dimension time");
  // If two are equally likely, one is chosen, and the remark says so.
  const SeriesFile two = open(data +
                              "var a double t\natt a units char \"hours since 2020-01-01\"\natt a "
                              "standard_name char time\nramp a 0 6 3\n"
                              "var b double t\natt b units char \"hours since 2020-01-01\"\natt b "
                              "standard_name char time\nramp b 3 1 3\n");
  EXPECT_HAS(join(two.info().remarks), "a: used as the times of dimension t (guessed: b is possible, too)");
  // Zones and fractions of seconds.
  const SeriesFile zoned =
      open(data +
           "var date string t\ntexts date 2020-01-01T02:00:00+02:00 2020-01-01T01:00:00.000Z "
           "2020-01-01T02:00:00\n");
  EXPECT_EQ(zoned.info().time.text(0), "2020-01-01T00:00");
  EXPECT_EQ(zoned.info().time.step_text(), "1 hour");
  // The coordinate variable itself is text.
  const SeriesFile own = open(
      "dim time 3\ndim node 2\ndim len 10\nvar x float time node\nramp x 0 1 6\n"
      "var time char time len\ntexts time 2020-01-01 2020-01-08 2020-01-15\n");
  EXPECT_EQ(own.info().time.step_text(), "7 days");
}

// Nodes identified by their ids.

std::string graph_text(const std::string& ids) {
  return "dim node 3\ndim edge 2\nvar node_id int node\natt node_id cf_role char timeseries_id\ndata "
         "node_id " +
         ids + "\nvar edge_src int edge\ndata edge_src 0 1\nvar edge_dst int edge\ndata edge_dst 1 2\n";
}

TEST_F(FieldCases, GraphsAreMatchedByIds) {
  const SeriesFile file = open(small + "var node int node\ndata node 7 8 9\n");
  const auto match = [&](const std::string& ids, std::string& remark) {
    const std::string path = make(graph_text(ids));
    GraphFile graph = GraphFile::open(path);
    graph.renumber(match_nodes(graph, path, file.info(), remark));
    return graph.edges(0, 2);
  };
  std::string remark;
  auto edges = match("7 8 9", remark);
  EXPECT_EQ(edges[1].destination, 2);
  EXPECT_EQ(remark, "");
  edges = match("9 7 8", remark);
  EXPECT_EQ(edges[0].source, 2);
  EXPECT_EQ(edges[0].destination, 0);
  EXPECT_EQ(edges[1].destination, 1);
  EXPECT_HAS(remark, "another order");
  EXPECT_HAS(user_message([&] { (void)match("7 8 10", remark); }), "\"10\", which is not a node of");
}

TEST_F(FieldCases, GraphsWithoutIdsAreHeldAgainstCoordinates) {
  const SeriesFile file = open(with_coordinates("degrees", "1 2 3", "4 5 6"));
  const auto graph_at = [&](const std::string& lats) {
    return make(
        "dim node 3\ndim edge 1\nvar edge_src int edge\ndata edge_src 0\nvar edge_dst int edge\n"
        "data edge_dst 1\nvar node_lat double node\natt node_lat units char degrees_north\ndata node_lat " +
        lats + "\nvar node_lon double node\natt node_lon units char degrees_east\ndata node_lon 4 5 6\n");
  };
  std::string remark;
  const std::string same = graph_at("1 2 3"), other = graph_at("3 2 1");
  EXPECT_TRUE(match_nodes(GraphFile::open(same), same, file.info(), remark).empty());
  EXPECT_HAS(remark, "by position");
  EXPECT_HAS(user_message([&] { (void)match_nodes(GraphFile::open(other), other, file.info(), remark); }),
             "The graph has other nodes, or another order");
}

// Small signals on large offsets.

TEST_F(FieldCases, WhatFloatsWouldLoseIsNoticed) {
  std::string steps;
  for (int t = 0; t < 40; ++t) steps += " " + std::to_string(4'100'000 + 0.004 * std::sin(t)) + " 12.5";
  const std::string head =
      "dim time 40\ndim node 2\nvar time double time\natt time units char \"days since 2000-01-01\"\n"
      "ramp time 0 1 40\n";
  const SeriesFile file = open(head + "var x double time node\ndata x" + steps + "\n");
  ASSERT_TRUE(file.finer_than_float());
  const Index nodes[] = {0, 1};
  const FloatLoss loss = float_loss(file, nodes, 0, 40);
  EXPECT_EQ(loss.varying[0], 1);  // the second is constant
  EXPECT_EQ(loss.lost[0], 1);
  EXPECT_TRUE(needs_center(loss.varying[0], loss.lost[0]));
  EXPECT_EQ(loss.first[0], 4'100'000);
  EXPECT_EQ(loss.spacing[0], 0.25);
  // Without its first value the signal is kept.
  std::vector<float> centred(80);
  file.read(nodes, centred.data(), loss.first);
  EXPECT_NEAR(centred[2], 0.004 * std::sin(1), 1e-6);
  EXPECT_EQ(centred[1], 0);
  // A larger level, whose variations only doubles resolve.
  std::string large;
  for (int t = 0; t < 40; ++t) large += " " + std::to_string(1e13 + std::round(5 * std::sin(t))) + " 1e13";
  const FloatLoss of_large =
      float_loss(open(head + "var x double time node\ndata x" + large + "\n"), nodes, 0, 40);
  EXPECT_EQ(of_large.varying[0], 1);
  EXPECT_EQ(of_large.lost[0], 1);
  // Ordinary data stay unchanged: floats, and doubles whose variations floats resolve.
  EXPECT_FALSE(open(small).finer_than_float());
  const SeriesFile pressure = open(head + "var p double time node\nramp p 100000 3.25 80\n");
  const FloatLoss none = float_loss(pressure, nodes, 0, 40);
  EXPECT_EQ(none.lost[0], 0);
  // Integers of more digits than float32 has.
  const SeriesFile counts =
      open(head + "var c int time node\natt c scale_factor double 0.001\nramp c 2000000000 1 80\n");
  EXPECT_TRUE(counts.finer_than_float());
  EXPECT_EQ(float_loss(counts, nodes, 0, 40).lost[0], 2);
}

// Rounded stamps.

TimeAxis axis(const std::vector<double>& values, const std::string& units, const std::string& calendar = "") {
  return TimeAxis::parse(values, units, calendar, "t");
}

TEST_F(FieldCases, RoundedStampsAreThoseOfTheirStep) {
  std::vector<double> days, epoch, julian;
  for (int t = 0; t < 500; ++t) {
    days.push_back(static_cast<double>(static_cast<float>(57000 + t / 24.0)));
    epoch.push_back(static_cast<double>(static_cast<float>(1.4e9 + 3600.0 * t)));
    julian.push_back(std::round((2'451'545.0 + t / 24.0) * 1e4) / 1e4);
  }
  for (const TimeAxis& time : {axis(days, "days since 1858-11-17"), axis(epoch, "seconds since 1970-01-01"),
                               axis(julian, "days since -4712-01-01 12:00", "julian")}) {
    EXPECT_EQ(time.step_milliseconds(), 3'600'000) << time.units();
    EXPECT_TRUE(time.regular());
    EXPECT_TRUE(time.gaps().empty());
    EXPECT_HAS(time.remark(), "guessed");
    EXPECT_EQ(time.after(499, 12).stamp(11) - time.stamp(499), 12 * 3'600'000);
  }
  // Exact stamps stay unchanged, without a remark; so do real jitter and real gaps.
  EXPECT_EQ(axis({0, 1, 2, 3, 4}, "hours since 2000-01-01").remark(), "");
  EXPECT_EQ(axis({0, 1, 2.4, 3, 4.2, 5, 6}, "hours since 2000-01-01").remark(), "");
}

// Steps bound to a calendar.

std::vector<double> days_of(const std::vector<std::string>& dates) {
  std::vector<double> days;
  for (const std::string& date : dates)
    days.push_back(static_cast<double>(Period::parse(date)->begin) / 86'400'000.0);
  return days;
}

TEST_F(FieldCases, StepsThatFollowTheCalendarAreContinued) {
  std::vector<std::string> dekads, halves, eight, business;
  for (int month = 1; month <= 12; ++month) {
    for (const int day : {1, 11, 21}) dekads.push_back(fmt::format("2017-{:02}-{:02}", month, day));
    for (const int day : {1, 16}) halves.push_back(fmt::format("2017-{:02}-{:02}", month, day));
  }
  const auto continued = [&](const std::vector<double>& days, Index count) {
    const TimeAxis time = axis(days, "days since 1970-01-01");
    EXPECT_TRUE(time.regular());
    EXPECT_TRUE(time.gaps().empty());
    const TimeAxis next = time.after(time.size() - 1, count);
    std::vector<std::string> texts;
    for (Index k = 0; k < count; ++k) {
      const detail::CivilTime civil = detail::civil(next.stamp(k), Calendar::standard);
      texts.push_back(fmt::format("{:02}-{:02}", civil.month, civil.day));
    }
    return texts;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(continued(days_of(dekads), 4), (Texts{"01-01", "01-11", "01-21", "02-01"}));
  EXPECT_EQ(continued(days_of(halves), 3), (Texts{"01-01", "01-16", "02-01"}));
  std::vector<double> composites, weekdays;
  for (const int year : {2003, 2004, 2005})
    for (int day = 0; day < 365; day += 8)
      composites.push_back(days_of({fmt::format("{}-01-01", year)})[0] + day);
  EXPECT_EQ(continued(composites, 2), (Texts{"01-01", "01-09"}));
  for (int week = 0; week < 8; ++week)
    for (int day = 0; day < 5; ++day) weekdays.push_back(4 + 7 * week + day);  // 1970-01-05 was a Monday
  EXPECT_EQ(continued(weekdays, 2), (Texts{"03-02", "03-03"}));
  EXPECT_EQ(axis(days_of(dekads), "days since 1970-01-01").step_text(), "1 dekad");
  EXPECT_EQ(axis(weekdays, "days since 1970-01-01").step_text(), "1 business day");
  // A dekad that is missing is a gap.
  dekads.erase(dekads.begin() + 5);
  const TimeAxis gap = axis(days_of(dekads), "days since 1970-01-01");
  ASSERT_EQ(gap.gaps().size(), 1U);
  EXPECT_EQ(gap.gaps()[0].missing, 1);
  // A holiday is no rule of its own.
  weekdays.erase(weekdays.begin() + 12);
  EXPECT_EQ(axis(weekdays, "days since 1970-01-01").gaps().size(), 1U);
}

// Stations.

TEST_F(FieldCases, StationsAreReadAsTheyAreAndRaggedOnesRefused) {
  const std::string stations = R"(
dim station 2
dim time 3
att - featureType char "timeSeries "
var lat float station
att lat units char degrees_north
data lat 1 2
var lon float station
att lon units char degrees_east
data lon 3 4
var time double time
att time units char "days since 2000-01-01"
ramp time 0 1 3
var x float station time
att x coordinates char "lat lon"
data x 1 2 3 10 20 30
)";
  const SeriesFile file = open(stations);
  EXPECT_EQ(file.info().file_nodes, 2);
  EXPECT_EQ(file.info().steps, 3);
  EXPECT_EQ(values(file), (std::vector<float>{1, 10, 2, 20, 3, 30}));
  const std::string samples =
      "dim station 2\ndim obs 6\nvar time double obs\natt time units char \"days since 2000-01-01\"\nramp "
      "time 0 1 6\n"
      "var x float obs\natt x coordinates char time\nramp x 0 1 6\n";
  for (const char* kind : {"var rows int station\natt rows sample_dimension char obs\ndata rows 3 3\n",
                           "var at int obs\natt at instance_dimension char station\ndata at 0 0 0 1 1 1\n"}) {
    const std::string message = refusal(samples + kind);
    EXPECT_HAS(message, "ragged");
    EXPECT_HAS(message, "to_netcdf");
  }
}

TEST_F(FieldCases, StationsWithTimesOfTheirOwnAreRefusedWithTheRemedy) {
  const std::string message = refusal(
      "dim station 2\ndim obs 3\nvar when double station obs\natt when units char \"days since 2000-01-01\"\n"
      "ramp when 0 1 6\nvar x float station obs\nramp x 0 1 6\n");
  EXPECT_HAS(message, "each station has its own times (when(station, obs))");
  EXPECT_HAS(message, "to_netcdf");
}

// Causes that HDF5 knows.

TEST_F(FieldCases, LockedFilesSaySo) {
  const std::string path = make(small);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  const std::string message = user_message([&] { (void)SeriesFile::open(path, {}); });
  EXPECT_HAS(message, "HDF5_USE_FILE_LOCKING=FALSE");
  ::close(fd);
  EXPECT_EQ(SeriesFile::open(path, {}).info().steps, 4);
  // Two readers do not lock each other out.
  const int reader = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(reader, LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(SeriesFile::open(path, {}).info().steps, 4);
  ::close(reader);
}

TEST_F(FieldCases, FilesThatAWriterLeftOpenSaySo) {
  // A superblock of version 3 with the mark of an open writer.
  const std::string path = folder_ / "open.nc";
  std::ofstream file(path, std::ios::binary);
  file.write("\x89HDF\r\n\x1a\n\x03\x08\x08\x05", 12);
  const std::string rest(200, '\0');
  file.write(rest.data(), static_cast<std::streamsize>(rest.size()));
  file.close();
  EXPECT_HAS(user_message([&] { (void)SeriesFile::open(path, {}); }), "h5clear");
}

// HDF5 filters that are plug-ins.

/// H5Z_class2_t of <H5Zpublic.h>: the header belongs to the HDF5 that NetCDF was built with, which is no
/// direct dependency.
struct FilterClass {
  int version = 1;
  int id = 0;
  unsigned encodes = 1, decodes = 1;
  const char* name = "";
  void* can_apply = nullptr;
  void* set_local = nullptr;
  std::size_t (*filter)(unsigned, std::size_t, const unsigned[], std::size_t, std::size_t*, void**) =
      [](unsigned, std::size_t, const unsigned[], std::size_t bytes, std::size_t*, void**) { return bytes; };
};

/// Filters that HDF5 has while a file is written, but not when it is read.
class PassingFilters {
 public:
  explicit PassingFilters(std::vector<int> ids) : ids_(std::move(ids)) {
    const auto add = reinterpret_cast<int (*)(const void*)>(::dlsym(RTLD_DEFAULT, "H5Zregister"));
    for (const int id : ids_) {
      FilterClass filter;
      filter.id = id;
      works_ = add != nullptr && add(&filter) >= 0;
    }
  }
  ~PassingFilters() {
    const auto remove = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_DEFAULT, "H5Zunregister"));
    for (const int id : ids_)
      if (remove != nullptr) remove(id);
  }
  PassingFilters(const PassingFilters&) = delete;
  PassingFilters& operator=(const PassingFilters&) = delete;
  [[nodiscard]] bool work() const { return works_; }

 private:
  std::vector<int> ids_;
  bool works_ = false;
};

/// Writes time(time) and x(time, node); `filtered` names the filtered one.
bool write_filtered(const std::string& path, const std::string& filtered, const std::vector<int>& ids) {
  const PassingFilters filters(ids);
  int file = 0, dims[2] = {0, 0}, time = 0, x = 0;
  bool good = filters.work() && nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &file) == NC_NOERR;
  if (!good) return false;
  good = nc_def_dim(file, "time", 4, &dims[0]) == NC_NOERR &&
         nc_def_dim(file, "node", 3, &dims[1]) == NC_NOERR &&
         nc_def_var(file, "time", NC_DOUBLE, 1, dims, &time) == NC_NOERR &&
         nc_def_var(file, "x", NC_FLOAT, 2, dims, &x) == NC_NOERR &&
         nc_put_att_text(file, time, "units", 21, "days since 2000-01-01") == NC_NOERR;
  const int variable = filtered == "x" ? x : time;
  const std::size_t chunk[] = {4, 3};
  good = good && nc_def_var_chunking(file, variable, NC_CHUNKED, chunk) == NC_NOERR;
  for (const int id : ids)
    good = good && nc_def_var_filter(file, variable, static_cast<unsigned>(id), 0, nullptr) == NC_NOERR;
  const double times[] = {0, 1, 2, 3};
  const float values[12] = {};
  good = good && nc_enddef(file) == NC_NOERR && nc_put_var_double(file, time, times) == NC_NOERR &&
         nc_put_var_float(file, x, values) == NC_NOERR;
  return nc_close(file) == NC_NOERR && good;
}

TEST_F(FieldCases, MissingFiltersAreNamed) {
  const auto refusal_of = [&](const std::string& path) {
    return user_message([&] { (void)values(SeriesFile::open(path, {})); });
  };
  const std::string two = folder_ / "two.nc", unknown = folder_ / "unknown.nc", time = folder_ / "time.nc";
  if (!write_filtered(two, "x", {32008, 32015})) GTEST_SKIP() << "this NetCDF takes no filters of HDF5";
  const std::string both = refusal_of(two);
  EXPECT_HAS(both, "variable x");
  EXPECT_HAS(both, "filter 32008 (bitshuffle) and filter 32015 (zstandard)");
  EXPECT_HAS(both, "HDF5_PLUGIN_PATH");
  ASSERT_TRUE(write_filtered(unknown, "x", {40404}));
  EXPECT_HAS(refusal_of(unknown), "filter 40404 (unknown)");
  ASSERT_TRUE(write_filtered(time, "time", {32001}));
  EXPECT_HAS(refusal_of(time), "variable time");
  EXPECT_HAS(refusal_of(time), "filter 32001 (blosc)");
}

// Further cases of each kind.

TEST_F(FieldCases, PlacesThatSayWhatTheyAreNeedNoAttributeThatNamesThem) {
  const std::string places =
      "var la double node\natt la units char degrees_north\ndata la 1 2 3\n"
      "var lo double node\natt lo units char degrees_east\ndata lo 4 5 6\n";
  EXPECT_EQ(open(small + places).info().node_lon, (std::vector<double>{4, 5, 6}));
  // With two candidates, neither is taken.
  const std::string another =
      "var corner double node\natt corner units char degrees_north\ndata corner 7 8 9\n";
  EXPECT_TRUE(open(small + places + another).info().node_lat.empty());
  EXPECT_FALSE(open(small + places + another + "att x coordinates char \"la lo\"\n").info().node_lat.empty());
  // A network of a few kilometres in radians without a unit.
  EXPECT_HAS(join(open(with_coordinates("", "0.701 0.702 0.703", "0.101 0.102 0.103")).info().remarks),
             "radian");
}

TEST_F(FieldCases, DatesThatClaimToCountFromADate) {
  const auto with = [](const char* type, const char* units, const char* stamps) {
    return fmt::format(
        "dim time 3\ndim node 1\nvar time {} time\natt time units char \"{}\"\ndata time {}\nvar x float "
        "time node\n"
        "ramp x 0 1 3\n",
        type, units, stamps);
  };
  EXPECT_HAS(refusal(with("int", "days since 2015-01-01", "20150101 20150102 20150103")),
             "look like dates (YYYYMMDD). Set units = \"YYYYMMDD\"");
  EXPECT_HAS(refusal(with("int64", "hours since 1970-01-01", "2015010100 2015010101 2015010102")),
             "(YYYYMMDDHH)");
  EXPECT_HAS(
      join(open(with("double", "seconds since 1970-01-01", "1420070400000 1420070460000 1420070520000"))
               .info()
               .remarks),
      "warning: the stamps run from 46970-");
  EXPECT_TRUE(open(with("double", "days since 0001-01-01", "736000 736001 736002")).info().remarks.empty());
  EXPECT_HAS(refusal(with("int64", "", "1420070400000000000 1420074000000000000 1420077600000000000")),
             "units = \"nanoseconds since 1970-01-01\"");
  EXPECT_HAS(refusal(with("float", "yyyymmdd", "20150101 20150103 20150105")), "float32");
}

TEST_F(FieldCases, TextsThatAreAlmostDates) {
  const auto with = [](const std::string& texts) {
    return "dim t 3\ndim node 2\nvar x float t node\nramp x 0 1 6\nvar date string t\ntexts date " + texts +
           "\n";
  };
  EXPECT_HAS(refusal(with("15-01-01 15-01-02 15-01-03")), "whose year does not have four digits");
  EXPECT_HAS(refusal(with("01/02/2015 02/02/2015 03/02/2015")), "\"01/02/2015\", which is not a date");
  EXPECT_EQ(open(with("20150131T180000Z 20150201T000000Z 20150201T060000Z")).info().time.text(1),
            "2015-02-01T00:00");
  EXPECT_EQ(open(with("20150131 20150201 20150202")).info().time.step_text(), "1 day");
  EXPECT_HAS(join(open(with("2015-01-01T02:00+02:00 2015-01-01T01:00 2015-01-01T02:00")).info().remarks),
             "2 of 3 have no offset from UTC");
  // The hour repeated at the end of summer time; steps in another order.
  const std::string twice = refusal(with("\"2015-10-25 01:00\" \"2015-10-25 02:00\" \"2015-10-25 02:00\""));
  EXPECT_HAS(twice, "summer time), write the times in UTC");
  EXPECT_EQ(twice.find("float32"), std::string::npos);
  EXPECT_HAS(refusal(with("2015-01-02 2015-01-01 2015-01-03")), "Sort the steps");
}

TEST_F(FieldCases, MoreVariablesThatAreNotTheSeries) {
  const std::string with = small + "att x units char K\n";
  for (const char* more :
       {"var e float time node\natt e standard_name char \"air_temperature standard_error\"\n",
        "var p float time node\natt x formula_terms char \"ps: p\"\n",
        "var l float time node\natt l standard_name char land_area_fraction\n"})
    EXPECT_EQ(open(with + more).info().variables[0].name, "x") << more;
  // Members of an ensemble are neither nodes nor features.
  EXPECT_HAS(refusal("dim time 2\ndim member 3\ndim node 2\nvar time double time\nramp time 0 1 2\n"
                     "var x float time member node\nramp x 0 1 12\n"),
             "has 3 members along member. Select one member");
  // Dimensions in another order, or grids, which only names distinguish from nodes and features.
  for (const auto& [a, b, why] : {std::tuple{"channel", "sensor", "wrong order. Transpose the variable"},
                                  {"lead", "place", "wrong order. Transpose the variable"},
                                  {"level", "node", "levels along level. Select one level"},
                                  {"ny", "nx", "ds.stack(node=(\"ny\", \"nx\"))"},
                                  {"south_north", "west_east", "without latitudes"}})
    EXPECT_HAS(refusal(fmt::format("dim time 2\ndim {} 3\ndim {} 2\nvar time double time\nramp time 0 1 2\n"
                                   "var x float time {} {}\nramp x 0 1 12\n",
                                   a, b, a, b)),
               why);
  // A variable named time along a dimension with another name.
  EXPECT_EQ(open("dim record 3\ndim node 2\nvar x float record node\nramp x 0 1 6\nvar time double record\n"
                 "att time units char \"hours since 2020-01-01\"\nramp time 0 3 3\n")
                .info()
                .time.step_text(),
            "3 hours");
  EXPECT_HAS(refusal("dim time 3\nvar x float time\nramp x 0 1 3\nvar time double time\nramp time 0 1 3\n"),
             "expand_dims");
}

TEST_F(FieldCases, MarksThatOnlyFloat32Rounds) {
  const std::string data =
      "dim time 2\ndim node 2\nvar time double time\natt time units char \"days since 2000-01-01\"\nramp "
      "time 0 1 2\n"
      "var x double time node\n";
  for (const char* c : {"att x missing_value float -99.9\ndata x 1 -99.9 -99.91 2\n",
                        "att x missing_value double -99.9\ndata x 1 -99.90000152587890625 -99.91 2\n"}) {
    const std::vector<float> got = values(open(data + c));
    EXPECT_TRUE(std::isnan(got[1])) << c;
    EXPECT_FLOAT_EQ(got[2], -99.91F) << c;
  }
  EXPECT_HAS(join(open(small + "att x scale double 0.1\natt x undef double -9\n").info().remarks),
             "If scale_factor is meant");
}

TEST_F(FieldCases, BlanksThatOtherAlphabetsHave) {
  EXPECT_EQ(clean_text("\u00a0degrees_north \u3000"), "degrees_north");
  EXPECT_EQ(clean_text("\ufeffK"), "K");
  EXPECT_EQ(clean_text("a\x1b[31mb"), "a [31mb");
  EXPECT_EQ(clean_text("' K '"), "K");
  EXPECT_EQ(clean_text("\"days since 2000-01-01\"\n"), "days since 2000-01-01");
  EXPECT_EQ(clean_text("''"), "''");  // seconds of arc
  EXPECT_EQ(clean_text("'a' or 'b'"), "'a' or 'b'");
}

TEST_F(FieldCases, DatesInColumnsAreRefusedWithTheRemedy) {
  const std::string columns = "dim obs 4\ndim node 3\nvar x float obs node\nramp x 0 1 12\n";
  EXPECT_HAS(refusal(columns + "var Year int obs\nramp Year 2000 1 4\nvar Month int obs\nramp Month 1 0 4\n"),
             "the dates lie in Year, Month and other variables. Join these variables");
  EXPECT_EQ(refusal(columns).find("the dates"), std::string::npos);
}

TEST_F(FieldCases, MoreStampsThatAreRounded) {
  std::vector<double> epoch, hours;
  for (int t = 0; t < 200; ++t) {
    epoch.push_back(static_cast<double>(static_cast<float>(1420070400.0 + 300.0 * t)));
    hours.push_back(std::round(t / 6.0 * 1e4) / 1e4);
  }
  const TimeAxis minutes = axis(epoch, "seconds since 1970-01-01");
  EXPECT_EQ(minutes.step_milliseconds(), 300'000);
  EXPECT_TRUE(minutes.regular() && minutes.gaps().empty());
  EXPECT_EQ(axis(hours, "hours since 2015-01-01").step_milliseconds(), 600'000);
  // Equal distances are no rounding, whatever their size.
  std::vector<double> steps;
  for (int t = 0; t < 200; ++t) steps.push_back(0.007 * t);
  EXPECT_EQ(axis(steps, "days since 2015-01-01").step_milliseconds(), 604'800);
}

// The reported cases themselves.

class ReportedCases : public FieldCases {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(field_folder()))
      GTEST_SKIP() << "no folder of cases; ROSSBY_FIELD names one";
  }
  static SeriesFile read(const std::string& name, const std::vector<std::string>& variables = {}) {
    return SeriesFile::open((field_folder() / name).string(), variables);
  }
};

TEST_F(ReportedCases, AreReadRight) {
  const SeriesInfo degrees = read("01_radians/deg.nc").info(), radians = read("01_radians/rad.nc").info();
  ASSERT_EQ(degrees.node_lat.size(), radians.node_lat.size());
  for (std::size_t i = 0; i < degrees.node_lat.size(); ++i) {
    EXPECT_NEAR(degrees.node_lat[i], radians.node_lat[i], 1e-9);
    EXPECT_NEAR(degrees.node_lon[i], radians.node_lon[i], 1e-9);
  }
  const TimeAxis plain = read("02_yyyymmdd/time_plain.nc").info().time,
                 standard = read("02_yyyymmdd/time_std.nc").info().time;
  EXPECT_EQ(plain.step_text(), "1 month");
  EXPECT_EQ(plain.after(59, 3).text(2), standard.after(59, 3).text(2));
  EXPECT_EQ(plain.after(59, 3).text(0), "2020-01");
  EXPECT_EQ(read("03_bounds/pop.nc").info().variables[0].name, "SST");
  EXPECT_HAS(user_message([&] { (void)read("03_bounds/pop_temp.nc"); }), "TEMP has 3 levels along z_t");
  EXPECT_EQ(read("06_subsecond/ns_auto.nc").info().time.step_text(), "5 minutes");
  EXPECT_EQ(read("09_time_units/weeks.nc").info().time.step_text(), "7 days");
  EXPECT_EQ(read("09_time_units/common_years.nc").info().time.step_text(), "1 year");
  EXPECT_HAS(user_message([&] { (void)read("09_time_units/years.nc"); }), "pd.date_range");
  EXPECT_EQ(read("10_wrf/wrf.nc", {"T2"}).info().time.step_text(), "1 hour");
  EXPECT_TRUE(read("12_padded/padded.nc").info().curvilinear);
  EXPECT_EQ(read("12_padded/padded.nc").info().file_nodes, 42);
  EXPECT_EQ(read("18_latin1/latin1.nc").info().variables[0].units,
            "\xC2\xB0"
            "C (air, 2m)");
  EXPECT_EQ(read("23_float_time/fvcom.nc").info().time.step_milliseconds(), 3'600'000);
  const TimeAxis dekads = read("26_dekads/dekads.nc").info().time.after(287, 4);
  EXPECT_EQ(dekads.text(0).substr(0, 10), "2018-01-01");
  const SeriesInfo stations = read("28_stations/station_time.nc").info();
  EXPECT_EQ(stations.file_nodes, 5);
  EXPECT_EQ(stations.steps, 60);
  EXPECT_HAS(user_message([&] { (void)read("28_stations/ragged.nc"); }), "to_xarray().to_netcdf");
}

TEST_F(ReportedCases, OfValuesAreReadRight) {
  const auto extremes = [&](const SeriesFile& file) {
    float low = INFINITY, high = -INFINITY;
    for (const float value : values(file))
      if (!std::isnan(value)) low = std::min(low, value), high = std::max(high, value);
    return std::pair(low, high);
  };
  EXPECT_LT(extremes(read("07_text_attributes/scale_text.nc")).second, 60);  // degC
  EXPECT_GT(extremes(read("07_text_attributes/missing_text.nc")).first, -60);
  const std::string filters = user_message([&] { (void)values(read("04_filters/lz4.nc")); });
  EXPECT_HAS(filters, "32004 (lz4)");
  EXPECT_HAS(filters, "HDF5_PLUGIN_PATH");
}

}  // namespace
}  // namespace rossby
