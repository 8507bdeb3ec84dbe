#pragma once

#include <set>
#include <string>

#include "rossby/io/array_file.hpp"

namespace rossby::detail {

/// Variables that describe others and are never a series by themselves (CF-1.8, chapters 5, 7, 3.4 and 3.5):
/// what `bounds`, `climatology`, `cell_measures`, `coordinates`, `ancillary_variables` and `grid_mapping`
/// name; coordinates; times; flags; areas and weights that their standard_name says they are.
[[nodiscard]] std::set<std::string> auxiliary_variables(const ArrayFile& file);

/// Whether its name alone says that a variable is a weight, an area, a mask or a quality flag: a hint that
/// counts if there is something else.
[[nodiscard]] bool sounds_auxiliary(const NetcdfVariable& variable);

}  // namespace rossby::detail
