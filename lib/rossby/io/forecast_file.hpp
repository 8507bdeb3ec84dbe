#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/series_decoder.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// Forecasts of a series from another source, in a NetCDF/CF file: each variable of the series as
/// var(init_time, lead, lat, lon) or var(init_time, lead, node[, feature]), with its name and units.
///
/// * `init_time` (or a coordinate with standard_name forecast_reference_time) holds the ascending
///   stamps of the last known steps: CF times, or numbers if the series counts steps.
/// * `lead` (or standard_name forecast_period) is the distance of a value from `init_time`. It is a time
///   (units hours, days, …; of monthly series months or years), or, without units, a number of steps of
///   the series, 1 for the first step after init_time. Leads that are no step of the series are skipped.
/// * Nodes of sensors are matched by ids if both files have them; otherwise they have the same order.
///
/// Each process reads the nodes that it owns. Every failure is a UserError of one line with the file's name.
class ForecastFile {
 public:
  static ForecastFile open(const std::string& path, const SeriesInfo& series);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// The file has a forecast of each lead from 1 to this number of steps.
  [[nodiscard]] Index horizons() const;
  /// True if the file has forecasts that start after this step of the series.
  [[nodiscard]] bool has(Index origin) const { return init_of_[static_cast<std::size_t>(origin)] >= 0; }
  /// The first and last init_time: "2012-03-06T09:30 to 2012-03-07T22:55".
  [[nodiscard]] const std::string& inits() const { return inits_; }

  /// A line to print if the file's nodes have no ids and those of the series have; else empty.
  [[nodiscard]] const std::string& remark() const { return remark_; }

  /// Throws UserError with the first of these nodes of the series that the file lacks.
  void expect_nodes(std::span<const Index> file_nodes) const;

  /// Reads forecasts of some nodes of the series (without duplicates) at leads 1, …, `horizons` from origins
  /// that the file has. Values are as in SeriesFile::read: out is (horizons, origins, nodes, m), NaN if
  /// missing; `centers`, (nodes, m) or empty, are subtracted in double.
  void read(std::span<const Index> file_nodes, std::span<const Index> origins, Index horizons,
            std::span<const double> centers, float* out) const;

 private:
  struct Column {
    const NetcdfVariable* variable;
    detail::Decoder decoder;
    Index first, features;  // of the series
  };
  ForecastFile() = default;
  void add_variable(const SeriesInfo& series, const SeriesVariable& variable, Index first_feature);
  void match_inits(const SeriesInfo& series);
  void match_leads(const SeriesInfo& series);
  template <class Raw>
  void read_variable(const Column& column, std::span<const Index> cells, std::span<const Index> origins,
                     Index horizons, std::span<const double> centers, float* out) const;

  std::string path_;
  std::unique_ptr<ArrayFile> file_;
  std::vector<Column> columns_;
  bool planar_ = false;
  Index grid_columns_ = 1;                // cells of a grid's row, or all sensors
  Index features_ = 0;                    // of the series
  std::vector<Index> place_;              // each series node's place in the file; −1: absent
  std::map<Index, std::string> missing_;  // absent nodes, with their names in messages
  std::vector<Index> init_of_;            // of each step of the series; −1: none
  std::vector<Index> lead_of_;            // of horizon 1, 2, …; −1: none
  std::string inits_, remark_;
};

}  // namespace rossby
