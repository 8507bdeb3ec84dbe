#include "rossby/io/netcdf.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <netcdf.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/netcdf_classic.hpp"
#include "rossby/io/netcdf_locks.hpp"

namespace rossby {
namespace {

NetcdfType type_of(nc_type type) {
  switch (type) {
    case NC_FLOAT:
      return NetcdfType::float32;
    case NC_DOUBLE:
      return NetcdfType::float64;
    case NC_BYTE:
      return NetcdfType::int8;
    case NC_INT:
      return NetcdfType::int32;
    case NC_SHORT:
    case NC_UBYTE:
    case NC_USHORT:
    case NC_UINT:
    case NC_INT64:
    case NC_UINT64:
      return NetcdfType::other_integer;
    default:
      return NetcdfType::text;
  }
}

nc_type type_to(NetcdfType type) {
  switch (type) {
    case NetcdfType::int8:
      return NC_BYTE;
    case NetcdfType::int32:
      return NC_INT;
    case NetcdfType::float32:
      return NC_FLOAT;
    case NetcdfType::float64:
      return NC_DOUBLE;
    case NetcdfType::other_integer:
      return NC_INT64;
    case NetcdfType::text:
      return NC_STRING;
  }
  bug("all types are known");
}

/// The file's format by its first bytes, if it is one that users may take for a series; else empty.
std::string_view foreign_kind(const std::string& path) {
  std::array<char, 512> bytes{};
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), static_cast<std::size_t>(file.gcount()));
  struct Kind {
    std::string_view start, name;
  };
  for (const auto& [start, name] :
       {Kind{"\x93NUMPY", "a NumPy array"},
        {"PK\x03\x04", "a zip archive (NumPy's npz?)"},
        {"\x80\x04", "a Python pickle"},
        {"\x80\x03", "a Python pickle"},
        {"\x80\x05", "a Python pickle"},
        {"PAR1", "a Parquet table"},
        {"GRIB", "a GRIB file"},
        {"\x0e\x03\x13\x01", "an HDF4 file"},
        {"\x1f\x8b", "compressed by gzip: unpack the file (gunzip)"},
        {"BZh", "compressed by bzip2: unpack the file (bunzip2)"},
        {"\xfd"
         "7zXZ",
         "compressed by xz: unpack the file (unxz)"},
        {"\x28\xb5\x2f\xfd", "compressed by zstd: unpack the file (unzstd)"},
        {"version https://git-lfs", "a pointer of Git LFS: get the file with git lfs pull"}})
    if (begin.starts_with(start)) return name;
  if (begin.empty()) return "empty: download or copy the file again";
  if (begin.find_first_not_of('\0') == std::string_view::npos)
    return "a file that begins with zeros: download or copy the file again";
  if (begin.front() == '<')
    return "a web page (HTML), perhaps a login or an error page: download the file again";
  const bool is_text = !begin.empty() && std::all_of(begin.begin(), begin.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 32 || c == '\n' || c == '\r' || c == '\t';
  });
  if (is_text && begin.find_first_of(",;\t") != std::string_view::npos) return "a table of text (CSV?)";
  return "";
}

std::int64_t last_change(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

NetcdfFile NetcdfFile::open(const std::string& path) {
  std::error_code code;
  // The library treats some names as network addresses, so it gets only names of existing files.
  const auto status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) user_error("{}: no such file. Check the path", path);
  if (!std::filesystem::is_regular_file(status))
    user_error("{}: this is not a regular file. Name a NetCDF file", path);
  if (::access(path.c_str(), R_OK) != 0)
    user_error("{}: cannot read this file: {}. Check the path and the permissions", path,
               std::strerror(errno));
  check_classic_size(path);
  refuse_locked(path);
  use_own_locks();
  int id = -1;
  if (const int result = nc_open(path.c_str(), NC_NOWRITE, &id); result != NC_NOERR) {
    if (const std::string_view kind = foreign_kind(path); !kind.empty())
      user_error("{}: not a NetCDF file, but {}{}", path, kind,
                 kind.find(':') == std::string_view::npos
                     ? ". Convert the file with xarray, as docs/howto/own_data.md shows"
                     : "");
    if (const std::string cause = why_hdf5_refuses(path); !cause.empty()) user_error("{}: {}", path, cause);
    user_error(
        "{}: this is not a readable NetCDF file ({}). The file may be truncated or damaged: copy or "
        "download it again",
        path, nc_strerror(result));
  }
  NetcdfFile file(path, id);
  struct stat known {};
  if (::stat(path.c_str(), &known) != 0)
    user_error("{}: cannot read this file: {}. Check the path and the permissions", path,
               std::strerror(errno));
  file.bytes_ = static_cast<std::uint64_t>(known.st_size);
  file.changed_ = last_change(known);
  file.device_ = known.st_dev;
  file.inode_ = known.st_ino;
  file.read_header();
  return file;
}

void NetcdfFile::pause() noexcept {
  if (id_ >= 0) nc_close(std::exchange(id_, -1));
}

void NetcdfFile::resume() {
  if (id_ >= 0) return;
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0)
    user_error("{}: cannot read this file again: {}. Restore the file or its permissions, then start again",
               path_, std::strerror(errno));
  if (static_cast<std::uint64_t>(now.st_size) != bytes_ || last_change(now) != changed_ ||
      now.st_dev != device_ || now.st_ino != inode_)
    user_error("{}: the file changed while it was read. Start again when the file is complete", path_);
  if (const int result = nc_open(path_.c_str(), NC_NOWRITE, &id_); result != NC_NOERR) {
    id_ = -1;
    user_error("{}: cannot open this file again: {}. Check the file, then start again", path_,
               nc_strerror(result));
  }
}

NetcdfFile NetcdfFile::create(const std::string& path, const std::string& shown) {
  const std::string& name = shown.empty() ? path : shown;
  // The system's reason is clearer than the library's, so first create the file without the library.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", name,
               std::strerror(errno));
  struct stat status {};
  const int known = ::fstat(descriptor, &status);
  ::close(descriptor);
  require(known == 0, "an open file has a status");
  use_own_locks();
  int id = -1;
  errno = 0;
  if (const int result = nc_create(path.c_str(), NC_NETCDF4 | NC_CLOBBER, &id); result != NC_NOERR) {
    const int cause = errno;
    ::unlink(path.c_str());
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", name,
               cause != 0 ? std::strerror(cause) : nc_strerror(result));
  }
  NetcdfFile file(name, id);
  file.writing_ = true;
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  return file;
}

NetcdfFile NetcdfFile::change(const std::string& path, const std::string& shown) {
  use_own_locks();
  int id = -1;
  if (const int result = nc_open(path.c_str(), NC_WRITE, &id); result != NC_NOERR)
    user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder",
               shown, nc_strerror(result));
  return NetcdfFile(shown, id);
}

NetcdfFile::NetcdfFile(NetcdfFile&& other) noexcept
    : ArrayFile(std::move(other)),
      bytes_(other.bytes_),
      changed_(other.changed_),
      device_(other.device_),
      inode_(other.inode_),
      id_(std::exchange(other.id_, -1)),
      writing_(other.writing_) {}

NetcdfFile& NetcdfFile::operator=(NetcdfFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(changed_, other.changed_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(id_, other.id_);
  std::swap(writing_, other.writing_);
  std::swap(variables_, other.variables_);
  return *this;
}

NetcdfFile::~NetcdfFile() {
  if (id_ >= 0 && writing_) abandon();
  if (id_ >= 0) nc_close(id_);
}

void NetcdfFile::abandon() noexcept {
  // HDF5 does not survive a file that it cannot flush: it tries again when the process ends, and crashes. The
  // null device receives its remaining output, so that closing succeeds; the file is discarded anyway.
  struct stat other {};
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int limit = static_cast<int>(std::clamp(sysconf(_SC_OPEN_MAX), 1024L, 1L << 20));
  for (int fd = 3; null >= 0 && fd < limit; ++fd)
    if (fd != null && ::fstat(fd, &other) == 0 && other.st_dev == device_ && other.st_ino == inode_)
      ::dup2(null, fd);
  if (null >= 0) ::close(null);
}

void NetcdfFile::check(int status, std::string_view variable) const {
  if (status == NC_NOERR) return;
  const int cause = errno;
  if (writing_) cannot_write(status, cause);
  user_error("{}: cannot read {}: {}. The file may be damaged: copy or download it again", path_, variable,
             nc_strerror(status));
}

void NetcdfFile::cannot_write(int status, int cause) const {
  // The HDF5 layer reports every failed write alike; errno or a full disk says more.
  std::error_code code;
  std::filesystem::path parent = std::filesystem::path(path_).parent_path();
  if (parent.empty()) parent = ".";
  const auto space = std::filesystem::space(parent, code);
  std::string reason = nc_strerror(status);
  if (cause == ENOSPC || cause == EFBIG || cause == EDQUOT || cause == EIO)
    reason = std::strerror(cause);
  else if (!code && space.available < (std::uintmax_t{1} << 20))
    reason = std::strerror(ENOSPC);
  user_error("{}: cannot write this file: {}. Check the free space and the permissions of the folder", path_,
             reason);
}

void NetcdfFile::read_header() {
  int count = 0;
  check(nc_inq_nvars(id_, &count), "its variables");
  for (int id = 0; id < count; ++id) {
    char name[NC_MAX_NAME + 1] = {};
    nc_type type = NC_NAT;
    int rank = 0;
    int ids[NC_MAX_VAR_DIMS];
    check(nc_inq_varndims(id_, id, &rank), "a variable");
    require(rank <= NC_MAX_VAR_DIMS, "the library keeps its limit on dimensions");
    check(nc_inq_var(id_, id, name, &type, &rank, ids, nullptr), "a variable");
    NetcdfVariable variable{id, utf8_text(name), type_of(type), {}};
    for (int d = 0; d < rank; ++d) {
      std::size_t length = 0;
      if (ids[d] < 0)
        user_error(
            "{}: dimension {} of {} has no HDF5 dimension scale, but other dimensions have one. Attach a "
            "scale to each dimension (make_scale and attach_scale of h5py), or write the file with xarray",
            path_, d, variable.name);
      check(nc_inq_dim(id_, ids[d], name, &length), variable.name);
      if (length > static_cast<std::size_t>(std::numeric_limits<Index>::max()))
        user_error("{}: dimension {} is too long. The file may be damaged: copy or download it again", path_,
                   name);
      variable.dimensions.push_back({utf8_text(name), static_cast<Index>(length)});
    }
    add(std::move(variable));
  }
}

int NetcdfFile::define_dimension(const std::string& name, Index length) {
  int id = -1;
  check(nc_def_dim(id_, name.c_str(), static_cast<std::size_t>(length), &id), name);
  return id;
}

int NetcdfFile::define_variable(const std::string& name, NetcdfType type, std::span<const int> dimensions) {
  int id = -1;
  check(nc_def_var(id_, name.c_str(), type_to(type), static_cast<int>(dimensions.size()), dimensions.data(),
                   &id),
        name);
  return id;
}

void NetcdfFile::compress(int variable, std::span<const Index> chunk_lengths, Index cache_bytes, int level) {
  const std::vector<std::size_t> lengths(chunk_lengths.begin(), chunk_lengths.end());
  check(nc_def_var_chunking(id_, variable, NC_CHUNKED, lengths.data()), "chunks");
  check(nc_def_var_deflate(id_, variable, 1, 1, level), "compression");
  check(nc_set_var_chunk_cache(id_, variable, static_cast<std::size_t>(cache_bytes), 4099, 0.75F),
        "chunk cache");
}

void NetcdfFile::lay_out_at_once(int variable) {
  check(nc_def_var_chunking(id_, variable, NC_CONTIGUOUS, nullptr), "its place");
  check(nc_def_var_fill(id_, variable, NC_NOFILL, nullptr), "filling");
}

void NetcdfFile::fill_with_nan(int variable, bool wide) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const double wide_nan = std::numeric_limits<double>::quiet_NaN();
  const void* value = wide ? static_cast<const void*>(&wide_nan) : &nan;
  check(nc_def_var_fill(id_, variable, NC_FILL, value), "_FillValue");
}

void NetcdfFile::put_text(int variable, const char* attribute, std::string_view value) {
  const std::string text = utf8_text(value);  // paths may hold any bytes
  check(nc_put_att_text(id_, variable < 0 ? NC_GLOBAL : variable, attribute, text.size(), text.data()),
        attribute);
}

void NetcdfFile::put_flags(int variable, const char* attribute, std::span<const signed char> values) {
  check(nc_put_att_schar(id_, variable, attribute, NC_BYTE, values.size(), values.data()), attribute);
}

void NetcdfFile::end_define() {
  check(nc_enddef(id_), "header");
}

void NetcdfFile::write(int variable, std::span<const std::string> values) {
  std::vector<const char*> texts;
  for (const std::string& value : values) texts.push_back(value.c_str());
  errno = 0;
  check(nc_put_var_string(id_, variable, texts.data()), "names");
}

void NetcdfFile::close() {
  errno = 0;
  if (writing_) check(nc_sync(id_), "the end");
  check(nc_close(std::exchange(id_, -1)), "the end");
}

}  // namespace rossby
