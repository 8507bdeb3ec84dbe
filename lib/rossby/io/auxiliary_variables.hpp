#pragma once

#include <set>
#include <string>

#include "rossby/io/array_file.hpp"

namespace rossby::detail {

/// Variables that describe others and are never a series themselves (CF-1.8, chapters 5, 7, 3.4 and 3.5).
/// They are the variables that `bounds`, `climatology`, `cell_measures`, `coordinates`, `ancillary_variables`
/// and `grid_mapping` name; coordinates; times; flags; areas and weights by their standard_name.
[[nodiscard]] std::set<std::string> auxiliary_variables(const ArrayFile& file);

/// True if the name alone suggests a weight, an area, a mask or a quality flag. This hint counts only if the
/// file has another candidate.
[[nodiscard]] bool sounds_auxiliary(const NetcdfVariable& variable);

}  // namespace rossby::detail
