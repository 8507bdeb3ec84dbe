#pragma once

#include <string>

namespace rossby {

/// Versions of the libraries that this room was built with or runs on: "Open MPI 4.1.4, PETSc 3.18.5, HDF5
/// 1.10.8". May be called before MPI starts.
[[nodiscard]] std::string library_versions();

}  // namespace rossby
