#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/series_writer.hpp"
#include "tests/lib/io/files.hpp"
#include "tests/lib/io/messages.hpp"
#include "tests/lib/io/read_all.hpp"
#include "tests/support/values.hpp"

namespace rossby {
namespace {

using testing_support::read_all;
using testing_support::TemporaryDirectory;
using testing_support::user_message;

using test::nan;

SeriesLayout grid(Index steps) {
  SeriesLayout layout;
  layout.gridded = true;
  layout.lat = {-10, 0, 10};
  layout.lon = {100, 110, 120, 130};
  layout.nodes = 12;
  layout.land_mask.assign(12, 0);
  layout.land_mask[5] = 1;
  layout.variables = {{"sst", "degree_Celsius", "temperature", "sea_surface_temperature", 1},
                      {"ssh", "m", "", "", 1}};
  layout.time = TimeAxis::monthly(steps, "1999-11");
  layout.title = "a grid";
  return layout;
}

std::vector<float> ramp(Index steps, Index nodes, Index features) {
  std::vector<float> values(static_cast<std::size_t>(steps * nodes * features));
  for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k) / 8;
  return values;
}

TEST(SeriesWriter, GridComesBack) {
  const TemporaryDirectory folder;
  auto values = ramp(5, 12, 2);
  values[10] = nan;
  values[11] = std::numeric_limits<float>::infinity();
  SeriesWriter writer = SeriesWriter::create(folder / "a.nc", grid(5));
  const std::span<const float> all(values);
  writer.append(all.first(24));  // step by step and several at once
  writer.append({});
  writer.append(all.subspan(24, 72));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.nc"));
  writer.append(all.subspan(96));
  writer.finish();
  EXPECT_EQ(folder.entries(), 1);
  const SeriesFile file = SeriesFile::open(folder / "a.nc", std::vector<std::string>{"sst", "ssh"});
  EXPECT_EQ(file.info().lat, (std::vector<double>{-10, 0, 10}));
  EXPECT_EQ(file.info().node_lon[5], 110);
  EXPECT_EQ(file.info().title, "a grid");
  EXPECT_EQ(file.info().time.text(4), "2000-03");
  EXPECT_EQ(file.info().time.step_text(), "1 month");
  EXPECT_EQ(file.info().variables[0].units, "degree_Celsius");
  EXPECT_EQ(file.info().variables[0].standard_name, "sea_surface_temperature");
  const auto back = read_all(file);
  for (std::size_t k = 0; k < values.size(); ++k)
    EXPECT_TRUE(k == 10 || k == 11 ? std::isnan(back[k]) : back[k] == values[k]) << k;
  EXPECT_EQ(SeriesFile::candidates(folder / "a.nc"), (std::vector<std::string>{"sst", "ssh"}))
      << "no land_mask";
}

TEST(SeriesWriter, SensorsWithEdgesAndFeatures) {
  const TemporaryDirectory folder;
  SeriesLayout layout;
  layout.nodes = 7;
  layout.variables = {{"flow", "1", "", "", 3}};
  layout.time = TimeAxis::regular(3, "minutes since 2012-03-01 00:00:00", 0, 5);
  layout.node_lat.assign(7, 34.5);
  layout.node_lon.assign(7, -118.25);
  layout.has_edges = true;
  layout.edges = {{0, 1, 0.5}, {6, 2, 1.0}};
  const auto values = ramp(3, 7, 3);
  write_series(folder / "a.nc", layout, values);
  const SeriesFile file = SeriesFile::open(folder / "a.nc", {});
  EXPECT_EQ(file.info().features, 3);
  EXPECT_EQ(file.info().node_lat, layout.node_lat);
  EXPECT_EQ(file.info().node_lon, layout.node_lon);
  EXPECT_EQ(file.edges(0, 2)[1].source, 6);
  EXPECT_EQ(file.edges(0, 2)[0].weight, 0.5);
  EXPECT_EQ(read_all(file), values);
}

TEST(SeriesWriter, OneNodeOneStepAndPrimes) {
  const TemporaryDirectory folder;
  for (const Index nodes : {1, 2, 131}) {
    for (const Index steps : {1, 7}) {
      SeriesLayout layout;
      layout.nodes = nodes;
      layout.variables = {{"x", "", "", "", 1}};
      layout.time = TimeAxis::counter(steps);
      write_series(folder / "a.nc", layout, ramp(steps, nodes, 1));
      EXPECT_EQ(read_all(SeriesFile::open(folder / "a.nc", {})), ramp(steps, nodes, 1));
    }
  }
  SeriesLayout none;
  none.variables = {{"x", "", "", "", 1}};
  none.time = TimeAxis::counter(3);
  EXPECT_HAS(user_message([&] { write_series(folder / "b.nc", none, {}); }), "3 steps and 0 nodes");
}

TEST(SeriesWriter, ForecastHasReferenceAndLead) {
  const TemporaryDirectory folder;
  const TimeAxis past = TimeAxis::monthly(12, "2000-01");
  SeriesLayout layout = grid(1);
  layout.time = past.after(11, 3);
  layout.reference = past.values()[11];
  write_series(folder / "f.nc", layout, ramp(3, 12, 2));
  const NetcdfFile file = NetcdfFile::open(folder / "f.nc");
  const NetcdfVariable* lead = file.find("lead_time");
  ASSERT_NE(lead, nullptr);
  EXPECT_EQ(file.read_all(*lead), (std::vector<double>{31, 62, 90}));
  EXPECT_EQ(file.text(*lead, "units"), "days");
  EXPECT_EQ(file.text(*lead, "standard_name"), "forecast_period");
  const NetcdfVariable* origin = file.find("forecast_reference_time");
  ASSERT_NE(origin, nullptr);
  EXPECT_TRUE(origin->dimensions.empty());
  double value = 0;
  file.read(*origin, {}, {}, &value);
  EXPECT_EQ(value, past.values()[11]);
  EXPECT_EQ(file.text(*origin, "units"), past.units());
  EXPECT_EQ(file.text(*file.find("sst"), "coordinates"), "forecast_reference_time lead_time");
  EXPECT_EQ(SeriesFile::candidates(folder / "f.nc").size(), 2u);
}

TEST(SeriesWriter, AbandonedFilesDisappearAndOldOnesStay) {
  const TemporaryDirectory folder;
  write_series(folder / "a.nc", grid(2), ramp(2, 12, 2));
  const auto before = std::filesystem::file_size(folder / "a.nc");
  {
    SeriesWriter writer = SeriesWriter::create(folder / "a.nc", grid(3));
    writer.append(ramp(1, 12, 2));
    EXPECT_EQ(folder.entries(), 2);
    SeriesWriter moved = std::move(writer);
  }
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(std::filesystem::file_size(folder / "a.nc"), before);
  EXPECT_HAS(user_message([&] { write_series(folder / "no/where.nc", grid(1), ramp(1, 12, 2)); }),
             "no/where.nc: cannot write this file: No such file or directory");
}

/// Writes a noisy series of some nodes in a child process whose files may not exceed `limit`, like a full
/// disk; returns the child's message. The child ends through the libraries' own clean-up, which must not hang
/// or crash.
std::string write_limited(const TemporaryDirectory& folder, Index nodes, rlim_t limit) {
  int channel[2];
  if (pipe(channel) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit bound{limit, limit};
    setrlimit(RLIMIT_FSIZE, &bound);
    std::string message = "written after all";
    try {
      SeriesLayout layout;
      layout.nodes = nodes;
      layout.variables = {{"x", "", "", "", 1}};
      layout.time = TimeAxis::counter(2000);
      auto values = ramp(2000, nodes, 1);
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = std::sin(static_cast<float>(k * k % 7919));
      write_series(folder / "a.nc", layout, values);
    } catch (const UserError& error) {
      message = error.what();
    }
    const auto size = ::write(channel[1], message.data(), message.size());
    std::exit(size > 0 ? 0 : 1);
  }
  close(channel[1]);
  std::string message(4096, '\0');
  const auto length = ::read(channel[0], message.data(), message.size());
  close(channel[0]);
  message.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return message;
}

TEST(SeriesWriter, FullDiskGivesOneLineAndLeavesNothing) {
  const TemporaryDirectory folder;
  // The disk is full while steps are appended, when the last chunks are flushed, and before the first byte.
  for (const auto& [nodes, limit] : {std::pair<Index, rlim_t>{1009, 200000}, {20, 30000}, {20, 0}}) {
    const std::string message = write_limited(folder, nodes, limit);
    EXPECT_HAS(message, "a.nc: cannot write this file: File too large") << limit;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(folder.entries(), 0) << limit;
  }
}

}  // namespace
}  // namespace rossby
