#include "rossby/io/coordinate_writer.hpp"

#include <charconv>

#include <fmt/core.h>

#include "rossby/base/error.hpp"

namespace rossby {

int CoordinateWriter::dimension(const std::string& name, Index length) {
  const int id = file_->define_dimension(name, length);
  length_[id] = length;
  return id;
}

std::vector<Index> CoordinateWriter::lengths(std::span<const int> dimensions) const {
  std::vector<Index> all;
  for (const int id : dimensions) all.push_back(length_.at(id));
  return all;
}

void CoordinateWriter::describe(int id, std::string_view standard_name, std::string_view long_name,
                                std::string_view units) {
  if (!standard_name.empty()) file_->put_text(id, "standard_name", standard_name);
  if (!long_name.empty()) file_->put_text(id, "long_name", long_name);
  if (!units.empty()) file_->put_text(id, "units", units);
}

int CoordinateWriter::numbers(const std::string& name, std::span<const int> dimensions,
                              std::vector<double> values) {
  const int id = file_->define_variable(name, NetcdfType::float64, dimensions);
  numbers_.push_back({id, lengths(dimensions), std::move(values)});
  return id;
}

int CoordinateWriter::integers(const std::string& name, NetcdfType type, int dimension,
                               std::vector<Index> values) {
  const std::span<const int> along(&dimension, 1);
  const int id = file_->define_variable(name, type, along);
  integers_.push_back({id, lengths(along), std::move(values)});
  return id;
}

int CoordinateWriter::texts(const std::string& name, int dimension, std::vector<std::string> values) {
  const int id = file_->define_variable(name, NetcdfType::text, std::span<const int>(&dimension, 1));
  texts_.emplace_back(id, std::move(values));
  return id;
}

int CoordinateWriter::labels(const std::string& name, int dimension, const std::vector<std::string>& labels) {
  std::vector<Index> numbers;
  for (const std::string& label : labels) {
    Index number = 0;
    const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
    if (error != std::errc{} || fmt::format("{}", number) != label) break;  // 0012 is a name
    numbers.push_back(number);
  }
  return numbers.size() == labels.size()
             ? integers(name, NetcdfType::other_integer, dimension, std::move(numbers))
             : texts(name, dimension, labels);
}

std::vector<int> CoordinateWriter::space_dimensions(const SeriesLayout& layout) {
  const std::vector<Index> space = layout.space();
  if (!layout.planar()) return {dimension(layout.node_name, space[0])};
  const int row = dimension(layout.row_name, space[0]);
  return {row, dimension(layout.column_name, space[1])};
}

std::string CoordinateWriter::define_space(const SeriesLayout& layout, std::span<const int> space) {
  std::string auxiliary;
  if (layout.gridded) {
    const int lat = numbers(layout.row_name, space.first(1), layout.lat),
              lon = numbers(layout.column_name, space.last(1), layout.lon);
    describe(lat, "latitude", "latitude of cell centre", "degrees_north");
    describe(lon, "longitude", "longitude of cell centre", "degrees_east");
    file_->put_text(lat, "axis", "Y");
    file_->put_text(lon, "axis", "X");
  } else if (!layout.node_lat.empty() && !layout.node_lon.empty()) {
    const int lat = numbers(layout.lat_name, space, layout.node_lat),
              lon = numbers(layout.lon_name, space, layout.node_lon);
    describe(lat, "latitude", "node latitude", "degrees_north");
    describe(lon, "longitude", "node longitude", "degrees_east");
    auxiliary = layout.lat_name + " " + layout.lon_name;
  }
  if (!layout.node_labels.empty()) {
    labels(layout.label_name, space.front(), layout.node_labels);
    if (layout.label_name != layout.node_name)
      auxiliary += (auxiliary.empty() ? "" : " ") + layout.label_name;
  }
  if (!layout.land_mask.empty()) {
    const int mask = file_->define_variable("land_mask", NetcdfType::int8, space);
    describe(mask, "", "land mask (1 = land or never observed, 0 = sea)", "");
    const signed char flags[] = {0, 1};
    file_->put_flags(mask, "flag_values", flags);
    file_->put_text(mask, "flag_meanings", "sea land");
    integers_.push_back({mask, lengths(space), {layout.land_mask.begin(), layout.land_mask.end()}});
  }
  return auxiliary;
}

int CoordinateWriter::features(const SeriesVariable& variable) {
  const std::string name =
      variable.feature_name.empty() ? "feature_of_" + variable.name : variable.feature_name;
  const auto [at, is_new] = features_.try_emplace(name, 0);
  if (is_new) {
    at->second = dimension(name, variable.features);
    if (!variable.feature_labels.empty()) labels(name, at->second, variable.feature_labels);
  }
  require(length_.at(at->second) == variable.features, "a dimension has one length");
  return at->second;
}

void CoordinateWriter::write() {
  const auto put = [this](const auto& pending) {
    const std::vector<Index> start(pending.lengths.size(), 0);
    if (!pending.values.empty()) file_->write(pending.id, start, pending.lengths, pending.values.data());
  };
  for (const auto& pending : numbers_) put(pending);
  for (const auto& pending : integers_) put(pending);
  for (const auto& [id, values] : texts_) file_->write(id, values);
}

}  // namespace rossby
