// Series in several files: names, headers, order, units, and every way in which files do not form one series.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "rossby/io/inspect.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/series_header.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/io/units.hpp"
#include "tests/fuzz/netcdf_maker.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"

namespace rossby {
namespace {

using testing_support::TemporaryDirectory;
using testing_support::user_message;

/// x(time, node) of 3 nodes; the value of step s, node i is 10 s + i + 0.1, steps counted in the whole
/// series.
struct Part {
  Index first = 0, steps = 4;
  std::string time_units = "days since 2000-01-01", more = {}, x_units = "K", type = "float";
  std::vector<double> times = {};

  [[nodiscard]] std::string statements() const {
    std::string time, values;
    for (Index t = 0; t < steps; ++t) {
      time += fmt::format(
          " {}", times.empty() ? static_cast<double>(first + t) : times[static_cast<std::size_t>(t)]);
      for (Index i = 0; i < 3; ++i)
        values += fmt::format(" {}", 10.0 * static_cast<double>(first + t) + static_cast<double>(i) + 0.1);
    }
    return fmt::format(
        "dim time {}\ndim node 3\nvar time double time\natt time units char \"{}\"\nvar x {} time node\n"
        "att x units char \"{}\"\n{}\ndata time{}\ndata x{}\n",
        steps, time_units, type, x_units, more, time, values);
  }
};

class SeriesParts : public ::testing::Test {
 protected:
  std::string make(const std::string& name, const Part& part) {
    std::string path = folder_ / name;
    fuzz::make_netcdf(path, fuzz::read_statements(part.statements()));
    return path;
  }
  std::string write(const std::string& name, const std::string& text) {
    std::string path = folder_ / name;
    std::ofstream(path) << text;
    return path;
  }
  static SeriesFile open(const std::vector<std::string>& entries, Index first = 0, Index last = -1) {
    return SeriesFile::open(entries, {}, first, last);
  }
  static std::string refusal(const std::vector<std::string>& entries) {
    return user_message([&] { (void)open(entries); });
  }
  static std::vector<float> values(const SeriesFile& file, std::vector<Index> nodes = {0, 1, 2}) {
    std::vector<float> out(static_cast<std::size_t>(file.info().steps) * nodes.size());
    file.read(nodes, out.data());
    return out;
  }
  static std::string remarks(const SeriesFile& file) { return remark_lines(file.info()); }
  const TemporaryDirectory folder_;
};

TEST_F(SeriesParts, StayKnownWhileTheyAreClosed) {
  const std::string days = "days since 2000-01-01";
  const std::string b = make("b.nc", {4, 1, days, "", "m"}), c = make("c.nc", {5, 4, days, "", "km"});
  const SeriesFile file = open({b, c});
  const std::vector<float> expected = values(file);
  EXPECT_FLOAT_EQ(expected[3], 50'100.0F);  // km in m
  const KnownFiles parts = file.pause();
  const SeriesFile again = SeriesFile::reopen(file.info(), {}, parts);
  EXPECT_EQ(values(again), expected);
  EXPECT_EQ(values(again), expected);
  EXPECT_EQ(values(file), expected);
  EXPECT_EQ(values(SeriesFile::reopen(file.info(), {})), expected);
  // Another file with that name is not read instead.
  (void)again.pause();
  make("c.nc", {5, 4, days, "att x long_name char other", "km"});
  EXPECT_HAS(user_message([&] { (void)values(again); }), "c.nc: the file changed while it was read");
}

TEST_F(SeriesParts, AreTheOneFile) {
  const SeriesFile one = open({make("one.nc", {0, 9})});
  const std::string a = make("a.nc", {0, 4}), b = make("b.nc", {4, 1}), c = make("c.nc", {5, 4});
  for (const bool in_order : {true, false}) {
    const SeriesFile parts = open(in_order ? std::vector{a, b, c} : std::vector{c, a, b});
    EXPECT_EQ(parts.info().steps, 9);
    EXPECT_EQ(parts.info().time.values(), one.info().time.values());
    EXPECT_EQ(parts.info().time.units(), one.info().time.units());
    EXPECT_EQ(values(parts), values(one));
    EXPECT_EQ(values(parts, {2, 0}), values(one, {2, 0}));
    EXPECT_EQ(parts.observed(0, 3), one.observed(0, 3));
    EXPECT_EQ(remarks(parts).find("order of their first times") == std::string::npos, in_order);
    EXPECT_EQ(parts.info().path, fmt::format("{} ... {} (3 files)", a, c));
    for (Index first = 0; first < 9; ++first)
      for (Index count = 0; first + count <= 9; ++count) {
        std::vector<float> some(static_cast<std::size_t>(3 * count)), same(some);
        const std::vector<Index> nodes{0, 1, 2};
        parts.read_steps(nodes, first, count, some.data());
        one.read_steps(nodes, first, count, same.data());
        EXPECT_EQ(some, same) << first << " " << count;
      }
  }
  const SeriesFile cut = open({a, b, c}, 3, 7);
  EXPECT_EQ(cut.info().steps, 4);
  EXPECT_EQ(cut.info().all_steps, 9);
  EXPECT_EQ(values(cut).front(), 30.1F);
  EXPECT_HAS(user_message([&] {
               (void)open({a, b, c}, 3, 10);
             }),
             "the file has 9 steps. Set data.first_step");
  const std::string text = inspect_series(std::vector{a, b, c});
  EXPECT_HAS(text, "files     ");
  EXPECT_HAS(text, "time 9 x node 3");
}

TEST_F(SeriesParts, AFileIsOpenedWhereItsStepsAreRead) {
  const std::string a = make("a.nc", {0, 4}), b = make("b.nc", {4, 4}), c = make("c.nc", {8, 4});
  const SeriesInfo info = open({a, b, c}).info();
  std::filesystem::remove(a);
  std::filesystem::remove(c);
  const SeriesFile again = SeriesFile::reopen(info, {});
  const std::vector<Index> nodes{1};
  float out[4];
  again.read_steps(nodes, 4, 4, out);
  EXPECT_EQ(out[3], 71.1F);
  EXPECT_HAS(user_message([&] { again.read_steps(nodes, 3, 2, out); }), "a.nc");
  (void)make("c.nc", {8, 3});
  EXPECT_HAS(user_message([&] { again.read_steps(nodes, 8, 1, out); }), "changed while it was read: 3 steps");
}

TEST_F(SeriesParts, HeadersTravel) {
  const std::string a =
      make("a.nc", {0, 4, "days since 2000-01-01",
                    "var lat float node\natt lat units char degrees_north\ndata lat 1 2 3\n"});
  const SeriesHeader header = SeriesHeader::read(a, {}, {});
  const SeriesHeader copy = SeriesHeader::unpack(header.pack());
  EXPECT_EQ(copy.pack(), header.pack());
  EXPECT_EQ(copy.stamps.values, header.stamps.values);
  EXPECT_EQ(copy.info.features, 1);
}

TEST_F(SeriesParts, TimesOfOtherUnitsAndReferences) {
  const SeriesFile parts =
      open({make("a.nc", {0, 4}), make("b.nc", {4, 2, "hours since 2000-01-05", "", "K", "float", {0, 24}}),
            make("c.nc", {6,
                          2,
                          "seconds since 2000-01-01",
                          "att time calendar char proleptic_gregorian",
                          "K",
                          "float",
                          {518400, 604800}})});
  EXPECT_EQ(parts.info().time.values(), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(parts.info().time.step_text(), "1 day");
  EXPECT_TRUE(parts.info().time.gaps().empty());
}

TEST_F(SeriesParts, GapsBetweenFilesAreGaps) {
  const SeriesFile parts = open({make("a.nc", {0, 4}), make("b.nc", {6, 4})});
  ASSERT_EQ(parts.info().time.gaps().size(), 1U);
  EXPECT_EQ(parts.info().time.gaps()[0].after, 3);
  EXPECT_EQ(parts.info().time.gaps()[0].missing, 2);
  const SeriesFile filled =
      SeriesFile::open(std::vector{folder_ / "a.nc", folder_ / "b.nc"}, {}, 0, -1, {}, true);
  const std::vector<float> x = values(filled);
  EXPECT_EQ(filled.info().steps, 10);
  EXPECT_EQ(x[3 * 3], 30.1F);
  EXPECT_TRUE(std::isnan(x[3 * 4]) && std::isnan(x[3 * 5 + 2]));
  EXPECT_EQ(x[3 * 6], 60.1F);
  float again = 0;
  SeriesFile::reopen(filled.info(), {}).read_steps(std::vector<Index>{2}, 7, 1, &again);
  EXPECT_EQ(again, 72.1F);
}

TEST_F(SeriesParts, UnitsAreConverted) {
  const std::string a = make("a.nc", {0, 2}), b = make("b.nc", {2, 2, "days since 2000-01-01", "", "degC"});
  const SeriesFile parts = open({a, b});
  const std::vector<float> x = values(parts);
  EXPECT_EQ(x[0], 0.1F);
  EXPECT_FLOAT_EQ(x[6], 20.1F + 273.15F);
  EXPECT_EQ(parts.info().variables[0].units, "K");
  EXPECT_HAS(remarks(parts), "units are converted: x from degC to K in");
  EXPECT_HAS(refusal({a, make("c.nc", {2, 2, "days since 2000-01-01", "", "m s-1"})}),
             "variable x has unit \"m s-1\", but unit \"K\" in " + a +
                 ", and no conversion between these units is known");
}

TEST_F(SeriesParts, Names) {
  const std::string a = make("p1.nc", {0, 4}), b = make("p2.nc", {4, 4});
  using List = std::vector<std::string>;
  EXPECT_EQ(series_names(List{folder_ / "p*.nc"}), (List{a, b}));
  EXPECT_EQ(series_names(List{folder_ / "p[12].nc"}), (List{a, b}));
  const std::string list = write("list.txt", "# the series\n" + b + "\r\n\n  " + a + "\n");
  EXPECT_EQ(series_names(List{list}), (List{b, a}));
  EXPECT_EQ(series_names(List{write("patterns.txt", folder_ / "p?.nc\n")}), (List{a, b}));
  EXPECT_EQ(series_names(List{"nothing.nc"}), List{"nothing.nc"}) << "opening it says why";
  const std::string odd = make("q[1]*.nc", {0, 4});
  EXPECT_EQ(series_names(List{odd}), List{odd}) << "what is there is no pattern";
  EXPECT_HAS(refusal({folder_ / "z*.nc"}), "no file matches this pattern. Correct data.file");
  EXPECT_HAS(refusal({write("empty.txt", "\n# nothing\n")}), "names no file");
  EXPECT_HAS(refusal({write("lost.txt", a + "\nlost.nc\n")}), "lost.txt:2: lost.nc: no such file");
  EXPECT_HAS(refusal({write("beside.txt", "p1.nc\n")}), "relative paths start at the working directory");
  EXPECT_HAS(refusal({write("bytes.txt", std::string("a\0b\n", 4))}),
             "the line is not text. Write a list of files");
  EXPECT_HAS(refusal({a, b, a}), "p1.nc: the file is named twice");
  EXPECT_HAS(refusal({a, ""}), "an empty name");
  std::filesystem::create_symlink(a, folder_ / "link.nc");
  EXPECT_HAS(refusal({a, folder_ / "link.nc"}), "are the same file");
}

TEST_F(SeriesParts, FilesOfOtherSeriesAreRefused) {
  const std::string a = make("a.nc", {0, 4});
  const auto with = [&](const Part& part) { return refusal({a, make("b.nc", part)}); };
  const std::string days = "days since 2000-01-01";
  EXPECT_HAS(with({3, 4}), "overlap in time");
  EXPECT_HAS(with({3, 4}), "2000-01-01 to 2000-01-04");
  EXPECT_HAS(with({0, 4}), "overlap in time") << "a copy";
  EXPECT_HAS(with({4, 4, "1"}), "the time axis has dates (days since 2000-01-01)");
  EXPECT_HAS(with({4, 4, days, "att time calendar char noleap"}), "its calendar is noleap, but that of");
  EXPECT_HAS(with({4, 4, days, "att x units char \"\""}), "no unit");
  EXPECT_HAS(with({4, 4, days, "var y float time node"}), "several variables fit: x, y");
  EXPECT_HAS(with({4, 4, days, "", "K", "float", {7, 6, 5, 4}}), "time does not ascend");
  const auto other = [&](const std::string& statements) {
    fuzz::make_netcdf(folder_ / "c.nc", fuzz::read_statements(statements));
    return refusal({a, folder_ / "c.nc"});
  };
  const std::string head =
      "dim time 1\nvar time double time\natt time units char \"days since 2000-01-01\"\ndata time 9\n";
  EXPECT_HAS(other(head + "dim node 3\nvar z float time node\natt z units char K\ndata z 1 2 3\n"),
             "the variable of this file is z, but the variable of");
  EXPECT_HAS(other(head + "dim node 4\nvar x float time node\natt x units char K\ndata x 1 2 3 4\n"),
             "4 nodes, but");
  EXPECT_HAS(
      other(head + "dim node 3\ndim f 2\nvar x float time node f\natt x units char K\ndata x 1 2 3 4 5 6\n"),
      "has 2 features");
  EXPECT_HAS(
      other(head + "dim node 3\ndim edge 1\nvar x float time node\natt x units char K\ndata x 1 2 3\nvar "
                   "edge_src int edge\nvar edge_dst int edge\ndata edge_src 0\ndata edge_dst 1\n"),
      "the edges differ from the edges of");
  EXPECT_HAS(refusal({a, folder_ / "none.nc"}), "none.nc: no such file");
  EXPECT_HAS(refusal({a, write("table.nc", "a,b\n1,2\n")}),
             "table.nc: not a NetCDF file, but a table of text");
}

TEST_F(SeriesParts, NodesAreTheSame) {
  const std::string days = "days since 2000-01-01";
  const auto places = [&](const std::string& lats) {
    return "var lat float node\natt lat units char degrees_north\ndata lat " + lats +
           "\nvar lon float node\natt lon units char degrees_east\ndata lon 1 2 3\natt x coordinates char "
           "\"lat lon\"\n";
  };
  const auto ids = [&](const std::string& names) {
    return "var node string node\ntexts node " + names + "\n";
  };
  EXPECT_HAS(
      refusal({make("a.nc", {0, 4, days, places("1 2 3")}), make("b.nc", {4, 4, days, places("1 2.5 3")})}),
      "latitude 1 is 2.5, but it is 2 in");
  EXPECT_HAS(refusal({make("a.nc", {0, 4, days, ids("p q r")}), make("b.nc", {4, 4, days, ids("p r q")})}),
             "node 1 is \"r\", but it is \"q\" in");
  EXPECT_HAS(refusal({make("a.nc", {0, 4, days, ids("p q r")}), make("b.nc", {4, 4, days})}),
             "0 nodes have names, but in");
  const SeriesFile same = open({make("a.nc", {0, 4, days, ids("p q r") + places("1 nan 3")}),
                                make("b.nc", {4, 4, days, ids("p q r") + places("1 nan 3")})});
  EXPECT_EQ(same.info().node_labels.size(), 3U);
  EXPECT_EQ(same.info().node_lat[2], 3);
}

TEST_F(SeriesParts, CountersGoOn) {
  const SeriesFile parts = open({make("a.nc", {0, 4, "1"}), make("b.nc", {4, 4, "1"})});
  EXPECT_EQ(parts.info().time.size(), 8);
  EXPECT_FALSE(parts.info().time.dated());
  EXPECT_HAS(refusal({make("c.nc", {0, 4, "1"}), make("d.nc", {0, 4, "1"})}),
             "the step numbers must go on from file to file");
}

TEST_F(SeriesParts, PackedPartsHaveTheirOwnScale) {
  const auto packed = [&](const std::string& name, Index step, double scale, int value) {
    fuzz::make_netcdf(
        folder_ / name,
        fuzz::read_statements(fmt::format(
            "dim time 1\ndim node 2\nvar time double time\natt time units char \"days since "
            "2000-01-01\"\ndata "
            "time {}\n"
            "var x short time node\natt x scale_factor double {}\natt x _FillValue short -1\ndata x {} -1\n",
            step, scale, value)));
    return folder_ / name;
  };
  const SeriesFile parts = open({packed("a.nc", 0, 0.5, 10), packed("b.nc", 1, 0.25, 10)});
  const std::vector<float> x = values(parts, {0, 1});
  EXPECT_EQ(x[0], 5);
  EXPECT_EQ(x[2], 2.5F);
  EXPECT_TRUE(std::isnan(x[1]) && std::isnan(x[3]));
}

TEST(Units, Conversions) {
  const auto convert = [](std::string_view from, std::string_view to, double value) {
    const auto found = unit_conversion(from, to);
    return found ? value * found->factor + found->offset : std::nan("");
  };
  struct Case {
    const char *from, *to;
    double value, right;
  };
  for (const Case& c : {Case{"hPa", "Pa", 1, 100},
                        {"mbar", "hPa", 3, 3},
                        {"millibars", "Pa", 1, 100},
                        {"degC", "K", 1, 274.15},
                        {"K", "degrees_Celsius", 273.15, 0},
                        {"degF", "degC", 212, 100},
                        {"m", "mm", 2, 2000},
                        {"km/h", "m s-1", 36, 10},
                        {"m/s", "m s**-1", 1, 1},
                        {"m s^-1", "m.s-1", 1, 1},
                        {"mm/day", "m s-1", 86400, 1e-3},
                        {"g/kg", "kg kg-1", 1, 1e-3},
                        {"%", "1", 50, 0.5},
                        {"kWh", "J", 1, 3.6e6},
                        {"J m-2", "kJ m**-2", 1000, 1},
                        {"W m-2", "J s-1 m-2", 2, 2},
                        {"vehicles/h", "vehicles/day", 1, 24},
                        {"knots", "km/h", 1, 1.852},
                        {"1e-3 m", "mm", 5, 5},
                        {"ug/m3", "mg m-3", 1000, 1},
                        {"days", "hours", 1, 24},
                        {"K/day", "degC/day", 4, 4}})
    EXPECT_NEAR(convert(c.from, c.to, c.value), c.right, 1e-12 * std::max(1.0, std::abs(c.right)))
        << c.from << " " << c.to;
  for (const auto& [from, to] : {std::pair{"m", "s"},
                                 {"", "K"},
                                 {"K", ""},
                                 {"psu", "g/kg"},
                                 {"cars/h", "vehicles/h"},
                                 {"m", "m2"},
                                 {"kg m-2 s-1", "mm/day"},
                                 {"m^", "m^99999999999"},
                                 {"0 m", "m"},
                                 {"-", "m"},
                                 {"1e999 m", "m"}})
    EXPECT_FALSE(unit_conversion(from, to)) << from << " " << to;
  EXPECT_TRUE(unit_conversion("psu", "psu")->is_identity());
  EXPECT_EQ(unit_conversion("K", "K"), UnitConversion{});
}

}  // namespace
}  // namespace rossby
