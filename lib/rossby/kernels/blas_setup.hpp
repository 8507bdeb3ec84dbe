#pragma once

#include <string>

namespace rossby {

/// Makes every BLAS call of this process run on its calling thread, with kernels that use what the processor
/// has. Call once, before the first kernel and before threads start.
///
/// The kernels thread around BLAS, and ranks share cores: without it OpenBLAS starts a thread for every core
/// of the machine in every rank. And an OpenBLAS that is older than the processor takes it for one of 2004
/// ("Prescott"), or for one without AVX-512, and multiplies at a fifth or half of what it could: it is told
/// another one (see `wanted_blas_core`), unless OPENBLAS_CORETYPE is set. Does nothing with another BLAS.
void set_up_blas();

/// Kernels that the BLAS runs, as it calls them, or "unknown".
[[nodiscard]] std::string blas_core();

/// Those that it ran before `set_up_blas`.
[[nodiscard]] std::string blas_core_found();

/// OpenBLAS's kernels for this processor in place of `found`: itself where it uses the widest vectors that
/// the processor has, and where it is unknown.
[[nodiscard]] std::string wanted_blas_core(const std::string& found);

}  // namespace rossby
