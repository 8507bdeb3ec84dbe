#include "rossby/io/edge_table.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>

#include <fmt/ranges.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/table_lines.hpp"

namespace rossby {
namespace {

constexpr std::size_t largest_table = std::size_t{1} << 31;

using detail::for_table_lines;

std::optional<double> number(std::string_view text) {
  return detail::finite_number(text);
}

bool is_one_of(std::string_view name, std::initializer_list<const char*> words) {
  const std::string lower = lower_case(name);
  return std::find(words.begin(), words.end(), lower) != words.end();
}

constexpr auto lengths = {"distance", "distances", "dist", "cost", "length", "km", "m"};

/// Checks for columns whose names reverse the ends or put weights first. Without the check they would
/// silently be misread.
void check_ends(std::span<const std::string_view> names, const std::string& path, Index line) {
  const std::string_view first = names[0], other = names[1];
  if (names.size() == 3 && (is_one_of(first, lengths) || is_one_of(first, {"weight", "weights", "value"})))
    user_error(
        "{}:{}: the columns are {}, but source,destination,{} is expected. Move the first column to the end",
        path, line, fmt::join(names, ","), first);
  if (is_one_of(first, {"to", "target", "destination", "dest", "dst", "end"}) &&
      is_one_of(other, {"from", "source", "src", "origin", "start"}))
    user_error("{}:{}: the columns are {},{}, but source,destination is expected. Swap the two columns", path,
               line, first, other);
}

}  // namespace

NodeNames::NodeNames(const std::vector<std::string>& names, const std::string& source)
    : nodes_(std::ssize(names)), source_(source) {
  for (const std::string& name : names)
    if (!numbers_.emplace(name, std::ssize(numbers_)).second)
      user_error("{}: two nodes have the name \"{}\". Give each node its own name", source, name);
}

NodeNames NodeNames::read(const std::string& path, const std::string& variable, Index nodes) {
  const NetcdfFile file = NetcdfFile::open(path);
  const NetcdfVariable* v = file.find(variable);
  if (v == nullptr) {
    std::vector<std::string> there;
    for (const NetcdfVariable& other : file.variables()) there.push_back(other.name);
    const auto nearest = nearest_name(variable, there);
    user_error("{}: there is no variable {} for --ids{}. Name a variable of this file", path, variable,
               nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
  }
  const bool list = v->dimensions.size() == 1 || (v->dimensions.size() == 2 && v->type == NetcdfType::text);
  if (!list || v->dimensions[0].length != nodes)
    user_error(
        "{}: variable {} (--ids) does not have one name for each of the {} nodes. Name another variable "
        "with --ids",
        path, variable, nodes);
  NodeNames names(nodes);
  names.source_ = fmt::format("{} of {}", variable, path);
  Index node = 0;
  for (const std::string& name : file.read_names(*v))
    if (const auto [other, is_new] = names.numbers_.emplace(name, node++); !is_new)
      user_error(
          "{}: variable {} (--ids) gives node {} and node {} the same name, \"{}\". Give each node its own "
          "name",
          path, variable, other->second, node - 1, name);
  return names;
}

Index NodeNames::find(const std::string& name) const {
  if (!source_.empty()) {
    const auto place = numbers_.find(name);
    return place == numbers_.end() ? -1 : place->second;
  }
  const auto value = number(name);
  return value && *value >= 0 && *value < static_cast<double>(nodes_) && *value == std::floor(*value)
             ? static_cast<Index>(*value)
             : -1;
}

std::string NodeNames::what() const {
  if (!source_.empty()) return "not a name in " + source_;
  return fmt::format("not a node number from 0 to {} (node names need --ids)", nodes_ - 1);
}

namespace {

/// True if an accent is a character of its own (U+0300 to U+036F), as file systems of macOS write them.
bool accents_apart(std::string_view text) {
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    const auto next = static_cast<unsigned char>(text[at + 1]);
    if (text[at] == '\xCC' || (text[at] == '\xCD' && next < 0xB0)) return true;
  }
  return false;
}

}  // namespace

EdgeTable read_edge_table(const std::string& path, const NodeNames& names, const EdgeTableOptions& options) {
  return parse_edge_table(utf8_text(read_text(path, largest_table)), path, names, options);
}

EdgeTable parse_edge_table(std::string_view text, const std::string& path, const NodeNames& names,
                           const EdgeTableOptions& options) {
  EdgeTable table;
  bool first = true;
  for_table_lines(text, [&](Index line, std::span<const std::string_view> fields) {
    const bool has_value = fields.size() == 3;
    if (!has_value && (options.needs_value || fields.size() != 2))
      user_error("{}:{}: the line has {} columns, but needs {}, separated by commas", path, line,
                 fields.size(),
                 options.needs_value ? "source,destination,distance" : "source,destination[,weight]");
    const FileEdge edge{names.find(std::string(fields[0])), names.find(std::string(fields[1])),
                        has_value ? number(fields[2]).value_or(NAN) : 1};
    const bool names_columns =
        first && edge.source < 0 && edge.destination < 0 && (!has_value || std::isnan(edge.weight));
    first = false;
    if (names_columns) {
      check_ends(fields, path, line);
      table.is_of_distances = has_value && is_one_of(fields[2], lengths);
      return;
    }
    if (edge.source < 0 || edge.destination < 0) {
      if (!options.skip_unknown)
        user_error("{}:{}: \"{}\" is {}. {}To skip lines with unknown nodes, give --skip-unknown", path, line,
                   fields[edge.source < 0 ? 0 : 1], names.what(),
                   accents_apart(fields[edge.source < 0 ? 0 : 1])
                       ? "The name has separate accent characters: join the accents to the letters with "
                         "uconv -x nfc FILE > NEW. "
                       : "");
      ++table.skipped;
      return;
    }
    if (std::isnan(edge.weight))
      user_error("{}:{}: \"{}\" is not a finite number. Write a finite distance or weight", path, line,
                 fields[2]);
    table.edges.push_back(edge);
    table.lines.push_back(line);
  });
  return table;
}

std::vector<FileEdge> read_edge_matrix(const std::string& path, Index nodes) {
  return parse_edge_matrix(read_text(path, largest_table), path, nodes);
}

std::vector<FileEdge> parse_edge_matrix(std::string_view text, const std::string& path, Index nodes) {
  std::vector<FileEdge> edges;
  Index row = 0;
  for_table_lines(text, [&](Index line, std::span<const std::string_view> fields) {
    if (static_cast<Index>(fields.size()) != nodes || row == nodes)
      user_error(
          "{}:{}: there are {} columns in row {}. Write a matrix of {} rows and columns, one for each node",
          path, line, fields.size(), row, nodes);
    for (Index column = 0; column < nodes; ++column) {
      const auto value = number(fields[static_cast<std::size_t>(column)]);
      if (!value)
        user_error(
            "{}:{}: \"{}\" in column {} is not a finite number. Write a finite number, or 0 for no edge",
            path, line, fields[static_cast<std::size_t>(column)], column);
      if (*value != 0) edges.push_back({row, column, *value});
    }
    ++row;
  });
  if (row != nodes)
    user_error("{}: there are {} rows. Write a matrix of {} rows and columns, one for each node", path, row,
               nodes);
  return edges;
}

}  // namespace rossby
