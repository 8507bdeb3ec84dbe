#include "rossby/io/array_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/netcdf.hpp"
#include "rossby/io/zarr_store.hpp"

namespace rossby {

Index NetcdfVariable::size() const {
  Index total = 1;
  for (const auto& dimension : dimensions) total *= dimension.length;
  return total;
}

void ArrayFile::add(NetcdfVariable variable) {
  Index left = std::numeric_limits<Index>::max();
  for (const auto& dimension : variable.dimensions) {
    if (dimension.length > left)
      user_error(
          "{}: variable {} claims an impossible number of values. The file may be damaged: copy or download "
          "it again",
          path_, variable.name);
    left /= std::max(dimension.length, Index{1});
  }
  variables_.push_back(std::move(variable));
}

void check_memory(Index count, Index width, const std::string& what) {
  const double machine =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const double bytes = static_cast<double>(count) * static_cast<double>(width);
  if (count < 0 || bytes > machine / 2)
    user_error(
        "{}: reading this needs {:.1f} GiB of memory, more than half of the {:.1f} GiB of this machine. Use "
        "a machine with more memory, or smaller files",
        what, bytes / 0x1p30, machine / 0x1p30);
}

std::unique_ptr<ArrayFile> ArrayFile::open(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return ZarrStore::open(path);
  return std::make_unique<NetcdfFile>(NetcdfFile::open(path));
}

const std::vector<std::string>& ArrayFile::unreadable() const {
  static const std::vector<std::string> none;
  return none;
}

const NetcdfVariable* ArrayFile::find(std::string_view name) const {
  for (const auto& variable : variables_)
    if (variable.name == name) return &variable;
  return nullptr;
}

std::optional<double> ArrayFile::number(const NetcdfVariable& variable, const char* attribute) const {
  const std::vector<double> values = numbers(variable, attribute);
  return values.empty() ? std::nullopt : std::optional(values.front());
}

std::vector<double> ArrayFile::read_all(const NetcdfVariable& variable) const {
  check_written(variable);
  std::vector<Index> start(variable.dimensions.size(), 0), count;
  for (const NetcdfDimension& dimension : variable.dimensions) count.push_back(dimension.length);
  check_memory(variable.size(), sizeof(double), fmt::format("{}: variable {}", path_, variable.name));
  std::vector<double> values(static_cast<std::size_t>(variable.size()));
  read(variable, start, count, values.data());
  if (const int bits = bits_of_other_sign(variable); bits != 0) {
    const double wraps = std::exp2(std::abs(bits));
    for (double& value : values)
      if (bits > 0 ? value < 0 : value >= wraps / 2) value += bits > 0 ? wraps : -wraps;
  }
  for (const char* name : {"scale_factor", "add_offset"})
    if (has(variable, name) && !number(variable, name))
      user_error(
          "{}: variable {}: attribute {} = \"{}\" is not a number. Write a number into this attribute, or "
          "remove the attribute",
          path_, variable.name, name, text(variable, name).value_or(""));
  const auto scale = number(variable, "scale_factor"), offset = number(variable, "add_offset");
  if (scale || offset)
    for (double& value : values) value = value * scale.value_or(1) + offset.value_or(0);
  return values;
}

std::vector<std::string> ArrayFile::read_names(const NetcdfVariable& variable) const {
  check_written(variable);
  if (variable.type == NetcdfType::text) return read_texts(variable);
  std::vector<std::string> names;
  for (const double value : read_all(variable))
    names.push_back(value == std::round(value) && std::abs(value) < 0x1p53
                        ? fmt::format("{}", static_cast<Index>(value))
                        : fmt::format("{}", value));
  return names;
}

}  // namespace rossby
