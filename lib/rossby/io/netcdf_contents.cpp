// Contents of a NetCDF file besides its series: groups, coordinates, marks of unwritten values.
#include <cmath>

#include <netcdf.h>
#include <netcdf_filter.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

constexpr double deflate_ratio = 1032;

}  // namespace

void NetcdfFile::check_claim(const NetcdfVariable& variable, double bytes_each, double ratio) const {
  constexpr double always = Index{1} << 22;
  const auto claimed = static_cast<double>(variable.size());
  if (claimed > always && claimed * bytes_each > ratio * static_cast<double>(bytes_))
    user_error(
        "{}: variable {} claims {:.3g} values, more than a file of {} bytes can contain. The file may be "
        "damaged: copy or download it again",
        path_, variable.name, claimed, bytes_);
}

void NetcdfFile::check_claim(const NetcdfVariable& variable) const {
  check_claim(variable, 1, deflate_ratio);
}

void NetcdfFile::check_written(const NetcdfVariable& variable) const {
  nc_type type = NC_NAT;
  check(nc_inq_vartype(id_, variable.id, &type), variable.name);
  std::size_t bytes_each = 1, filters = 0;
  if (type != NC_STRING) check(nc_inq_type(id_, type, nullptr, &bytes_each), variable.name);
  // Classic files have no filters, and their size was checked when they were opened.
  const bool plain = nc_inq_var_filter_ids(id_, variable.id, &filters, nullptr) == NC_NOERR && filters == 0;
  check_claim(variable, static_cast<double>(bytes_each), plain ? 1 : deflate_ratio);
}

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

}  // namespace rossby
