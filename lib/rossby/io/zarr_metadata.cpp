// Zarr stores, version 2: https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html
#include "rossby/io/zarr_metadata.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/files.hpp"

namespace rossby::detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Kind = ZarrType::Kind;

constexpr Index largest_chunk = Index{1} << 31;  // bytes, the limit of common compressors
constexpr std::size_t most_dimensions = 32;
constexpr std::string_view write_anew =
    "Write the data with xarray, ds.to_zarr(\"new.zarr\"), and use the new store";

std::string member(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_null(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() || found->is_null();
}

std::vector<Index> lengths(const Json& zarray, const char* name, Index least, const std::string& origin) {
  const auto found = zarray.find(name);
  std::vector<Index> list;
  if (found == zarray.end() || !found->is_array() || found->size() > most_dimensions)
    user_error("{}: {} is not a list of lengths. The store may be damaged: copy or download the store again",
               origin, name);
  for (const Json& length : *found) {
    if (!length.is_number_integer() ||
        (length.is_number_unsigned() && length.get<std::uint64_t>() > std::uint64_t{1} << 62) ||
        length.get<Index>() < least)
      user_error(
          "{}: {} contains {}, which is not a length. The store may be damaged: copy or download the store "
          "again",
          origin, name, length.dump(-1, ' ', true, Json::error_handler_t::replace));
    list.push_back(length.get<Index>());
  }
  return list;
}

/// "M8[ns]": the unit in milliseconds; 0 if there is none.
double time_unit(std::string_view text) {
  struct Unit {
    std::string_view name;
    double milliseconds;
  };
  for (const Unit& unit : {Unit{"[D]", 86'400'000}, Unit{"[h]", 3'600'000}, Unit{"[m]", 60'000},
                           Unit{"[s]", 1000}, Unit{"[ms]", 1}, Unit{"[us]", 1e-3}, Unit{"[ns]", 1e-6}})
    if (unit.name == text) return unit.milliseconds;
  return 0;
}

ZarrType parse_type(const Json& zarray, const std::string& origin) {
  const auto found = zarray.find("dtype");
  if (found == zarray.end())
    user_error("{}: the array has no dtype. The store may be damaged: copy or download the store again",
               origin);
  if (!found->is_string())
    user_error(
        "{}: each element of this array has several fields, which Rossby does not read. Write each field as "
        "a "
        "variable of its own, for example with xarray: ds.to_zarr(\"new.zarr\")",
        origin);
  const std::string text = found->get<std::string>();
  const auto refuse = [&](const std::string& why) {
    user_error("{}: dtype \"{}\" {}", origin, utf8_text(text), why);
  };
  if (text == "|O") {
    const auto filters = zarray.find("filters");
    const bool texts = filters != zarray.end() && filters->is_array() && filters->size() == 1 &&
                       member((*filters)[0], "id") == "vlen-utf8";
    if (texts) return {Kind::texts, 0, 0};
    refuse(fmt::format("is Python objects, which are not read. {}", write_anew));
  }
  if (text.size() < 3) refuse("is not known. The store may be damaged: copy or download the store again");
  int size = 0;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), size);
  if (error != std::errc() || size < 1 || size > 1 << 16)
    refuse("is not known. The store may be damaged: copy or download the store again");
  const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const char order = text[0], letter = text[1];
  if (order == '>' && size > 1) refuse(fmt::format("is big-endian, which is not read. {}", write_anew));
  if (order != '<' && order != '|' && order != '>')
    refuse("is not known. The store may be damaged: copy or download the store again");
  const bool of_integers = size == 1 || size == 2 || size == 4 || size == 8;
  if (letter == 'M' && size == 8) {
    const double unit = time_unit(rest);
    if (unit == 0)
      refuse("counts time in an unsupported unit. Store the times in one of s, ms, us, ns, m, h and D");
    return {Kind::time, 8, unit};
  }
  if (!rest.empty()) refuse("is not known. The store may be damaged: copy or download the store again");
  if (letter == 'i' && of_integers) return {Kind::integer, size, 0};
  if ((letter == 'u' && of_integers) || (letter == 'b' && size == 1)) return {Kind::without_sign, size, 0};
  if (letter == 'f' && (size == 4 || size == 8)) return {Kind::real, size, 0};
  if (letter == 'U' && size <= 1 << 12) return {Kind::characters, 4 * size, 0};
  if (letter == 'S') return {Kind::bytes, size, 0};
  refuse(fmt::format("is not read, only integers, float32, float64, times and texts. {}", write_anew));
  return {};
}

ZarrArray::Codec parse_codec(const Json& zarray, const std::string& origin) {
  if (is_null(zarray, "compressor")) return ZarrArray::Codec::none;
  const std::string id = member(zarray["compressor"], "id");
  constexpr std::pair<std::string_view, ZarrArray::Codec> known[] = {{"zlib", ZarrArray::Codec::zlib},
                                                                     {"gzip", ZarrArray::Codec::gzip},
                                                                     {"zstd", ZarrArray::Codec::zstd},
                                                                     {"lz4", ZarrArray::Codec::lz4},
                                                                     {"blosc", ZarrArray::Codec::blosc}};
  for (const auto& [name, codec] : known)
    if (name == id) return codec;
  user_error(
      "{}: compressor \"{}\" is not read, only zlib, gzip, zstd, lz4 and blosc. Write the variable again "
      "with xarray, ds.to_zarr(\"new.zarr\", encoding={{\"{}\": {{\"compressor\": numcodecs.Zstd()}}}})",
      origin, utf8_text(id), "VARIABLE");
}

std::optional<double> parse_fill(const Json& zarray, const ZarrType& type, const std::string& origin) {
  const auto found = zarray.find("fill_value");
  if (found == zarray.end() || found->is_null() || type.is_text()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  if (found->is_boolean()) return found->get<bool>() ? 1 : 0;
  const std::string text = found->is_string() ? found->get<std::string>() : "?";
  if (text == "NaN" || text == "NaT") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (type.kind == Kind::time) return std::numeric_limits<double>::quiet_NaN();
  user_error("{}: fill_value {} is not a number. The store may be damaged: copy or download the store again",
             origin, found->dump(-1, ' ', true, Json::error_handler_t::replace));
}

Json read_json(const std::string& path) {
  return parse_python_json(read_text(path), path);
}

void sort_arrays(ZarrMetadata& store) {
  std::sort(store.arrays.begin(), store.arrays.end(),
            [](const ZarrArray& a, const ZarrArray& b) { return a.name < b.name; });
  std::sort(store.groups.begin(), store.groups.end());
}

/// An unreadable array does not stop the others from being read: the error appears when it is requested.
void add_array(ZarrMetadata& store, const std::string& path, const std::string& name, const Json& zarray,
               Json attributes) {
  try {
    store.arrays.push_back(parse_zarr_array(name, zarray, std::move(attributes),
                                            fmt::format("{}: array {}", path, utf8_text(name))));
  } catch (const UserError& error) {
    store.unreadable.emplace_back(error.what());
  }
}

void read_consolidated(ZarrMetadata& store, const std::string& path, const Json& metadata) {
  const auto member_of = [&](const std::string& key) {
    const auto found = metadata.find(key);
    return found != metadata.end() && found->is_object() ? *found : Json::object();
  };
  store.attributes = member_of(".zattrs");
  for (const auto& [key, value] : metadata.items()) {
    const auto slash = key.find('/');
    if (slash == std::string::npos) continue;
    const std::string name = key.substr(0, slash), file = key.substr(slash + 1);
    if (file == ".zgroup") store.groups.push_back(name);
    if (file == ".zarray") add_array(store, path, name, value, member_of(name + "/.zattrs"));
  }
}

void read_folders(ZarrMetadata& store, const std::string& path) {
  std::error_code code;
  if (fs::exists(path + "/.zattrs", code)) store.attributes = read_json(path + "/.zattrs");
  for (fs::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string(), folder = path + "/" + name;
    std::error_code ignored;
    if (fs::exists(folder + "/.zgroup", ignored)) store.groups.push_back(name);
    if (!fs::exists(folder + "/.zarray", ignored)) continue;
    Json attributes = Json::object();
    if (fs::exists(folder + "/.zattrs", ignored)) attributes = read_json(folder + "/.zattrs");
    add_array(store, path, name, read_json(folder + "/.zarray"), std::move(attributes));
  }
  if (code) user_error("{}: cannot read this folder: {}. Check the permissions", path, code.message());
}

}  // namespace

Index ZarrArray::chunk_values() const {
  Index values = 1;
  for (const Index length : chunks) values *= length;
  return values;
}

std::string ZarrArray::chunk_name(const std::vector<Index>& chunk) const {
  if (chunk.empty()) return "0";
  std::string file;
  for (const Index place : chunk) {
    if (!file.empty()) file += separator;
    file += std::to_string(place);
  }
  return file;
}

Json parse_python_json(std::string_view text, const std::string& origin) {
  std::string json;
  json.reserve(text.size());
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      json += c;
      json += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    bool replaced = false;
    if (!quoted)
      for (const std::string_view word : {"NaN", "-Infinity", "Infinity"})
        if (text.substr(i).starts_with(word)) {
          ((json += '"') += word) += '"';
          i += word.size() - 1;
          replaced = true;
          break;
        }
    if (!replaced) json += c;
  }
  Json parsed = Json::parse(json, nullptr, false);
  if (!parsed.is_object())
    user_error(
        "{}: the file is not a JSON object. The store may be damaged: copy or download the store again",
        origin);
  return parsed;
}

ZarrArray parse_zarr_array(const std::string& name, const Json& zarray, Json attributes,
                           const std::string& origin) {
  if (!zarray.is_object())
    user_error(
        "{}: the metadata are not a JSON object. The store may be damaged: copy or download the store again",
        origin);
  const auto format = zarray.find("zarr_format");
  if (format == zarray.end() || !format->is_number_integer() || *format != 2)
    user_error(
        "{}: zarr_format is not 2. Write version 2 with xarray, ds.to_zarr(\"new.zarr\", zarr_format=2)",
        origin);
  ZarrArray array;
  array.name = name;
  array.shape = lengths(zarray, "shape", 0, origin);
  array.chunks = lengths(zarray, "chunks", 1, origin);
  if (array.chunks.size() != array.shape.size())
    user_error(
        "{}: the array has {} dimensions, but chunks of {} dimensions. The store may be damaged: copy or "
        "download the store again",
        origin, array.shape.size(), array.chunks.size());
  array.type = parse_type(zarray, origin);
  if (const std::string order = member(zarray, "order"); order == "F" && array.shape.size() > 1)
    user_error("{}: its chunks are in Fortran order (order \"F\"), which is not read. {}", origin,
               write_anew);
  else if (order != "C" && order != "F")
    user_error("{}: order \"{}\" is unknown. The store may be damaged: copy or download the store again",
               origin, utf8_text(order));
  if (!is_null(zarray, "filters") && array.type.kind != Kind::texts) {
    const Json& filters = zarray["filters"];
    if (!filters.is_array())
      user_error("{}: the filters are not a list. The store may be damaged: copy or download the store again",
                 origin);
    if (!filters.empty())
      user_error("{}: filter \"{}\" is not read. Remove the filters from the encoding. {}", origin,
                 utf8_text(member(filters[0], "id")), write_anew);
  }
  if (const std::string separator = member(zarray, "dimension_separator"); separator == "/")
    array.separator = '/';
  else if (!separator.empty() && separator != ".")
    user_error(
        "{}: dimension_separator \"{}\" is neither \".\" nor \"/\". The store may be damaged: copy or "
        "download the store again",
        origin, utf8_text(separator));
  array.codec = parse_codec(zarray, origin);
  array.fill = parse_fill(zarray, array.type, origin);
  double bytes = std::max(array.type.bytes, 1);
  for (const Index length : array.chunks) bytes *= static_cast<double>(length);
  if (bytes >= static_cast<double>(largest_chunk))
    user_error(
        "{}: a chunk has {:.3g} bytes, more than the limit of 2 GiB. Write smaller chunks with xarray, "
        "ds.chunk(...).to_zarr(\"new.zarr\")",
        origin, bytes);
  if (attributes.is_object()) array.attributes = std::move(attributes);
  return array;
}

ZarrMetadata read_zarr_metadata(const std::string& path) {
  std::error_code code;
  const auto holds = [&](const char* name) { return fs::exists(path + "/" + name, code); };
  const bool consolidated = holds(".zmetadata");
  if (!consolidated && !holds(".zgroup")) {
    if (holds("zarr.json"))
      user_error(
          "{}: this Zarr store has version 3, which is not read. Write version 2 with xarray, "
          "ds.to_zarr(\"new.zarr\", zarr_format=2)",
          path);
    if (holds(".zarray"))
      user_error(
          "{}: this is one array of a Zarr store. Name the folder of the store, which contains .zgroup",
          path);
    user_error(
        "{}: this folder is not a Zarr store, because it has neither .zgroup nor .zmetadata. To read the "
        "files of the folder, give a pattern such as \"{}/*.nc\"",
        path, path);
  }
  ZarrMetadata store;
  if (consolidated) {
    const Json all = read_json(path + "/.zmetadata");
    const auto metadata = all.find("metadata");
    if (metadata == all.end() || !metadata->is_object())
      user_error(
          "{}/.zmetadata: the file has no entry \"metadata\". The store may be damaged: copy or download "
          "the store again",
          path);
    read_consolidated(store, path, *metadata);
  } else {
    const Json group = read_json(path + "/.zgroup");
    if (const auto format = group.find("zarr_format"); format == group.end() || *format != 2)
      user_error(
          "{}/.zgroup: zarr_format is not 2. Write version 2 with xarray, ds.to_zarr(\"new.zarr\", "
          "zarr_format=2)",
          path);
    read_folders(store, path);
  }
  sort_arrays(store);
  return store;
}

}  // namespace rossby::detail
