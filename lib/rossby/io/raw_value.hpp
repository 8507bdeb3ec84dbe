#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby::detail {

/// A value of a key in one of the five shapes that TOML can give it; dates arrive as text.
struct RawValue {
  enum class Kind { text, integer, real, flag, array, other };
  Kind kind = Kind::other;
  std::string text;  // of a text, and the written form of a number or a date
  Index integer = 0;
  double real = 0;
  bool flag = false;
  bool date = false;  // a text that was written as a TOML date
  std::vector<RawValue> items;
  std::string_view kind_name;  // "a text", "an integer", ...
};

/// A setting found in TOML text: the dotted key, its value, and its line (0 where unknown).
struct Setting {
  std::string key;
  RawValue value;
  int line = 0;
};

/// All settings of a TOML text, tables flattened to dotted keys. Throws UserError "origin:line: ..." where it
/// is no TOML or a key has more than 16 parts.
std::vector<Setting> read_toml(std::string_view toml, const std::string& origin);

/// The settings of every table of an array of tables, as `[[name]]` makes it, which is all that the text may
/// hold. Throws UserError like read_toml.
std::vector<std::vector<Setting>> read_toml_tables(std::string_view toml, const std::string& origin,
                                                   const std::string& name);

/// A value as a TOML literal, which read_literal reads back.
std::string literal_of(const RawValue& value);

/// The value of one TOML literal (`3`, `"a"`, `[1, 2]`); false where `literal` is none.
bool read_literal(std::string_view literal, RawValue& value);

/// Whether bytes are UTF-8 (The Unicode Standard, table 3-7).
bool is_utf8(std::string_view text);

/// `text` as a TOML basic string, quotes included.
std::string quoted(std::string_view text);
/// A list of texts, ["a", "b"].
std::string quoted(const std::vector<std::string>& texts);

}  // namespace rossby::detail
