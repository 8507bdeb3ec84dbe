// The one place where tables of the instruction sets meet.

#include "rossby/kernels/cpu/simd/adam.hpp"
#include "rossby/kernels/cpu/simd/bf16_product.hpp"
#include "rossby/kernels/cpu/simd/columns.hpp"
#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/cpu/simd/dropout.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"
#include "rossby/kernels/cpu/simd/gru.hpp"
#include "rossby/kernels/cpu/simd/linear.hpp"
#include "rossby/kernels/cpu/simd/losses.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"
#include "rossby/kernels/cpu/simd/sampled.hpp"
#include "rossby/kernels/cpu/simd/sparse.hpp"
#include "rossby/kernels/cpu/simd/spmm.hpp"
#include "rossby/kernels/cpu/simd/tall.hpp"
#include "rossby/kernels/product.hpp"

ROSSBY_PICK(AdamKernels, adam_kernels)
ROSSBY_PICK(ColumnKernels, column_kernels)
ROSSBY_PICK(DropoutKernels, dropout_kernels)
ROSSBY_PICK(ElementwiseKernels, elementwise_kernels)
ROSSBY_PICK(GruKernels, gru_kernels)
ROSSBY_PICK(LossKernels, loss_kernels)
ROSSBY_PICK(NarrowLinearKernels, narrow_linear_kernels)
ROSSBY_PICK(SampledKernels, sampled_kernels)
ROSSBY_PICK(SparseKernels, sparse_kernels)
ROSSBY_PICK(SpmmKernels, spmm_kernels)
ROSSBY_PICK(DenseKernels, dense_kernels)
template const rossby::cpu::DenseKernels<rossby::Bf16>& rossby::cpu::dense_kernels(Isa);
ROSSBY_PICK(TallKernels, tall_kernels)

namespace rossby {
bool has_bf16_products() {
#ifdef ROSSBY_X86_SETS
  return supported(Isa::avx512) && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

}  // namespace rossby

namespace rossby::cpu {
namespace portable {
const Bf16Products& bf16_products();
}
#ifdef ROSSBY_X86_SETS
namespace avx2 {
const Bf16Products& bf16_products();
}
namespace avx512 {
const Bf16Products& bf16_products();
}
namespace avx512_bf16 {
const Bf16Products& bf16_products();
}
const Bf16Products& bf16_products(Isa isa, bool in_software) {
  if (isa == Isa::avx512 && !in_software && has_bf16_products()) return avx512_bf16::bf16_products();
  if (isa == Isa::avx512) return avx512::bf16_products();
  return isa == Isa::avx2 ? avx2::bf16_products() : portable::bf16_products();
}
#else
const Bf16Products& bf16_products(Isa, bool) {
  return portable::bf16_products();
}
#endif
}  // namespace rossby::cpu
