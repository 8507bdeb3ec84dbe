#pragma once

#include <string_view>

#include <petscsys.h>

// PETSc brings some sixty libraries, whose loading takes longer than most commands run. Only what calls it
// loads it.

namespace rossby {

/// Loads and starts PETSc, unless this was done. Needs no other rank. Throws a UserError if PETSc is not
/// found, is of another version, or does not start.
void load_petsc();

/// Ends PETSc if it was started.
void end_petsc();

/// The address of one of PETSc's functions, after load_petsc(). Throws a UserError if there is none.
void* petsc_address(const char* name);

/// Throws a BugError with the call if PETSc returns an error code.
void check_petsc(PetscErrorCode code, std::string_view call);

/// One of PETSc's functions.
#if defined(ROSSBY_PETSC_LIBRARY)
#define ROSSBY_PETSC_FUNCTION(function)                                                                    \
  ([] {                                                                                                    \
    static const auto address = reinterpret_cast<decltype(&function)>(::rossby::petsc_address(#function)); \
    return address;                                                                                        \
  }())
#else  // linked
#define ROSSBY_PETSC_FUNCTION(function) (&function)
#endif

/// Calls one of PETSc's functions; throws as check_petsc.
#define ROSSBY_PETSC(function, ...) \
  ::rossby::check_petsc(ROSSBY_PETSC_FUNCTION(function)(__VA_ARGS__), #function)

}  // namespace rossby
