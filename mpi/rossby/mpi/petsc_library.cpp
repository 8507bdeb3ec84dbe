#include "rossby/mpi/petsc_library.hpp"

#include <string>

#include <fmt/core.h>
#if defined(ROSSBY_PETSC_LIBRARY)
#include <dlfcn.h>
#include <link.h>
#endif

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

bool started = false;

#if defined(ROSSBY_PETSC_LIBRARY)
void* library = nullptr;

void* open_library() {
  // The name first, so that LD_LIBRARY_PATH and modules count; then the place where the build found it.
  void* found = ::dlopen(ROSSBY_PETSC_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
  const std::string first = found ? "" : ::dlerror();
  if (!found) found = ::dlopen(ROSSBY_PETSC_PATH, RTLD_LAZY | RTLD_LOCAL);
  if (!found)
    user_error(
        "PETSc does not load ({}). Install PETSc {}.{}, load its module, or add its folder to "
        "LD_LIBRARY_PATH",
        first, PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR);
  return found;
}
#endif

/// Starts PETSc for this rank alone: no other rank need take part. Objects are made on their own
/// communicators.
bool start() {
  std::string name = "rossby";
  std::string no_signals = "-no_signal_handler";
  std::string no_file = "-skip_petscrc";
  char* words[] = {name.data(), no_signals.data(), no_file.data(), nullptr};
  char** arguments = words;
  int count = 3;
#if defined(ROSSBY_PETSC_LIBRARY)
  auto* world = static_cast<MPI_Comm*>(petsc_address("PETSC_COMM_WORLD"));
#else
  MPI_Comm* world = &PETSC_COMM_WORLD;
#endif
  *world = MPI_COMM_SELF;
  if (ROSSBY_PETSC_FUNCTION(PetscInitialize)(&count, &arguments, nullptr, nullptr) != 0) return false;
  // Returns error codes to the caller, who reports them in one line, instead of a trace from every rank.
  return ROSSBY_PETSC_FUNCTION(PetscPushErrorHandler)(ROSSBY_PETSC_FUNCTION(PetscReturnErrorHandler),
                                                      nullptr) == 0;
}

}  // namespace

void load_petsc() {
  if (started) return;
#if defined(ROSSBY_PETSC_LIBRARY)
  if (!library) library = open_library();
#endif
  if (!start()) user_error("PETSc does not start. Check the PETSc installation");
  started = true;
}

void end_petsc() {
  if (!started) return;
  (void)ROSSBY_PETSC_FUNCTION(PetscPopErrorHandler)();
  (void)ROSSBY_PETSC_FUNCTION(PetscFinalize)();
  started = false;
}

void* petsc_address(const char* name) {
#if defined(ROSSBY_PETSC_LIBRARY)
  require(library != nullptr, "PETSc is loaded before it is used");
  if (void* address = ::dlsym(library, name)) return address;
  link_map* place = nullptr;
  (void)::dlinfo(library, RTLD_DI_LINKMAP, &place);
  user_error(
      "{} has no {}, so it is not PETSc {}.{}, with which this program was built. Load the module of that "
      "version, or remove this file's folder from LD_LIBRARY_PATH",
      place ? place->l_name : ROSSBY_PETSC_LIBRARY, name, PETSC_VERSION_MAJOR, PETSC_VERSION_MINOR);
#else
  throw BugError(fmt::format("internal error: PETSc is linked, so that {} is not looked up", name));
#endif
}

void check_petsc(PetscErrorCode code, std::string_view call) {
  if (code == 0) [[likely]]
    return;
  const char* text = nullptr;
  (void)ROSSBY_PETSC_FUNCTION(PetscErrorMessage)(code, &text, nullptr);
  throw BugError(fmt::format("internal error: {} failed with code {} ({})", call, static_cast<int>(code),
                             text ? text : "no text"));
}

}  // namespace rossby
