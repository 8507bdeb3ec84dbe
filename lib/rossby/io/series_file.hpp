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

/// One variable of a series file; it gives one feature, or as many as its feature dimension is long.
struct SeriesVariable {
  std::string name;
  std::string units;          // "" where the file has none
  std::string long_name;      // ""
  std::string standard_name;  // ""
  Index features = 1;
  std::string feature_name = {};                 // its feature dimension's, ""
  std::vector<std::string> feature_labels = {};  // that dimension's coordinate, one a feature, or none
};

/// One file of a series.
struct SeriesPartInfo {
  std::string path;
  Index first = 0;  // of all steps
  Index steps = 0;
  std::vector<UnitConversion> conversions = {};  // from its units, one a variable; empty: none
};

/// What a series holds, without its values. Every process that opens it has the same.
struct SeriesInfo {
  std::string path;                   // for messages; of several files "a.nc ... c.nc (3 files)"
  std::vector<SeriesPartInfo> parts;  // its files, by time
  std::vector<SeriesVariable> variables;
  Index steps = 0;               // T, of the steps in use
  Index file_nodes = 0;          // grid cells or sensors, land included
  Index features = 0;            // m
  Index first_step = 0;          // of all steps
  Index all_steps = 0;           // steps of the file or files
  Index filled_gaps = 0;         // gaps of the time axis that were filled,
  Index filled_steps = 0;        // with so many steps of missing values
  std::vector<Index> present;    // which step of the files in use a step is, or -1; empty: each is one
  bool gridded = false;          // lat and lon are axes
  bool curvilinear = false;      // a grid whose cells have latitudes and longitudes of their own
  Index n_lat = 0, n_lon = 0;    // of both: cell (i, j) is node i·n_lon + j
  std::vector<double> lat, lon;  // axes, gridded files
  std::vector<double> node_lat, node_lon;  // degrees, one a file node, NaN where missing; empty: has none
  /// As the file calls them, for what is written beside it: dimensions ("lat" and "lon", rows and columns, or
  /// "" and "node") and the coordinates of nodes.
  std::string time_name = "time", row_name, column_name = "node", lat_name = "node_lat",
              lon_name = "node_lon";
  std::vector<std::string> node_labels;  // sensors: names or numbers, one a node, or none
  std::string label_name;                // variable of these
  TimeAxis time;                         // of the steps in use
  bool has_edges = false;                // of the first file
  Index edges = 0;
  std::string title;
  bool finer = false;  // values may be finer than float32
  /// What was converted, guessed or looks wrong, a line each: for the log.
  std::vector<std::string> remarks;

  /// Where what lies beside the values is read, such as edges.
  [[nodiscard]] const std::string& first_file() const { return parts.empty() ? path : parts.front().path; }
  /// The same series with `count` of its variables alone, from number `first` on.
  [[nodiscard]] SeriesInfo of_variables(std::size_t first, std::size_t count) const;
  /// Bytes of the values of `nodes` nodes as float32.
  [[nodiscard]] double bytes(Index nodes) const {
    return 4.0 * static_cast<double>(steps) * static_cast<double>(nodes) * static_cast<double>(features);
  }
};

/// The units of all variables: "1" if they have none, "mixed" if they differ.
[[nodiscard]] std::string units_of(const SeriesInfo& info);

/// data.null_value: the number that stands for a missing value, none where the text is empty. Throws
/// UserError where it is neither, or not finite.
[[nodiscard]] std::optional<double> parse_null_value(std::string_view text);

struct SeriesHeader;
namespace detail {
class SeriesPart;
}  // namespace detail

/// What a process knows of the files of a series that it opened before; null: of one that it did not.
using KnownFiles = std::vector<std::shared_ptr<detail::SeriesPart>>;

/// A NetCDF/CF series, var(time, lat, lon) or var(time, node[, feature]), opened for reading: one file, or
/// several that follow each other in time. Each process reads the nodes it owns. Every failure is a UserError
/// of one line that names the file.
class SeriesFile {
 public:
  /// Steps [first_step, last_step) are used; last_step −1: to the end. `variables` may be empty: the only one
  /// that fits is taken, and where several fit the error lists them. Several named ones become features, in
  /// that order. Values of all variables that equal `null_value`, in the variable's units, are missing.
  /// `fill_steps`: steps that the time axis lacks between those in use become steps of missing values.
  static SeriesFile open(const std::string& path, std::span<const std::string> variables,
                         Index first_step = 0, Index last_step = -1, std::optional<double> null_value = {},
                         bool fill_steps = false);

  /// The same of several entries as data.file names them (series_names); `path` above is one, too. The files
  /// are joined along time, whatever their order.
  static SeriesFile open(std::span<const std::string> entries, std::span<const std::string> variables,
                         Index first_step = 0, Index last_step = -1, std::optional<double> null_value = {},
                         bool fill_steps = false);

  /// The same of files whose headers were read, one a name; of a single file none is needed.
  static SeriesFile join(std::span<const std::string> names, std::vector<SeriesHeader> headers,
                         std::span<const std::string> variables, Index first_step, Index last_step,
                         std::optional<double> null_value, bool fill_steps);

  /// A series that was opened before: no file is touched until its steps are read. `parts` make that faster.
  static SeriesFile reopen(const SeriesInfo& info, std::optional<double> null_value, KnownFiles parts = {});

  /// Closes its files until steps are read again. Returns what is known of them, about 2 kB a file.
  KnownFiles pause() const;

  /// From now on steps of missing values at these ascending instants (TimeAxis::instant) come before those in
  /// use. Throws UserError unless they lie before them.
  void begin_with(std::span<const double> instants);

  /// Names of the variables that `open` would take, in file order.
  static std::vector<std::string> candidates(const std::string& path);

  SeriesFile(SeriesFile&&) noexcept;
  SeriesFile& operator=(SeriesFile&&) noexcept;
  ~SeriesFile();

  [[nodiscard]] const SeriesInfo& info() const;

  /// Values of some file nodes (without duplicates) at all steps in use: out is (T, nodes, m),
  /// float32, NaN where missing (_FillValue, missing_value, infinite, the null value); scale_factor and
  /// add_offset are applied. Only parts of the file that hold these nodes are read, in pieces of bounded
  /// size. `centers`, (nodes, m) or empty, are subtracted in double before values become float32.
  void read(std::span<const Index> file_nodes, float* out, std::span<const double> centers = {}) const;

  /// The same for steps [first, first + count) of those in use: out is (count, nodes, m).
  void read_steps(std::span<const Index> file_nodes, Index first, Index count, float* out,
                  std::span<const double> centers = {}) const;

  /// The same in double.
  void read_numbers(std::span<const Index> file_nodes, Index first, Index count, double* out) const;

  /// Whether values in the file may be finer than float32: doubles, large integers, packed ones.
  [[nodiscard]] bool finer_than_float() const;

  /// For file nodes [first, first + count): 1 where any value at a step in use is finite. Memory is bounded.
  [[nodiscard]] std::vector<std::uint8_t> observed(Index first, Index count) const;

  /// Edges [first, first + count) of the file's list; weight 1 where it has no edge_weight.
  [[nodiscard]] std::vector<FileEdge> edges(Index first, Index count) const;

 private:
  struct State;
  explicit SeriesFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace rossby
