#include "rossby/io/series_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/io/hyperslabs.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_coordinates.hpp"
#include "rossby/io/series_decoder.hpp"
#include "rossby/io/series_layout.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

using detail::Decoder;
using detail::Rectangle;
using detail::VariableLayout;

/// Values that are read in one piece: 1 MiB of float32. Larger ones would be most of what a rank of a small
/// training ever takes.
constexpr Index piece_values = Index{1} << 18;
/// Values that are looked through at once for the observed ones.
constexpr Index observed_values = Index{1} << 22;
constexpr Index largest_chunk_cache = Index{512} << 20;

void read_grid(const NetcdfFile& file, const VariableLayout& layout, SeriesInfo& info) {
  info.n_lat = layout.length(layout.row);
  info.n_lon = layout.length(layout.column);
  const auto axis = [&](int dimension) {
    const NetcdfVariable* v = detail::coordinate(file, layout.dimension(dimension));
    return v == nullptr ? std::vector<double>{} : detail::read_degrees(file, *v, info.remarks);
  };
  info.lat = axis(layout.row);
  info.lon = axis(layout.column);
  if (info.lat.empty() || info.lon.empty()) return;
  check_memory(info.n_lat * info.n_lon, 16, info.path + ": its node coordinates");
  for (const double lat : info.lat)
    for (const double lon : info.lon) {
      info.node_lat.push_back(lat);
      info.node_lon.push_back(lon);
    }
}

/// What is read: (count, nodes, m) into `out`, `centers` (nodes, m) subtracted before a value becomes an Out.
template <class Out>
struct Request {
  std::span<const Index> nodes;
  Index first = 0, count = 0;
  std::span<const double> centers;  // empty: none
  Out* out = nullptr;
};

}  // namespace

struct SeriesFile::State {
  NetcdfFile file;
  SeriesInfo info;
  std::vector<VariableLayout> layouts;
  std::vector<Decoder> decoders;
  std::optional<double> null_value;
  std::vector<Index>
      present;  // of filled gaps: which step in use a step was, or -1; empty: nothing is filled
  mutable std::vector<Index> cached;  // bytes of decompressed chunks that are kept, by layout

  explicit State(NetcdfFile&& f) : file(std::move(f)) {}
  void describe(Index first_step, Index last_step);
  void fill_gaps();
  template <class Out>
  void read_steps(const Request<Out>& request) const;
  template <class Out>
  void read_present(const Request<Out>& request) const;
  template <class Out>
  void read_variable(std::size_t v, Index feature_offset, const Request<Out>& request) const;
  template <class Raw, class Out>
  void read_rectangle(std::size_t v, Index feature_offset, const Rectangle& rectangle,
                      const Request<Out>& request) const;
};

void SeriesFile::State::describe(Index first_step, Index last_step) {
  cached.resize(layouts.size());
  info.path = file.path();
  info.title = file.title("title").value_or("");
  const VariableLayout& layout = layouts.front();
  for (const VariableLayout& l : layouts) {
    const NetcdfVariable& v = *l.variable;
    file.check_claim(v);
    info.variables.push_back({v.name, file.text(v, "units").value_or(""),
                              file.text(v, "long_name").value_or(""),
                              file.text(v, "standard_name").value_or(""), l.features});
    if (l.feature >= 0) {
      SeriesVariable& variable = info.variables.back();
      variable.feature_name = l.dimension(l.feature).name;
      std::string coordinate;
      variable.feature_labels = detail::labels_of(file, l.dimension(l.feature), coordinate);
      if (coordinate != variable.feature_name) variable.feature_labels.clear();
    }
    info.features += l.features;
    decoders.emplace_back(file, v, null_value, info.remarks);
  }
  const TimeAxis time = detail::read_time(file, layout, info.remarks);
  info.all_steps = time.size();
  const Index last = last_step == -1 ? time.size() : last_step;
  if (first_step < 0 || last > time.size() || first_step >= last)
    user_error("{}: steps {} to {} are not in it: it has {} (data.first_step, data.last_step)", info.path,
               first_step, last_step == -1 ? "its end" : std::to_string(last_step), time.size());
  info.first_step = first_step;
  info.steps = last - first_step;
  info.time = time.slice(first_step, info.steps);
  info.gridded = layout.gridded;
  info.time_name = layout.dimension(layout.time).name;
  info.column_name = layout.dimension(layout.column).name;
  if (layout.row >= 0) info.row_name = layout.dimension(layout.row).name;
  info.file_nodes = layout.length(layout.row) * layout.length(layout.column);
  if (info.file_nodes == 0) user_error("{}: variable {} has no nodes", info.path, layout.variable->name);
  if (info.features == 0) user_error("{}: variable {} has no features", info.path, layout.variable->name);
  if (layout.gridded) {
    read_grid(file, layout, info);
  } else if (layout.latitude != nullptr) {
    info.curvilinear = true;
    info.n_lat = layout.length(layout.row);
    info.n_lon = layout.length(layout.column);
    info.lat_name = layout.latitude->name;
    info.lon_name = layout.longitude->name;
    info.node_lat = detail::read_degrees(file, *layout.latitude, info.remarks);
    info.node_lon = detail::read_degrees(file, *layout.longitude, info.remarks);
    if (info.node_lat.empty() || info.node_lon.empty()) info.node_lat = info.node_lon = {};
  } else {
    info.node_lat = detail::node_coordinate(file, layout, detail::is_latitude, info.lat_name, info.remarks);
    info.node_lon = detail::node_coordinate(file, layout, detail::is_longitude, info.lon_name, info.remarks);
    if (info.node_lat.empty() || info.node_lon.empty()) info.node_lat = info.node_lon = {};
    info.node_labels = detail::labels_of(file, layout.dimension(layout.column), info.label_name);
  }
  const Index edges = detail::count_edges(file);
  info.has_edges = edges >= 0;
  info.edges = std::max<Index>(edges, 0);
}

void SeriesFile::State::fill_gaps() {
  if (info.time.regular() && info.time.gaps().empty()) return;
  info.filled_gaps = std::ssize(info.time.gaps());
  info.time = info.time.filled(present);
  info.filled_steps = std::exchange(info.steps, info.time.size());
  info.filled_steps = info.steps - info.filled_steps;
}

std::string units_of(const SeriesInfo& info) {
  const std::string& units = info.variables.front().units;
  for (const SeriesVariable& variable : info.variables)
    if (variable.units != units) return "mixed";
  return units.empty() ? "1" : units;
}

std::optional<double> parse_null_value(std::string_view text) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    user_error(
        "\"{}\" is no null value: a finite number is right, such as \"0\" or \"-999\"; empty: none "
        "(data.null_value)",
        text);
  return value;
}

SeriesFile::SeriesFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
SeriesFile::SeriesFile(SeriesFile&&) noexcept = default;
SeriesFile& SeriesFile::operator=(SeriesFile&&) noexcept = default;
SeriesFile::~SeriesFile() = default;

SeriesFile SeriesFile::open(const std::string& path, std::span<const std::string> variables, Index first_step,
                            Index last_step, std::optional<double> null_value, bool fill_steps) {
  if (path.empty()) user_error("no data file is given (data.file)");
  auto state = std::make_unique<State>(NetcdfFile::open(path));
  state->null_value = null_value;
  state->layouts = detail::choose(state->file, {variables.begin(), variables.end()});
  state->describe(first_step, last_step);
  if (fill_steps) state->fill_gaps();
  return SeriesFile(std::move(state));
}

std::vector<std::string> SeriesFile::candidates(const std::string& path) {
  const NetcdfFile file = NetcdfFile::open(path);
  std::vector<std::string> names;
  for (const VariableLayout& layout : detail::fitting(file)) names.push_back(layout.variable->name);
  return names;
}

const SeriesInfo& SeriesFile::info() const {
  return state_->info;
}

template <class Raw, class Out>
void SeriesFile::State::read_rectangle(std::size_t v, Index feature_offset, const Rectangle& rectangle,
                                       const Request<Out>& request) const {
  const VariableLayout& layout = layouts[v];
  const NetcdfVariable& variable = *layout.variable;
  const Index m = layout.features, plane = rectangle.area() * m;
  const auto nodes = static_cast<Index>(request.nodes.size());
  const std::vector<Index> chunk = file.chunks(variable);
  Index block = std::clamp<Index>(piece_values / std::max<Index>(plane, 1), 1, request.count);
  const auto time = static_cast<std::size_t>(layout.time);
  if (!chunk.empty() && block > chunk[time]) block -= block % chunk[time];
  check_memory(block * plane, sizeof(Raw),
               fmt::format("{}: a piece of variable {}", info.path, variable.name));
  std::vector<Raw> piece(static_cast<std::size_t>(block * plane));
  std::vector<Index> start(variable.dimensions.size(), 0), length(variable.dimensions.size(), 1);
  if (layout.row >= 0) {
    start[static_cast<std::size_t>(layout.row)] = rectangle.row;
    length[static_cast<std::size_t>(layout.row)] = rectangle.rows;
  }
  start[static_cast<std::size_t>(layout.column)] = rectangle.column;
  length[static_cast<std::size_t>(layout.column)] = rectangle.columns;
  if (layout.feature >= 0) length[static_cast<std::size_t>(layout.feature)] = m;
  if (!chunk.empty()) {  // all chunks of one span of time stay decompressed while its steps are read
    Index bytes = sizeof(Raw);
    for (std::size_t d = 0; d < chunk.size(); ++d) {
      const Index c = std::max<Index>(chunk[d], 1);
      const Index touched = d == time ? 1 : (start[d] + length[d] - 1) / c - start[d] / c + 1;
      bytes = std::min(largest_chunk_cache, bytes * std::min(c, largest_chunk_cache) * touched);
    }
    if (Index& kept = cached[v]; kept < bytes) {  // setting it forgets what it holds
      kept = bytes;
      file.cache_chunks(variable, bytes);
    }
  }
  const Decoder& decoder = decoders[v];
  for (Index t = 0; t < request.count; t += block) {
    const Index steps = std::min(block, request.count - t);
    start[time] = info.first_step + request.first + t;
    length[time] = steps;
    file.read(variable, start, length, piece.data());
    const bool nodes_first = layout.time > layout.column;  // (node, time[, feature])
    for (Index s = 0; s < steps; ++s)
      for (const auto& [position, cell] : rectangle.nodes)
        for (Index f = 0; f < m; ++f) {
          const Index place = (nodes_first ? (cell * steps + s) * m : s * plane + cell * m) + f;
          const Index at = position * info.features + feature_offset + f;
          const double center = request.centers.empty() ? 0 : request.centers[static_cast<std::size_t>(at)];
          const Raw raw = piece[static_cast<std::size_t>(place)];
          request.out[(t + s) * nodes * info.features + at] = static_cast<Out>(
              std::is_same_v<Out, float> ? decoder.value(raw, center) : decoder.number(raw) - center);
        }
  }
}

template <class Out>
void SeriesFile::State::read_variable(std::size_t v, Index feature_offset,
                                      const Request<Out>& request) const {
  const VariableLayout& layout = layouts[v];
  const std::span<const Index> nodes = request.nodes;
  const std::vector<Index> chunk = file.chunks(*layout.variable);
  // Cells of a chunk are decompressed together, wanted or not.
  Index free_cells = 64;
  if (!chunk.empty())
    free_cells = std::max(free_cells, chunk[static_cast<std::size_t>(layout.column)] *
                                          (layout.row < 0 ? 1 : chunk[static_cast<std::size_t>(layout.row)]));
  std::vector<Index> order, ascending;  // where the nodes do not ascend
  if (!std::is_sorted(nodes.begin(), nodes.end())) {
    order.resize(nodes.size());
    std::iota(order.begin(), order.end(), Index{0});
    const auto node = [&](Index k) { return nodes[static_cast<std::size_t>(k)]; };
    std::sort(order.begin(), order.end(), [&](Index a, Index b) { return node(a) < node(b); });
    for (const Index k : order) ascending.push_back(node(k));
  }
  for (Rectangle& rectangle : detail::cover(order.empty() ? nodes : std::span<const Index>(ascending),
                                            layout.length(layout.column), free_cells)) {
    if (!order.empty())
      for (auto& node : rectangle.nodes) node.position = order[static_cast<std::size_t>(node.position)];
    if (layout.variable->type == NetcdfType::float32)
      read_rectangle<float>(v, feature_offset, rectangle, request);
    else
      read_rectangle<double>(v, feature_offset, rectangle, request);
  }
}

template <class Out>
void SeriesFile::State::read_steps(const Request<Out>& request) const {
  require(request.first >= 0 && request.count >= 0 && request.first + request.count <= info.steps,
          "the steps are in use");
  if (request.nodes.empty() || request.count == 0) return;
  const auto [low, high] = std::minmax_element(request.nodes.begin(), request.nodes.end());
  require(*low >= 0 && *high < info.file_nodes, "the nodes are in the file");
  require(request.centers.empty() ||
              request.centers.size() == request.nodes.size() * static_cast<std::size_t>(info.features),
          "every node and feature has a center");
  if (present.empty()) return read_present(request);
  const Index width = static_cast<Index>(request.nodes.size()) * info.features;
  for (Index t = 0; t < request.count;) {  // stretches of steps that the file has, or has not
    const auto* step = present.data() + request.first + t;
    Index count = 1;
    while (t + count < request.count && (step[count] < 0) == (*step < 0)) ++count;
    Out* out = request.out + t * width;
    if (*step < 0)
      std::fill_n(out, count * width, std::numeric_limits<Out>::quiet_NaN());
    else
      read_present(Request<Out>{request.nodes, *step, count, request.centers, out});
    t += count;
  }
}

template <class Out>
void SeriesFile::State::read_present(const Request<Out>& request) const {
  Index feature_offset = 0;
  for (std::size_t v = 0; v < layouts.size(); ++v) {
    read_variable(v, feature_offset, request);
    feature_offset += layouts[v].features;
  }
}

void SeriesFile::read(std::span<const Index> file_nodes, float* out, std::span<const double> centers) const {
  read_steps(file_nodes, 0, state_->info.steps, out, centers);
}

void SeriesFile::read_steps(std::span<const Index> file_nodes, Index first, Index count, float* out,
                            std::span<const double> centers) const {
  state_->read_steps(Request<float>{file_nodes, first, count, centers, out});
}

void SeriesFile::read_numbers(std::span<const Index> file_nodes, Index first, Index count,
                              double* out) const {
  state_->read_steps(Request<double>{file_nodes, first, count, {}, out});
}

bool SeriesFile::finer_than_float() const {
  return std::any_of(state_->decoders.begin(), state_->decoders.end(),
                     [](const Decoder& decoder) { return decoder.finer_than_float(); });
}

std::vector<std::uint8_t> SeriesFile::observed(Index first, Index count) const {
  const SeriesInfo& series = state_->info;
  require(first >= 0 && count >= 0 && first + count <= series.file_nodes, "the nodes are in the file");
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(count), 0);
  const Index part = std::min<Index>(count, Index{1} << 22);
  for (Index begin = 0; begin < count; begin += part) {
    std::vector<Index> nodes(static_cast<std::size_t>(std::min(part, count - begin)));
    std::iota(nodes.begin(), nodes.end(), first + begin);
    const auto n = static_cast<Index>(nodes.size());
    const Index most = std::clamp<Index>(observed_values / (n * series.features), 1, series.steps);
    Buffer<float> values(most * n * series.features);  // which goes back to the system
    Index unseen = n;                                  // mostly none after a few steps: pieces begin small
    for (Index t = 0, steps = std::min<Index>(most, 16); t < series.steps && unseen > 0;
         t += steps, steps = std::min(8 * steps, most)) {
      steps = std::min(steps, series.steps - t);
      read_steps(nodes, t, steps, values.data());
      for (Index k = 0; k < steps * n * series.features; ++k) {
        std::uint8_t& flag = seen[static_cast<std::size_t>(begin + k / series.features % n)];
        if (flag == 0 && !std::isnan(values[k])) {
          flag = 1;
          --unseen;
        }
      }
    }
  }
  return seen;
}

std::vector<FileEdge> SeriesFile::edges(Index first, Index count) const {
  const State& s = *state_;
  require(first >= 0 && count >= 0 && first + count <= s.info.edges, "the edges are in the file");
  return detail::read_edges(s.file, "edge_weight", first, count);
}

}  // namespace rossby
