#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// An element of a Zarr array: "<f4", "|u1", "<M8[ns]", "<U8".
struct ZarrType {
  enum class Kind { integer, without_sign, real, time, characters, bytes, texts };
  Kind kind = Kind::real;
  int bytes = 4;            // per element; 0 for texts of any length
  double milliseconds = 0;  // unit of a time

  [[nodiscard]] bool is_text() const {
    return kind == Kind::characters || kind == Kind::bytes || kind == Kind::texts;
  }
};

/// One array of a Zarr store, version 2, as described by its .zarray.
struct ZarrArray {
  enum class Codec { none, zlib, gzip, zstd, lz4, blosc };
  std::string name;  // its folder
  std::vector<Index> shape, chunks;
  ZarrType type;
  Codec codec = Codec::none;
  char separator = '.';
  std::optional<double> fill;  // none: null, or a text
  nlohmann::json attributes = nlohmann::json::object();

  [[nodiscard]] Index chunk_values() const;
  /// The file of a chunk below the array's folder: "0.3.1" or "0/3/1".
  [[nodiscard]] std::string chunk_name(const std::vector<Index>& chunk) const;
};

/// The whole metadata of a store.
struct ZarrMetadata {
  std::vector<ZarrArray> arrays;  // of the root group, by name
  std::vector<std::string> groups;
  std::vector<std::string> unreadable;  // omitted arrays, with the reason
  nlohmann::json attributes = nlohmann::json::object();
};

/// Parses JSON as written by Python: NaN and Infinity become texts. Throws UserError with `origin`.
[[nodiscard]] nlohmann::json parse_python_json(std::string_view text, const std::string& origin);

/// Parses .zarray and .zattrs of an array. Throws UserError with `origin` if the array is damaged or of an
/// unsupported kind: filters, Fortran order, objects, big-endian numbers, other compressors.
[[nodiscard]] ZarrArray parse_zarr_array(const std::string& name, const nlohmann::json& zarray,
                                         nlohmann::json attributes, const std::string& origin);

/// Reads .zmetadata. If that is missing, reads .zattrs and the folder of each array. Throws UserError if
/// `path` is no Zarr store of version 2.
[[nodiscard]] ZarrMetadata read_zarr_metadata(const std::string& path);

/// The `size` bytes of a chunk. Throws UserError with `origin` if their number differs or they are damaged.
[[nodiscard]] std::vector<char> decode_zarr_chunk(ZarrArray::Codec codec, std::vector<char>&& stored,
                                                  std::size_t size, const std::string& origin);

}  // namespace rossby::detail
