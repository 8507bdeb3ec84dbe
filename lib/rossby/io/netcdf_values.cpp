// Values of NetCDF files.
#include <cerrno>
#include <cstring>
#include <type_traits>

#include <netcdf.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

std::vector<std::size_t> sizes(std::span<const Index> values) {
  return {values.begin(), values.end()};
}

int get(int file, int id, const std::size_t* start, const std::size_t* count, double* out) {
  return nc_get_vara_double(file, id, start, count, out);
}
int get(int file, int id, const std::size_t* start, const std::size_t* count, float* out) {
  return nc_get_vara_float(file, id, start, count, out);
}
int get(int file, int id, const std::size_t* start, const std::size_t* count, Index* out) {
  static_assert(sizeof(Index) == sizeof(long long));
  return nc_get_vara_longlong(file, id, start, count, reinterpret_cast<long long*>(out));
}

/// Of a hyperslab that cannot be read, returns the first index along its first dimension that cannot; −1 if
/// it has no dimension. `out` has room for the hyperslab.
template <class T>
Index first_damaged(int file, int id, std::vector<std::size_t> start, std::vector<std::size_t> count,
                    T* out) {
  if (start.empty()) return -1;
  std::size_t left = count[0];
  while (left > 1) {
    count[0] = left / 2;
    const bool sound = get(file, id, start.data(), count.data(), out) == NC_NOERR;
    if (sound) start[0] += count[0];
    left = sound ? left - count[0] : count[0];
  }
  return static_cast<Index>(start[0]);
}

}  // namespace

void NetcdfFile::check_read(int status, const NetcdfVariable& variable, Index damaged) const {
  if (status == NC_NOERR) return;
  const int cause = errno;
  if (const std::string filters = foreign_filters(variable); !filters.empty())
    user_error("{}: cannot read variable {}: {}", path_, variable.name, filters);
  if (cause == EIO || cause == ESTALE || cause == ENOMEM || cause == EACCES)
    user_error(
        "{}: cannot read variable {}: {}. Check the disk, the memory and the permissions, then start again",
        path_, variable.name, std::strerror(cause));
  if (damaged >= 0 && is_filtered(variable))
    user_error(
        "{}: cannot read variable {}: the chunk with index {} of dimension {} does not decompress, or its "
        "checksum is wrong ({}). The file is damaged: copy or download it again",
        path_, variable.name, damaged, variable.dimensions.front().name, nc_strerror(status));
  check(status, "variable " + variable.name);
}

template <class T>
void NetcdfFile::read_as(const NetcdfVariable& variable, std::span<const Index> start,
                         std::span<const Index> count, T* out) const {
  require(start.size() == variable.dimensions.size() && count.size() == start.size(),
          "a hyperslab has all dimensions");
  if (variable.type == NetcdfType::text)
    user_error("{}: variable {} is text, not numbers. Choose a numeric variable", path_, variable.name);
  for (const Index c : count)
    if (c == 0) return;
  const auto first = sizes(start), length = sizes(count);
  errno = 0;
  const int status = get(id_, variable.id, first.data(), length.data(), out);
  if (status == NC_ERANGE && !std::is_integral_v<T>) return;  // became ±inf, which readers take as missing
  if (status == NC_NOERR) return;
  const int cause = errno;
  const Index damaged = status == NC_EHDFERR ? first_damaged(id_, variable.id, first, length, out) : -1;
  errno = cause;
  check_read(status, variable, damaged);
}
void NetcdfFile::read(const NetcdfVariable& variable, std::span<const Index> start,
                      std::span<const Index> count, float* out) const {
  read_as(variable, start, count, out);
}
void NetcdfFile::read(const NetcdfVariable& variable, std::span<const Index> start,
                      std::span<const Index> count, double* out) const {
  read_as(variable, start, count, out);
}
void NetcdfFile::read(const NetcdfVariable& variable, std::span<const Index> start,
                      std::span<const Index> count, Index* out) const {
  read_as(variable, start, count, out);
}

std::vector<Index> NetcdfFile::chunks(const NetcdfVariable& variable) const {
  int storage = NC_CONTIGUOUS;
  std::vector<std::size_t> lengths(variable.dimensions.size());
  if (lengths.empty() || nc_inq_var_chunking(id_, variable.id, &storage, lengths.data()) != NC_NOERR)
    return {};
  if (storage != NC_CHUNKED) return {};
  return {lengths.begin(), lengths.end()};
}

void NetcdfFile::cache_chunks(const NetcdfVariable& variable, Index bytes) const {
  // Only a hint: if the library refuses it, reading is slower but correct.
  (void)nc_set_var_chunk_cache(id_, variable.id, static_cast<std::size_t>(bytes), 4099, 0.75F);
}

void NetcdfFile::write(int variable, std::span<const Index> start, std::span<const Index> count,
                       const float* values) {
  errno = 0;
  check(nc_put_vara_float(id_, variable, sizes(start).data(), sizes(count).data(), values), "data");
}
void NetcdfFile::write(int variable, std::span<const Index> start, std::span<const Index> count,
                       const double* values) {
  errno = 0;
  check(nc_put_vara_double(id_, variable, sizes(start).data(), sizes(count).data(), values), "data");
}
void NetcdfFile::write(int variable, std::span<const Index> start, std::span<const Index> count,
                       const Index* values) {
  errno = 0;
  check(nc_put_vara_longlong(id_, variable, sizes(start).data(), sizes(count).data(),
                             reinterpret_cast<const long long*>(values)),
        "data");
}

}  // namespace rossby
