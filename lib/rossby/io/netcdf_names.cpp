// Names in NetCDF files: one text or number per element.
#include <netcdf.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/attribute_text.hpp"
#include "rossby/io/netcdf.hpp"

namespace rossby {

std::vector<std::string> NetcdfFile::read_texts(const NetcdfVariable& variable) const {
  std::vector<std::string> names;
  nc_type type = NC_NAT;
  check(nc_inq_vartype(id_, variable.id, &type), variable.name);
  const bool characters = type == NC_CHAR && variable.dimensions.size() == 2;
  if (!characters && !(type == NC_STRING && variable.dimensions.size() == 1))
    user_error("{}: variable {} is not a list of names. Store strings in one dimension, or characters in two",
               path_, variable.name);
  check_memory(variable.size(), 40, fmt::format("{}: variable {}", path_, variable.name));
  const auto count = static_cast<std::size_t>(variable.dimensions[0].length);
  if (characters) {
    const auto length = static_cast<std::size_t>(variable.dimensions[1].length);
    std::string all(count * length, '\0');
    if (!all.empty()) check(nc_get_var_text(id_, variable.id, all.data()), variable.name);
    for (std::size_t i = 0; i < count; ++i) {
      names.push_back(clean_text(std::string_view(all).substr(i * length, length)));
    }
    return names;
  }
  std::vector<char*> texts(count, nullptr);
  if (count > 0) check(nc_get_var_string(id_, variable.id, texts.data()), variable.name);
  for (const char* text : texts) names.push_back(clean_text(text == nullptr ? "" : text));
  if (count > 0) nc_free_string(count, texts.data());
  return names;
}

}  // namespace rossby
