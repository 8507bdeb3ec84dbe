// Filters of HDF5: its own, and plug-ins.
#include <fmt/format.h>
#include <netcdf.h>
#include <netcdf_filter.h>

#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

constexpr unsigned last_own_filter = 6;  // deflate, shuffle, fletcher32, szip, nbit, scale-offset

/// Names as registered with the HDF Group.
std::string_view filter_name(unsigned id) {
  constexpr std::pair<unsigned, std::string_view> names[] = {{4, "szip"},
                                                             {307, "bzip2"},
                                                             {32000, "lzf"},
                                                             {32001, "blosc"},
                                                             {32002, "mafisc"},
                                                             {32003, "snappy"},
                                                             {32004, "lz4"},
                                                             {32008, "bitshuffle"},
                                                             {32009, "spdp"},
                                                             {32010, "lpc-rice"},
                                                             {32011, "ccsds-123"},
                                                             {32012, "jpeg-ls"},
                                                             {32013, "zfp"},
                                                             {32014, "fpzip"},
                                                             {32015, "zstandard"},
                                                             {32016, "b3d"},
                                                             {32017, "sz"},
                                                             {32018, "fcidecomp"},
                                                             {32019, "jpeg"},
                                                             {32020, "vbz"},
                                                             {32021, "fapec"},
                                                             {32022, "bitgroom"},
                                                             {32023, "granular bitround"},
                                                             {32024, "sz3"},
                                                             {32026, "blosc2"},
                                                             {32028, "sperr"}};
  for (const auto& [known, name] : names)
    if (known == id) return name;
  return "unknown";
}

std::vector<unsigned> filters_of(int file, int variable) {
  std::size_t count = 0;
  if (nc_inq_var_filter_ids(file, variable, &count, nullptr) != NC_NOERR || count == 0 || count > 64)
    return {};
  std::vector<unsigned> ids(count);
  if (nc_inq_var_filter_ids(file, variable, &count, ids.data()) != NC_NOERR) return {};
  return ids;
}

}  // namespace

bool NetcdfFile::is_filtered(const NetcdfVariable& variable) const {
  return !filters_of(id_, variable.id).empty();
}

std::string NetcdfFile::foreign_filters(const NetcdfVariable& variable) const {
  std::string list;
  for (const unsigned id : filters_of(id_, variable.id))
    if ((id > last_own_filter || id == 4) && nc_inq_filter_avail(id_, id) != NC_NOERR) {
      list += fmt::format("{}filter {} ({})", list.empty() ? "" : " and ", id, filter_name(id));
    }
  if (list.empty()) return "";
  return fmt::format(
      "it is compressed by {}, which this HDF5 does not have. Install the plug-in (pip install hdf5plugin), "
      "and set HDF5_PLUGIN_PATH to its folder plugins/. Or write the file without filters, on a machine that "
      "reads the file (nccopy -F none)",
      list);
}

}  // namespace rossby
