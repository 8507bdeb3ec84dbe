#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rossby/io/netcdf.hpp"
#include "rossby/io/writer_layout.hpp"

namespace rossby {

/// Defines dimensions and coordinates in a NetCDF file in define mode, and keeps their values until `write`,
/// to be called after end_define. The file outlives this object.
class CoordinateWriter {
 public:
  explicit CoordinateWriter(NetcdfFile& file) : file_(&file) {}

  int dimension(const std::string& name, Index length);
  /// Attributes of a variable; empty ones are omitted.
  void describe(int id, std::string_view standard_name, std::string_view long_name, std::string_view units);

  // Define variables; return their ids.
  int numbers(const std::string& name, std::span<const int> dimensions, std::vector<double> values);
  int integers(const std::string& name, NetcdfType type, int dimension, std::vector<Index> values);
  int texts(const std::string& name, int dimension, std::vector<std::string> values);
  /// Writes integers if all labels are integers, else text.
  int labels(const std::string& name, int dimension, const std::vector<std::string>& labels);

  /// Dimensions of the nodes: (row, column) or (node).
  [[nodiscard]] std::vector<int> space_dimensions(const SeriesLayout& layout);
  /// Defines latitudes, longitudes, ids and land mask along them. Returns names for the `coordinates`
  /// attribute.
  [[nodiscard]] std::string define_space(const SeriesLayout& layout, std::span<const int> space);
  /// The dimension of a variable's features, with its labels; variables may share it.
  [[nodiscard]] int features(const SeriesVariable& variable);

  void write();

 private:
  template <class V>
  struct Pending {
    int id;
    std::vector<Index> lengths;
    std::vector<V> values;
  };
  [[nodiscard]] std::vector<Index> lengths(std::span<const int> dimensions) const;

  NetcdfFile* file_;
  std::map<int, Index> length_;          // of dimensions
  std::map<std::string, int> features_;  // dimensions
  std::vector<Pending<double>> numbers_;
  std::vector<Pending<Index>> integers_;
  std::vector<std::pair<int, std::vector<std::string>>> texts_;
};

}  // namespace rossby
