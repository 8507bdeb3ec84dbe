#pragma once

namespace rossby {

/// Makes every BLAS call of this process run on its calling thread: the kernels thread around BLAS, and ranks
/// share cores. Without it OpenBLAS starts a thread for every core of the machine in every rank. Does nothing
/// with a BLAS that has no such switch. Call once, before the first kernel.
void use_single_threaded_blas();

}  // namespace rossby
