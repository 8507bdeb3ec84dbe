#include "rossby/kernels/product.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"
#if defined(ROSSBY_CUDA)
#include "rossby/kernels/cuda/blas.hpp"
#endif

namespace rossby {

template <class T>
void matrix_product(const Exec& exec, MatrixView<T> c, Operand op_a, MatrixView<const T> a, Operand op_b,
                    MatrixView<const T> b, bool accumulate) {
  const bool flip_a = op_a == Operand::transposed, flip_b = op_b == Operand::transposed;
  require((flip_a ? a.cols : a.rows) == c.rows && (flip_b ? b.rows : b.cols) == c.cols &&
              (flip_a ? a.rows : a.cols) == (flip_b ? b.cols : b.rows),
          "a product of (m, k) and (k, q) is (m, q)");
  if (c.size() == 0) return;
  ROSSBY_DISPATCH(matrix_product, exec, c, op_a, a, op_b, b, accumulate);
}

std::string lacking_cublas() {
#if defined(ROSSBY_CUDA)
  return cuda::lacking_cublas();
#else
  return "this build has no CUDA";
#endif
}

#define ROSSBY_INSTANTIATE(T)                                                                     \
  template void matrix_product(const Exec&, MatrixView<T>, Operand, MatrixView<const T>, Operand, \
                               MatrixView<const T>, bool);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
