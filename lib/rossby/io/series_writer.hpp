#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_file.hpp"

namespace rossby {

/// What a series file will hold, values apart.
struct SeriesLayout {
  bool gridded = false;
  std::vector<double> lat, lon;            // gridded: axes in degrees; cell (i, j) is node i·|lon| + j
  Index rows = 0, columns = 0;             // of curvilinear grids, cells numbered likewise; 0: sensors
  Index nodes = 0;                         // sensors: how many (grids: rows · columns)
  std::vector<double> node_lat, node_lon;  // sensors, curvilinear: degrees, one a node; empty: not written
  // Names of dimensions and coordinates; row: grids alone.
  std::string time_name = "time", row_name = "lat", column_name = "lon", node_name = "node",
              lat_name = "node_lat", lon_name = "node_lon";
  std::vector<std::string> node_labels;   // sensors: names, or integers where all are; empty: not written
  std::string label_name = "node";        // variable of these
  std::vector<std::uint8_t> land_mask;    // grids: 1 = land or never observed, one a node; empty: not written
  std::vector<SeriesVariable> variables;  // in the order of the features; grids: one feature each
  TimeAxis time;                          // (T) stamps
  std::vector<FileEdge> edges;            // sensors: written where `has_edges`
  bool has_edges = false;
  bool wide = false;  // values are written as float64
  std::string title;
  std::vector<std::pair<std::string, std::string>> attributes;  // further global ones
  /// Forecasts: the stamp (in `time`'s units) that they start from. Adds forecast_reference_time (scalar) and
  /// lead_time(time) = time − reference, named after CF-1.8 (forecast_reference_time, forecast_period).
  std::optional<double> reference;

  /// Names of the members of an ensemble: beside each variable stands <variable>_members(realization, …).
  std::vector<std::string> members = {};

  [[nodiscard]] Index features() const;
  [[nodiscard]] bool planar() const { return gridded || rows > 0; }
};

/// The layout of a file that was read: same nodes, variables, times and title, without edges or land mask.
[[nodiscard]] SeriesLayout layout_of(const SeriesInfo& info);

/// Writes a CF-1.8 NetCDF-4 file, var(time, row, column) or var(time, node[, feature]), float32 (or float64)
/// with _FillValue NaN, deflated. The file has a temporary name beside `path` until `finish`; if the writer
/// dies before, nothing stays. Every failure is a UserError with path and cause (directory not writable, disk
/// full, …).
class SeriesWriter {
 public:
  static SeriesWriter create(const std::string& path, const SeriesLayout& layout);

  SeriesWriter(SeriesWriter&& other) noexcept;
  SeriesWriter& operator=(SeriesWriter&&) = delete;
  SeriesWriter(const SeriesWriter&) = delete;
  SeriesWriter& operator=(const SeriesWriter&) = delete;
  ~SeriesWriter();

  /// The next steps: (any number of steps, nodes, m), m the sum of the variables' features. NaN is missing;
  /// infinite values are written as missing.
  void append(std::span<const float> values);
  void append_in_double(std::span<const double> values);

  /// Those of all members: (members, steps, nodes, m).
  void put_members(std::span<const double> values);

  /// After the last step: makes the file durable and gives it its name.
  void finish();

 private:
  SeriesWriter(std::string path, std::string temporary, NetcdfFile file);
  void define(const SeriesLayout& layout);
  template <class T>
  void append_values(std::span<const T> values);
  std::string define_time(const SeriesLayout& layout, int time);  // names for the `coordinates` attribute
  std::string define_space(const SeriesLayout& layout, std::span<const int> space);  // the same
  void define_edges(const SeriesLayout& layout);
  int define_members(const std::vector<std::string>& names);
  void define_variables(const SeriesLayout& layout, const std::vector<int>& shape,
                        const std::string& auxiliary);
  void describe(int id, std::string_view standard_name, std::string_view long_name, std::string_view units);
  int coordinate(const std::string& name, std::span<const int> dimensions, const std::vector<double>& values);
  /// Integers where all labels are, else text.
  void define_labels(const std::string& name, int dimension, const std::vector<std::string>& labels);
  void write_coordinates();

  struct Column {
    int id;
    Index offset, features;
    int members = -1;  // variable of these
  };
  template <class T>
  void write_column(const Column& column, Index member, Index first, Index count, const T* values);
  std::string path_, temporary_;
  NetcdfFile file_;
  bool pending_ = true;
  bool planar_ = false;
  Index steps_ = 0, written_ = 0, nodes_ = 0, features_ = 0, members_ = 0, n_rows_ = 0, n_columns_ = 0;
  std::vector<Column> columns_;
  // Until they are written: variable and values, those of nodes in the shape of the nodes.
  std::vector<std::pair<int, std::vector<double>>> coordinates_, of_nodes_;
  std::vector<std::pair<int, std::vector<Index>>> lists_, marks_;
  std::vector<std::pair<int, std::vector<std::string>>> labels_;
};

/// All of it at once.
void write_series(const std::string& path, const SeriesLayout& layout, std::span<const float> values);
void write_series_in_double(const std::string& path, const SeriesLayout& layout,
                            std::span<const double> values);

}  // namespace rossby
