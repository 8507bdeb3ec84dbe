#include "rossby/io/series_writer.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>

#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"

namespace rossby {
namespace {

constexpr Index chunk_values = Index{1} << 18;  // 1 MiB of float32
constexpr Index piece_values = Index{1} << 22;  // copied at once when features are taken apart

void check_layout(const SeriesLayout& layout, const std::string& path) {
  require(!layout.variables.empty(), "a series file has a variable");
  if (layout.gridded) {
    require(layout.nodes == static_cast<Index>(layout.lat.size() * layout.lon.size()),
            "a grid has |lat|·|lon| nodes");
    require(layout.land_mask.empty() || static_cast<Index>(layout.land_mask.size()) == layout.nodes,
            "the land mask has all nodes");
  } else {
    require(layout.rows == 0 || layout.nodes == layout.rows * layout.columns,
            "a grid has rows·columns nodes");
    require(layout.node_labels.empty() || static_cast<Index>(layout.node_labels.size()) == layout.nodes,
            "all nodes have labels, or none");
    for (const auto* list : {&layout.node_lat, &layout.node_lon})
      require(list->empty() || static_cast<Index>(list->size()) == layout.nodes,
              "coordinates have all nodes");
  }
  for (const auto& variable : layout.variables)
    require(!layout.planar() || variable.features == 1, "a grid variable has one feature");
  if (layout.time.size() == 0 || layout.nodes == 0)
    user_error("{}: a series of {} steps and {} nodes cannot be written; both have to be 1 or more", path,
               layout.time.size(), layout.nodes);
}

/// Names that the data gave to dimensions and coordinates, but for those that something else has: the usual
/// one then. A dimension called as a variable of more dimensions would be unreadable.
SeriesLayout with_own_names(SeriesLayout layout) {
  std::set<std::string> taken{
      "forecast_reference_time", "lead_time", "land_mask", "edge", "edge_src", "edge_dst", "edge_weight"};
  for (const SeriesVariable& variable : layout.variables) {
    taken.insert(variable.name);
    if (!layout.members.empty()) taken.insert({"realization", "member", variable.name + "_members"});
  }
  const auto take = [&](std::string& name, const char* usual) {
    if (taken.insert(name).second) return;
    name = usual;
    taken.insert(name);
  };
  take(layout.time_name, "time");
  if (layout.planar()) {
    take(layout.row_name, "lat");
    take(layout.column_name, "lon");
  } else {
    const bool labelled_by_dimension = layout.label_name == layout.node_name;
    take(layout.node_name, "node");
    if (labelled_by_dimension)
      layout.label_name = layout.node_name;
    else if (!layout.node_labels.empty() && !taken.insert(layout.label_name).second)
      layout.node_labels.clear();
  }
  if (!layout.node_lat.empty()) {
    take(layout.lat_name, "node_lat");
    take(layout.lon_name, "node_lon");
  }
  std::map<std::string, Index> features;  // dimensions of several variables
  for (SeriesVariable& variable : layout.variables) {
    if (variable.features == 1 || variable.feature_name.empty()) continue;
    const auto known = features.find(variable.feature_name);
    if (known != features.end() ? known->second == variable.features
                                : taken.insert(variable.feature_name).second)
      features[variable.feature_name] = variable.features;
    else
      variable.feature_name.clear(), variable.feature_labels.clear();
  }
  return layout;
}

}  // namespace

Index SeriesLayout::features() const {
  Index sum = 0;
  for (const auto& variable : variables) sum += variable.features;
  return sum;
}

SeriesLayout layout_of(const SeriesInfo& info) {
  SeriesLayout layout;
  layout.gridded = info.gridded;
  layout.nodes = info.file_nodes;
  layout.variables = info.variables;
  layout.time = info.time;
  layout.title = info.title;
  layout.time_name = info.time_name;
  layout.node_labels = info.node_labels;
  layout.label_name = info.label_name;
  if (!info.row_name.empty()) layout.row_name = info.row_name;
  (info.row_name.empty() ? layout.node_name : layout.column_name) = info.column_name;
  if (info.gridded) {
    layout.lat = info.lat;
    layout.lon = info.lon;
    // A grid without coordinate variables is numbered.
    for (Index i = static_cast<Index>(layout.lat.size()); i < info.n_lat; ++i)
      layout.lat.push_back(static_cast<double>(i));
    for (Index i = static_cast<Index>(layout.lon.size()); i < info.n_lon; ++i)
      layout.lon.push_back(static_cast<double>(i));
  } else {
    if (info.curvilinear) layout.rows = info.n_lat, layout.columns = info.n_lon;
    layout.node_lat = info.node_lat;
    layout.node_lon = info.node_lon;
    layout.lat_name = info.lat_name;
    layout.lon_name = info.lon_name;
  }
  return layout;
}

SeriesWriter::SeriesWriter(std::string path, std::string temporary, NetcdfFile file)
    : path_(std::move(path)), temporary_(std::move(temporary)), file_(std::move(file)) {}

SeriesWriter::SeriesWriter(SeriesWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::move(other.file_)),
      pending_(std::exchange(other.pending_, false)),
      planar_(other.planar_),
      steps_(other.steps_),
      written_(other.written_),
      nodes_(other.nodes_),
      features_(other.features_),
      members_(other.members_),
      n_rows_(other.n_rows_),
      n_columns_(other.n_columns_),
      columns_(std::move(other.columns_)) {}

SeriesWriter::~SeriesWriter() {
  if (pending_) ::unlink(temporary_.c_str());
}

SeriesWriter SeriesWriter::create(const std::string& path, const SeriesLayout& asked) {
  check_layout(asked, path);
  const SeriesLayout layout = with_own_names(asked);
  const std::string temporary = temporary_name(path);
  SeriesWriter writer(path, temporary, NetcdfFile::create(temporary, path));
  writer.steps_ = layout.time.size();
  writer.nodes_ = layout.nodes;
  writer.features_ = layout.features();
  writer.members_ = std::ssize(layout.members);
  writer.planar_ = layout.planar();
  writer.n_rows_ = layout.gridded ? static_cast<Index>(layout.lat.size()) : layout.rows;
  writer.n_columns_ = layout.gridded ? static_cast<Index>(layout.lon.size()) : layout.columns;
  writer.define(layout);
  writer.write_coordinates();
  return writer;
}

void SeriesWriter::describe(int id, std::string_view standard_name, std::string_view long_name,
                            std::string_view units) {
  if (!standard_name.empty()) file_.put_text(id, "standard_name", standard_name);
  if (!long_name.empty()) file_.put_text(id, "long_name", long_name);
  if (!units.empty()) file_.put_text(id, "units", units);
}

int SeriesWriter::coordinate(const std::string& name, std::span<const int> dimensions,
                             const std::vector<double>& values) {
  const int id = file_.define_variable(name, NetcdfType::float64, dimensions);
  coordinates_.emplace_back(id, values);
  return id;
}

void SeriesWriter::define_labels(const std::string& name, int dimension,
                                 const std::vector<std::string>& labels) {
  std::vector<Index> numbers;
  for (const std::string& label : labels) {
    Index number = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (error != std::errc{} || fmt::format("{}", number) != label) break;  // 0012 is a name
    numbers.push_back(number);
  }
  const std::span<const int> along(&dimension, 1);
  if (numbers.size() == labels.size())
    lists_.emplace_back(file_.define_variable(name, NetcdfType::other_integer, along), std::move(numbers));
  else
    labels_.emplace_back(file_.define_variable(name, NetcdfType::text, along), labels);
}

void SeriesWriter::define(const SeriesLayout& layout) {
  const int time = file_.define_dimension(layout.time_name, steps_);
  std::vector<int> shape{time};
  if (planar_) {
    shape.push_back(file_.define_dimension(layout.row_name, n_rows_));
    shape.push_back(file_.define_dimension(layout.column_name, n_columns_));
  } else {
    shape.push_back(file_.define_dimension(layout.node_name, nodes_));
  }
  std::string auxiliary = define_space(layout, std::span(shape).subspan(1));
  const std::string times = define_time(layout, time);
  if (!auxiliary.empty() && !times.empty()) auxiliary += ' ';
  auxiliary += times;
  if (layout.has_edges) define_edges(layout);
  define_variables(layout, shape, auxiliary);
  file_.put_text(-1, "Conventions", "CF-1.8");
  if (!layout.title.empty()) file_.put_text(-1, "title", layout.title);
  for (const auto& [name, value] : layout.attributes) file_.put_text(-1, name.c_str(), value);
  file_.end_define();
}

std::string SeriesWriter::define_time(const SeriesLayout& layout, int time) {
  const TimeAxis& axis = layout.time;
  const bool dated = axis.dated();
  const std::span<const int> along(&time, 1);
  const int t = coordinate(layout.time_name, along, axis.values());
  describe(t, dated ? "time" : "", dated ? "time" : "step", axis.units());
  file_.put_text(t, "axis", "T");
  if (dated) file_.put_text(t, "calendar", axis.calendar());
  if (!layout.reference) return "";
  const int origin = coordinate("forecast_reference_time", {}, {*layout.reference});
  describe(origin, dated ? "forecast_reference_time" : "", "last step the forecast knows", axis.units());
  if (dated) file_.put_text(origin, "calendar", axis.calendar());
  std::vector<double> leads;
  for (const double value : axis.values()) leads.push_back(value - *layout.reference);
  describe(coordinate("lead_time", along, leads), dated ? "forecast_period" : "",
           "time since the forecast reference time", axis.unit());
  return "forecast_reference_time lead_time";
}

std::string SeriesWriter::define_space(const SeriesLayout& layout, std::span<const int> space) {
  std::string auxiliary;
  if (layout.gridded) {
    const int lat = coordinate(layout.row_name, space.first(1), layout.lat),
              lon = coordinate(layout.column_name, space.last(1), layout.lon);
    describe(lat, "latitude", "latitude of cell centre", "degrees_north");
    describe(lon, "longitude", "longitude of cell centre", "degrees_east");
    file_.put_text(lat, "axis", "Y");
    file_.put_text(lon, "axis", "X");
  } else if (!layout.node_lat.empty() && !layout.node_lon.empty()) {
    const int lat = file_.define_variable(layout.lat_name, NetcdfType::float64, space),
              lon = file_.define_variable(layout.lon_name, NetcdfType::float64, space);
    of_nodes_.emplace_back(lat, layout.node_lat);
    of_nodes_.emplace_back(lon, layout.node_lon);
    describe(lat, "latitude", "node latitude", "degrees_north");
    describe(lon, "longitude", "node longitude", "degrees_east");
    auxiliary = layout.lat_name + " " + layout.lon_name;
  }
  if (!layout.node_labels.empty()) {
    define_labels(layout.label_name, space.front(), layout.node_labels);
    if (layout.label_name != layout.node_name)
      auxiliary += (auxiliary.empty() ? "" : " ") + layout.label_name;
  }
  if (!layout.land_mask.empty()) {
    const int mask = file_.define_variable("land_mask", NetcdfType::int8, space);
    describe(mask, "", "land mask (1 = land or never observed, 0 = sea)", "");
    const signed char flags[] = {0, 1};
    file_.put_flags(mask, "flag_values", flags);
    file_.put_text(mask, "flag_meanings", "sea land");
    marks_.emplace_back(mask, std::vector<Index>(layout.land_mask.begin(), layout.land_mask.end()));
  }
  return auxiliary;
}

void SeriesWriter::define_edges(const SeriesLayout& layout) {
  const int edge = file_.define_dimension("edge", static_cast<Index>(layout.edges.size()));
  const std::span<const int> along(&edge, 1);
  const int source = file_.define_variable("edge_src", NetcdfType::int32, along);
  const int destination = file_.define_variable("edge_dst", NetcdfType::int32, along);
  describe(source, "", "index (0-based) along node of the edge start", "");
  describe(destination, "", "index (0-based) along node of the edge end", "");
  std::vector<Index> from, to;
  std::vector<double> weight;
  for (const FileEdge& e : layout.edges) {
    from.push_back(e.source);
    to.push_back(e.destination);
    weight.push_back(e.weight);
  }
  lists_.emplace_back(source, std::move(from));
  lists_.emplace_back(destination, std::move(to));
  describe(coordinate("edge_weight", along, weight), "", "edge weight, larger means closer", "1");
}

/// Returns the dimension.
int SeriesWriter::define_members(const std::vector<std::string>& names) {
  const int realization = file_.define_dimension("realization", members_);
  const std::span<const int> along(&realization, 1);
  std::vector<Index> numbers(names.size());
  std::iota(numbers.begin(), numbers.end(), Index{0});
  const int number = file_.define_variable("realization", NetcdfType::other_integer, along);
  describe(number, "realization", "member of the ensemble", "1");
  lists_.emplace_back(number, std::move(numbers));
  const int name = file_.define_variable("member", NetcdfType::text, along);
  describe(name, "", "name of the member", "");
  labels_.emplace_back(name, names);
  return realization;
}

void SeriesWriter::define_variables(const SeriesLayout& layout, const std::vector<int>& shape,
                                    const std::string& auxiliary) {
  Index offset = 0;
  const int realization = members_ > 0 ? define_members(layout.members) : -1;
  std::map<std::string, std::pair<int, Index>> shared;  // feature dimensions of several variables
  for (const SeriesVariable& variable : layout.variables) {
    std::vector<int> dimensions = shape;
    if (variable.features > 1) {
      const std::string name =
          variable.feature_name.empty() ? "feature_of_" + variable.name : variable.feature_name;
      const auto [at, is_new] = shared.try_emplace(name, 0, variable.features);
      require(at->second.second == variable.features, "a dimension has one length");
      if (is_new) {
        at->second.first = file_.define_dimension(name, variable.features);
        if (!variable.feature_labels.empty()) define_labels(name, at->second.first, variable.feature_labels);
      }
      dimensions.push_back(at->second.first);
    }
    const int id = file_.define_variable(variable.name,
                                         layout.wide ? NetcdfType::float64 : NetcdfType::float32, dimensions);
    file_.fill_with_nan(id, layout.wide);
    describe(id, variable.standard_name, variable.long_name, variable.units);
    if (!auxiliary.empty()) file_.put_text(id, "coordinates", auxiliary);
    if (!layout.land_mask.empty()) file_.put_text(id, "ancillary_variables", "land_mask");
    // Chunks of about 1 MiB that span time: readers of a few nodes and readers of a few steps both stay
    // quick.
    const Index plane = nodes_ * variable.features;
    const Index chunk_steps = std::clamp<Index>(chunk_values / plane, 1, steps_);
    std::vector<Index> chunk{chunk_steps};
    if (planar_) {
      chunk.push_back(std::clamp<Index>(chunk_values / n_columns_, 1, n_rows_));
      chunk.push_back(std::min(n_columns_, chunk_values));
    } else {
      chunk.push_back(std::clamp<Index>(chunk_values / variable.features, 1, nodes_));
      if (variable.features > 1) chunk.push_back(variable.features);
    }
    const Index cache = std::max<Index>(8 * chunk_steps * plane, Index{4} << 20);
    file_.compress(id, chunk, cache);
    columns_.push_back({id, offset, variable.features});
    if (members_ > 0) {
      dimensions.insert(dimensions.begin(), realization);
      chunk.insert(chunk.begin(), 1);
      const int each = file_.define_variable(
          variable.name + "_members", layout.wide ? NetcdfType::float64 : NetcdfType::float32, dimensions);
      file_.fill_with_nan(each, layout.wide);
      describe(each, variable.standard_name, variable.name + " of each member", variable.units);
      file_.put_text(each, "coordinates", "member" + (auxiliary.empty() ? "" : " " + auxiliary));
      file_.compress(each, chunk, cache);
      columns_.back().members = each;
    }
    offset += variable.features;
  }
}

void SeriesWriter::write_coordinates() {
  const auto put = [this](int id, const auto& values) {
    const Index start = 0, count = static_cast<Index>(values.size());
    if (count > 0) file_.write(id, std::span(&start, 1), std::span(&count, 1), values.data());
  };
  const auto put_nodes = [&](int id, const auto& values) {
    if (!planar_) return put(id, values);
    const Index start[] = {0, 0}, count[] = {n_rows_, n_columns_};
    file_.write(id, start, count, values.data());
  };
  for (const auto& [id, values] : coordinates_) put(id, values);
  for (const auto& [id, values] : lists_) put(id, values);
  for (const auto& [id, values] : of_nodes_) put_nodes(id, values);
  for (const auto& [id, values] : marks_) put_nodes(id, values);
  for (const auto& [id, values] : labels_) file_.write(id, values);
  coordinates_.clear();
  of_nodes_.clear();
  lists_.clear();
  marks_.clear();
  labels_.clear();
}

void SeriesWriter::append(std::span<const float> values) {
  append_values(values);
}
void SeriesWriter::append_in_double(std::span<const double> values) {
  append_values(values);
}

void SeriesWriter::put_members(std::span<const double> values) {
  const Index size = steps_ * nodes_ * features_;
  require(std::ssize(values) == members_ * size, "members have the steps of the series");
  for (Index member = 0; member < members_; ++member)
    for (const Column& column : columns_)
      write_column(column, member, 0, steps_, values.data() + member * size);
}

/// Steps [first, first + count) of one variable out of (count, nodes, m): of the series, or of a member if
/// that is not −1.
template <class T>
void SeriesWriter::write_column(const Column& column, Index member, Index first, Index count,
                                const T* values) {
  std::vector<T> piece(static_cast<std::size_t>(count * nodes_ * column.features));
  const T* in = values + column.offset;
  for (Index k = 0; k < count * nodes_; ++k)
    for (Index f = 0; f < column.features; ++f) {
      const T value = in[k * features_ + f];
      piece[static_cast<std::size_t>(k * column.features + f)] =
          std::isfinite(value) ? value : std::numeric_limits<T>::quiet_NaN();
    }
  std::vector<Index> start{first, 0}, length{count, nodes_};
  if (planar_) {
    start.push_back(0);
    length = {count, n_rows_, n_columns_};
  } else if (column.features > 1) {
    start.push_back(0);
    length.push_back(column.features);
  }
  if (member >= 0) start.insert(start.begin(), member), length.insert(length.begin(), 1);
  file_.write(member >= 0 ? column.members : column.id, start, length, piece.data());
}

template <class T>
void SeriesWriter::append_values(std::span<const T> values) {
  const Index step_values = nodes_ * features_;
  require(static_cast<Index>(values.size()) % step_values == 0, "whole steps are appended");
  const Index steps = static_cast<Index>(values.size()) / step_values;
  require(written_ + steps <= steps_, "no more steps are appended than the time axis has");
  const Index block = std::clamp<Index>(piece_values / step_values, 1, std::max<Index>(steps, 1));
  for (Index first = 0; first < steps; first += block)
    for (const Column& column : columns_)
      write_column(column, -1, written_ + first, std::min(block, steps - first),
                   values.data() + first * step_values);
  written_ += steps;
}

void SeriesWriter::finish() {
  require(pending_, "a series file is finished once");
  require(written_ == steps_, "all steps were appended");
  file_.close();
  commit_file(temporary_, path_);
  pending_ = false;
}

namespace {

template <class T>
void write_all(const std::string& path, const SeriesLayout& layout, std::span<const T> values) {
  SeriesWriter writer = SeriesWriter::create(path, layout);
  if constexpr (std::is_same_v<T, double>)
    writer.append_in_double(values);
  else
    writer.append(values);
  writer.finish();
}

}  // namespace

void write_series(const std::string& path, const SeriesLayout& layout, std::span<const float> values) {
  write_all(path, layout, values);
}
void write_series_in_double(const std::string& path, const SeriesLayout& layout,
                            std::span<const double> values) {
  write_all(path, layout, values);
}

}  // namespace rossby
