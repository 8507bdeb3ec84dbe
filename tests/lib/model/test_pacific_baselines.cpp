#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <netcdf.h>

#include "rossby/exchange/one_rank.hpp"
#include "rossby/model/baselines/baselines.hpp"

namespace rossby {
namespace {

std::filesystem::path pacific_file() {
  const char* folder = std::getenv("ROSSBY_DATA");
  const std::filesystem::path data = folder ? folder : ROSSBY_DEFAULT_DATA;
  return data / "pacific_sst_2deg_monthly.nc";
}

/// Reads the sea cells of sst_anomaly as a series.
Series read_pacific(const std::filesystem::path& path) {
  constexpr std::size_t steps = 399, cells = 30 * 84;
  std::vector<float> all(steps * cells);
  int file = 0, variable = 0;
  EXPECT_EQ(nc_open(path.c_str(), NC_NOWRITE, &file), NC_NOERR);
  EXPECT_EQ(nc_inq_varid(file, "sst_anomaly", &variable), NC_NOERR);
  EXPECT_EQ(nc_get_var_float(file, variable, all.data()), NC_NOERR);
  nc_close(file);
  std::vector<std::size_t> sea;
  for (std::size_t c = 0; c < cells; ++c)
    if (!std::isnan(all[c])) sea.push_back(c);
  Series series(steps, static_cast<Index>(sea.size()), 1);
  for (std::size_t t = 0; t < steps; ++t)
    for (std::size_t i = 0; i < sea.size(); ++i)
      series.values[static_cast<Index>(t * sea.size() + i)] = all[t * cells + sea[i]];
  return series;
}

/// The published table: fitted on months 0…199, test origins 199…393, RMSE pooled over origins and cells.
TEST(PacificBaselines, ReproduceTheTable) {
  if (!std::filesystem::exists(pacific_file()))
    GTEST_SKIP() << "no " << pacific_file() << "; set ROSSBY_DATA to the folder with the data files";
  const std::map<std::string, std::array<double, 6>, std::less<>> table = {
      {"climatology", {0.7014, 0.7025, 0.7028, 0.7026, 0.7024, 0.7024}},
      {"persistence", {0.3947, 0.5342, 0.6155, 0.6718, 0.7148, 0.5862}},
      {"ar1", {0.3899, 0.5092, 0.5715, 0.6102, 0.6365, 0.5435}},
      {"lim", {0.4033, 0.4866, 0.5298, 0.5618, 0.5858, 0.5135}},
      {"ridge_var", {0.371, 0.472, 0.521, 0.554, 0.578, 0.4992}}};
  const Series series = read_pacific(pacific_file());
  ASSERT_EQ(series.rows, 2261);
  const Split split = make_split(series.steps, {.train = "200"});
  const std::vector<Index> origins = split.test_origins(5);
  ASSERT_EQ(origins.size(), 195u);
  OneRankReducer reducer;
  for (const auto& baseline : classical_baselines({})) {
    const auto& expected = table.at(std::string(baseline->name()));
    baseline->fit(series, split, reducer);
    double score = 0;
    baseline->forecast(series, origins, 5, reducer, [&](Index h, NodeView<const float> forecast) {
      double squares = 0;
      for (Index o = 0; o < forecast.cols; ++o)
        for (Index i = 0; i < forecast.rows; ++i) {
          const double error = static_cast<double>(*forecast.at(i, o)) -
                               series.at(origins[static_cast<std::size_t>(o)] + h, i, 0);
          squares += error * error;
        }
      const double rmse = std::sqrt(squares / static_cast<double>(forecast.rows * forecast.cols));
      score += rmse / 5;
      EXPECT_NEAR(rmse, expected[static_cast<std::size_t>(h - 1)], 0.001)
          << baseline->name() << ", horizon " << h;
      RecordProperty(std::string(baseline->name()) + "_" + std::to_string(h), std::to_string(rmse));
    });
    EXPECT_NEAR(score, expected[5], 0.001) << baseline->name();
    RecordProperty(std::string(baseline->name()) + "_score", std::to_string(score));
  }
}

}  // namespace
}  // namespace rossby
