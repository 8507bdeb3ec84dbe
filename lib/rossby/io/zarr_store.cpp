#include "rossby/io/zarr_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/zarr_convert.hpp"

namespace rossby {
namespace {

using detail::ZarrArray;
using detail::ZarrType;
using Json = nlohmann::json;
using Kind = ZarrType::Kind;

constexpr std::size_t largest_chunk_file = std::size_t{1} << 31;

NetcdfType type_of(const ZarrType& type) {
  switch (type.kind) {
    case Kind::real:
      return type.bytes == 4 ? NetcdfType::float32 : NetcdfType::float64;
    case Kind::time:
      return NetcdfType::float64;
    case Kind::integer:
      return type.bytes == 1   ? NetcdfType::int8
             : type.bytes == 4 ? NetcdfType::int32
                               : NetcdfType::other_integer;
    case Kind::without_sign:
      return NetcdfType::other_integer;
    case Kind::characters:
    case Kind::bytes:
    case Kind::texts:
      break;
  }
  return NetcdfType::text;
}

/// The names of dimensions that xarray writes; without them, names of the array's own.
std::vector<std::string> dimension_names(const ZarrArray& array) {
  const auto found = array.attributes.find("_ARRAY_DIMENSIONS");
  std::vector<std::string> names;
  if (found != array.attributes.end() && found->is_array() && found->size() == array.shape.size())
    for (const Json& name : *found)
      if (name.is_string()) names.push_back(name.get<std::string>());
  if (names.size() == array.shape.size()) return names;
  names.clear();
  for (std::size_t d = 0; d < array.shape.size(); ++d)
    names.push_back(fmt::format("{}_dim{}", array.name, d));
  return names;
}

/// Reads a whole file; none if it does not exist.
std::optional<std::vector<char>> read_chunk(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  const auto refuse = [&](int cause) {
    if (file >= 0) ::close(file);
    user_error("{}: cannot read this file: {}. Check the permissions, or copy the store again", path,
               std::strerror(cause));
  };
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0) refuse(errno);
  if (S_ISDIR(status.st_mode)) refuse(EISDIR);
  if (static_cast<std::uint64_t>(status.st_size) > largest_chunk_file) refuse(EFBIG);
  std::vector<char> bytes(static_cast<std::size_t>(status.st_size));
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t count = ::read(file, bytes.data() + at, bytes.size() - at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse(errno);
    if (count == 0) break;  // the file has become shorter
    at += static_cast<std::size_t>(count);
  }
  ::close(file);
  bytes.resize(at);
  return bytes;
}

}  // namespace

std::unique_ptr<ZarrStore> ZarrStore::open(const std::string& path) {
  return std::unique_ptr<ZarrStore>(new ZarrStore(path));
}

ZarrStore::ZarrStore(const std::string& path) : ArrayFile(path), store_(detail::read_zarr_metadata(path)) {
  const bool lists = store_.attributes.contains("variables") && store_.attributes["variables"].is_array();
  const auto has_array = [&](const char* name) {
    return std::any_of(store_.arrays.begin(), store_.arrays.end(),
                       [&](const ZarrArray& array) { return array.name == name; });
  };
  lists&& has_array("data") && has_array("dates") ? show_anemoi() : show_arrays();
}

void ZarrStore::show(const std::string& name, Shown shown, std::vector<std::string> dimensions) {
  const ZarrArray& array = store_.arrays[shown.array];
  NetcdfVariable variable{static_cast<int>(shown_.size()), name, type_of(array.type), {}};
  for (std::size_t d = 0, n = 0; d < array.shape.size(); ++d)
    if (static_cast<int>(d) != shown.fixed) variable.dimensions.push_back({dimensions[n++], array.shape[d]});
  Json& attributes = shown.attributes;
  if (array.type.kind == Kind::time) {
    attributes["units"] = "milliseconds since 1970-01-01";
    attributes["calendar"] = "proleptic_gregorian";
  }
  // 0 counts as a value in coordinates, because plain writers use it as fill value; in data xarray takes it
  // as missing.
  const bool counts = array.fill && (variable.dimensions.size() > 1 || *array.fill != 0);
  if (counts && !attributes.contains("_FillValue") && !std::isnan(*array.fill))
    attributes["_FillValue"] = *array.fill;
  shown_.push_back(std::move(shown));
  add(std::move(variable));
}

void ZarrStore::show_arrays() {
  for (std::size_t a = 0; a < store_.arrays.size(); ++a)
    show(store_.arrays[a].name, {a, -1, 0, store_.arrays[a].attributes}, dimension_names(store_.arrays[a]));
}

void ZarrStore::show_anemoi() {
  const Json& names = store_.attributes["variables"];
  for (std::size_t a = 0; a < store_.arrays.size(); ++a) {
    const ZarrArray& array = store_.arrays[a];
    const std::size_t rank = array.shape.size();
    if (array.name == "data") {
      if (rank != 4 || array.shape[1] != static_cast<Index>(names.size()))
        user_error(
            "{}: data has {} dimensions and {} variables, but attribute variables has {} names. Use an "
            "Anemoi dataset with data(time, variable, ensemble, cell)",
            path_, rank, rank > 1 ? array.shape[1] : 0, names.size());
      for (std::size_t v = 0; v < names.size(); ++v) {
        if (!names[v].is_string())
          user_error(
              "{}: attribute variables is not a list of names. The store may be damaged: copy or download "
              "the store again",
              path_);
        show(names[v].get<std::string>(),
             {a, 1, static_cast<Index>(v), {{"coordinates", "time latitudes longitudes"}}},
             {"time", "ensemble", "cell"});
      }
    }
    if (array.name == "dates" && rank == 1) show("time", {a, -1, 0, array.attributes}, {"time"});
    if (array.name == "latitudes" && rank == 1)
      show(array.name, {a, -1, 0, {{"units", "degrees_north"}}}, {"cell"});
    if (array.name == "longitudes" && rank == 1)
      show(array.name, {a, -1, 0, {{"units", "degrees_east"}}}, {"cell"});
  }
}

std::string ZarrStore::remark(const NetcdfVariable& variable) const {
  const ZarrArray& array = array_of(variable);
  if (!array.fill || *array.fill != 0 || array.attributes.contains("_FillValue")) return "";
  return fmt::format("{}: fill_value is 0: values of 0 are read as missing, as in xarray", variable.name);
}

std::vector<Index> ZarrStore::chunks(const NetcdfVariable& variable) const {
  std::vector<Index> lengths = array_of(variable).chunks;
  if (const int fixed = shown(variable).fixed; fixed >= 0) lengths.erase(lengths.begin() + fixed);
  return lengths;
}

void ZarrStore::pause() noexcept {
  kept_.clear();
  kept_bytes_ = 0;
}

void ZarrStore::cache_chunks(const NetcdfVariable& variable, Index bytes) const {
  const ZarrArray& array = array_of(variable);
  const int fixed = shown(variable).fixed;
  const Index beside = fixed < 0 ? 1 : array.chunks[static_cast<std::size_t>(fixed)];
  constexpr double most = Index{512} << 20;
  const auto wanted =
      static_cast<std::size_t>(std::min(most, static_cast<double>(bytes) * static_cast<double>(beside)));
  most_bytes_ = std::max(most_bytes_, wanted);
}

std::string ZarrStore::chunk_path(const ZarrArray& array, const std::vector<Index>& place) const {
  return fmt::format("{}/{}/{}", path_, array.name, array.chunk_name(place));
}

void ZarrStore::check_claim(const NetcdfVariable& variable) const {
  constexpr double always = Index{1} << 22, sparse = 1032;
  const ZarrArray& array = array_of(variable);
  const double values = static_cast<double>(variable.size());
  if (values <= always) return;
  // Number of chunks from which the claim is plausible; a complete store has many more.
  const double needed = values / sparse / static_cast<double>(array.chunk_values());
  double found = 0;
  std::error_code code;
  namespace fs = std::filesystem;
  for (fs::recursive_directory_iterator entry(path_ + "/" + array.name, code), end; !code && entry != end;
       entry.increment(code)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with('.') || entry->is_directory(ignored)) continue;
    if (++found >= needed) return;
  }
  user_error(
      "{}: variable {} claims {:.3g} values, but has {} chunks of {}. The store may be damaged: copy or "
      "download the store again",
      path_, variable.name, values, found, array.chunk_values());
}

void ZarrStore::check_written(const NetcdfVariable& variable) const {
  const ZarrArray& array = array_of(variable);
  if (variable.size() <= 1 && array.fill) return;
  if (variable.size() == 0) return;
  std::vector<Index> place(array.shape.size(), 0);
  while (true) {
    const std::string path = chunk_path(array, place);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
      user_error(
          "{}: variable {} needs all chunks, but chunk {} cannot be read ({}). The store may be damaged: "
          "copy or download the store again",
          path_, variable.name, path, std::strerror(errno));
    std::size_t d = place.size();
    while (d-- > 0) {
      if (++place[d] * array.chunks[d] < array.shape[d]) break;
      place[d] = 0;
    }
    if (d > place.size()) return;  // all places done
  }
}

ZarrStore::Chunk ZarrStore::load(std::size_t number, const std::vector<Index>& place) const {
  const ZarrArray& array = store_.arrays[number];
  std::string name = array.chunk_name(place);
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept)
    if (kept->array == number && kept->name == name) {
      kept_.splice(kept_.begin(), kept_, kept);
      return kept->chunk;
    }
  const std::string path = chunk_path(array, place);
  Chunk chunk;
  if (auto stored = read_chunk(path)) {
    const Index bytes = array.chunk_values() * array.type.bytes;  // texts: 0, unknown
    check_memory(std::max<Index>(bytes, 1), 1, path);
    chunk = std::make_shared<const std::vector<char>>(
        detail::decode_zarr_chunk(array.codec, std::move(*stored), static_cast<std::size_t>(bytes), path));
  }
  kept_.push_front({number, std::move(name), chunk});
  kept_bytes_ += chunk ? chunk->size() : 0;
  while (kept_bytes_ > most_bytes_ && kept_.size() > 1) {
    kept_bytes_ -= kept_.back().chunk ? kept_.back().chunk->size() : 0;
    kept_.pop_back();
  }
  constexpr std::size_t most_kept = 4096;
  if (kept_.size() > most_kept) {
    kept_bytes_ -= kept_.back().chunk ? kept_.back().chunk->size() : 0;
    kept_.pop_back();
  }
  return chunk;
}

template <class T>
void ZarrStore::read_as(const NetcdfVariable& variable, std::span<const Index> start,
                        std::span<const Index> count, T* out) const {
  require(start.size() == variable.dimensions.size() && count.size() == start.size(),
          "a hyperslab has all dimensions");
  if (variable.type == NetcdfType::text)
    user_error("{}: variable {} is text, not numbers. Choose a numeric variable", path_, variable.name);
  const Shown& how = shown(variable);
  const ZarrArray& array = store_.arrays[how.array];
  std::vector<Index> first(start.begin(), start.end()), length(count.begin(), count.end());
  if (how.fixed >= 0) {
    first.insert(first.begin() + how.fixed, how.place);
    length.insert(length.begin() + how.fixed, 1);
  }
  for (const Index l : length)
    if (l == 0) return;
  const std::size_t rank = first.size();
  if (rank == 0) {  // a single value
    const Chunk chunk = load(how.array, {});
    if (chunk) detail::convert_elements(array.type, chunk->data(), 1, 1, out);
    if (!chunk)
      *out = detail::convert_element<T>(array.fill.value_or(std::numeric_limits<double>::quiet_NaN()));
    return;
  }
  std::vector<Index> place(rank), from(rank), to(rank), at(rank), in_chunk(rank, 1), in_out(rank, 1);
  for (std::size_t d = rank - 1; d-- > 0;) {
    in_chunk[d] = in_chunk[d + 1] * array.chunks[d + 1];
    in_out[d] = in_out[d + 1] * length[d + 1];
  }
  for (std::size_t d = 0; d < rank; ++d) place[d] = first[d] / array.chunks[d];
  const auto next = [&](std::vector<Index>& counter, const auto& begin, const auto& end) {
    for (std::size_t d = counter.size(); d-- > 0;) {
      if (++counter[d] < end(d)) return true;
      counter[d] = begin(d);
    }
    return false;
  };
  do {
    const Chunk chunk = load(how.array, place);
    if (!chunk && !array.fill)
      user_error(
          "{}: variable {} lacks chunk {}, and has no fill_value for missing chunks. The store may be "
          "damaged: copy or download the store again",
          path_, variable.name, chunk_path(array, place));
    for (std::size_t d = 0; d < rank; ++d) {
      from[d] = std::max(first[d], place[d] * array.chunks[d]);
      to[d] = std::min(first[d] + length[d], (place[d] + 1) * array.chunks[d]);
    }
    // Rows along the last dimension.
    const Index row = to[rank - 1] - from[rank - 1];
    at.assign(from.begin(), from.end() - 1);
    do {
      Index source = from[rank - 1] - place[rank - 1] * array.chunks[rank - 1];
      Index target = from[rank - 1] - first[rank - 1];
      for (std::size_t d = 0; d + 1 < rank; ++d) {
        source += (at[d] - place[d] * array.chunks[d]) * in_chunk[d];
        target += (at[d] - first[d]) * in_out[d];
      }
      if (chunk)
        detail::convert_elements(array.type, chunk->data() + source * array.type.bytes, row, 1, out + target);
      else
        std::fill_n(out + target, row, detail::convert_element<T>(*array.fill));
    } while (next(
        at, [&](std::size_t d) { return from[d]; }, [&](std::size_t d) { return to[d]; }));
  } while (next(
      place, [&](std::size_t d) { return first[d] / array.chunks[d]; },
      [&](std::size_t d) { return (first[d] + length[d] - 1) / array.chunks[d] + 1; }));
}

void ZarrStore::read(const NetcdfVariable& variable, std::span<const Index> start,
                     std::span<const Index> count, float* out) const {
  read_as(variable, start, count, out);
}
void ZarrStore::read(const NetcdfVariable& variable, std::span<const Index> start,
                     std::span<const Index> count, double* out) const {
  read_as(variable, start, count, out);
}
void ZarrStore::read(const NetcdfVariable& variable, std::span<const Index> start,
                     std::span<const Index> count, Index* out) const {
  read_as(variable, start, count, out);
}

}  // namespace rossby
