#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// A key's value in one of TOML's five shapes; dates arrive as text.
struct RawValue {
  enum class Kind { text, integer, real, flag, array, other };
  Kind kind = Kind::other;
  std::string text;  // a text, or the written form of a number or date
  Index integer = 0;
  double real = 0;
  bool flag = false;
  bool date = false;  // a text that was written as a TOML date
  std::vector<RawValue> items;
  std::string_view kind_name;  // "a text", "an integer", ...
};

/// A setting found in TOML text: the dotted key, its value, and its line (0 if unknown).
struct Setting {
  std::string key;
  RawValue value;
  int line = 0;
};

/// All settings of a TOML text, with tables flattened to dotted keys. Throws UserError "origin:line: ..." if
/// the text is no TOML or a key has more than 16 parts.
std::vector<Setting> read_toml(std::string_view toml, const std::string& origin);

/// The settings of every table of an array of tables, `[[name]]`; the text may hold nothing else. Throws
/// UserError like read_toml.
std::vector<std::vector<Setting>> read_toml_tables(std::string_view toml, const std::string& origin,
                                                   const std::string& name);

/// A value as a TOML literal, which read_literal reads back.
std::string literal_of(const RawValue& value);

/// Reads the value of one TOML literal (`3`, `"a"`, `[1, 2]`); returns false if `literal` is none.
bool read_literal(std::string_view literal, RawValue& value);

/// True if bytes are UTF-8 (The Unicode Standard, table 3-7).
bool is_utf8(std::string_view text);

/// `text` as a TOML basic string, quotes included.
std::string quoted(std::string_view text);
/// A list of texts, ["a", "b"].
std::string quoted(const std::vector<std::string>& texts);

}  // namespace rossby::detail
