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

/// What the other files of a series are held against: all of one file but its values.
struct SeriesHeader {
  SeriesInfo info;        // without coordinates and names of nodes
  detail::Stamps stamps;  // as the file has them
  // Hashes of what nodes are: coordinates in float32, names, edges.
  std::uint64_t latitudes = 0, longitudes = 0, names = 0, edges = 0;
  std::shared_ptr<detail::SeriesPart> part;  // the file, paused; null in another process than the reader's

  /// Throws UserError as SeriesFile::open does.
  static SeriesHeader read(const std::string& path, std::span<const std::string> variables,
                           std::optional<double> null_value);

  /// As text that another process reads.
  [[nodiscard]] std::string pack() const;
  static SeriesHeader unpack(std::string_view text);
};

/// Files as one series along time.
struct JoinedSeries {
  std::string path;  // for messages
  std::vector<SeriesPartInfo> parts;
  std::vector<std::size_t> order;  // which of the files each part is
  TimeAxis time;                   // of all steps
  bool finer = false;
  std::vector<std::string> remarks;
};

/// Orders the files by their first stamps. Throws UserError, naming the file and what to do, where they are
/// not of one series: other variables, units without a known conversion, nodes or their order, edges,
/// calendars, times that overlap. `variables` and `null_value` are those that the headers were read with.
[[nodiscard]] JoinedSeries join_headers(std::span<const std::string> names,
                                        std::span<const SeriesHeader> headers,
                                        std::span<const std::string> variables,
                                        std::optional<double> null_value);

}  // namespace rossby
