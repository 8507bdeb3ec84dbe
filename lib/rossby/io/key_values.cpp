#include "rossby/io/key_values.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "rossby/base/text_hash.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/raw_value.hpp"

namespace rossby {
namespace {

using detail::RawValue;
using Kind = RawValue::Kind;

const KeySpec* find_key(const KeyTable& table, std::string_view name) {
  for (const KeySpec& key : table)
    if (key.name == name) return &key;
  return nullptr;
}

std::string_view last_part(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

/// "did you mean ...": the nearest key, or keys with the same last name in another table.
std::string hint(const KeyTable& keys, std::string_view unknown) {
  std::vector<std::string_view> names;
  std::string same_end, table;
  for (const KeySpec& key : keys) {
    names.push_back(key.name);
    if (last_part(key.name) == last_part(unknown))
      same_end += (same_end.empty() ? "" : " or ") + std::string(key.name);
    if (key.name.starts_with(std::string(unknown) + "."))
      table += (table.empty() ? "" : ", ") + std::string(key.name);
  }
  if (!table.empty()) return fmt::format("this is a table with the keys {}", table);
  if (!same_end.empty()) return fmt::format("did you mean {}?", same_end);
  if (const auto nearest = nearest_name(unknown, names); !nearest.empty())
    return fmt::format("the nearest key is {}", nearest);
  return "`rossby config` lists all keys";
}

const KeySpec& known_key(const KeyTable& table, std::string_view name, const std::string& where) {
  const KeySpec* key = find_key(table, name);
  if (key == nullptr) user_error("{}: unknown key {}: {}", where, name, hint(table, name));
  return *key;
}

bool chosen(std::string_view text, std::string_view choices) {
  if (choices.empty()) return true;
  while (true) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

std::vector<std::string> choice_list(std::string_view choices) {
  std::vector<std::string> list;
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    list.emplace_back(choices.substr(0, bar));
    choices = bar == std::string_view::npos ? "" : choices.substr(bar + 1);
  }
  return list;
}

std::string range_text(const KeySpec& key) {
  const bool low = key.low > -1e300, high = key.high < 1e300;
  const std::string unit = key.unit.empty() ? "" : " " + std::string(key.unit);
  if (low && high) return fmt::format("{} to {}{}", key.low, key.high, unit);
  if (low) return fmt::format("at least {}{}", key.low, unit);
  if (high) return fmt::format("at most {}{}", key.high, unit);
  return "";
}

std::string_view type_text(KeyType type) {
  switch (type) {
    case KeyType::text:
      return "a text";
    case KeyType::integer:
      return "an integer";
    case KeyType::real:
      return "a number";
    case KeyType::flag:
      return "true or false";
    case KeyType::text_list:
      return "a list of texts, [\"a\", \"b\"]";
    case KeyType::integer_list:
      return "a list of integers, [1, 2]";
    case KeyType::paths:
      return "a text, or a list of texts, [\"a\", \"b\"]";
  }
  return "";
}

/// A key and the place of its value; every error message goes through this class.
struct Place {
  const KeySpec& key;
  const std::string& where;

  [[noreturn]] void wrong_type(const RawValue& value) const {
    user_error("{}: {} needs {}, not {}{}", where, key.name, type_text(key.type), value.kind_name,
               value.text.empty() ? "" : " (" + value.text + ")");
  }
  void check_range(double value, const std::string& shown) const {
    if (!std::isfinite(value))
      user_error("{}: {} = {} is not a finite number. Give a finite number", where, key.name, shown);
    const bool low = value < key.low;
    const bool told = low ? key.low > -1e300 : key.high < 1e300;
    if (low || value > key.high)
      user_error("{}: {} = {} is out of range: the value must be {}", where, key.name, shown,
                 told ? range_text(key) : fmt::format("{} to {}", key.low, key.high));
  }
  std::string text(const RawValue& value) const {
    if (value.kind != Kind::text && value.kind != Kind::integer && value.kind != Kind::real)
      wrong_type(value);
    if (value.kind == Kind::real && !std::isfinite(value.real)) check_range(value.real, value.text);
    if (!chosen(value.text, key.choices)) {
      const auto choices = choice_list(key.choices);
      const auto nearest = nearest_name(value.text, choices);
      user_error("{}: {} = {} is not one of {}{}", where, key.name, detail::quoted(value.text),
                 fmt::join(choices, ", "),
                 nearest.empty() ? "" : fmt::format("; the nearest is {}", nearest));
    }
    return value.text;
  }
  Index integer(const RawValue& value) const {
    if (value.kind != Kind::integer) wrong_type(value);
    check_range(value.real, value.text);
    return value.integer;
  }
  double real(const RawValue& value) const {
    if (value.kind != Kind::integer && value.kind != Kind::real) wrong_type(value);
    check_range(value.real, value.text);
    return value.real;
  }
};

/// Bare words on the command line: `tanh`, `1986-08`, `tmax,tmin`, `1,2`.
RawValue command_line_value(const KeySpec& key, const std::string& text, const std::string& where) {
  RawValue value;
  const bool list = key.type == KeyType::text_list || key.type == KeyType::integer_list;
  const bool single = key.type == KeyType::text || key.type == KeyType::paths;
  const bool wordy = single || key.type == KeyType::text_list;
  if (detail::read_literal(text, value)) {
    // 1986-08-01 and 0.70 keep their written form.
    if (single && (value.kind != Kind::text || value.date) && value.kind != Kind::array)
      return {.kind = Kind::text, .text = text, .items = {}, .kind_name = "a text"};
    return value;
  }
  if (key.type == KeyType::integer_list && detail::read_literal("[" + text + "]", value)) return value;
  if (!wordy || text.starts_with('"') || text.starts_with('\'') || text.starts_with('['))
    user_error("{}: {} needs {}", where, key.name, type_text(key.type));
  const auto word = [](std::string_view w) {
    return RawValue{.kind = Kind::text, .text = std::string(w), .items = {}, .kind_name = "a text"};
  };
  if (!list) return word(text);
  value = {.kind = Kind::array, .text = "", .items = {}, .kind_name = "a list"};
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    value.items.push_back(word(std::string_view(text).substr(start, comma - start)));
    start = comma + 1;
  }
  return value;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

}  // namespace

struct KeyValuesBuilder {
  using Value = KeyValues::Value;

  static Value parse_value(const KeySpec& key, const RawValue& raw, const std::string& where) {
    const Place place{key, where};
    Value value;
    const RawValue* items = raw.kind == Kind::array ? raw.items.data() : &raw;
    const std::size_t count = raw.kind == Kind::array ? raw.items.size() : 1;
    switch (key.type) {
      case KeyType::text:
        value.text = place.text(raw);
        break;
      case KeyType::integer:
        value.integer = place.integer(raw);
        break;
      case KeyType::real:
        value.real = place.real(raw);
        break;
      case KeyType::flag:
        if (raw.kind != Kind::flag) place.wrong_type(raw);
        value.flag = raw.flag;
        break;
      case KeyType::text_list:
        for (std::size_t i = 0; i < count; ++i) value.texts.push_back(place.text(items[i]));
        break;
      case KeyType::integer_list:
        for (std::size_t i = 0; i < count; ++i) value.integers.push_back(place.integer(items[i]));
        break;
      case KeyType::paths:
        for (std::size_t i = 0; i < count; ++i) value.texts.push_back(place.text(items[i]));
        if (value.texts.size() == 1) value.text = value.texts.front();
        if (value.texts.size() == 1 && value.text.empty()) value.texts.clear();
        break;
    }
    return value;
  }

  static Value default_of(const KeySpec& key) {
    RawValue raw;
    require(detail::read_literal(key.default_value, raw), "a default value is a TOML literal");
    return parse_value(key, raw, "default");
  }

  static void set(KeyValues& config, const KeySpec& key, const RawValue& raw, const std::string& where) {
    Value value = parse_value(key, raw, where);
    value.given = true;
    config.values_.insert_or_assign(std::string(key.name), std::move(value));
  }

  static void set_all(KeyValues& config, std::span<const std::string> sets) {
    for (const std::string& setting : sets) {
      std::string where = "--set " + setting;
      std::replace_if(
          where.begin(), where.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
      // Settings are written as TOML into the run directory, which allows only UTF-8.
      if (!detail::is_utf8(setting))
        user_error(
            "{}: the text is not valid UTF-8. Give text in UTF-8; rename a file whose name is not UTF-8",
            where);
      const auto equals = setting.find('=');
      if (equals == std::string::npos) user_error("{}: the value is missing. Write --set key=value", where);
      const KeySpec& key =
          known_key(*config.table_, trimmed(std::string_view(setting).substr(0, equals)), "--set");
      set(config, key, command_line_value(key, trimmed(std::string_view(setting).substr(equals + 1)), where),
          where);
    }
  }

  /// The value as a TOML literal, to write, hash and compare.
  static std::string canonical(const KeySpec& key, const Value& value) {
    switch (key.type) {
      case KeyType::text:
        return detail::quoted(value.text);
      case KeyType::integer:
        return fmt::format("{}", value.integer);
      case KeyType::real:
        return fmt::format("{}", value.real == 0 ? 0.0 : value.real);  // one spelling of ±0
      case KeyType::flag:
        return value.flag ? "true" : "false";
      case KeyType::text_list:
        return detail::quoted(value.texts);
      case KeyType::integer_list:
        return fmt::format("[{}]", fmt::join(value.integers, ", "));
      case KeyType::paths:
        return value.texts.size() > 1 ? detail::quoted(value.texts) : detail::quoted(value.text);
    }
    return "";
  }

  static std::string canonical(const KeyValues& config, const KeySpec& key) {
    return canonical(key, config.value(key.name, key.type));
  }
};

KeyValues::KeyValues(const KeyTable& table) : table_(&table) {
  for (const KeySpec& key : table) {
    const bool is_new = values_.emplace(std::string(key.name), KeyValuesBuilder::default_of(key)).second;
    require(is_new, "a key stands once in its table");
  }
}

KeyValues KeyValues::parse(const KeyTable& table, std::string_view toml, const std::string& origin,
                           std::span<const std::string> sets) {
  KeyValues values(table);
  for (const detail::Setting& setting : detail::read_toml(toml, origin)) {
    const std::string where = setting.line > 0 ? fmt::format("{}:{}", origin, setting.line) : origin;
    KeyValuesBuilder::set(values, known_key(table, setting.key, where), setting.value, where);
  }
  KeyValuesBuilder::set_all(values, sets);
  return values;
}

KeyValues KeyValues::load(const KeyTable& table, const std::string& path, std::span<const std::string> sets) {
  if (path.empty()) return parse(table, "", "", sets);
  constexpr std::size_t most = std::size_t{1} << 24;  // data.file may list many thousands
  return parse(table, read_text(path, most), path, sets);
}

KeyValues KeyValues::with(std::span<const std::string> sets) const {
  KeyValues more = *this;
  KeyValuesBuilder::set_all(more, sets);
  return more;
}

KeyValues KeyValues::with_default(std::string_view key, const std::string& value) const {
  KeyValues other = *this;
  if (given(key)) return other;
  const KeySpec* spec = find_key(*table_, key);
  require(spec != nullptr, "the configuration key exists");
  other.values_.insert_or_assign(std::string(key), KeyValuesBuilder::default_of(*spec));
  if (value.empty()) return other;
  KeyValuesBuilder::set_all(other, std::vector{fmt::format("{}={}", key, value)});
  other.values_.find(key)->second.given = false;
  return other;
}

const KeyValues::Value& KeyValues::value(std::string_view key, KeyType type) const {
  const KeySpec* spec = find_key(*table_, key);
  require(spec != nullptr, "the configuration key exists");
  require(spec->type == type, "the configuration key is asked for by its type");
  return values_.find(key)->second;
}

const std::string& KeyValues::text(std::string_view key) const {
  const KeySpec* spec = find_key(*table_, key);
  const bool paths = spec != nullptr && spec->type == KeyType::paths;
  const Value& found = value(key, paths ? KeyType::paths : KeyType::text);
  require(found.texts.size() <= 1, "the key has one text");
  return found.text;
}
Index KeyValues::integer(std::string_view key) const {
  return value(key, KeyType::integer).integer;
}
double KeyValues::real(std::string_view key) const {
  return value(key, KeyType::real).real;
}
bool KeyValues::flag(std::string_view key) const {
  return value(key, KeyType::flag).flag;
}
const std::vector<std::string>& KeyValues::texts(std::string_view key) const {
  return value(key, KeyType::text_list).texts;
}
const std::vector<Index>& KeyValues::integers(std::string_view key) const {
  return value(key, KeyType::integer_list).integers;
}
PathList KeyValues::paths(std::string_view key) const {
  return {value(key, KeyType::paths).texts};
}

bool KeyValues::given(std::string_view key) const {
  const auto found = values_.find(key);
  require(found != values_.end(), "the configuration key exists");
  return found->second.given;
}

bool KeyValues::is_default(std::string_view key) const {
  const KeySpec* spec = find_key(*table_, key);
  require(spec != nullptr, "the configuration key exists");
  return KeyValuesBuilder::canonical(*this, *spec) ==
         KeyValuesBuilder::canonical(*spec, KeyValuesBuilder::default_of(*spec));
}

std::string KeyValues::to_toml() const {
  std::string out, table;
  for (const KeySpec& key : *table_) {
    const auto dot = key.name.rfind('.');
    if (const auto here = key.name.substr(0, dot); here != table) {
      table = here;
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", table);
    }
    out +=
        fmt::format("# {}{}\n{} = {}\n", key.meaning, key.unit.empty() ? "" : fmt::format(" [{}]", key.unit),
                    key.name.substr(dot + 1), KeyValuesBuilder::canonical(*this, key));
  }
  return out;
}

std::string KeyValues::hash() const {
  TextHash hash;
  for (const KeySpec& key : *table_)
    if (!key.harmless && !(key.added && is_default(key.name)))
      hash.add_format("{}={}\n", key.name, KeyValuesBuilder::canonical(*this, key));
  return fmt::format("{:016x}", hash.value());
}

std::vector<std::string> KeyValues::differences(const KeyValues& other, std::string_view this_is,
                                                std::string_view other_is) const {
  std::vector<std::string> lines;
  for (const KeySpec& key : *table_) {
    if (key.harmless) continue;
    const std::string here = KeyValuesBuilder::canonical(*this, key),
                      there = KeyValuesBuilder::canonical(other, key);
    if (here != there)
      lines.push_back(other_is.empty()
                          ? fmt::format("{}: {} ({}) instead of {}", key.name, here, this_is, there)
                          : fmt::format("{}: {} ({}), {} ({})", key.name, here, this_is, there, other_is));
  }
  return lines;
}

std::vector<std::string> KeyValues::changes(const KeyValues& before) const {
  std::vector<std::string> lines;
  for (const KeySpec& key : *table_) {
    if (!key.harmless) continue;
    const std::string here = KeyValuesBuilder::canonical(*this, key),
                      there = KeyValuesBuilder::canonical(before, key);
    if (here != there) lines.push_back(fmt::format("{} = {} instead of {}", key.name, here, there));
  }
  return lines;
}

std::string describe_keys(const KeyTable& table) {
  std::string out, group;
  for (const KeySpec& key : table) {
    if (const auto here = key.name.substr(0, key.name.rfind('.')); here != group) {
      group = here;
      out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", group);
    }
    const std::string_view models = key.models;
    out += fmt::format("  {:<28} {:<12} {:<7} {}{}{}\n", key.name, key.default_value, key.unit, models,
                       models.empty() ? "" : ": ", key.meaning);
    std::string allowed =
        key.choices.empty() ? range_text(key) : fmt::format("{}", fmt::join(choice_list(key.choices), ", "));
    if (!allowed.empty()) allowed = "allowed: " + allowed;
    if (key.harmless)
      allowed += allowed.empty() ? "may change when a run goes on" : "; may change when a run goes on";
    if (!allowed.empty()) out += fmt::format("  {:<28} {:<12} {:<7}   {}\n", "", "", "", allowed);
  }
  return out;
}

}  // namespace rossby
