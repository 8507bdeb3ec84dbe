#include "rossby/io/netcdf_classic.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <vector>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

/// Reads the big-endian header fields; `good` becomes false at the end of the file or on invalid data.
class Header {
 public:
  Header(const std::string& path, std::uint64_t file_bytes)
      : file_(path, std::ios::binary), left_(file_bytes) {}

  [[nodiscard]] bool good() const { return good_; }
  void fail() { good_ = false; }

  std::uint64_t integer(int bytes) {
    unsigned char raw[8] = {};
    if (!good_ || left_ < static_cast<std::uint64_t>(bytes) ||
        !file_.read(reinterpret_cast<char*>(raw), bytes)) {
      good_ = false;
      return 0;
    }
    left_ -= static_cast<std::uint64_t>(bytes);
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value = value << 8 | raw[i];
    return value;
  }
  void skip(std::uint64_t bytes) {
    if (!good_ || bytes > left_) return fail();
    file_.seekg(static_cast<std::streamoff>(bytes), std::ios::cur);
    left_ -= bytes;
  }
  void skip_padded(std::uint64_t bytes) {
    if (bytes > left_) return fail();
    skip((bytes + 3) / 4 * 4);
  }
  [[nodiscard]] std::uint64_t left() const { return left_; }

 private:
  std::ifstream file_;
  std::uint64_t left_;
  bool good_ = true;
};

std::uint64_t type_bytes(std::uint64_t type) {
  constexpr std::uint64_t bytes[] = {0, 1, 1, 2, 4, 4, 8, 1, 2, 4, 8, 8};
  return type < std::size(bytes) ? bytes[type] : 0;
}

void skip_attributes(Header& header, int width) {
  header.integer(4);
  const std::uint64_t count = header.integer(width);
  for (std::uint64_t i = 0; i < count && header.good(); ++i) {
    header.skip_padded(header.integer(width));
    const std::uint64_t bytes = type_bytes(header.integer(4));
    const std::uint64_t length = header.integer(width);
    if (bytes == 0 || length > header.left()) return header.fail();
    header.skip_padded(length * bytes);
  }
}

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;  // total, or of one record
  bool record = false;
};

/// One entry of the variable list.
Extent read_variable(Header& header, int width, int offset_width,
                     const std::vector<std::uint64_t>& dimensions) {
  header.skip_padded(header.integer(width));
  Extent extent;
  long double bytes = 1;
  const std::uint64_t rank = header.integer(width);
  for (std::uint64_t d = 0; d < rank && header.good(); ++d) {
    const std::uint64_t id = header.integer(width);
    if (id >= dimensions.size()) {
      header.fail();
      return {};
    }
    if (d == 0 && dimensions[id] == 0)
      extent.record = true;
    else
      bytes *= static_cast<long double>(dimensions[id]);
  }
  skip_attributes(header, width);
  bytes *= static_cast<long double>(type_bytes(header.integer(4)));
  header.integer(width);  // vsize, redundant and wrong for large variables
  extent.begin = header.integer(offset_width);
  if (!(bytes <= 9e18L)) header.fail();  // also catches NaN from a length of 0 times an infinite one
  extent.bytes = header.good() ? static_cast<std::uint64_t>(bytes) : 0;
  return extent;
}

}  // namespace

void check_classic_size(const std::string& path) {
  std::error_code code;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, code);
  Header header(path, code ? 0 : file_bytes);
  const std::uint64_t magic = header.integer(4);
  const std::uint64_t version = magic & 0xff;
  if (!header.good() || magic >> 8 != 0x434446 || (version != 1 && version != 2 && version != 5)) return;
  const int width = version == 5 ? 8 : 4;
  const int offset_width = version == 1 ? 4 : 8;
  std::uint64_t records = header.integer(width);
  if (width == 4 && records == 0xffffffffu) records = 0;  // a stream: the number is unknown
  header.integer(4);
  std::vector<std::uint64_t> dimensions;
  for (std::uint64_t i = 0, count = header.integer(width); i < count && header.good(); ++i) {
    header.skip_padded(header.integer(width));
    dimensions.push_back(header.integer(width));
  }
  skip_attributes(header, width);
  header.integer(4);
  std::vector<Extent> extents;
  for (std::uint64_t i = 0, count = header.integer(width); i < count && header.good(); ++i)
    extents.push_back(read_variable(header, width, offset_width, dimensions));
  long double record_bytes = 0, end = 0;
  const auto recorded =
      std::count_if(extents.begin(), extents.end(), [](const Extent& e) { return e.record; });
  for (const Extent& e : extents)  // a single record variable is not padded
    if (e.record) record_bytes += static_cast<long double>(recorded > 1 ? (e.bytes + 3) / 4 * 4 : e.bytes);
  for (const Extent& e : extents) {
    if (e.record && records == 0) continue;
    const long double before = e.record ? record_bytes * static_cast<long double>(records - 1) : 0;
    end = std::max(end, static_cast<long double>(e.begin) + before + static_cast<long double>(e.bytes));
  }
  if (!header.good())
    user_error(
        "{}: the file is truncated or damaged: the NetCDF header is incomplete. Copy or download the file "
        "again",
        path);
  if (end > static_cast<long double>(file_bytes))
    user_error(
        "{}: the file is truncated or damaged: the header describes {:.0f} bytes, but the file has {}. Copy "
        "or download the file again",
        path, static_cast<double>(end), file_bytes);
}

}  // namespace rossby
