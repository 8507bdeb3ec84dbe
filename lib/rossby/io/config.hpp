#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/base/index.hpp"

namespace rossby {

enum class KeyType { text, integer, real, flag, text_list, integer_list };

/// One row of the table that parses, documents and hashes the configuration.
struct KeySpec {
  std::string_view name;  // "train.epochs"
  KeyType type;
  std::string_view default_value;  // as a TOML literal: "\"adam\"", "0.003", "[1, 2]"
  std::string_view unit;           // "" where it has none
  std::string_view meaning;        // one line
  std::string_view choices = "";   // text keys: "a|b|c"; empty: free
  double low = -1e300;             // integer and real keys (and list elements): smallest allowed
  double high = 1e300;             // largest allowed
  bool harmless = false;           // may differ between a run and its continuation
};

/// The models that a key is for: "stnn", "windows" (every forecaster of windows) or "graph_wavenet" (of these
/// alone); empty: all. Other models do not read it.
[[nodiscard]] std::string_view models_of(const KeySpec& key);

/// Every key there is, in the order they are printed.
[[nodiscard]] std::span<const KeySpec> config_keys();

/// A resolved configuration: every key has a value of its type. Const once built.
class Config {
 public:
  /// All defaults.
  Config();

  /// From a TOML file and `--set key=value` settings, applied in order. Throws UserError, one line: file and
  /// line where known, the key, what is wrong, the nearest known key or the allowed values. `path` may be
  /// empty (defaults and sets).
  static Config load(const std::string& path, std::span<const std::string> sets);

  /// The same from TOML text; `origin` stands for the file in messages.
  static Config parse(std::string_view toml, const std::string& origin, std::span<const std::string> sets);

  /// This one with `--set key=value` settings on top.
  [[nodiscard]] Config with(std::span<const std::string> sets) const;

  [[nodiscard]] const std::string& text(std::string_view key) const;
  [[nodiscard]] Index integer(std::string_view key) const;
  [[nodiscard]] double real(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key) const;
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view key) const;
  [[nodiscard]] const std::vector<Index>& integers(std::string_view key) const;

  /// True where a file or --set gave the value, false where it is the default.
  [[nodiscard]] bool given(std::string_view key) const;

  /// The whole configuration as TOML, every key, grouped by table, with units and meanings as comments;
  /// parses back to itself.
  [[nodiscard]] std::string to_toml() const;

  /// 64-bit FNV-1a over the canonical values of all keys that are not harmless, as 16 hex digits.
  [[nodiscard]] std::string hash() const;

  /// Keys that model.name does not read and that have another value than the default.
  [[nodiscard]] std::vector<std::string> idle() const;

  /// Keys whose values differ and are not harmless: "key: a (here) instead of b", or "key: a (this_is), b
  /// (other_is)" where both have names.
  [[nodiscard]] std::vector<std::string> differences(const Config& other, std::string_view this_is = "here",
                                                     std::string_view other_is = {}) const;

  /// Of the harmless keys (KeySpec) those whose values differ: "key = a instead of b".
  [[nodiscard]] std::vector<std::string> changes(const Config& before) const;

 private:
  friend struct ConfigBuilder;
  struct Value {
    std::string text;
    Index integer = 0;
    double real = 0;
    bool flag = false;
    std::vector<std::string> texts;
    std::vector<Index> integers;
    bool given = false;
  };
  std::map<std::string, Value, std::less<>> values_;
  const Value& value(std::string_view key, KeyType type) const;
};

/// The table of keys for people: `rossby config`.
[[nodiscard]] std::string describe_config_keys();

}  // namespace rossby
