#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/io/graph_file.hpp"

namespace rossby {

/// Names that a table uses for the nodes of a series.
class NodeNames {
 public:
  /// Names are numbers from 0 to nodes − 1.
  explicit NodeNames(Index nodes) : nodes_(nodes) {}
  /// One name per node. Throws UserError beginning with `source` if a name occurs twice.
  NodeNames(const std::vector<std::string>& names, const std::string& source);

  /// Reads the values of a variable along the nodes of a file (numbers, characters or strings). Throws
  /// UserError if there is no such variable, it is not one name per node, or a name occurs twice.
  static NodeNames read(const std::string& path, const std::string& variable, Index nodes);

  [[nodiscard]] Index nodes() const { return nodes_; }
  /// Returns −1 if no node has the name.
  [[nodiscard]] Index find(const std::string& name) const;
  /// Describes an unknown name for messages: "no sensor_id of FILE", "no node number, 0 to 206".
  [[nodiscard]] std::string what() const;

 private:
  Index nodes_ = 0;
  std::string source_;  // empty: numbers
  std::unordered_map<std::string, Index> numbers_;
};

/// A table of comma-separated values, source,destination[,value], one edge per line. Empty lines are skipped,
/// and so is a first line of column names. A first line that names the ends in reverse order is an error.
struct EdgeTable {
  std::vector<FileEdge> edges;   // `weight` holds the value; 1 if there is no third column
  std::vector<Index> lines;      // of each edge, from 1
  Index skipped = 0;             // lines with unknown nodes
  bool is_of_distances = false;  // by the third column's name in the first line
};

struct EdgeTableOptions {
  bool needs_value = false;   // the third column is required
  bool skip_unknown = false;  // skip lines with unknown nodes instead of throwing
};

/// Throws UserError with file and line if a line has a wrong number of columns, a node is unknown, or a value
/// is no finite number.
[[nodiscard]] EdgeTable read_edge_table(const std::string& path, const NodeNames& names,
                                        const EdgeTableOptions& options);
/// Parses a text in the same way; messages call it `path`.
[[nodiscard]] EdgeTable parse_edge_table(std::string_view text, const std::string& path,
                                         const NodeNames& names, const EdgeTableOptions& options);

/// Reads an adjacency matrix as comma-separated values, a line of n weights for each source; entries of 0 are
/// no edges. Throws UserError if it is not n × n or an entry is no finite number.
[[nodiscard]] std::vector<FileEdge> read_edge_matrix(const std::string& path, Index nodes);
/// Parses a text in the same way; messages call it `path`.
[[nodiscard]] std::vector<FileEdge> parse_edge_matrix(std::string_view text, const std::string& path,
                                                      Index nodes);

}  // namespace rossby
