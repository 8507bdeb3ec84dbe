#pragma once

#include <string>

namespace rossby {

/// "Open MPI 4.1.4, PETSc 3.18.5, HDF5 1.10.8": the libraries this room was built against or runs on. May be
/// called before MPI is started.
[[nodiscard]] std::string library_versions();

}  // namespace rossby
