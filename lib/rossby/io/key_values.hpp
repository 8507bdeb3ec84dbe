#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

/// `paths`: a text or a list of texts; a list of one is written as its element.
enum class KeyType { text, integer, real, flag, text_list, integer_list, paths };

/// The value of a key of paths, such as data.file.
struct PathList {
  std::vector<std::string> paths;

  [[nodiscard]] bool empty() const { return paths.empty(); }
  friend bool operator==(const PathList&, const PathList&) = default;
};

/// One key of the configuration: parsing, documentation and hashing.
struct KeySpec {
  std::string_view name;  // "train.epochs"
  KeyType type;
  std::string_view default_value;  // as a TOML literal: "\"adam\"", "0.003", "[1, 2]"
  std::string_view unit;           // "" if it has none
  std::string_view meaning;        // one line
  std::string_view choices = "";   // text keys: "a|b|c"; empty: free
  double low = -1e300;             // integer and real keys (and list elements): smallest allowed
  double high = 1e300;             // largest allowed
  bool harmless = false;           // may differ between a run and its continuation
  bool added = false;              // hashed only if not the default, so that older hashes stay valid
  std::string_view models = "";    // models that read it, or "windows"; empty: all

  friend bool operator==(const KeySpec&, const KeySpec&) = default;
};

/// Every key of a program, in the order in which keys are printed, compared and hashed. Names are unique.
using KeyTable = std::vector<KeySpec>;

/// A value for each key of a table, of the key's type. Const once built.
class KeyValues {
 public:
  /// All defaults. `table` outlives the values.
  explicit KeyValues(const KeyTable& table);

  /// Parses TOML text, then applies `--set key=value` settings in order; `origin` names the file in messages.
  /// Throws UserError, one line: file and line if they are known, the key, what is wrong, the nearest known
  /// key or the allowed values.
  static KeyValues parse(const KeyTable& table, std::string_view toml, const std::string& origin,
                         std::span<const std::string> sets);
  /// The same from a file; an empty `path` stands for no file.
  static KeyValues load(const KeyTable& table, const std::string& path, std::span<const std::string> sets);

  /// These values with `--set key=value` settings on top.
  [[nodiscard]] KeyValues with(std::span<const std::string> sets) const;
  /// These values with another default for a key: its value unless one was given. Empty: the table's default.
  [[nodiscard]] KeyValues with_default(std::string_view key, const std::string& value) const;

  /// Also for a key of paths with at most one path.
  [[nodiscard]] const std::string& text(std::string_view key) const;
  [[nodiscard]] Index integer(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view key) const;
  [[nodiscard]] const std::vector<Index>& integers(std::string_view key) const;
  [[nodiscard]] PathList paths(std::string_view key) const;

  /// True if a file or --set gave the value, false if it is the default.
  [[nodiscard]] bool given(std::string_view key) const;
  /// True if the value is the default, whoever gave it.
  [[nodiscard]] bool is_default(std::string_view key) const;

  /// All values as TOML, grouped by table, with units and meanings as comments; parses back to itself.
  [[nodiscard]] std::string to_toml() const;

  /// 64-bit FNV-1a over the canonical values of all keys that are not harmless, as 16 hex digits.
  [[nodiscard]] std::string hash() const;

  /// Keys whose values differ and are not harmless: "key: a (here) instead of b", or "key: a (this_is), b
  /// (other_is)" if both have names.
  [[nodiscard]] std::vector<std::string> differences(const KeyValues& other,
                                                     std::string_view this_is = "here",
                                                     std::string_view other_is = {}) const;

  /// Harmless keys whose values differ: "key = a instead of b".
  [[nodiscard]] std::vector<std::string> changes(const KeyValues& before) const;

 private:
  friend struct KeyValuesBuilder;
  struct Value {
    std::string text;
    Index integer = 0;
    double real = 0;
    bool flag = false;
    std::vector<std::string> texts;
    std::vector<Index> integers;
    bool given = false;
  };
  const KeyTable* table_;
  std::map<std::string, Value, std::less<>> values_;
  const Value& value(std::string_view key, KeyType type) const;
};

/// A table of keys for users: `rossby config`.
[[nodiscard]] std::string describe_keys(const KeyTable& table);

}  // namespace rossby
