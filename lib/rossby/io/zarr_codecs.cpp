// Decodes chunks of Zarr stores with the distribution's libraries.
#include <algorithm>
#include <cstring>
#include <limits>

#include <blosc.h>
#include <fmt/format.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/zarr_metadata.hpp"

namespace rossby::detail {
namespace {

/// No compressor reaches a larger ratio; a chunk that claims one is damaged.
constexpr std::size_t largest_ratio = 65536;
constexpr std::size_t largest_texts = std::size_t{1} << 28;

[[noreturn]] void refuse(const std::string& origin, const std::string& why) {
  user_error(
      "{}: cannot decompress this chunk: {}. The store may be damaged: copy or download the store again",
      origin, why);
}

std::string bytes_text(std::size_t found, std::size_t wanted) {
  return fmt::format("the chunk holds {} bytes instead of {}", found, wanted);
}

void inflate_all(const std::vector<char>& stored, std::vector<char>& out, const std::string& origin) {
  z_stream stream{};
  constexpr int zlib_or_gzip = 15 + 32;
  if (inflateInit2(&stream, zlib_or_gzip) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stored.data()));
  stream.avail_in = static_cast<uInt>(stored.size());
  const bool unknown = out.empty();
  if (unknown) out.resize(std::max<std::size_t>(1024, 4 * stored.size()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  int result = inflate(&stream, Z_FINISH);
  while (unknown && result == Z_BUF_ERROR && stream.avail_out == 0 && out.size() < largest_texts) {
    const std::size_t before = out.size();
    out.resize(2 * before);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    stream.avail_out = static_cast<uInt>(before);
    result = inflate(&stream, Z_FINISH);
  }
  if (unknown) {
    out.resize(out.size() - stream.avail_out);
    stream.avail_out = 0;
  }
  const std::string message = stream.msg == nullptr ? "" : stream.msg;
  const std::size_t left = stream.avail_out;
  inflateEnd(&stream);
  if (result == Z_STREAM_END && left == 0) return;
  if (result == Z_STREAM_END) refuse(origin, bytes_text(out.size() - left, out.size()));
  if (!message.empty()) refuse(origin, message);
  refuse(origin, left == 0 ? fmt::format("it holds more than {} bytes", out.size()) : "it is cut off");
}

/// numcodecs: 4 bytes of length, little-endian, before a block.
void decompress_lz4(const std::vector<char>& stored, std::vector<char>& out, const std::string& origin) {
  std::uint32_t size = 0;
  if (stored.size() < sizeof size) refuse(origin, "it is cut off");
  std::memcpy(&size, stored.data(), sizeof size);
  if (size != out.size()) refuse(origin, bytes_text(size, out.size()));
  const int made =
      LZ4_decompress_safe(stored.data() + sizeof size, out.data(),
                          static_cast<int>(stored.size() - sizeof size), static_cast<int>(out.size()));
  if (made < 0) refuse(origin, "lz4 finds it damaged");
  if (static_cast<std::size_t>(made) != out.size())
    refuse(origin, bytes_text(static_cast<std::size_t>(made), out.size()));
}

void decompress_zstd(const std::vector<char>& stored, std::vector<char>& out, const std::string& origin) {
  const std::size_t made = ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size());
  if (ZSTD_isError(made) != 0) refuse(origin, ZSTD_getErrorName(made));
  if (made != out.size()) refuse(origin, bytes_text(made, out.size()));
}

void decompress_blosc(const std::vector<char>& stored, std::vector<char>& out, const std::string& origin) {
  std::size_t size = 0;
  if (stored.size() < BLOSC_MIN_HEADER_LENGTH ||
      blosc_cbuffer_validate(stored.data(), stored.size(), &size) != 0)
    refuse(origin, "it is not a blosc buffer of that length");
  if (size != out.size()) refuse(origin, bytes_text(size, out.size()));
  const int made = blosc_decompress_ctx(stored.data(), out.data(), out.size(), 1);
  if (made < 0 || static_cast<std::size_t>(made) != out.size())
    refuse(origin, fmt::format("blosc (with {}) finds it damaged or has no such compressor",
                               blosc_cbuffer_complib(stored.data()) == nullptr
                                   ? "an unknown library"
                                   : blosc_cbuffer_complib(stored.data())));
}

/// The size that a chunk states for its contents, if it states one.
std::size_t size_of_texts(ZarrArray::Codec codec, const std::vector<char>& stored) {
  std::uint32_t size = 0;
  std::size_t blosc = 0;
  if (codec == ZarrArray::Codec::lz4 && stored.size() >= sizeof size) {
    std::memcpy(&size, stored.data(), sizeof size);
    return size;
  }
  if (codec == ZarrArray::Codec::blosc && stored.size() >= BLOSC_MIN_HEADER_LENGTH &&
      blosc_cbuffer_validate(stored.data(), stored.size(), &blosc) == 0)
    return blosc;
  if (codec == ZarrArray::Codec::zstd) {
    const auto found = ZSTD_getFrameContentSize(stored.data(), stored.size());
    if (found != ZSTD_CONTENTSIZE_UNKNOWN && found != ZSTD_CONTENTSIZE_ERROR) return found;
  }
  if (codec == ZarrArray::Codec::gzip && stored.size() >= sizeof size) {
    std::memcpy(&size, stored.data() + stored.size() - sizeof size, sizeof size);
    return size;
  }
  return 0;
}

}  // namespace

std::vector<char> decode_zarr_chunk(ZarrArray::Codec codec, std::vector<char>&& stored, std::size_t size,
                                    const std::string& origin) {
  using Codec = ZarrArray::Codec;
  if (size == 0) size = codec == Codec::none ? stored.size() : size_of_texts(codec, stored);
  if (codec == Codec::none) {
    if (stored.size() != size)
      user_error("{}: {}. The store may be damaged: copy or download the store again", origin,
                 bytes_text(stored.size(), size));
    return std::move(stored);
  }
  if (size > std::size_t{1} << 31 || size / largest_ratio > stored.size() ||
      stored.size() > std::size_t{1} << 31)
    refuse(origin, fmt::format("{} bytes cannot hold {}", stored.size(), size));
  std::vector<char> out(size);
  switch (codec) {
    case Codec::zlib:
    case Codec::gzip:
      inflate_all(stored, out, origin);
      break;
    case Codec::lz4:
      decompress_lz4(stored, out, origin);
      break;
    case Codec::zstd:
      decompress_zstd(stored, out, origin);
      break;
    case Codec::blosc:
      decompress_blosc(stored, out, origin);
      break;
    case Codec::none:
      break;
  }
  return out;
}

}  // namespace rossby::detail
