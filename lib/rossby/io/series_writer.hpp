#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/writer_layout.hpp"

namespace rossby {

class CoordinateWriter;

/// Writes a CF-1.8 NetCDF-4 file, var(time, row, column) or var(time, node[, feature]), float32 (or float64)
/// with _FillValue NaN, deflated. The file has a temporary name beside `path` until `finish`; without
/// `finish` nothing stays. Every failure is a UserError with path and cause (directory not writable, disk
/// full, …).
class SeriesWriter {
 public:
  static SeriesWriter create(const std::string& path, const SeriesLayout& layout);

  SeriesWriter(SeriesWriter&& other) noexcept;
  SeriesWriter& operator=(SeriesWriter&&) = delete;
  SeriesWriter(const SeriesWriter&) = delete;
  SeriesWriter& operator=(const SeriesWriter&) = delete;
  ~SeriesWriter();

  /// Appends the next steps: (any number of steps, nodes, m), with m the sum of the variables' features. NaN
  /// is missing; infinite values are written as missing.
  void append(std::span<const float> values);
  void append_in_double(std::span<const double> values);

  /// Writes all members' values: (members, steps, nodes, m).
  void put_members(std::span<const double> values);
  /// Writes all quantiles in the same way.
  void put_quantiles(std::span<const double> values);

  /// Call after the last step: makes the file durable and gives it its final name.
  void finish();

 private:
  SeriesWriter(std::string path, std::string temporary, NetcdfFile file);
  void define(CoordinateWriter& coordinates, const SeriesLayout& layout);
  template <class T>
  void append_values(std::span<const T> values);
  void define_variables(CoordinateWriter& coordinates, const SeriesLayout& layout,
                        const std::vector<int>& shape, const std::string& auxiliary);

  struct Column {
    int id;
    Index offset, features;
    int members = -1, quantiles = -1;  // variables of members and quantiles
  };
  int define_beside(CoordinateWriter& coordinates, const SeriesLayout& layout, const SeriesVariable& variable,
                    const std::string& what, std::vector<int> dimensions, std::vector<Index> chunk,
                    Index cache, const std::string& auxiliary);
  template <class T>
  void write_column(const Column& column, int id, Index beside, Index first, Index count, const T* values);
  void put_beside(int Column::*variable, Index count, std::span<const double> values);
  std::string path_, temporary_;
  NetcdfFile file_;
  bool pending_ = true;
  bool planar_ = false;
  Index steps_ = 0, written_ = 0, nodes_ = 0, features_ = 0, members_ = 0, quantiles_ = 0, n_rows_ = 0,
        n_columns_ = 0;
  std::vector<Column> columns_;
};

/// Writes a whole series at once.
void write_series(const std::string& path, const SeriesLayout& layout, std::span<const float> values);
void write_series_in_double(const std::string& path, const SeriesLayout& layout,
                            std::span<const double> values);

}  // namespace rossby
