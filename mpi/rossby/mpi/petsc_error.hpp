#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>
#include <petscsys.h>

#include "rossby/base/error.hpp"

namespace rossby {

/// Throws a BugError with the call if PETSc returns an error code.
inline void check_petsc(PetscErrorCode code, std::string_view call) {
  if (code == 0) [[likely]]
    return;
  const char* text = nullptr;
  (void)PetscErrorMessage(code, &text, nullptr);
  throw BugError(fmt::format("internal error: {} failed with code {} ({})", call, static_cast<int>(code),
                             text ? text : "no text"));
}

}  // namespace rossby
