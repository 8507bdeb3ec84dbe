#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/series_file.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby {

/// Everything of one file but its values, to compare with the other files of a series.
struct SeriesHeader {
  SeriesInfo info;        // without coordinates and names of nodes
  detail::Stamps stamps;  // as in the file
  // Hashes that identify nodes: coordinates in float32, names, edges.
  std::uint64_t latitudes = 0, longitudes = 0, names = 0, edges = 0;
  std::shared_ptr<detail::SeriesPart> part;  // the file, paused; null in other processes than the reader

  /// Throws UserError as SeriesFile::open does.
  static SeriesHeader read(const std::string& path, std::span<const std::string> variables,
                           std::optional<double> null_value);

  /// Text that another process can read.
  [[nodiscard]] std::string pack() const;
  static SeriesHeader unpack(std::string_view text);
};

/// Files as one series along time.
struct JoinedSeries {
  std::string path;  // for messages
  std::vector<SeriesPartInfo> parts;
  std::vector<std::size_t> order;  // the file number of each part
  TimeAxis time;                   // of all steps
  bool finer = false;
  std::vector<std::string> remarks;
};

/// Orders the files by their first stamps. Throws UserError, with the file and what to do, if they do not
/// form one series: other variables, units without a known conversion, other nodes or node order, edges,
/// calendars, or times that overlap. `variables` and `null_value` are those used to read the headers.
[[nodiscard]] JoinedSeries join_headers(std::span<const std::string> names,
                                        std::span<const SeriesHeader> headers,
                                        std::span<const std::string> variables,
                                        std::optional<double> null_value);

}  // namespace rossby
