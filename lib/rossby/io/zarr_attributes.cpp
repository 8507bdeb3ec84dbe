// Attributes of Zarr stores: JSON in place of NetCDF's types.
#include <algorithm>
#include <cmath>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/zarr_store.hpp"

namespace rossby {
namespace {

using detail::ZarrType;
using Json = nlohmann::json;
using Kind = ZarrType::Kind;

std::optional<std::string> text_of(const Json& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  if (found->is_string()) return clean_text(found->get_ref<const std::string&>());
  if (!found->is_array() || found->empty() || found->size() > 1024) return std::nullopt;
  std::string text;
  for (const Json& part : *found) {
    if (!part.is_string()) return std::nullopt;
    if (!text.empty()) text += ' ';
    text += clean_text(part.get_ref<const std::string&>());
  }
  return text;
}

std::vector<double> numbers_of(const Json& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return {};
  if (found->is_number()) return {found->get<double>()};
  if (const auto text = text_of(attributes, name); text)
    return numbers_in_text(*text).value_or(std::vector<double>{});
  std::vector<double> values;
  if (!found->is_array() || found->size() > 1024) return {};
  for (const Json& value : *found) {
    if (!value.is_number()) return {};
    values.push_back(value.get<double>());
  }
  return values;
}

}  // namespace

std::optional<std::string> ZarrStore::text(const NetcdfVariable& variable, const char* attribute) const {
  return text_of(shown(variable).attributes, attribute);
}

std::optional<std::string> ZarrStore::title(const char* attribute) const {
  return text_of(store_.attributes, attribute);
}

bool ZarrStore::has(const NetcdfVariable& variable, const char* attribute) const {
  return shown(variable).attributes.contains(attribute);
}

std::vector<double> ZarrStore::numbers(const NetcdfVariable& variable, const char* attribute) const {
  return numbers_of(shown(variable).attributes, attribute);
}

bool ZarrStore::is_real(const NetcdfVariable& variable, const char* attribute) const {
  const Json& attributes = shown(variable).attributes;
  const auto found = attributes.find(attribute);
  if (found == attributes.end()) return false;
  if (found->is_number()) return found->is_number_float();
  if (found->is_array() && !found->empty() && (*found)[0].is_number())
    return std::any_of(found->begin(), found->end(), [](const Json& x) { return x.is_number_float(); });
  const std::vector<double> values = numbers_of(attributes, attribute);
  return std::any_of(values.begin(), values.end(), [](double value) { return value != std::round(value); });
}

int ZarrStore::bits_of_other_sign(const NetcdfVariable& variable) const {
  const ZarrType& type = array_of(variable).type;
  const Json& attributes = shown(variable).attributes;
  const auto found = attributes.find("_Unsigned");
  if (found == attributes.end()) return 0;
  std::string says = lower_case(text_of(attributes, "_Unsigned").value_or(""));
  if (found->is_boolean()) says = found->get<bool>() ? "true" : "false";
  if (found->is_number()) says = found->get<double>() != 0 ? "true" : "false";
  if (type.kind == Kind::integer && says == "true") return 8 * type.bytes;
  if (type.kind == Kind::without_sign && says == "false") return -8 * type.bytes;
  return 0;
}

}  // namespace rossby
