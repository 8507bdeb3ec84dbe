#include "rossby/mpi/libraries.hpp"

#include <string_view>

#include <fmt/core.h>
#include <hdf5.h>
#include <mpi.h>
#include <petscversion.h>

namespace rossby {

std::string library_versions() {
  char name[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(name, &length);
  const std::string_view mpi(name, static_cast<std::size_t>(length));
  return fmt::format("{}, PETSc {}.{}.{}, HDF5 {}.{}.{}", mpi.substr(0, mpi.find(',')), PETSC_VERSION_MAJOR,
                     PETSC_VERSION_MINOR, PETSC_VERSION_SUBMINOR, H5_VERS_MAJOR, H5_VERS_MINOR,
                     H5_VERS_RELEASE);
}

}  // namespace rossby
