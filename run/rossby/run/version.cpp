#include "rossby/run/version.hpp"

#include <fmt/core.h>
#include <netcdf.h>

#include "rossby/mpi/libraries.hpp"

// CMake defines ROSSBY_VERSION, ROSSBY_BUILD_TYPE and ROSSBY_SANITIZERS.

namespace rossby {

std::string version_short() {
  return *commit() ? fmt::format("{} ({})", ROSSBY_VERSION, commit()) : ROSSBY_VERSION;
}

std::string version_text() {
  std::string text = fmt::format("rossby {}\n", version_short());
  text += fmt::format("built       {}, {} {}", ROSSBY_BUILD_TYPE,
#if defined(__clang__)
                      "clang",
#else
                      "gcc",
#endif
                      __VERSION__);
  if (*ROSSBY_SANITIZERS) text += fmt::format(", sanitizers {}", ROSSBY_SANITIZERS);
#ifdef _OPENMP
  text += fmt::format(", OpenMP {}", _OPENMP);
#endif
  text += fmt::format("\nback ends   cpu\nlibraries   {}, NetCDF {}", library_versions(), nc_inq_libvers());
  return text;
}

}  // namespace rossby
