#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rossby/io/array_file.hpp"
#include "rossby/io/series_layout.hpp"

namespace rossby::detail {

/// Degrees per unit of an angle: degrees (also if the text is empty), radians, gon, minutes and seconds of
/// arc, each with a factor ("1e-6 degrees_north") or a prefix (microdegrees). Negative for degrees_south and
/// degrees_west. None if the unit is no angle.
[[nodiscard]] std::optional<double> degrees_in(std::string_view units);

/// 'n', 's', 'e' or 'w' of degrees_north, degree_S, degreesE, …; 0: the unit names no direction.
[[nodiscard]] char direction_of(std::string_view units);

/// A coordinate's values in degrees, whatever its unit; NaN if missing. Empty if its unit is no angle.
/// `remarks` names conversions, omissions and suspicious findings.
[[nodiscard]] std::vector<double> read_degrees(const ArrayFile& file, const NetcdfVariable& variable,
                                               std::vector<std::string>& remarks);

/// All values of a variable, NaN if they were never written or are marked as missing.
[[nodiscard]] std::vector<double> read_numbers(const ArrayFile& file, const NetcdfVariable& variable);

/// Latitude or longitude of sensors: a variable of that kind named in `coordinates` of the data, or the one
/// called `name`. Sets `name` to the variable's name. Empty if there is none.
[[nodiscard]] std::vector<double> node_coordinate(const ArrayFile& file, const VariableLayout& layout,
                                                  bool is_kind(const ArrayFile&, const NetcdfVariable&),
                                                  std::string& name, std::vector<std::string>& remarks);

/// The labels of a dimension's elements, from its coordinate or a variable that identifies them (CF-1.8,
/// chapter 9.5: cf_role). Sets `variable` to the name of that variable. None if there are no labels.
[[nodiscard]] std::vector<std::string> labels_of(const ArrayFile& file, const NetcdfDimension& dimension,
                                                 std::string& variable);

}  // namespace rossby::detail
