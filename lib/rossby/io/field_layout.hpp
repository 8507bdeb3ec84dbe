#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rossby/io/writer_layout.hpp"

namespace rossby {

/// A coordinate before the nodes' coordinates, such as init_time or lead.
struct FieldAxis {
  std::string name;
  std::vector<double> values;
  std::string standard_name, long_name, units, calendar;  // empty ones are omitted
};

/// A NetCDF-4 file of fields that several processes write: variables (outer, inner, row, column) or (outer,
/// inner, node[, feature]), or without the outer axis.
struct FieldLayout {
  SeriesLayout space;  // nodes and their coordinates; its variables are the fields; its time is unused
  std::vector<FieldAxis> axes;     // outer and inner, or inner alone
  std::vector<double> valid_time;  // (outer, inner) in units of `outer`: a coordinate; empty: none
  int deflate = 0;                 // level of compression, 1 to 9; 0: none

  [[nodiscard]] Index outer() const { return axes.size() > 1 ? std::ssize(axes.front().values) : 1; }
  [[nodiscard]] Index inner() const { return std::ssize(axes.back().values); }
  /// Rows of a grid, or nodes: the units of work that processes share.
  [[nodiscard]] Index units() const { return space.space().front(); }
  /// Nodes per unit.
  [[nodiscard]] Index unit_nodes() const { return space.planar() ? space.space().back() : 1; }
  /// Chunk length along the outer axis, and in units, for 256 KiB of values; a chunk has one inner step.
  [[nodiscard]] Index chunk_outer() const;
  [[nodiscard]] Index chunk_units() const;

 private:
  [[nodiscard]] Index unit_values() const;
};

/// Creates the file with everything but the fields' values; without compression, it has space for them.
/// `shown` is the file's name in messages. Returns the layout with the final names of variables. Throws
/// UserError with the file and the cause.
[[nodiscard]] FieldLayout create_field_file(const std::string& path, const std::string& shown,
                                            const FieldLayout& asked);

/// Adds global attributes to a file that is otherwise complete.
void add_attributes(const std::string& path, const std::string& shown,
                    const std::vector<std::pair<std::string, std::string>>& attributes);

/// Returns a chunk as HDF5 stores it after the filters shuffle and deflate; `values` have the given number of
/// bytes each.
[[nodiscard]] std::vector<std::byte> deflated_chunk(std::span<const std::byte> values, std::size_t width,
                                                    int level);

}  // namespace rossby
