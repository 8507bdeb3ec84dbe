#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <blosc.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lz4.h>
#include <zlib.h>
#include <zstd.h>

#include "rossby/base/index.hpp"

namespace rossby::testing_support {

/// Returns `bytes` as a chunk of a Zarr store: none, zlib, gzip, zstd, lz4 or blosc.
inline std::string compressed(const std::string& codec, const std::string& bytes, int width) {
  if (codec == "zlib" || codec == "gzip") {
    z_stream stream{};
    deflateInit2(&stream, 1, Z_DEFLATED, codec == "gzip" ? 31 : 15, 8, Z_DEFAULT_STRATEGY);
    std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(bytes.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    deflate(&stream, Z_FINISH);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
  }
  if (codec == "zstd") {
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
    return out;
  }
  if (codec == "lz4") {
    std::string out(4 + static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(bytes.size()))), '\0');
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(out.data(), &size, 4);
    const int made = LZ4_compress_default(bytes.data(), out.data() + 4, static_cast<int>(bytes.size()),
                                          static_cast<int>(out.size()) - 4);
    out.resize(4 + static_cast<std::size_t>(made));
    return out;
  }
  if (codec == "blosc") {
    std::string out(bytes.size() + BLOSC_MAX_OVERHEAD, '\0');
    const int made = blosc_compress_ctx(5, BLOSC_SHUFFLE, static_cast<std::size_t>(width), bytes.size(),
                                        bytes.data(), out.data(), out.size(), "lz4", 0, 1);
    out.resize(static_cast<std::size_t>(made));
    return out;
  }
  return bytes;
}

/// Writes a Zarr store, one array at a time.
struct ZarrMaker {
  struct Array {
    std::string name;
    std::vector<Index> shape, chunks;
    std::string dtype = "<f4", codec = "none", separator = ".";
    std::string dimensions = {};   // quoted names: "time", "node"
    std::string attributes = {};   // further attributes: JSON with a leading comma
    std::string fill = "\"NaN\"";  // JSON
    std::string more = {};         // further members of .zarray, with a leading comma
    std::function<bool(const std::vector<Index>&)> keeps = {};  // true for the chunks to write
  };

  std::string path;

  explicit ZarrMaker(std::string at, const std::string& attributes = "{}") : path(std::move(at)) {
    std::filesystem::create_directories(path);
    put(".zgroup", "{\"zarr_format\": 2}");
    put(".zattrs", attributes);
  }

  void put(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + name).parent_path());
    std::ofstream(path + "/" + name, std::ios::binary) << text;
  }

  /// `value` returns an element by its index.
  template <class T>
  void array(const Array& a, const std::function<T(const std::vector<Index>&)>& value) const {
    const std::string compressor =
        a.codec == "none"    ? "null"
        : a.codec == "blosc" ? R"({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0})"
                             : fmt::format("{{\"id\": \"{}\", \"level\": 1}}", a.codec);
    put(a.name + "/.zarray",
        fmt::format(
            "{{\"zarr_format\": 2, \"shape\": [{}], \"chunks\": [{}], \"dtype\": \"{}\", \"order\": \"C\", "
            "\"compressor\": {}, \"fill_value\": {}, \"filters\": null, \"dimension_separator\": \"{}\"{}}}",
            fmt::join(a.shape, ", "), fmt::join(a.chunks, ", "), a.dtype, compressor, a.fill, a.separator,
            a.more));
    put(a.name + "/.zattrs", fmt::format("{{\"_ARRAY_DIMENSIONS\": [{}]{}}}", a.dimensions, a.attributes));
    const std::size_t rank = a.shape.size();
    std::vector<Index> chunk(rank, 0);
    const auto next = [](std::vector<Index>& counter, const auto& end) {
      for (std::size_t d = counter.size(); d-- > 0;) {
        if (++counter[d] < end(d)) return true;
        counter[d] = 0;
      }
      return false;
    };
    do {
      if (a.keeps && !a.keeps(chunk)) continue;
      std::string bytes;
      std::vector<Index> at(rank, 0), place(rank);
      do {
        bool inside = true;
        for (std::size_t d = 0; d < rank; ++d) {
          place[d] = chunk[d] * a.chunks[d] + at[d];
          inside = inside && place[d] < a.shape[d];
        }
        const T x = inside ? value(place) : T{};
        bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
      } while (next(at, [&](std::size_t d) { return a.chunks[d]; }));
      put(fmt::format("{}/{}", a.name, fmt::join(chunk, a.separator)), compressed(a.codec, bytes, sizeof(T)));
    } while (next(chunk, [&](std::size_t d) { return (a.shape[d] + a.chunks[d] - 1) / a.chunks[d]; }));
  }
};

}  // namespace rossby::testing_support
