#include "rossby/io/series_writer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/coordinate_writer.hpp"
#include "rossby/io/files.hpp"

namespace rossby {
namespace {

constexpr Index chunk_values = Index{1} << 18;  // 1 MiB of float32
constexpr Index piece_values = Index{1} << 22;  // copied at once to separate features

/// Returns names for the `coordinates` attribute.
std::string define_time(NetcdfFile& file, CoordinateWriter& coordinates, const SeriesLayout& layout,
                        int time) {
  const TimeAxis& axis = layout.time;
  const bool dated = axis.dated();
  const std::span<const int> along(&time, 1);
  const int t = coordinates.numbers(layout.time_name, along, axis.values());
  coordinates.describe(t, dated ? "time" : "", dated ? "time" : "step", axis.units());
  file.put_text(t, "axis", "T");
  if (dated) file.put_text(t, "calendar", axis.calendar());
  if (!layout.reference) return "";
  const int origin = coordinates.numbers("forecast_reference_time", {}, {*layout.reference});
  coordinates.describe(origin, dated ? "forecast_reference_time" : "", "last step the forecast knows",
                       axis.units());
  if (dated) file.put_text(origin, "calendar", axis.calendar());
  std::vector<double> leads;
  for (const double value : axis.values()) leads.push_back(value - *layout.reference);
  coordinates.describe(coordinates.numbers("lead_time", along, std::move(leads)),
                       dated ? "forecast_period" : "", "time since the forecast reference time", axis.unit());
  return "forecast_reference_time lead_time";
}

void define_edges(CoordinateWriter& coordinates, const SeriesLayout& layout) {
  const int edge = coordinates.dimension("edge", std::ssize(layout.edges));
  std::vector<Index> from, to;
  std::vector<double> weight;
  for (const FileEdge& e : layout.edges) {
    from.push_back(e.source);
    to.push_back(e.destination);
    weight.push_back(e.weight);
  }
  const int source = coordinates.integers("edge_src", NetcdfType::int32, edge, std::move(from)),
            destination = coordinates.integers("edge_dst", NetcdfType::int32, edge, std::move(to));
  coordinates.describe(source, "", "index (0-based) along node of the edge start", "");
  coordinates.describe(destination, "", "index (0-based) along node of the edge end", "");
  coordinates.describe(coordinates.numbers("edge_weight", std::span<const int>(&edge, 1), std::move(weight)),
                       "", "edge weight, larger means closer", "1");
}

/// Returns the dimension.
int define_members(CoordinateWriter& coordinates, const std::vector<std::string>& names) {
  const int realization = coordinates.dimension("realization", std::ssize(names));
  std::vector<Index> numbers(names.size());
  std::iota(numbers.begin(), numbers.end(), Index{0});
  coordinates.describe(
      coordinates.integers("realization", NetcdfType::other_integer, realization, std::move(numbers)),
      "realization", "member of the ensemble", "1");
  coordinates.describe(coordinates.texts("member", realization, names), "", "name of the member", "");
  return realization;
}

/// Returns the dimension.
int define_quantiles(CoordinateWriter& coordinates, const std::vector<double>& levels) {
  const int quantile = coordinates.dimension("quantile", std::ssize(levels));
  coordinates.describe(coordinates.numbers("quantile", std::span<const int>(&quantile, 1), levels),
                       "quantile", "probability that the observation is not above the value", "1");
  return quantile;
}

}  // namespace

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
      quantiles_(other.quantiles_),
      n_rows_(other.n_rows_),
      n_columns_(other.n_columns_),
      columns_(std::move(other.columns_)) {}

SeriesWriter::~SeriesWriter() {
  if (pending_) ::unlink(temporary_.c_str());
}

SeriesWriter SeriesWriter::create(const std::string& path, const SeriesLayout& asked) {
  check_layout(asked, path);
  const SeriesLayout layout = with_own_names(asked, {"forecast_reference_time", "lead_time", "land_mask",
                                                     "edge", "edge_src", "edge_dst", "edge_weight"});
  const std::string temporary = temporary_name(path);
  SeriesWriter writer(path, temporary, NetcdfFile::create(temporary, path));
  writer.steps_ = layout.time.size();
  writer.nodes_ = layout.nodes;
  writer.features_ = layout.features();
  writer.members_ = std::ssize(layout.members);
  writer.quantiles_ = std::ssize(layout.quantiles);
  writer.planar_ = layout.planar();
  writer.n_rows_ = layout.space().front();
  writer.n_columns_ = layout.space().back();
  CoordinateWriter coordinates(writer.file_);
  writer.define(coordinates, layout);
  coordinates.write();
  return writer;
}

void SeriesWriter::define(CoordinateWriter& coordinates, const SeriesLayout& layout) {
  const int time = coordinates.dimension(layout.time_name, steps_);
  std::vector<int> shape{time};
  for (const int dimension : coordinates.space_dimensions(layout)) shape.push_back(dimension);
  std::string auxiliary = coordinates.define_space(layout, std::span(shape).subspan(1));
  const std::string times = define_time(file_, coordinates, layout, time);
  if (!auxiliary.empty() && !times.empty()) auxiliary += ' ';
  auxiliary += times;
  if (layout.has_edges) define_edges(coordinates, layout);
  define_variables(coordinates, layout, shape, auxiliary);
  file_.put_text(-1, "Conventions", "CF-1.8");
  if (!layout.title.empty()) file_.put_text(-1, "title", layout.title);
  for (const auto& [name, value] : layout.attributes) file_.put_text(-1, name.c_str(), value);
  file_.end_define();
}

void SeriesWriter::define_variables(CoordinateWriter& coordinates, const SeriesLayout& layout,
                                    const std::vector<int>& shape, const std::string& auxiliary) {
  Index offset = 0;
  const int realization = members_ > 0 ? define_members(coordinates, layout.members) : -1,
            quantile = quantiles_ > 0 ? define_quantiles(coordinates, layout.quantiles) : -1;
  for (const SeriesVariable& variable : layout.variables) {
    std::vector<int> dimensions = shape;
    if (variable.features > 1) dimensions.push_back(coordinates.features(variable));
    const int id = file_.define_variable(variable.name,
                                         layout.wide ? NetcdfType::float64 : NetcdfType::float32, dimensions);
    file_.fill_with_nan(id, layout.wide);
    coordinates.describe(id, variable.standard_name, variable.long_name, variable.units);
    if (!auxiliary.empty()) file_.put_text(id, "coordinates", auxiliary);
    if (!layout.land_mask.empty()) file_.put_text(id, "ancillary_variables", "land_mask");
    // Chunks of about 1 MiB that span time serve readers of a few nodes and readers of a few steps.
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
    const auto beside = [&](int dimension, const std::string& what) {
      std::vector<int> of = dimensions;
      of.insert(of.begin(), dimension);
      return define_beside(coordinates, layout, variable, what, std::move(of), chunk, cache, auxiliary);
    };
    if (members_ > 0) columns_.back().members = beside(realization, "members");
    if (quantiles_ > 0) columns_.back().quantiles = beside(quantile, "quantiles");
    offset += variable.features;
  }
}

/// Defines <variable>_<what>, with a further dimension in front.
int SeriesWriter::define_beside(CoordinateWriter& coordinates, const SeriesLayout& layout,
                                const SeriesVariable& variable, const std::string& what,
                                std::vector<int> dimensions, std::vector<Index> chunk, Index cache,
                                const std::string& auxiliary) {
  const int id = file_.define_variable(variable.name + "_" + what,
                                       layout.wide ? NetcdfType::float64 : NetcdfType::float32, dimensions);
  file_.fill_with_nan(id, layout.wide);
  const bool members = what == "members";
  coordinates.describe(id, variable.standard_name,
                       members ? variable.name + " of each member" : "quantiles of " + variable.name,
                       variable.units);
  const std::string names =
      (members ? "member" : "") + (auxiliary.empty() ? "" : (members ? " " : "") + auxiliary);
  if (!names.empty()) file_.put_text(id, "coordinates", names);
  chunk.insert(chunk.begin(), 1);
  file_.compress(id, chunk, cache);
  return id;
}

void SeriesWriter::append(std::span<const float> values) {
  append_values(values);
}
void SeriesWriter::append_in_double(std::span<const double> values) {
  append_values(values);
}

void SeriesWriter::put_members(std::span<const double> values) {
  put_beside(&Column::members, members_, values);
}
void SeriesWriter::put_quantiles(std::span<const double> values) {
  put_beside(&Column::quantiles, quantiles_, values);
}

void SeriesWriter::put_beside(int Column::*variable, Index count, std::span<const double> values) {
  const Index size = steps_ * nodes_ * features_;
  require(std::ssize(values) == count * size, "what stands beside a series has its steps");
  for (Index k = 0; k < count; ++k)
    for (const Column& column : columns_)
      write_column(column, column.*variable, k, 0, steps_, values.data() + k * size);
}

/// Writes steps [first, first + count) of one variable from (count, nodes, m): to the series, or, if `beside`
/// is not −1, to that place of the dimension in front.
template <class T>
void SeriesWriter::write_column(const Column& column, int id, Index beside, Index first, Index count,
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
  if (beside >= 0) start.insert(start.begin(), beside), length.insert(length.begin(), 1);
  file_.write(id, start, length, piece.data());
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
      write_column(column, column.id, -1, written_ + first, std::min(block, steps - first),
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
