#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {

/// How many degrees a unit of an angle is: degrees (also where the text is empty), radians, gon, minutes and
/// seconds of arc, each with a factor ("1e-6 degrees_north") or a prefix (microdegrees). Negative for
/// degrees_south and degrees_west. None: no angle.
[[nodiscard]] std::optional<double> degrees_in(std::string_view units);

/// 'n', 's', 'e' or 'w' of degrees_north, degree_S, degreesE, …; 0: the unit names no direction.
[[nodiscard]] char direction_of(std::string_view units);

/// The values of a coordinate in degrees, whatever its unit, NaN where missing. Empty where its unit is no
/// angle. `remarks` name what was converted, left out or looks wrong.
[[nodiscard]] std::vector<double> read_degrees(const ArrayFile& file, const NetcdfVariable& variable,
                                               std::vector<std::string>& remarks);

/// All values of a variable, NaN where they were never written or are marked as missing.
[[nodiscard]] std::vector<double> read_numbers(const ArrayFile& file, const NetcdfVariable& variable);

/// Latitude or longitude of sensors: a variable that `coordinates` of the data names and that is of that
/// kind, or the one called `name`; its name is then in `name`. Empty where there is none.
[[nodiscard]] std::vector<double> node_coordinate(const ArrayFile& file, const VariableLayout& layout,
                                                  bool is_kind(const ArrayFile&, const NetcdfVariable&),
                                                  std::string& name, std::vector<std::string>& remarks);

/// What a dimension's elements are called, by its coordinate or a variable that says it identifies them
/// (CF-1.8, chapter 9.5: cf_role), whose name is then in `variable`. None where there are no names.
[[nodiscard]] std::vector<std::string> labels_of(const ArrayFile& file, const NetcdfDimension& dimension,
                                                 std::string& variable);

}  // namespace rossby::detail
