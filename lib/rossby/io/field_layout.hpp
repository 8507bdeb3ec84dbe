#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rossby/io/writer_layout.hpp"

namespace rossby {

/// A coordinate before those of the nodes, such as init_time or lead.
struct FieldAxis {
  std::string name;
  std::vector<double> values;
  std::string standard_name, long_name, units, calendar;  // empty ones are left out
};

/// A NetCDF-4 file of fields that several processes fill: variables (outer, inner, row, column) or (outer,
/// inner, node[, feature]), or without the outer axis.
struct FieldLayout {
  SeriesLayout space;  // nodes and their coordinates; its variables are the fields; its time is left out
  std::vector<FieldAxis> axes;     // outer and inner, or inner alone
  std::vector<double> valid_time;  // (outer, inner) in the units of outer: a coordinate; empty: none
  int deflate = 0;                 // level of compression, 1 to 9; 0: none

  [[nodiscard]] Index outer() const { return axes.size() > 1 ? std::ssize(axes.front().values) : 1; }
  [[nodiscard]] Index inner() const { return std::ssize(axes.back().values); }
  /// Rows of a grid, or nodes: what the processes share among them.
  [[nodiscard]] Index units() const { return space.space().front(); }
  /// Nodes of a unit.
  [[nodiscard]] Index unit_nodes() const { return space.planar() ? space.space().back() : 1; }
  /// As many steps of the outer axis, and units, as have 256 KiB of values: a chunk, which has one of inner.
  [[nodiscard]] Index chunk_outer() const;
  [[nodiscard]] Index chunk_units() const;

 private:
  [[nodiscard]] Index unit_values() const;
};

/// Makes the file: all but the fields' values, for which there is room in it if they are not compressed.
/// `shown` is its name in messages. Returns the layout with the names that variables have got. Throws
/// UserError naming the file and the cause.
[[nodiscard]] FieldLayout create_field_file(const std::string& path, const std::string& shown,
                                            const FieldLayout& asked);

/// Adds global attributes to a file that is complete otherwise.
void add_attributes(const std::string& path, const std::string& shown,
                    const std::vector<std::pair<std::string, std::string>>& attributes);

/// A chunk as HDF5 stores it behind its filters shuffle and deflate: values of so many bytes.
[[nodiscard]] std::vector<std::byte> deflated_chunk(std::span<const std::byte> values, std::size_t width,
                                                    int level);

}  // namespace rossby
