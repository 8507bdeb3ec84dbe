#include "rossby/kernels/cpu/simd/dense.hpp"

#include "rossby/kernels/cpu/simd/dense_backward.hpp"
#include "rossby/kernels/cpu/simd/dense_forward.hpp"
#include "rossby/kernels/cpu/simd/dense_sink.hpp"

namespace rossby::cpu::ROSSBY_ISA {

template <class S>
const DenseKernels<S>& dense_kernels() {
  using enum DenseSink;
  static constexpr DenseKernels<S> kernels{
      Strip<S>::columns,
      Strip<S>::paired,
      lanes<Arithmetic<S>>,
      forward_narrow<S>,
      forward_wide<S>,
      {backward<none, S>, backward<accumulate, S>, backward<adam, S>, backward<adam_moment, S>},
      {sink_rows<none, S>, sink_rows<accumulate, S>, sink_rows<adam, S>, sink_rows<adam_moment, S>}};
  return kernels;
}
ROSSBY_INSTANTIATE(DenseKernels, dense_kernels)
template const DenseKernels<Bf16>& dense_kernels<Bf16>();

}  // namespace rossby::cpu::ROSSBY_ISA
