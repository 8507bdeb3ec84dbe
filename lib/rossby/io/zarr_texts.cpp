// Texts in Zarr stores, such as names of nodes.
#include <cstring>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/zarr_store.hpp"

namespace rossby {

using detail::ZarrArray;
using detail::ZarrType;
using Kind = ZarrType::Kind;

namespace {

std::string utf8_of(std::uint32_t code) {
  std::string out;
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
  return out;
}

std::string fixed_text(const ZarrType& type, const char* from) {
  std::string text;
  if (type.kind == Kind::bytes) text.assign(from, static_cast<std::size_t>(type.bytes));
  for (int i = 0; type.kind == Kind::characters && i < type.bytes; i += 4) {
    std::uint32_t code = 0;
    std::memcpy(&code, from + i, sizeof code);
    if (code == 0) break;
    text += utf8_of(code);
  }
  return clean_text(text);
}

/// numcodecs' vlen-utf8: the number of texts, then a length and that many bytes for each.
std::vector<std::string> variable_texts(const std::vector<char>& bytes, const std::string& origin) {
  std::vector<std::string> texts;
  std::size_t at = 0;
  const auto number = [&] {
    std::uint32_t value = 0;
    if (bytes.size() - at < sizeof value)
      user_error(
          "{}: the texts of this chunk are cut off. The store may be damaged: copy or download the store "
          "again",
          origin);
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  };
  const std::uint32_t count = number();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t length = number();
    if (bytes.size() - at < length)
      user_error(
          "{}: the texts of this chunk are cut off. The store may be damaged: copy or download the store "
          "again",
          origin);
    texts.push_back(clean_text(std::string_view(bytes.data() + at, length)));
    at += length;
  }
  return texts;
}

}  // namespace

std::vector<std::string> ZarrStore::read_texts(const NetcdfVariable& variable) const {
  const ZarrArray& array = array_of(variable);
  if (variable.dimensions.size() != 1)
    user_error("{}: variable {} is not a list of names. Store strings in one dimension, or characters in two",
               path_, variable.name);
  check_memory(variable.size(), 40, fmt::format("{}: variable {}", path_, variable.name));
  std::vector<std::string> names;
  for (Index c = 0; c * array.chunks[0] < array.shape[0]; ++c) {
    const Chunk chunk = load(shown(variable).array, {c});
    const std::string path = chunk_path(array, {c});
    if (!chunk)
      user_error(
          "{}: this chunk of variable {} is missing. The store may be damaged: copy or download the store "
          "again",
          path, variable.name);
    const Index wanted = std::min(array.chunks[0], array.shape[0] - c * array.chunks[0]);
    if (array.type.kind == Kind::texts) {
      std::vector<std::string> some = variable_texts(*chunk, path);
      if (static_cast<Index>(some.size()) < wanted)
        user_error(
            "{}: the chunk has {} texts instead of {}. The store may be damaged: copy or download the store "
            "again",
            path, some.size(), wanted);
      names.insert(names.end(), some.begin(), some.begin() + wanted);
      continue;
    }
    for (Index i = 0; i < wanted; ++i)
      names.push_back(fixed_text(array.type, chunk->data() + i * array.type.bytes));
  }
  return names;
}

}  // namespace rossby
