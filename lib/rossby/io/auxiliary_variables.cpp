#include "rossby/io/auxiliary_variables.hpp"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "rossby/io/attribute_text.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {
namespace {

bool ends_with_one_of(std::string_view text, std::initializer_list<std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(), [&](auto ending) { return text.ends_with(ending); });
}

/// Judges by the variable's own attributes.
bool describes_others(const ArrayFile& file, const NetcdfVariable& variable) {
  if (ends_with_one_of(lower_case(variable.name), {"_bnds", "_bounds", "_bound"})) return true;
  if (is_latitude(file, variable) || is_longitude(file, variable)) return true;
  if (lower_case(file.text(variable, "units").value_or("")).find(" since ") != std::string::npos) return true;
  for (const char* flag : {"flag_meanings", "flag_values", "flag_masks", "cf_role", "axis"})
    if (file.has(variable, flag)) return true;
  const std::string kind = file.text(variable, "standard_name").value_or("");
  if (ends_with_one_of(kind, {"status_flag", "quality_flag", "number_of_observations", " standard_error",
                              " detection_minimum", "_area_fraction"}))
    return true;
  for (const std::string_view known :
       {"time", "depth", "height", "altitude", "cell_area", "cell_thickness", "land_binary_mask",
        "sea_binary_mask", "projection_x_coordinate", "projection_y_coordinate", "grid_latitude",
        "grid_longitude", "forecast_reference_time", "forecast_period"})
    if (kind == known) return true;
  return false;
}

}  // namespace

std::set<std::string> auxiliary_variables(const ArrayFile& file) {
  std::set<std::string> names;
  for (const NetcdfVariable& variable : file.variables()) {
    if (describes_others(file, variable)) names.insert(variable.name);
    for (const char* attribute :
         {"bounds", "climatology", "cell_measures", "coordinates", "ancillary_variables", "grid_mapping",
          "node_coordinates", "formula_terms"}) {
      std::istringstream words(file.text(variable, attribute).value_or(""));
      for (std::string word; words >> word;)  // "area: areacello" names a measure and a variable
        if (!word.ends_with(':') && word != variable.name) names.insert(word);
    }
  }
  return names;
}

bool sounds_auxiliary(const NetcdfVariable& variable) {
  const std::string name = lower_case(variable.name);
  for (const std::string_view known : {"area", "cell_area", "areacella", "areacello", "weight", "weights",
                                       "gw", "mask", "landmask", "lsm", "qc", "flag", "flags", "quality"})
    if (name == known) return true;
  return ends_with_one_of(name, {"_area", "_weight", "_weights", "_wgt", "_wgts", "_mask", "_flag", "_flags",
                                 "_qc", "_quality", "_nobs"});
}

}  // namespace rossby::detail
