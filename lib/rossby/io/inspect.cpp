#include "rossby/io/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "rossby/base/error.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/node_values.hpp"
#include "rossby/io/series_file.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/io/suspect_values.hpp"

namespace rossby {
namespace {

constexpr Index piece_values = Index{1} << 21;

struct Summary {
  ValueSummary values;
  Index nodes_observed = 0;
};

/// One pass over all values, in pieces of whole steps, or of nodes if a single step is too large.
Summary summarise(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  Summary summary;
  const Index part = std::clamp<Index>(piece_values / info.features, 1, info.file_nodes);
  for (Index begin = 0; begin < info.file_nodes; begin += part) {
    std::vector<Index> nodes(static_cast<std::size_t>(std::min(part, info.file_nodes - begin)));
    std::iota(nodes.begin(), nodes.end(), begin);
    const Index width = static_cast<Index>(nodes.size()) * info.features;
    const Index block = std::clamp<Index>(piece_values / width, 1, info.steps);
    std::vector<double> values(static_cast<std::size_t>(block * width));
    std::vector<char> seen(nodes.size(), 0);
    for (Index first = 0; first < info.steps; first += block) {
      const Index steps = std::min(block, info.steps - first);
      file.read_numbers(nodes, first, steps, values.data());
      for (Index k = 0; k < steps * width; ++k) {
        const double value = values[static_cast<std::size_t>(k)];
        summary.values.look_at(value);
        if (!std::isnan(value)) seen[static_cast<std::size_t>(k % width / info.features)] = 1;
      }
    }
    summary.nodes_observed += std::count(seen.begin(), seen.end(), 1);
  }
  return summary;
}

std::string bytes_text(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB", "GiB"}) {
    if (bytes < 1024) return fmt::format("{:.4g} {}", bytes, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.4g} TiB", bytes);
}

std::string shape_text(const SeriesInfo& info) {
  if (info.gridded)
    return fmt::format("time {} x lat {} x lon {} = {} cells", info.all_steps, info.n_lat, info.n_lon,
                       info.file_nodes);
  if (info.curvilinear)
    return fmt::format("time {} x {} {} x {} {} = {} cells of a curvilinear grid", info.all_steps,
                       info.row_name, info.n_lat, info.column_name, info.n_lon, info.file_nodes);
  std::string text = fmt::format("time {} x node {}", info.all_steps, info.file_nodes);
  if (info.features > 1) text += fmt::format(" x feature {}", info.features);
  return text;
}

std::string range_text(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values)  // NaN where missing
    if (!std::isnan(value)) low = std::min(low, value), high = std::max(high, value);
  const auto missing =
      std::count_if(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  if (low > high) return "none";
  return fmt::format("{:.6g} to {:.6g}{}", low, high,
                     missing > 0 ? fmt::format(", {} missing", missing) : "");
}

std::string file_text(const SeriesInfo& info) {
  std::string out = fmt::format("{}     {}\n", info.parts.size() > 1 ? "files" : "file ", info.path);
  if (!info.title.empty()) out += fmt::format("title     {}\n", info.title);
  out += fmt::format("shape     {}\n", shape_text(info));
  if (!info.node_lat.empty())
    out += fmt::format("latitude  {}\nlongitude {}\n", range_text(info.node_lat), range_text(info.node_lon));
  out += time_lines(info);
  if (info.has_edges)
    out += fmt::format("edges     {} ({:.3g} a node)\n", info.edges,
                       static_cast<double>(info.edges) / static_cast<double>(info.file_nodes));
  else
    out += "edges     none\n";
  if (const std::vector<std::string> names = node_variables(info); !names.empty())
    out += fmt::format("static    {}: one value for each node (data.static)\n", fmt::join(names, ", "));
  return out;
}

std::string variable_text(const SeriesFile& file) {
  const SeriesInfo& info = file.info();
  const Summary s = summarise(file);
  std::string out = "\n" + variable_lines(info.variables.front(), s.values, "all values");
  if (s.values.suspects().any())
    out += fmt::format(
        "suspect   {}: if such a number marks missing values, name it with _FillValue or --null-value\n",
        s.values.suspects().text());
  const Index never = info.file_nodes - s.nodes_observed;
  out += fmt::format("nodes     {} observed, {} never\n", s.nodes_observed, never);
  out += "memory    per rank, for the float32 series of the observed nodes:";
  for (const Index ranks : {1, 2, 4, 8, 16})
    out += fmt::format("{} {} with {}{}", ranks == 1 ? "" : ",",
                       bytes_text(info.bytes((s.nodes_observed + ranks - 1) / ranks)), ranks,
                       ranks == 1 ? " rank" : "");
  return out + "\n";
}

/// Describes a file with a graph and no series, as written by `rossby data graph`.
std::string graph_text(const std::string& path) {
  const GraphFile graph = GraphFile::open(path);
  const auto edges = graph.edges(0, graph.size());
  double low = std::numeric_limits<double>::infinity(), high = -low;
  Index loops = 0;
  for (const FileEdge& e : edges) {
    low = std::min(low, e.weight);
    high = std::max(high, e.weight);
    loops += e.source == e.destination;
  }
  std::string out = fmt::format("file      {}\n", path);
  out += graph.nodes() < 0 ? "nodes     not stated\n" : fmt::format("nodes     {}\n", graph.nodes());
  out += fmt::format("edges     {}, {} of them self-loops\n", edges.size(), loops);
  if (!edges.empty()) out += fmt::format("weights   {:.6g} to {:.6g}\n", low, high);
  if (const std::string meaning = graph.meaning(); !meaning.empty())
    out += fmt::format("meaning   {}\n", meaning);
  return out;
}

}  // namespace

std::string time_lines(const SeriesInfo& info) {
  const TimeAxis& time = info.time;
  std::string out = fmt::format("time      {} to {}, {} step{}, step {}{}\n", time.text(0),
                                time.text(time.size() - 1), time.size(), time.size() == 1 ? "" : "s",
                                time.step_text(), time.regular() ? "" : ", not regular");
  Index missing = 0;
  for (const auto& gap : time.gaps()) missing += gap.missing;
  out += time.gaps().empty()
             ? "gaps      none\n"
             : fmt::format("gaps      {}, {} steps missing in all\n", time.gaps().size(), missing);
  if (info.filled_steps > 0)
    out += fmt::format("filled    {} gaps of the file, {} steps of missing values in all (data.fill_steps)\n",
                       info.filled_gaps, info.filled_steps);
  constexpr std::size_t shown = 3;
  for (std::size_t g = 0; g < std::min(shown, time.gaps().size()); ++g)
    out += fmt::format("            {} to {}: {} steps missing\n", time.text(time.gaps()[g].after),
                       time.text(time.gaps()[g].after + 1), time.gaps()[g].missing);
  if (time.gaps().size() > shown) out += fmt::format("            and {} more\n", time.gaps().size() - shown);
  return out;
}

void ValueSummary::look_at(double value) {
  sums_[0] += 1;
  if (std::isnan(value)) return suspects_.look_at(static_cast<float>(value));
  sums_[1] += 1;
  sums_[2] += value;
  extremes_[0] = std::max(extremes_[0], -value);
  extremes_[1] = std::max(extremes_[1], value);
  suspects_.look_at(static_cast<float>(value));
}

std::string variable_lines(const SeriesVariable& variable, const ValueSummary& summary, std::string_view of,
                           std::string_view role) {
  std::string out = fmt::format("variable  {}{}{}\n", variable.name,
                                variable.long_name.empty() ? "" : ": " + variable.long_name,
                                role.empty() ? "" : fmt::format(" ({})", role));
  out += fmt::format("units     {}\n", variable.units.empty() ? "not stated" : variable.units);
  if (summary.finite() > 0) {
    const double low = summary.low(), high = summary.high();
    int digits = 6;  // enough to show small variations on a large offset
    while (digits < 15 && low < high &&
           fmt::format("{:.{}g}", low, digits - 2) == fmt::format("{:.{}g}", high, digits - 2))
      ++digits;
    out += fmt::format("values    {:.{}g} to {:.{}g}, mean {:.{}g}\n", low, digits, high, digits,
                       summary.mean(), digits);
  }
  if (summary.values() > 0)
    out += fmt::format("missing   {:.2f} % of {}\n",
                       100 * (summary.values() - summary.finite()) / summary.values(), of);
  return out;
}

std::string remark_lines(const SeriesInfo& info) {
  std::string out;
  for (const std::string& remark : info.remarks) out += fmt::format("remark    {}\n", remark);
  return out;
}

std::string why_no_coordinates(const SeriesInfo& info) {
  std::string out;
  for (const std::string& remark : info.remarks)
    if (remark.find("coordinates are not used") != std::string::npos) out += "; " + remark;
  return out;
}

std::string inspect_series(const std::string& path, std::span<const std::string> variables,
                           std::optional<double> null_value) {
  return inspect_series(std::span(&path, 1), variables, null_value);
}

std::string inspect_series(std::span<const std::string> entries, std::span<const std::string> variables,
                           std::optional<double> null_value) {
  const std::vector<std::string> files = series_names(entries);
  const std::string& path = files.front();
  std::vector<std::string> names(variables.begin(), variables.end());
  if (names.empty()) names = SeriesFile::candidates(path);
  if (names.empty() && files.size() == 1 && holds_edges(path)) return graph_text(path);
  if (names.empty()) (void)SeriesFile::open(files, {});  // throws with the reason why nothing fits
  std::string out;
  for (const std::string& name : names) {
    const SeriesFile file = SeriesFile::open(files, std::span(&name, 1), 0, -1, null_value);
    if (out.empty()) out = file_text(file.info());
    out += variable_text(file);
    const std::string remarks = remark_lines(file.info());
    if (out.find(remarks) == std::string::npos) out += remarks;
  }
  return out;
}

}  // namespace rossby
