// One file of a series: its contents and its values.
#include "rossby/io/series_part.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/array_file.hpp"
#include "rossby/io/dated_numbers.hpp"
#include "rossby/io/graph_file.hpp"
#include "rossby/io/hyperslabs.hpp"
#include "rossby/io/series_coordinates.hpp"

namespace rossby::detail {
namespace {

/// Values read in one piece: 1 MiB of float32. Larger pieces would dominate the memory of a rank in a small
/// training.
constexpr Index piece_values = Index{1} << 18;
constexpr Index largest_chunk_cache = Index{512} << 20;

/// Adds a line if neighbouring rows or columns of a grid are not neighbours on the Earth.
void remark_on_order(const std::string& name, const std::vector<double>& axis, bool turns,
                     std::vector<std::string>& remarks) {
  const auto way = [&](std::size_t k) {
    const double step = axis[k] - axis[k - 1];
    return turns ? std::remainder(step, 360.0) : step;
  };
  for (std::size_t k = 1; k < axis.size(); ++k) {
    if (way(k) * way(1) > 0 || std::isnan(way(k))) continue;
    remarks.push_back(
        fmt::format("warning: {} is not monotonic ({:.6g} is followed by {:.6g}), so that neighbours in the "
                    "file are not neighbours on the Earth. Sort the data with ds.sortby(\"{}\") of xarray",
                    name, axis[k - 1], axis[k], name));
    return;
  }
}

void read_grid(const ArrayFile& file, const VariableLayout& layout, SeriesInfo& info, bool all_nodes) {
  info.n_lat = layout.length(layout.row);
  info.n_lon = layout.length(layout.column);
  const auto axis = [&](int dimension) {
    const NetcdfVariable* v = coordinate(file, layout.dimension(dimension));
    return v == nullptr ? std::vector<double>{} : read_degrees(file, *v, info.remarks);
  };
  info.lat = axis(layout.row);
  info.lon = axis(layout.column);
  if (!info.lat.empty()) remark_on_order(info.row_name, info.lat, false, info.remarks);
  if (!info.lon.empty()) remark_on_order(info.column_name, info.lon, true, info.remarks);
  if (info.lat.empty() || info.lon.empty() || !all_nodes) return;
  check_memory(info.n_lat * info.n_lon, 16, info.path + ": its node coordinates");
  for (const double lat : info.lat)
    for (const double lon : info.lon) {
      info.node_lat.push_back(lat);
      info.node_lon.push_back(lon);
    }
}

std::vector<NodeRun> runs_of(const Rectangle& rectangle) {
  std::vector<NodeRun> runs;
  for (const auto& [position, cell] : rectangle.nodes)
    if (!runs.empty() && runs.back().position + runs.back().count == position &&
        runs.back().cell + runs.back().count == cell)
      ++runs.back().count;
    else
      runs.push_back({position, cell, 1});
  return runs;
}

}  // namespace

SeriesPart SeriesPart::open(const std::string& path, std::span<const std::string> variables,
                            std::optional<double> null_value) {
  SeriesPart part;
  part.file_ = ArrayFile::open(path);
  part.layouts_ = choose(*part.file_, {variables.begin(), variables.end()});
  part.cached_.resize(part.layouts_.size());
  for (const std::string& left_out : part.file_->unreadable())
    part.remarks_.push_back("not read: " + left_out);
  for (const VariableLayout& layout : part.layouts_) {
    part.file_->check_claim(*layout.variable);
    part.features_ += layout.features;
    if (std::string remark = part.file_->remark(*layout.variable); !remark.empty())
      part.remarks_.push_back(std::move(remark));
    part.decoders_.emplace_back(*part.file_, *layout.variable, null_value, part.remarks_);
  }
  return part;
}

SeriesPart::Contents SeriesPart::describe(bool all_nodes) const {
  const ArrayFile& file = *file_;
  const VariableLayout& layout = layouts_.front();
  Contents contents;
  SeriesInfo& info = contents.info;
  info.path = file.path();
  info.title = file.title("title").value_or("");
  info.features = features_;
  info.remarks = remarks_;
  info.finer = finer_than_float();
  for (const VariableLayout& l : layouts_) {
    const NetcdfVariable& v = *l.variable;
    info.variables.push_back({v.name, file.text(v, "units").value_or(""),
                              file.text(v, "long_name").value_or(""),
                              file.text(v, "standard_name").value_or(""), l.features});
    if (l.feature >= 0) {
      SeriesVariable& variable = info.variables.back();
      variable.feature_name = l.dimension(l.feature).name;
      std::string coordinate;
      variable.feature_labels = labels_of(file, l.dimension(l.feature), coordinate);
      if (coordinate != variable.feature_name) variable.feature_labels.clear();
    }
  }
  contents.stamps = read_stamps(file, layout, info.remarks);
  contents.time = contents.stamps.axis();
  if (std::string years = doubt_of_years(contents.stamps.values, contents.stamps.units, contents.time,
                                         contents.stamps.origin);
      !years.empty())
    info.remarks.push_back(fmt::format("{}: {}", contents.stamps.variable, years));
  if (const std::string& guess = contents.time.remark(); !guess.empty())
    info.remarks.push_back(fmt::format("{}: {}", contents.stamps.variable, guess));
  info.gridded = layout.gridded;
  info.time_name = layout.dimension(layout.time).name;
  info.column_name = layout.dimension(layout.column).name;
  if (layout.row >= 0) info.row_name = layout.dimension(layout.row).name;
  info.file_nodes = layout.length(layout.row) * layout.length(layout.column);
  if (info.file_nodes == 0)
    user_error("{}: variable {} has no nodes. Choose a file with at least one node", info.path,
               layout.variable->name);
  if (info.features == 0)
    user_error("{}: variable {} has no features. Choose a variable with at least one feature", info.path,
               layout.variable->name);
  describe_nodes(info, all_nodes);
  const Index edges = count_edges(file);
  info.has_edges = edges >= 0;
  info.edges = std::max<Index>(edges, 0);
  return contents;
}

void SeriesPart::describe_nodes(SeriesInfo& info, bool all_nodes) const {
  const ArrayFile& file = *file_;
  const VariableLayout& layout = layouts_.front();
  if (layout.gridded) {
    read_grid(file, layout, info, all_nodes);
    return;
  }
  if (layout.latitude != nullptr) {
    info.curvilinear = true;
    info.n_lat = layout.length(layout.row);
    info.n_lon = layout.length(layout.column);
    info.lat_name = layout.latitude->name;
    info.lon_name = layout.longitude->name;
    info.node_lat = read_degrees(file, *layout.latitude, info.remarks);
    info.node_lon = read_degrees(file, *layout.longitude, info.remarks);
  } else {
    info.node_lat = node_coordinate(file, layout, is_latitude, info.lat_name, info.remarks);
    info.node_lon = node_coordinate(file, layout, is_longitude, info.lon_name, info.remarks);
    info.node_labels = labels_of(file, layout.dimension(layout.column), info.label_name);
  }
  if (info.node_lat.empty() || info.node_lon.empty()) info.node_lat = info.node_lon = {};
}

void SeriesPart::convert(std::span<const UnitConversion> conversions) {
  for (std::size_t v = 0; v < conversions.size(); ++v) decoders_[v].convert(conversions[v]);
}

void SeriesPart::pause() noexcept {
  file_->pause();
  std::fill(cached_.begin(), cached_.end(), 0);
}

bool SeriesPart::finer_than_float() const {
  return std::any_of(decoders_.begin(), decoders_.end(),
                     [](const Decoder& decoder) { return decoder.finer_than_float(); });
}

template <class Raw, class Out>
void SeriesPart::read_rectangle(std::size_t v, Index feature_offset, std::size_t number,
                                const ReadRequest<Out>& request) const {
  const Rectangle& rectangle = request.scratch->rectangles[number];
  const VariableLayout& layout = layouts_[v];
  const NetcdfVariable& variable = *layout.variable;
  const Index m = layout.features, plane = rectangle.area() * m;
  const auto nodes = static_cast<Index>(request.nodes.size());
  const std::vector<Index> chunk = file_->chunks(variable);
  Index block = std::clamp<Index>(piece_values / std::max<Index>(plane, 1), 1, request.count);
  const auto time = static_cast<std::size_t>(layout.time);
  if (!chunk.empty() && block > chunk[time]) block -= block % chunk[time];
  check_memory(block * plane, sizeof(Raw),
               fmt::format("{}: a piece of variable {}", file_->path(), variable.name));
  std::vector<Index> start(variable.dimensions.size(), 0), length(variable.dimensions.size(), 1);
  if (layout.row >= 0) {
    start[static_cast<std::size_t>(layout.row)] = rectangle.row;
    length[static_cast<std::size_t>(layout.row)] = rectangle.rows;
  }
  start[static_cast<std::size_t>(layout.column)] = rectangle.column;
  length[static_cast<std::size_t>(layout.column)] = rectangle.columns;
  if (layout.feature >= 0) length[static_cast<std::size_t>(layout.feature)] = m;
  if (!chunk.empty()) {  // keep all chunks of one time span decompressed while its steps are read
    Index bytes = sizeof(Raw);
    for (std::size_t d = 0; d < chunk.size(); ++d) {
      const Index c = std::max<Index>(chunk[d], 1);
      const Index touched = d == time ? 1 : (start[d] + length[d] - 1) / c - start[d] / c + 1;
      bytes = std::min(largest_chunk_cache, bytes * std::min(c, largest_chunk_cache) * touched);
    }
    if (Index& kept = cached_[v]; kept < bytes) {  // setting it drops cached chunks
      kept = bytes;
      file_->cache_chunks(variable, bytes);
    }
  }
  const Decoder& decoder = decoders_[v];
  const bool nodes_first = layout.time > layout.column;  // (node, time[, feature])
  std::optional<std::vector<float>> marks;
  if (std::is_same_v<Raw, float> && std::is_same_v<Out, float> && request.centers.empty() && !nodes_first &&
      m == features_)
    marks = decoder.marks_alone();
  const std::vector<NodeRun>& runs = request.scratch->runs[number];
  // All of the rectangle's cells are wanted in their order, so it is read in place.
  bool in_place = false;
  if constexpr (std::is_same_v<Raw, Out>)
    in_place = marks && runs.size() == 1 && runs[0].count == rectangle.area() && runs[0].count == nodes;
  std::vector<Raw>& piece = request.scratch->template piece<Raw>();
  if (!in_place) piece.resize(std::max(piece.size(), static_cast<std::size_t>(block * plane)));
  for (Index t = 0; t < request.count; t += block) {
    const Index steps = std::min(block, request.count - t);
    start[time] = request.first + t;
    length[time] = steps;
    if constexpr (std::is_same_v<Raw, Out> && std::is_same_v<Out, float>)
      if (in_place) {
        float* here = request.out + t * plane;
        file_->read(variable, start, length, here);
        Decoder::read_row(here, steps * plane, *marks);
        continue;
      }
    file_->read(variable, start, length, piece.data());
    if constexpr (std::is_same_v<Raw, float> && std::is_same_v<Out, float>)
      if (marks) {
        for (Index s = 0; s < steps; ++s)
          for (const NodeRun& run : runs)
            Decoder::read_row(piece.data() + s * plane + run.cell * m, run.count * m, *marks,
                              request.out + ((t + s) * nodes + run.position) * m);
        continue;
      }
    for (Index s = 0; s < steps; ++s)
      for (const auto& [position, cell] : rectangle.nodes)
        for (Index f = 0; f < m; ++f) {
          const Index place = (nodes_first ? (cell * steps + s) * m : s * plane + cell * m) + f;
          const Index at = position * features_ + feature_offset + f;
          const double center = request.centers.empty() ? 0 : request.centers[static_cast<std::size_t>(at)];
          const Raw raw = piece[static_cast<std::size_t>(place)];
          request.out[(t + s) * nodes * features_ + at] = static_cast<Out>(
              std::is_same_v<Out, float> ? decoder.value(raw, center) : decoder.number(raw) - center);
        }
  }
}

void SeriesPart::cover_nodes(const VariableLayout& layout, std::span<const Index> nodes,
                             ReadScratch& scratch) const {
  const std::vector<Index> chunk = file_->chunks(*layout.variable);
  // Cells of a chunk are decompressed together, wanted or not.
  Index free_cells = 64;
  if (!chunk.empty())
    free_cells = std::max(free_cells, chunk[static_cast<std::size_t>(layout.column)] *
                                          (layout.row < 0 ? 1 : chunk[static_cast<std::size_t>(layout.row)]));
  const Index columns = layout.length(layout.column);
  if (scratch.columns == columns && scratch.free_cells == free_cells) return;
  std::vector<Index> order, ascending;  // used if the nodes do not ascend
  if (!std::is_sorted(nodes.begin(), nodes.end())) {
    order.resize(nodes.size());
    std::iota(order.begin(), order.end(), Index{0});
    const auto node = [&](Index k) { return nodes[static_cast<std::size_t>(k)]; };
    std::sort(order.begin(), order.end(), [&](Index a, Index b) { return node(a) < node(b); });
    for (const Index k : order) ascending.push_back(node(k));
  }
  scratch.rectangles = cover(order.empty() ? nodes : std::span<const Index>(ascending), columns, free_cells);
  scratch.columns = columns;
  scratch.free_cells = free_cells;
  scratch.runs.clear();
  for (Rectangle& rectangle : scratch.rectangles) {
    if (!order.empty())
      for (auto& node : rectangle.nodes) node.position = order[static_cast<std::size_t>(node.position)];
    scratch.runs.push_back(runs_of(rectangle));
  }
}

template <class Out>
void SeriesPart::read_variable(std::size_t v, Index feature_offset, const ReadRequest<Out>& request) const {
  const VariableLayout& layout = layouts_[v];
  cover_nodes(layout, request.nodes, *request.scratch);
  for (std::size_t r = 0; r < request.scratch->rectangles.size(); ++r)
    if (layout.variable->type == NetcdfType::float32)
      read_rectangle<float>(v, feature_offset, r, request);
    else
      read_rectangle<double>(v, feature_offset, r, request);
}

template <class Out>
void SeriesPart::read_steps(const ReadRequest<Out>& request) const {
  if (request.nodes.empty() || request.count == 0) return;
  Index feature_offset = 0;
  for (std::size_t v = 0; v < layouts_.size(); ++v) {
    read_variable(v, feature_offset, request);
    feature_offset += layouts_[v].features;
  }
}
template void SeriesPart::read_steps(const ReadRequest<float>&) const;
template void SeriesPart::read_steps(const ReadRequest<double>&) const;

}  // namespace rossby::detail
