#pragma once

#include <concepts>
#include <type_traits>

#include <nlohmann/json.hpp>

namespace rossby {

/// A structure, constant or not.
template <class S, class Of>
concept SameAs = std::same_as<std::remove_const_t<S>, Of>;

/// Adds the members of a structure to a JSON object. A function `each_field(structure, field)` calls
/// field(name, member) for each member. Writing and reading share it.
struct FieldWriter {
  nlohmann::ordered_json& json;

  void operator()(const char* name, const auto& value) const { json[name] = value; }
  /// A member that is left out if it equals `usual`.
  template <class V>
  void operator()(const char* name, const V& value, const std::type_identity_t<V>& usual) const {
    if (value != usual) json[name] = value;
  }
  /// A member that files of earlier versions lack.
  void newer(const char* name, const auto& value) const { json[name] = value; }
  /// A member that is there or not.
  void if_there(const char* name, const auto& value, bool there) const {
    if (there) json[name] = value;
  }
};

/// Reads them. Throws nlohmann's errors if a member is missing or has another type.
struct FieldReader {
  const nlohmann::ordered_json& json;

  void operator()(const char* name, auto& value) const { json.at(name).get_to(value); }
  template <class V>
  void operator()(const char* name, V& value, const std::type_identity_t<V>& usual) const {
    value = json.value(name, usual);
  }
  void newer(const char* name, auto& value) const { value = json.value(name, value); }
  void if_there(const char* name, auto& value, bool& there) const {
    there = json.contains(name);
    if (there) json.at(name).get_to(value);
  }
};

// With these two, nlohmann's library takes such structures, and lists of them, as values.
template <class S>
auto to_json(nlohmann::ordered_json& json, const S& structure)
    -> decltype(each_field(structure, FieldWriter{json})) {
  each_field(structure, FieldWriter{json});
}
template <class S>
auto from_json(const nlohmann::ordered_json& json, S& structure)
    -> decltype(each_field(structure, FieldReader{json})) {
  each_field(structure, FieldReader{json});
}

}  // namespace rossby
