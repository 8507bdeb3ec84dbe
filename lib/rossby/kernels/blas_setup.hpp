#pragma once

#include <string>

namespace rossby {

/// Makes every BLAS call of this process run on its calling thread, with BLAS kernels that use the
/// processor's instructions. Call once, before the first kernel and before threads start. Does nothing if the
/// BLAS is not OpenBLAS.
///
/// The kernels thread around BLAS, and ranks share cores; by default OpenBLAS starts one thread per core of
/// the machine in every rank. An OpenBLAS older than the processor falls back to kernels of 2004 ("Prescott")
/// or without AVX-512, at a fifth to a half of the possible speed. Unless OPENBLAS_CORETYPE is set, another
/// core type is then selected (see `wanted_blas_core`).
void set_up_blas();

/// Throws UserError if a limit of the address space (ulimit -v) leaves no room for OpenBLAS's buffers of
/// `threads` threads. OpenBLAS would wait for them forever.
void require_blas_memory(int threads);

/// Returns the kernels that the BLAS runs, by its own name for them, or "unknown".
[[nodiscard]] std::string blas_core();

/// Returns the kernels that the BLAS ran before `set_up_blas`.
[[nodiscard]] std::string blas_core_found();

/// Returns the OpenBLAS kernels to use on this processor in place of `found`. Returns `found` if it uses the
/// widest vectors of the processor, or if it is unknown.
[[nodiscard]] std::string wanted_blas_core(const std::string& found);

}  // namespace rossby
