#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/graph_file.hpp"

namespace rossby {

/// What a table calls the nodes of a series.
class NodeNames {
 public:
  /// Numbers 0 to nodes − 1.
  explicit NodeNames(Index nodes) : nodes_(nodes) {}
  /// These, one a node. Throws UserError beginning with `source` if one comes twice.
  NodeNames(const std::vector<std::string>& names, const std::string& source);

  /// Values of a variable along the nodes of a file (numbers, characters or strings). Throws UserError where
  /// there is no such variable, it is not one name a node, or a name comes twice.
  static NodeNames read(const std::string& path, const std::string& variable, Index nodes);

  [[nodiscard]] Index nodes() const { return nodes_; }
  /// −1 where no node has the name.
  [[nodiscard]] Index find(const std::string& name) const;
  /// What a name is not where it is unknown: "no sensor_id of FILE", "no node number, 0 to 206".
  [[nodiscard]] std::string what() const;

 private:
  Index nodes_ = 0;
  std::string source_;  // empty: numbers
  std::unordered_map<std::string, Index> numbers_;
};

/// A table of comma-separated values, source,destination[,value], a line an edge; a first line that names
/// columns is passed over, unless it names the ends the other way round, as are empty lines.
struct EdgeTable {
  std::vector<FileEdge> edges;   // value in place of the weight; 1 where there is no third column
  std::vector<Index> lines;      // of each edge, from 1
  Index skipped = 0;             // lines with unknown nodes
  bool is_of_distances = false;  // what its first line calls the third column
};

struct EdgeTableOptions {
  bool needs_value = false;   // a third column
  bool skip_unknown = false;  // lines with unknown nodes are left out instead of being errors
};

/// Throws UserError with file and line where a line has another number of columns, a node is not known or a
/// value is no finite number.
[[nodiscard]] EdgeTable read_edge_table(const std::string& path, const NodeNames& names,
                                        const EdgeTableOptions& options);
/// The same of a text; messages call it `path`.
[[nodiscard]] EdgeTable parse_edge_table(std::string_view text, const std::string& path,
                                         const NodeNames& names, const EdgeTableOptions& options);

/// An adjacency matrix as comma-separated values, a line of n weights for each source; entries of 0 are no
/// edges. Throws UserError where it is not n × n or an entry is no finite number.
[[nodiscard]] std::vector<FileEdge> read_edge_matrix(const std::string& path, Index nodes);
/// The same of a text; messages call it `path`.
[[nodiscard]] std::vector<FileEdge> parse_edge_matrix(std::string_view text, const std::string& path,
                                                      Index nodes);

}  // namespace rossby
