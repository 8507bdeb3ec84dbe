#include "rossby/kernels/product.hpp"

#if defined(ROSSBY_CUDA)
#include "rossby/kernels/cuda/blas.hpp"
#endif

namespace rossby {

std::string lacking_cublas() {
#if defined(ROSSBY_CUDA)
  return cuda::lacking_cublas();
#else
  return "this build has no CUDA";
#endif
}

}  // namespace rossby
