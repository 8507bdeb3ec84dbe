#include "rossby/io/raw_value.hpp"

#include <algorithm>

#include <toml++/toml.h>

#include "rossby/base/user_error.hpp"

namespace rossby::detail {
namespace {

std::string date_text(const toml::date& d) {
  return fmt::format("{:04}-{:02}-{:02}", d.year, d.month, d.day);
}

std::string time_text(const toml::time& t) {
  if (t.second == 0) return fmt::format("{:02}:{:02}", t.hour, t.minute);
  return fmt::format("{:02}:{:02}:{:02}", t.hour, t.minute, t.second);
}

RawValue convert(const toml::node& node) {
  using Kind = RawValue::Kind;
  RawValue value;
  if (const auto* text = node.as_string()) {
    value.kind = Kind::text;
    value.text = text->get();
    value.kind_name = "a text";
  } else if (const auto* integer = node.as_integer()) {
    value.kind = Kind::integer;
    value.integer = integer->get();
    value.real = static_cast<double>(integer->get());
    value.text = fmt::format("{}", integer->get());
    value.kind_name = "an integer";
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = Kind::real;
    value.real = real->get();
    value.text = fmt::format("{}", real->get());
    value.kind_name = "a real number";
  } else if (const auto* flag = node.as_boolean()) {
    value.kind = Kind::flag;
    value.flag = flag->get();
    value.text = flag->get() ? "true" : "false";
    value.kind_name = "a flag";
  } else if (const auto* date = node.as_date()) {
    value.kind = Kind::text;
    value.date = true;
    value.text = date_text(date->get());
    value.kind_name = "a date";
  } else if (const auto* moment = node.as_date_time(); moment && !moment->get().offset) {
    value.kind = Kind::text;
    value.date = true;
    value.text = date_text(moment->get().date) + "T" + time_text(moment->get().time);
    value.kind_name = "a date";
  } else if (const auto* array = node.as_array()) {
    value.kind = Kind::array;
    value.kind_name = "a list";
    for (const toml::node& item : *array) value.items.push_back(convert(item));
  } else {
    value.kind_name = node.is_table() ? "a table" : "a time with an offset";
  }
  return value;
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<Setting>& settings) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix.empty() ? std::string(name.str()) : prefix + "." + std::string(name.str());
    if (const auto* inner = node.as_table(); inner && !inner->empty())
      flatten(*inner, key, settings);
    else if (!inner)
      settings.push_back({key, convert(node), static_cast<int>(node.source().begin.line)});
  }
}

/// The index after the string that begins at `toml[begin]`, a quote. A single-line string ends with the line
/// at the latest: reporting invalid TOML is left to the library.
std::size_t behind_string(std::string_view toml, std::size_t begin) {
  const char quote = toml[begin];
  const std::string three(3, quote);
  const bool lines = toml.substr(begin, 3) == three;
  for (std::size_t at = begin + (lines ? 3 : 1); at < toml.size(); ++at) {
    if (toml[at] == '\\' && quote == '"') {
      ++at;
    } else if (lines && toml.substr(at, 3) == three) {
      // Up to two quotes that belong to the text may stand before the closing three.
      for (at += 3; at < toml.size() && toml[at] == quote;) ++at;
      return at;
    } else if (!lines && (toml[at] == quote || toml[at] == '\n')) {
      return toml[at] == quote ? at + 1 : at;
    }
  }
  return toml.size();
}

/// Both the library and this parser recurse once per part of a dotted key, so parts are counted first.
/// Returns the line of a key with too many parts, or 0.
int too_deep(std::string_view toml) {
  constexpr int most_dots = 15;
  int dots = 0;
  for (std::size_t at = 0; at < toml.size();) {
    const char c = toml[at];
    if (c == '"' || c == '\'') {
      at = behind_string(toml, at);
      continue;
    }
    if (c == '#') {
      at = std::min(toml.find('\n', at), toml.size());
      continue;
    }
    if (c == '\n' || c == '=' || c == ',' || c == '{' || c == '[') dots = 0;
    if (c == '.' && ++dots > most_dots)
      return 1 + static_cast<int>(std::ranges::count(toml.substr(0, at), '\n'));
    ++at;
  }
  return 0;
}

}  // namespace

namespace {

toml::table parse(std::string_view toml, const std::string& origin) {
  if (const int line = too_deep(toml); line > 0)
    user_error("{}:{}: the key has more than 16 parts. Write keys with two parts, table.name", origin, line);
  try {
    return toml::parse(toml);
  } catch (const toml::parse_error& error) {
    std::string what(error.description());
    for (char& c : what)
      if (c == '\n') c = ' ';
    user_error("{}:{}: not valid TOML: {}{}", origin, error.source().begin.line, what,
               is_utf8(toml) ? "" : ". Convert the file: iconv -f LATIN1 -t UTF-8 FILE > NEW");
  }
}

}  // namespace

std::vector<Setting> read_toml(std::string_view toml, const std::string& origin) {
  std::vector<Setting> settings;
  flatten(parse(toml, origin), "", settings);
  return settings;
}

std::vector<std::vector<Setting>> read_toml_tables(std::string_view toml, const std::string& origin,
                                                   const std::string& name) {
  const toml::table all = parse(toml, origin);
  std::vector<std::vector<Setting>> tables;
  for (const auto& [key, node] : all) {
    const toml::array* array = node.as_array();
    if (key.str() != name || !array || !array->is_homogeneous<toml::table>())
      user_error(
          "{}:{}: \"{}\" is not [[{}]], the only kind of table in this file. Rename or remove this entry",
          origin, node.source().begin.line, key.str(), name);
    for (const toml::node& table : *array) flatten(*table.as_table(), "", tables.emplace_back());
  }
  return tables;
}

std::string literal_of(const RawValue& value) {
  using Kind = RawValue::Kind;
  if (value.kind == Kind::text) return detail::quoted(value.text);
  if (value.kind != Kind::array) return value.text;
  std::string items;
  for (const RawValue& item : value.items) items += (items.empty() ? "" : ", ") + literal_of(item);
  return "[" + items + "]";
}

bool read_literal(std::string_view literal, RawValue& value) {
  if (literal.find_first_of("\r\n") != std::string_view::npos) return false;  // would be a second setting
  if (too_deep(literal) > 0) return false;
  try {
    const toml::table table = toml::parse("value = " + std::string(literal));
    const toml::node* node = table.get("value");
    if (table.size() != 1 || node == nullptr) return false;
    value = convert(*node);
    return true;
  } catch (const toml::parse_error&) {
    return false;
  }
}

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char lead = byte(i++);
    if (lead < 0x80) continue;
    if (lead < 0xc2 || lead > 0xf4) return false;
    const std::size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if (i + more > text.size()) return false;
    // Rejects overlong forms, surrogates and code points above U+10FFFF.
    const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (byte(i) < low || byte(i) > high) return false;
    for (std::size_t k = 1; k < more; ++k)
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    i += more;
  }
  return true;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else
      out += c;
  }
  return out + "\"";
}

std::string quoted(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += (out.empty() ? "[" : ", ") + detail::quoted(text);
  return out.empty() ? "[]" : out + "]";
}

}  // namespace rossby::detail
