#include "rossby/io/series_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "rossby/base/user_error.hpp"
#include "rossby/io/hyperslabs.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/series_layout.hpp"
#include "rossby/tensor/buffer.hpp"

namespace rossby {
namespace {

using detail::Rectangle;
using detail::VariableLayout;

/// Values that are read in one piece: 1 MiB of float32. Larger ones would be most of what a rank of a small
/// training ever takes.
constexpr Index piece_values = Index{1} << 18;
/// Values that are looked through at once for the observed ones.
constexpr Index observed_values = Index{1} << 22;
constexpr Index largest_chunk_cache = Index{512} << 20;

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

/// How raw values become float32 with NaN where missing.
struct Decoder {
  double scale = 1, offset = 0;
  bool packed = false, in_float = false;  // the arithmetic, which makes the zeros that were packed
  double wraps = 0;  // 2^bits of integers that _Unsigned says have no sign, −2^bits: have one; 0: as stored
  std::vector<double> missing;
  struct Range {
    double low = -std::numeric_limits<double>::infinity(), high = -low;
    [[nodiscard]] bool holds(double x, double tolerance = 0) const {
      return x >= low - tolerance && x <= high + tolerance;
    }
  };
  Range stored, scaled;        // that are valid, before and after scaling
  std::optional<double> null;  // after scaling

  Decoder(const NetcdfFile& file, const NetcdfVariable& variable, std::optional<double> null_value)
      : null(null_value) {
    const auto factor = file.number(variable, "scale_factor"), shift = file.number(variable, "add_offset");
    packed = factor || shift;
    in_float = packed && file.unpacks_to_float(variable);
    scale = factor.value_or(1);
    offset = shift.value_or(0);
    if (const int bits = file.bits_of_other_sign(variable); bits != 0)
      wraps = std::copysign(std::exp2(std::abs(bits)), bits);
    for (const char* name : {"_FillValue", "missing_value"})
      for (const double value : file.numbers(variable, name))
        if (!std::isnan(value)) missing.push_back(file.is_real(variable, name) ? value : with_sign(value));
    const bool real = variable.type == NetcdfType::float32 || variable.type == NetcdfType::float64;
    if (const auto fill = file.default_fill(variable); fill && !file.number(variable, "_FillValue"))
      missing.push_back(with_sign(*fill));
    // Of integers that stand for real numbers, a real bound is one of those: NetCDF User Guide, appendix A.
    const auto bound = [&](const char* name, std::size_t place, bool is_high) {
      const auto values = file.numbers(variable, name);
      if (place >= values.size()) return;
      Range& range = packed && !real && file.is_real(variable, name) ? scaled : stored;
      // In the type of the data: 1.1 of a double is no bound for 1.1 of a float.
      const double value = variable.type == NetcdfType::float32
                               ? static_cast<double>(static_cast<float>(values[place]))
                           : file.is_real(variable, name) ? values[place]
                                                          : with_sign(values[place]);
      if (!std::isnan(value)) (is_high ? range.high : range.low) = value;
    };
    if (file.numbers(variable, "valid_range").size() == 2) {
      bound("valid_range", 0, false);
      bound("valid_range", 1, true);
    }
    bound("valid_min", 0, false);
    bound("valid_max", 0, true);
  }

  /// An integer as its attribute _Unsigned wants it read (NetCDF User Guide, appendix A).
  [[nodiscard]] double with_sign(double value) const {
    const bool turns = wraps > 0 ? value < 0 : value >= -wraps / 2;
    return turns ? value + wraps : value;
  }

  template <class Raw>
  [[nodiscard]] float value(Raw raw) const {
    if (wraps != 0) raw = static_cast<Raw>(with_sign(static_cast<double>(raw)));
    for (const double m : missing)
      if (raw == static_cast<Raw>(m)) return nan_value;
    if (!stored.holds(static_cast<double>(raw))) return nan_value;
    const double exact = in_float ? static_cast<double>(in_floats(static_cast<float>(raw)))
                         : packed ? static_cast<double>(raw) * scale + offset
                                  : static_cast<double>(raw);
    const auto value = static_cast<float>(exact);
    if (!scaled.holds(exact, rounding())) return nan_value;
    return std::isfinite(value) && !is_null(value) ? value : nan_value;
  }

  [[nodiscard]] float in_floats(float raw) const {
    const float product = raw * static_cast<float>(scale);
    return product + static_cast<float>(offset);
  }
  /// Packed values are steps of `scale` apart: they are off by rounding where they mean the same.
  [[nodiscard]] double rounding() const { return packed ? 1e-3 * std::abs(scale) : 0; }
  [[nodiscard]] bool is_null(float value) const {
    if (!null) return false;
    if (value == static_cast<float>(*null)) return true;
    return packed && std::abs(static_cast<double>(value) - *null) <= rounding();
  }
};

/// Degrees, NaN where missing.
std::vector<double> read_degrees(const NetcdfFile& file, const NetcdfVariable& variable) {
  std::vector<double> values = file.read_all(variable);
  std::vector<double> missing = file.numbers(variable, "_FillValue");
  for (const double mark : file.numbers(variable, "missing_value")) missing.push_back(mark);
  if (const auto fill = file.default_fill(variable); fill && missing.empty()) missing.push_back(*fill);
  const auto scale = file.number(variable, "scale_factor"), offset = file.number(variable, "add_offset");
  if (scale || offset)  // as the values are
    for (double& mark : missing) mark = mark * scale.value_or(1) + offset.value_or(0);
  for (double& value : values)
    if (std::abs(value) > 1e6 || std::find(missing.begin(), missing.end(), value) != missing.end())
      value = nan_value;
  return values;
}

/// Latitude or longitude of sensors: what the variable's `coordinates` names and its units tell, or what is
/// called `name`, which becomes the variable's.
std::vector<double> node_coordinate(const NetcdfFile& file, const VariableLayout& layout,
                                    bool is_kind(const NetcdfFile&, const NetcdfVariable&),
                                    std::string& name) {
  const auto& dimension = layout.dimension(layout.column);
  std::istringstream names(file.text(*layout.variable, "coordinates").value_or("") + " " + name);
  for (std::string other; names >> other;) {
    const NetcdfVariable* v = file.find(other);
    if (v == nullptr || v->type == NetcdfType::text || v->dimensions.size() != 1 ||
        v->dimensions[0].name != dimension.name)
      continue;
    if (!is_kind(file, *v) && other != name) continue;
    name = other;
    return read_degrees(file, *v);
  }
  return {};
}

/// What a dimension's elements are called, by its coordinate or a variable that says it identifies them
/// (CF-1.8, chapter 9.5: cf_role), whose name is then in `variable`. None where there are no names.
std::vector<std::string> labels_of(const NetcdfFile& file, const NetcdfDimension& dimension,
                                   std::string& variable) {
  for (const NetcdfVariable& v : file.variables()) {
    const bool text = v.type == NetcdfType::text;
    if (v.dimensions.empty() || v.dimensions[0].name != dimension.name ||
        v.dimensions.size() > (text ? 2 : 1) ||
        (v.name != dimension.name && file.text(v, "cf_role") != "timeseries_id"))
      continue;
    if (v.type == NetcdfType::float32 || v.type == NetcdfType::float64) continue;
    try {
      std::vector<std::string> names = file.read_names(v);
      variable = v.name;
      return names;
    } catch (const UserError&) {  // of a type that is no name: the series is readable without
      return {};
    }
  }
  return {};
}

void read_grid(const NetcdfFile& file, const VariableLayout& layout, SeriesInfo& info) {
  info.n_lat = layout.length(layout.row);
  info.n_lon = layout.length(layout.column);
  const auto axis = [&](int dimension) {
    const NetcdfVariable* v = detail::coordinate(file, layout.dimension(dimension));
    return v == nullptr ? std::vector<double>{} : file.read_all(*v);
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

}  // namespace

struct SeriesFile::State {
  NetcdfFile file;
  SeriesInfo info;
  std::vector<VariableLayout> layouts;
  std::vector<Decoder> decoders;
  std::optional<double> null_value;
  mutable std::vector<Index> cached;  // bytes of decompressed chunks that are kept, by layout

  explicit State(NetcdfFile&& f) : file(std::move(f)) {}
  void describe(Index first_step, Index last_step);
  void read_variable(std::size_t v, Index feature_offset, std::span<const Index> nodes, Index first,
                     Index count, float* out) const;
  template <class Raw>
  void read_rectangle(std::size_t v, Index feature_offset, const Rectangle& rectangle, Index nodes,
                      Index first, Index count, float* out) const;
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
      variable.feature_labels = labels_of(file, l.dimension(l.feature), coordinate);
      if (coordinate != variable.feature_name) variable.feature_labels.clear();
    }
    info.features += l.features;
    decoders.emplace_back(file, v, null_value);
  }
  const TimeAxis time = detail::read_time(file, layout);
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
    info.node_lat = read_degrees(file, *layout.latitude);
    info.node_lon = read_degrees(file, *layout.longitude);
  } else {
    info.node_lat = node_coordinate(file, layout, detail::is_latitude, info.lat_name);
    info.node_lon = node_coordinate(file, layout, detail::is_longitude, info.lon_name);
    if (info.node_lat.empty() || info.node_lon.empty()) info.node_lat = info.node_lon = {};
    info.node_labels = labels_of(file, layout.dimension(layout.column), info.label_name);
  }
  const Index edges = detail::count_edges(file);
  info.has_edges = edges >= 0;
  info.edges = std::max<Index>(edges, 0);
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
                            Index last_step, std::optional<double> null_value) {
  if (path.empty()) user_error("no data file is given (data.file)");
  auto state = std::make_unique<State>(NetcdfFile::open(path));
  state->null_value = null_value;
  state->layouts = detail::choose(state->file, {variables.begin(), variables.end()});
  state->describe(first_step, last_step);
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

template <class Raw>
void SeriesFile::State::read_rectangle(std::size_t v, Index feature_offset, const Rectangle& rectangle,
                                       Index nodes, Index first, Index count, float* out) const {
  const VariableLayout& layout = layouts[v];
  const NetcdfVariable& variable = *layout.variable;
  const Index m = layout.features, plane = rectangle.area() * m;
  const std::vector<Index> chunk = file.chunks(variable);
  Index block = std::clamp<Index>(piece_values / std::max<Index>(plane, 1), 1, count);
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
  for (Index t = 0; t < count; t += block) {
    const Index steps = std::min(block, count - t);
    start[time] = info.first_step + first + t;
    length[time] = steps;
    file.read(variable, start, length, piece.data());
    for (Index s = 0; s < steps; ++s)
      for (const auto& [position, cell] : rectangle.nodes)
        for (Index f = 0; f < m; ++f)
          out[((t + s) * nodes + position) * info.features + feature_offset + f] =
              decoder.value(piece[static_cast<std::size_t>(s * plane + cell * m + f)]);
  }
}

void SeriesFile::State::read_variable(std::size_t v, Index feature_offset, std::span<const Index> nodes,
                                      Index first, Index count, float* out) const {
  const VariableLayout& layout = layouts[v];
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
    const auto n = static_cast<Index>(nodes.size());
    if (!order.empty())
      for (auto& node : rectangle.nodes) node.position = order[static_cast<std::size_t>(node.position)];
    if (layout.variable->type == NetcdfType::float32)
      read_rectangle<float>(v, feature_offset, rectangle, n, first, count, out);
    else
      read_rectangle<double>(v, feature_offset, rectangle, n, first, count, out);
  }
}

void SeriesFile::read(std::span<const Index> file_nodes, float* out) const {
  read_steps(file_nodes, 0, state_->info.steps, out);
}

void SeriesFile::read_steps(std::span<const Index> file_nodes, Index first, Index count, float* out) const {
  const SeriesInfo& series = state_->info;
  require(first >= 0 && count >= 0 && first + count <= series.steps, "the steps are in use");
  if (file_nodes.empty() || count == 0) return;
  const auto [low, high] = std::minmax_element(file_nodes.begin(), file_nodes.end());
  require(*low >= 0 && *high < series.file_nodes, "the nodes are in the file");
  Index feature_offset = 0;
  for (std::size_t v = 0; v < state_->layouts.size(); ++v) {
    state_->read_variable(v, feature_offset, file_nodes, first, count, out);
    feature_offset += state_->layouts[v].features;
  }
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
