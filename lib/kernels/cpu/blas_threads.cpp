#include "rossby/kernels/blas_threads.hpp"

extern "C" void openblas_set_num_threads(int) __attribute__((weak));

namespace rossby {

void use_single_threaded_blas() {
  if (openblas_set_num_threads) openblas_set_num_threads(1);
}

}  // namespace rossby
