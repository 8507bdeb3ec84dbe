#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

class ArrayFile;

/// A directed edge as the file lists it: source acts on destination.
struct FileEdge {
  Index source = 0;
  Index destination = 0;
  double weight = 1;
};

/// The edges of a NetCDF file, edge_src(edge), edge_dst(edge)[, edge_weight(edge)]: of a graph file, or of a
/// series file that has them. Every failure is a UserError of one line that names the file.
class GraphFile {
 public:
  /// Throws UserError where the file has no edges or their arrays do not fit together.
  static GraphFile open(const std::string& path);

  GraphFile(GraphFile&&) noexcept;
  GraphFile& operator=(GraphFile&&) noexcept;
  ~GraphFile();

  /// Length of the dimension `node`; −1 where no variable has one.
  [[nodiscard]] Index nodes() const { return nodes_; }
  [[nodiscard]] Index size() const { return size_; }

  /// How the weights were made, as the file says it; empty where it does not.
  [[nodiscard]] std::string meaning() const;

  /// What the file calls its nodes, one a node: node_id(node), a variable with cf_role timeseries_id, or
  /// node(node) if that is more than their numbers. Empty: nothing.
  [[nodiscard]] std::vector<std::string> ids() const;
  /// The variable of the series whose values these are; empty where the file does not say.
  [[nodiscard]] std::string ids_of() const;
  /// One of node_lat and node_lon, degrees; empty where the file has none.
  [[nodiscard]] std::vector<double> coordinate(const char* name) const;

  /// From now on edges name nodes by `places`, one a node of the file.
  void renumber(std::vector<Index> places);

  /// Edges [first, first + count) of the list; weight 1 where the file has no edge_weight.
  [[nodiscard]] std::vector<FileEdge> edges(Index first, Index count) const;

  /// The same with edge_distance in place of weights. Throws UserError where the file has none.
  [[nodiscard]] std::vector<FileEdge> distances() const;

 private:
  explicit GraphFile(std::unique_ptr<ArrayFile> file);
  std::unique_ptr<ArrayFile> file_;
  Index nodes_ = -1;
  Index size_ = 0;
  std::vector<Index> places_;  // empty: as in the file
};

/// Whether a NetCDF file has edge_src or edge_dst. Throws UserError where it cannot be read.
[[nodiscard]] bool holds_edges(const std::string& path);

/// What a graph file holds.
struct GraphLayout {
  Index nodes = 0;
  std::vector<FileEdge> edges;
  std::vector<double> node_lat, node_lon;  // degrees, one a node; empty: not written
  std::vector<std::string> node_ids;       // what the series calls them, one a node; empty: not written
  std::string ids_of;                      // its variable
  std::string title;
  std::vector<std::pair<std::string, std::string>> weight_attributes;  // how the weights were made
  std::vector<std::pair<std::string, std::string>> attributes;         // further global ones
};

/// Writes a CF-1.8 NetCDF-4 file with node(node), node_id(node), edge_src, edge_dst, edge_weight and
/// coordinates, under a temporary name until it is whole. Throws UserError where there is no edge or no room.
void write_graph(const std::string& path, const GraphLayout& layout);

namespace detail {

/// Number of edges of a file, −1 where it has none. Throws UserError where their arrays do not fit together.
[[nodiscard]] Index count_edges(const ArrayFile& file);
/// Edges [first, first + count), the last member read from variable `value` (1 where it is not there).
[[nodiscard]] std::vector<FileEdge> read_edges(const ArrayFile& file, const char* value, Index first,
                                               Index count);

}  // namespace detail
}  // namespace rossby
