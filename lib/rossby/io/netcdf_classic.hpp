#pragma once

#include <string>

namespace rossby {

/// Files of the classic NetCDF formats (CDF-1, -2, -5) do not notice that their end is missing: the library
/// reads zeros. Throws UserError where such a file is shorter than its header says; other files pass unseen.
/// Format: NetCDF Classic Format Specification, Unidata.
void check_classic_size(const std::string& path);

}  // namespace rossby
