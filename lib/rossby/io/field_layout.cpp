#include "rossby/io/field_layout.hpp"

#include <algorithm>
#include <limits>

#include <zlib.h>

#include "rossby/base/error.hpp"
#include "rossby/io/coordinate_writer.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

constexpr Index field_chunk_values = Index{1} << 16;

std::string define_axes(NetcdfFile& file, CoordinateWriter& coordinates, const FieldLayout& layout,
                        std::vector<int>& shape) {
  for (const FieldAxis& axis : layout.axes) {
    shape.push_back(coordinates.dimension(axis.name, std::ssize(axis.values)));
    const int id = coordinates.numbers(axis.name, std::span(shape).last(1), axis.values);
    coordinates.describe(id, axis.standard_name, axis.long_name, axis.units);
    if (!axis.calendar.empty()) file.put_text(id, "calendar", axis.calendar);
  }
  if (layout.valid_time.empty()) return "";
  const FieldAxis& outer = layout.axes.front();
  const int id = coordinates.numbers("valid_time", shape, layout.valid_time);
  coordinates.describe(id, outer.calendar.empty() ? "" : "time", "time that is forecast", outer.units);
  if (!outer.calendar.empty()) file.put_text(id, "calendar", outer.calendar);
  return "valid_time";
}

int define_field(NetcdfFile& file, CoordinateWriter& coordinates, const FieldLayout& layout,
                 const SeriesVariable& field, std::vector<int> dimensions, const std::string& auxiliary) {
  if (field.features > 1) dimensions.push_back(coordinates.features(field));
  const int id = file.define_variable(
      field.name, layout.space.wide ? NetcdfType::float64 : NetcdfType::float32, dimensions);
  coordinates.describe(id, field.standard_name, field.long_name, field.units);
  if (!auxiliary.empty()) file.put_text(id, "coordinates", auxiliary);
  if (!layout.space.land_mask.empty()) file.put_text(id, "ancillary_variables", "land_mask");
  file.fill_with_nan(id, layout.space.wide);
  std::vector<Index> chunk{1, layout.chunk_units()};
  if (layout.axes.size() > 1) chunk.insert(chunk.begin(), layout.chunk_outer());
  if (layout.space.planar()) chunk.push_back(layout.unit_nodes());
  if (field.features > 1) chunk.push_back(field.features);
  if (layout.deflate > 0)
    file.compress(id, chunk, Index{1} << 20, layout.deflate);
  else
    file.lay_out_at_once(id);
  return id;
}

}  // namespace

Index FieldLayout::unit_values() const {
  Index features = 1;
  for (const SeriesVariable& field : space.variables) features = std::max(features, field.features);
  return unit_nodes() * features;
}

Index FieldLayout::chunk_units() const {
  return std::clamp<Index>(field_chunk_values / unit_values(), 1, units());
}

Index FieldLayout::chunk_outer() const {
  return std::clamp<Index>(field_chunk_values / (chunk_units() * unit_values()), 1, outer());
}

FieldLayout create_field_file(const std::string& path, const std::string& shown, const FieldLayout& asked) {
  check_layout(asked.space, shown);
  FieldLayout layout = asked;
  std::set<std::string> taken{"valid_time", "land_mask"};
  for (const FieldAxis& axis : layout.axes) taken.insert(axis.name);
  layout.space = with_own_names(asked.space, std::move(taken));
  NetcdfFile file = NetcdfFile::create(path, shown);
  CoordinateWriter coordinates(file);
  std::vector<int> shape;
  std::string auxiliary = define_axes(file, coordinates, layout, shape);
  const std::vector<int> space = coordinates.space_dimensions(layout.space);
  shape.insert(shape.end(), space.begin(), space.end());
  const std::string of_nodes = coordinates.define_space(layout.space, space);
  if (!of_nodes.empty()) auxiliary += (auxiliary.empty() ? "" : " ") + of_nodes;
  std::vector<int> fields;
  for (const SeriesVariable& field : layout.space.variables)
    fields.push_back(define_field(file, coordinates, layout, field, shape, auxiliary));
  file.put_text(-1, "Conventions", "CF-1.8");
  if (!layout.space.title.empty()) file.put_text(-1, "title", layout.space.title);
  for (const auto& [name, value] : layout.space.attributes) file.put_text(-1, name.c_str(), value);
  file.end_define();
  coordinates.write();
  // Writing the last value allocates the variable in the file: the library has no other way to do so.
  for (std::size_t k = 0; k < fields.size() && layout.deflate == 0; ++k) {
    std::vector<Index> last;
    for (const FieldAxis& axis : layout.axes) last.push_back(std::ssize(axis.values) - 1);
    for (const Index length : layout.space.space()) last.push_back(length - 1);
    if (const Index features = layout.space.variables[k].features; features > 1) last.push_back(features - 1);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    file.write(fields[k], last, std::vector<Index>(last.size(), 1), &nan);
  }
  file.close();
  return layout;
}

void add_attributes(const std::string& path, const std::string& shown,
                    const std::vector<std::pair<std::string, std::string>>& attributes) {
  NetcdfFile file = NetcdfFile::change(path, shown);
  for (const auto& [name, value] : attributes) file.put_text(-1, name.c_str(), value);
  file.close();
}

std::vector<std::byte> deflated_chunk(std::span<const std::byte> values, std::size_t width, int level) {
  const std::size_t count = values.size() / width;
  std::vector<std::byte> shuffled(values.size());
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t byte = 0; byte < width; ++byte) shuffled[byte * count + k] = values[k * width + byte];
  uLongf size = compressBound(shuffled.size());
  std::vector<std::byte> packed(size);
  const int code = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                             reinterpret_cast<const Bytef*>(shuffled.data()), shuffled.size(), level);
  require(code == Z_OK, "zlib has room for what it compresses");
  packed.resize(size);
  return packed;
}

}  // namespace rossby
