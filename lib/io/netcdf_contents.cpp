// What a NetCDF file holds beside its series: groups, coordinates, marks of what was never written.
#include <cmath>

#include <netcdf.h>

#include "rossby/base/error.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {

std::vector<std::string> NetcdfFile::groups() const {
  int count = 0;
  if (nc_inq_grps(id_, &count, nullptr) != NC_NOERR || count <= 0) return {};
  std::vector<int> ids(static_cast<std::size_t>(count));
  check(nc_inq_grps(id_, &count, ids.data()), "its groups");
  std::vector<std::string> names;
  for (const int id : ids) {
    char name[NC_MAX_NAME + 1] = {};
    check(nc_inq_grpname(id, name), "a group");
    names.emplace_back(name);
  }
  return names;
}

std::optional<double> NetcdfFile::default_fill(const NetcdfVariable& variable) const {
  nc_type type = NC_NAT;
  check(nc_inq_vartype(id_, variable.id, &type), variable.name);
  switch (type) {
    case NC_SHORT:
      return NC_FILL_SHORT;
    case NC_USHORT:
      return NC_FILL_USHORT;
    case NC_INT:
      return NC_FILL_INT;
    case NC_UINT:
      return NC_FILL_UINT;
    case NC_INT64:
      return static_cast<double>(NC_FILL_INT64);
    case NC_UINT64:
      return static_cast<double>(NC_FILL_UINT64);
    case NC_FLOAT:
    case NC_DOUBLE:
      return NC_FILL_DOUBLE;
    default:
      return std::nullopt;
  }
}

std::vector<double> NetcdfFile::read_all(const NetcdfVariable& variable) const {
  check_claim(variable);
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
  const auto scale = number(variable, "scale_factor"), offset = number(variable, "add_offset");
  if (scale || offset)
    for (double& value : values) value = value * scale.value_or(1) + offset.value_or(0);
  return values;
}

}  // namespace rossby
