// Attributes of NetCDF files: text without padding, numbers of any type.
#include <algorithm>
#include <cctype>
#include <cmath>

#include <netcdf.h>

#include "rossby/base/error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {
namespace {

constexpr std::size_t longest_text = std::size_t{1} << 20;

/// A list of strings becomes one text, separated by blanks as in `coordinates`.
std::optional<std::string> text_attribute(int file, int variable, const char* name) {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(file, variable, name, &type, &length) != NC_NOERR || length >= longest_text)
    return std::nullopt;
  if (type == NC_CHAR) {
    std::string text(length, '\0');
    if (nc_get_att_text(file, variable, name, text.data()) != NC_NOERR) return std::nullopt;
    return clean_text(text);
  }
  if (type != NC_STRING || length == 0 || length > 1024) return std::nullopt;
  std::vector<char*> values(length, nullptr);
  if (nc_get_att_string(file, variable, name, values.data()) != NC_NOERR) return std::nullopt;
  std::string text;
  for (const char* value : values) {
    const std::string part = clean_text(value == nullptr ? "" : value);
    if (!text.empty() && !part.empty()) text += ' ';
    text += part;
  }
  nc_free_string(length, values.data());
  return text;
}

}  // namespace

std::optional<std::string> NetcdfFile::text(const NetcdfVariable& variable, const char* attribute) const {
  return text_attribute(id_, variable.id, attribute);
}

std::optional<std::string> NetcdfFile::title(const char* attribute) const {
  return text_attribute(id_, NC_GLOBAL, attribute);
}

std::vector<double> NetcdfFile::numbers(const NetcdfVariable& variable, const char* attribute) const {
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(id_, variable.id, attribute, &type, &length) != NC_NOERR) return {};
  if (type == NC_CHAR || type == NC_STRING)
    return numbers_in_text(text(variable, attribute).value_or("")).value_or(std::vector<double>{});
  if (length == 0 || length > 1024) return {};
  std::vector<double> values(length);
  if (nc_get_att_double(id_, variable.id, attribute, values.data()) != NC_NOERR) return {};
  return values;
}

bool NetcdfFile::is_real(const NetcdfVariable& variable, const char* attribute) const {
  nc_type type = NC_NAT;
  if (nc_inq_atttype(id_, variable.id, attribute, &type) != NC_NOERR) return false;
  if (type != NC_CHAR && type != NC_STRING) return type == NC_FLOAT || type == NC_DOUBLE;
  const std::vector<double> values = numbers(variable, attribute);
  return std::any_of(values.begin(), values.end(), [](double value) { return value != std::round(value); });
}

bool NetcdfFile::has(const NetcdfVariable& variable, const char* attribute) const {
  int number = 0;
  return nc_inq_attid(id_, variable.id, attribute, &number) == NC_NOERR;
}

bool NetcdfFile::unpacks_to_float(const NetcdfVariable& variable) const {
  nc_type type = NC_NAT;
  if (nc_inq_vartype(id_, variable.id, &type) != NC_NOERR) return false;
  bool floats =
      type == NC_BYTE || type == NC_UBYTE || type == NC_SHORT || type == NC_USHORT || type == NC_FLOAT;
  for (const char* name : {"scale_factor", "add_offset"})
    if (nc_inq_atttype(id_, variable.id, name, &type) == NC_NOERR) floats = floats && type == NC_FLOAT;
  return floats;
}

int NetcdfFile::bits_of_other_sign(const NetcdfVariable& variable) const {
  std::string says = text(variable, "_Unsigned").value_or("");
  if (const auto flag = number(variable, "_Unsigned"); flag) says = *flag != 0 ? "true" : "false";
  says = lower_case(says);
  nc_type type = NC_NAT;
  if (says.empty() || nc_inq_vartype(id_, variable.id, &type) != NC_NOERR) return 0;
  struct Pair {
    nc_type with, without;
    int bits;
  };
  for (const Pair& pair : {Pair{NC_BYTE, NC_UBYTE, 8}, Pair{NC_SHORT, NC_USHORT, 16},
                           Pair{NC_INT, NC_UINT, 32}, Pair{NC_INT64, NC_UINT64, 64}}) {
    if (type == pair.with && says == "true") return pair.bits;
    if (type == pair.without && says == "false") return -pair.bits;
  }
  return 0;
}

}  // namespace rossby
