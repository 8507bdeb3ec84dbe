#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/fuzz/statements.hpp"

namespace rossby::fuzz {

/// Writes a NetCDF file with the NetCDF library, as odd as the library allows. Statements that it refuses are
/// ignored.
///
///     kind 4|classic|offset64|cdf5        the format (default: 4)
///     dim NAME LENGTH|unlimited
///     var NAME TYPE DIM...                TYPE: byte char short int float double ubyte ushort uint int64
///                                         uint64 string
///     chunk NAME LENGTH...
///     deflate NAME
///     att NAME|- ATTRIBUTE TYPE VALUE...  -: global
///     data NAME VALUE...                  the first values
///     ramp NAME FIRST STEP COUNT          the first COUNT values
///     texts NAME WORD...                  the first strings, or lines of characters
void make_netcdf(const std::string& path, const std::vector<Statement>& statements);

}  // namespace rossby::fuzz
