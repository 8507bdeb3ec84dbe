#pragma once

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "rossby/io/key_values.hpp"

// Tables that bind keys of the configuration to members of plain structs, so that one row names, documents
// and reads a setting:
//
//     struct LogSettings { double seconds = 0; };
//     constexpr Key<LogSettings> table[] = {
//         key<&LogSettings::seconds>("log.seconds", "1", "s", "least time between progress lines").range(0,
//         86400)};
//     const auto log = read_settings<LogSettings>(values, table);

namespace rossby {

namespace detail {

template <class Member>
struct MemberOf;
template <class S, class V>
struct MemberOf<V S::*> {
  using Settings = S;
  using Value = V;
};

template <class V>
constexpr KeyType key_type() {
  if constexpr (std::is_same_v<V, std::string>)
    return KeyType::text;
  else if constexpr (std::is_same_v<V, bool>)
    return KeyType::flag;
  else if constexpr (std::is_same_v<V, double>)
    return KeyType::real;
  else if constexpr (std::is_same_v<V, Index>)
    return KeyType::integer;
  else if constexpr (std::is_same_v<V, std::vector<std::string>>)
    return KeyType::text_list;
  else if constexpr (std::is_same_v<V, PathList>)
    return KeyType::paths;
  else {
    static_assert(std::is_same_v<V, std::vector<Index>>, "a key holds text, Index, double, bool or a list");
    return KeyType::integer_list;
  }
}

template <class V>
V value_of(const KeyValues& values, std::string_view key) {
  if constexpr (std::is_same_v<V, std::string>)
    return values.text(key);
  else if constexpr (std::is_same_v<V, bool>)
    return values.flag(key);
  else if constexpr (std::is_same_v<V, double>)
    return values.real(key);
  else if constexpr (std::is_same_v<V, Index>)
    return values.integer(key);
  else if constexpr (std::is_same_v<V, std::vector<std::string>>)
    return values.texts(key);
  else if constexpr (std::is_same_v<V, PathList>)
    return values.paths(key);
  else
    return values.integers(key);
}

}  // namespace detail

/// A key that several tables bind. The limits return changed copies, to be chained.
struct SharedKey {
  KeySpec spec;

  [[nodiscard]] constexpr SharedKey one_of(std::string_view choices) const {
    SharedKey k = *this;
    k.spec.choices = choices;
    return k;
  }
  [[nodiscard]] constexpr SharedKey range(double low, double high) const {
    SharedKey k = *this;
    k.spec.low = low;
    k.spec.high = high;
    return k;
  }
  [[nodiscard]] constexpr SharedKey at_least(double low) const { return range(low, 1e300); }
};

template <class V>
constexpr SharedKey shared_key(std::string_view name, std::string_view default_value, std::string_view unit,
                               std::string_view meaning) {
  return {{name, detail::key_type<V>(), default_value, unit, meaning}};
}

/// One key and the member of Settings that holds its value. The limits return changed copies, to be chained.
template <class Settings>
struct Key {
  KeySpec spec;
  void (*read)(Settings&, const KeyValues&, std::string_view name);

  /// Restricts a text key to choices: "a|b|c".
  [[nodiscard]] constexpr Key one_of(std::string_view choices) const {
    Key k = *this;
    k.spec.choices = choices;
    return k;
  }
  [[nodiscard]] constexpr Key range(double low, double high) const {
    Key k = *this;
    k.spec.low = low;
    k.spec.high = high;
    return k;
  }
  [[nodiscard]] constexpr Key at_least(double low) const { return range(low, 1e300); }
  /// The value may differ between a run and its continuation.
  [[nodiscard]] constexpr Key may_change() const {
    Key k = *this;
    k.spec.harmless = true;
    return k;
  }
  /// The key is newer than existing checkpoints: its default does not change the hash.
  [[nodiscard]] constexpr Key added() const {
    Key k = *this;
    k.spec.added = true;
    return k;
  }
  /// Restricts the key to the models that read it: names ("stnn, stid"), or "windows".
  [[nodiscard]] constexpr Key read_by(std::string_view models) const {
    Key k = *this;
    k.spec.models = models;
    return k;
  }
};

/// Binds a key that several tables share.
template <auto member>
constexpr auto bind(const SharedKey& shared) {
  using Of = detail::MemberOf<decltype(member)>;
  return Key<typename Of::Settings>{
      shared.spec, [](typename Of::Settings& settings, const KeyValues& values, std::string_view key) {
        settings.*member = detail::value_of<typename Of::Value>(values, key);
      }};
}

/// A key of one table, with the member's type.
template <auto member>
constexpr auto key(std::string_view name, std::string_view default_value, std::string_view unit,
                   std::string_view meaning) {
  using Of = detail::MemberOf<decltype(member)>;
  return bind<member>(shared_key<typename Of::Value>(name, default_value, unit, meaning));
}

template <class Settings>
[[nodiscard]] Settings read_settings(const KeyValues& values, std::span<const Key<Settings>> table) {
  Settings settings;
  for (const Key<Settings>& key : table) key.read(settings, values, key.spec.name);
  return settings;
}

/// Adds the keys of a settings table.
template <class Settings>
void append(KeyTable& all, std::span<const Key<Settings>> table) {
  for (const Key<Settings>& key : table) all.push_back(key.spec);
}

}  // namespace rossby
