#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/cf_time.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/units.hpp"

namespace rossby {

/// One variable of a series file; it gives one feature, or one per element of its feature dimension.
struct SeriesVariable {
  std::string name;
  std::string units;          // "" if the file has none
  std::string long_name;      // ""
  std::string standard_name;  // ""
  Index features = 1;
  std::string feature_name = {};                 // name of its feature dimension, ""
  std::vector<std::string> feature_labels = {};  // that dimension's coordinate, one per feature, or none
};

/// One file of a series.
struct SeriesPartInfo {
  std::string path;
  Index first = 0;  // of all steps
  Index steps = 0;
  std::vector<UnitConversion> conversions = {};  // from its units, one per variable; empty: none
};

/// The contents of a series without its values. Every process that opens it gets the same.
struct SeriesInfo {
  std::string path;                   // for messages; with several files "a.nc ... c.nc (3 files)"
  std::vector<SeriesPartInfo> parts;  // its files, by time
  std::vector<SeriesVariable> variables;
  Index steps = 0;                         // T, of the steps in use
  Index file_nodes = 0;                    // grid cells or sensors, land included
  Index features = 0;                      // m
  Index first_step = 0;                    // of all steps
  Index all_steps = 0;                     // steps of the file or files
  Index filled_gaps = 0;                   // gaps of the time axis that were filled
  Index filled_steps = 0;                  // with this many steps of missing values
  std::vector<Index> present;              // each step's place in the files in use, or -1; empty: all present
  bool gridded = false;                    // lat and lon are axes
  bool curvilinear = false;                // a grid whose cells have their own latitudes and longitudes
  Index n_lat = 0, n_lon = 0;              // of both grids: cell (i, j) is node i·n_lon + j
  std::vector<double> lat, lon;            // axes of gridded files
  std::vector<double> node_lat, node_lon;  // degrees, one per file node, NaN if missing; empty: none
  /// The file's names, used for output files: dimensions ("lat" and "lon", rows and columns, or "" and
  /// "node") and the coordinates of nodes.
  std::string time_name = "time", row_name, column_name = "node", lat_name = "node_lat",
              lon_name = "node_lon";
  std::vector<std::string> node_labels;  // sensors: names or numbers, one per node, or none
  std::string label_name;                // variable of these labels
  TimeAxis time;                         // of the steps in use
  bool has_edges = false;                // of the first file
  Index edges = 0;
  std::string title;
  bool finer = false;  // values may be finer than float32
  /// Conversions, guesses and suspicious findings for the log, one line each.
  std::vector<std::string> remarks;

  /// The file from which data other than values are read, such as edges.
  [[nodiscard]] const std::string& first_file() const { return parts.empty() ? path : parts.front().path; }
  /// The same series with only `count` of its variables, from number `first` on.
  [[nodiscard]] SeriesInfo of_variables(std::size_t first, std::size_t count) const;
  /// Bytes of the values of `nodes` nodes as float32.
  [[nodiscard]] double bytes(Index nodes) const {
    return 4.0 * static_cast<double>(steps) * static_cast<double>(nodes) * static_cast<double>(features);
  }
};

/// The units of all variables: "1" if they have none, "mixed" if they differ.
[[nodiscard]] std::string units_of(const SeriesInfo& info);

/// data.null_value: the number that marks a missing value; none if the text is empty. Throws UserError if the
/// text is no finite number.
[[nodiscard]] std::optional<double> parse_null_value(std::string_view text);

struct SeriesHeader;
namespace detail {
class SeriesPart;
}  // namespace detail

/// Headers of the files of a series that this process opened before; null for files it did not open.
using KnownFiles = std::vector<std::shared_ptr<detail::SeriesPart>>;

/// A NetCDF/CF series, var(time, lat, lon) or var(time, node[, feature]), opened for reading: one file, or
/// several that follow each other in time. Each process reads the nodes that it owns. Every failure is a
/// UserError of one line with the file's name.
class SeriesFile {
 public:
  /// Steps [first_step, last_step) are used; last_step −1 means the end. If `variables` is empty, the only
  /// one that fits is taken; if several fit, the error lists them. Several named ones become features, in
  /// that order. Values of all variables equal to `null_value`, in the variable's units, are missing.
  /// `fill_steps`: steps that the time axis lacks between those in use become steps of missing values.
  static SeriesFile open(const std::string& path, std::span<const std::string> variables,
                         Index first_step = 0, Index last_step = -1, std::optional<double> null_value = {},
                         bool fill_steps = false);

  /// The same for several entries as named in data.file (series_names); `path` above may be one, too. The
  /// files are joined along time, whatever their order.
  static SeriesFile open(std::span<const std::string> entries, std::span<const std::string> variables,
                         Index first_step = 0, Index last_step = -1, std::optional<double> null_value = {},
                         bool fill_steps = false);

  /// The same for files whose headers were read, one per name; a single file needs none.
  static SeriesFile join(std::span<const std::string> names, std::vector<SeriesHeader> headers,
                         std::span<const std::string> variables, Index first_step, Index last_step,
                         std::optional<double> null_value, bool fill_steps);

  /// Reopens a series without touching its files until steps are read. `parts` make that faster.
  static SeriesFile reopen(const SeriesInfo& info, std::optional<double> null_value, KnownFiles parts = {});

  /// Closes its files until steps are read again. Returns their headers, about 2 kB per file.
  KnownFiles pause() const;

  /// Puts steps of missing values at these ascending instants (TimeAxis::instant) before those in use. Throws
  /// UserError unless they lie before them.
  void begin_with(std::span<const double> instants);

  /// Names of the variables that `open` accepts, in file order.
  static std::vector<std::string> candidates(const std::string& path);

  SeriesFile(SeriesFile&&) noexcept;
  SeriesFile& operator=(SeriesFile&&) noexcept;
  ~SeriesFile();

  [[nodiscard]] const SeriesInfo& info() const;

  /// Reads values of some file nodes (without duplicates) at all steps in use: out is (T, nodes, m), float32,
  /// NaN if missing (_FillValue, missing_value, infinite, the null value). scale_factor and add_offset are
  /// applied. Only parts of the file that hold these nodes are read, in pieces of bounded size. `centers`,
  /// (nodes, m) or empty, are subtracted in double before values become float32.
  void read(std::span<const Index> file_nodes, float* out, std::span<const double> centers = {}) const;

  /// The same for steps [first, first + count) of those in use: out is (count, nodes, m).
  void read_steps(std::span<const Index> file_nodes, Index first, Index count, float* out,
                  std::span<const double> centers = {}) const;

  /// The same in double.
  void read_numbers(std::span<const Index> file_nodes, Index first, Index count, double* out) const;

  /// True if values in the file may be finer than float32: doubles, large integers, packed ones.
  [[nodiscard]] bool finer_than_float() const;

  /// For file nodes [first, first + count): 1 if any value at a step in use is finite. Memory is bounded.
  [[nodiscard]] std::vector<std::uint8_t> observed(Index first, Index count) const;

  /// Edges [first, first + count) of the file's list; weight 1 if the file has no edge_weight.
  [[nodiscard]] std::vector<FileEdge> edges(Index first, Index count) const;

 private:
  struct State;
  explicit SeriesFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rossby
