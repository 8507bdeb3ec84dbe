#include "rossby/kernels/blas_setup.hpp"

#include <algorithm>
#include <cstdlib>

#include <sys/mman.h>
#include <sys/resource.h>

#include "rossby/base/user_error.hpp"
#include "rossby/kernels/isa.hpp"

// Functions of OpenBLAS; other libraries lack them. The last two choose kernels for a processor again, as at
// loading time. A library built for a single processor has no such choice.
extern "C" {
void openblas_set_num_threads(int) __attribute__((weak));
char* openblas_get_corename() __attribute__((weak));
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace rossby {
namespace {

std::string found_core;

}  // namespace

void set_up_blas() {
  if (openblas_set_num_threads) openblas_set_num_threads(1);
  constexpr const char* variable = "OPENBLAS_CORETYPE";
  found_core = blas_core();
  const std::string wanted = wanted_blas_core(found_core);
  if (wanted == found_core || !gotoblas_dynamic_init || !gotoblas_dynamic_quit || std::getenv(variable))
    return;
  if (::setenv(variable, wanted.c_str(), 1) != 0) return;
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  ::unsetenv(variable);
}

void require_blas_memory(int threads) {
  rlimit limit{};
  if (!openblas_set_num_threads || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  constexpr std::size_t buffer = 129UL << 20;
  const std::size_t bytes = static_cast<std::size_t>(threads) * buffer;
  void* const room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    user_error(
        "the limit of the address space (ulimit -v) is {} MiB, but OpenBLAS needs {} MiB for {} thread{}. "
        "Raise the limit (ulimit -v unlimited), or use fewer threads (OMP_NUM_THREADS)",
        limit.rlim_cur >> 20, bytes >> 20, threads, threads == 1 ? "" : "s");
  ::munmap(room, bytes);
}

std::string blas_core() {
  return openblas_get_corename ? openblas_get_corename() : "unknown";
}

std::string blas_core_found() {
  return found_core.empty() ? blas_core() : found_core;
}

std::string wanted_blas_core(const std::string& found) {
  const auto one_of = [&](std::initializer_list<const char*> cores) {
    return std::find(cores.begin(), cores.end(), found) != cores.end();
  };
  const bool sse =
      one_of({"Katmai", "Coppermine", "Northwood", "Prescott", "Banias", "Atom", "Core2", "Penryn",
              "Dunnington", "Nehalem", "Athlon", "Opteron", "Opteron_SSE3", "Barcelona", "Bobcat", "Nano"});
  if (supported(Isa::avx512) && (sse || one_of({"Sandybridge", "Haswell", "Zen"}))) return "SkylakeX";
  return supported(Isa::avx2) && (sse || found == "Sandybridge") ? "Haswell" : found;
}

}  // namespace rossby
