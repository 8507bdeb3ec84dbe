#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

class ArrayFile;

/// A directed edge in the file's terms: source acts on destination.
struct FileEdge {
  Index source = 0;
  Index destination = 0;
  double weight = 1;
};

/// The edges of a NetCDF file, edge_src(edge), edge_dst(edge)[, edge_weight(edge)]: a graph file, or a series
/// file with edges. Every failure is a UserError of one line with the file's name.
class GraphFile {
 public:
  /// Throws UserError if the file has no edges or their arrays do not fit together.
  static GraphFile open(const std::string& path);

  GraphFile(GraphFile&&) noexcept;
  GraphFile& operator=(GraphFile&&) noexcept;
  ~GraphFile();

  /// Length of the dimension `node`; −1 if no variable has one.
  [[nodiscard]] Index nodes() const { return nodes_; }
  [[nodiscard]] Index size() const { return size_; }

  /// The file's description of how the weights were made; empty if it has none.
  [[nodiscard]] std::string meaning() const;

  /// The file's names of its nodes, one per node: node_id(node), a variable with cf_role timeseries_id, or
  /// node(node) if it holds more than numbers from 0. Empty if there are none.
  [[nodiscard]] std::vector<std::string> ids() const;
  /// The variable of the series that these names come from; empty if the file does not say.
  [[nodiscard]] std::string ids_of() const;
  /// node_lat or node_lon, in degrees; empty if the file has none.
  [[nodiscard]] std::vector<double> coordinate(const char* name) const;

  /// Renames nodes in edges to `places`, one per node of the file.
  void renumber(std::vector<Index> places);

  /// Edges [first, first + count) of the list; weight 1 if the file has no edge_weight.
  [[nodiscard]] std::vector<FileEdge> edges(Index first, Index count) const;

  /// All edges with edge_distance in place of weights. Throws UserError if the file has none.
  [[nodiscard]] std::vector<FileEdge> distances() const;

 private:
  explicit GraphFile(std::unique_ptr<ArrayFile> file);
  std::unique_ptr<ArrayFile> file_;
  Index nodes_ = -1;
  Index size_ = 0;
  std::vector<Index> places_;  // empty: as in the file
};

/// True if a NetCDF file has edge_src or edge_dst. Throws UserError if it cannot be read.
[[nodiscard]] bool holds_edges(const std::string& path);

/// Contents of a graph file.
struct GraphLayout {
  Index nodes = 0;
  std::vector<FileEdge> edges;
  std::vector<double> node_lat, node_lon;  // degrees, one per node; empty: not written
  std::vector<std::string> node_ids;       // the series' names, one per node; empty: not written
  std::string ids_of;                      // variable of the series with these names
  std::string title;
  std::vector<std::pair<std::string, std::string>> weight_attributes;  // how the weights were made
  std::vector<std::pair<std::string, std::string>> attributes;         // further global ones
};

/// Writes a CF-1.8 NetCDF-4 file with node(node), node_id(node), edge_src, edge_dst, edge_weight and
/// coordinates, under a temporary name until it is complete. Throws UserError if there is no edge or no
/// space.
void write_graph(const std::string& path, const GraphLayout& layout);

namespace detail {

/// Number of edges of a file, −1 if it has none. Throws UserError if their arrays do not fit together.
[[nodiscard]] Index count_edges(const ArrayFile& file);
/// Edges [first, first + count), with the last member from variable `value` (1 if it is absent).
[[nodiscard]] std::vector<FileEdge> read_edges(const ArrayFile& file, const char* value, Index first,
                                               Index count);

}  // namespace detail
}  // namespace rossby
