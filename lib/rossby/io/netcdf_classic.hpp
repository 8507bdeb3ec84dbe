#pragma once

#include <string>

namespace rossby {

/// Throws UserError if a file of a classic NetCDF format (CDF-1, -2, -5) is shorter than its header says;
/// ignores other files. The library does not notice a missing end and reads zeros. Format: NetCDF Classic
/// Format Specification, Unidata.
void check_classic_size(const std::string& path);

}  // namespace rossby
