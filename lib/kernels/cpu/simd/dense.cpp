#include "rossby/kernels/cpu/simd/dense.hpp"

#include "rossby/kernels/cpu/simd/dense_backward.hpp"
#include "rossby/kernels/cpu/simd/dense_forward.hpp"

namespace rossby::cpu::ROSSBY_ISA {

template <class T>
const DenseKernels<T>& dense_kernels() {
  using enum DenseSink;
  static constexpr DenseKernels<T> kernels{
      strip<T>,
      lanes<T>,
      forward_narrow<T>,
      forward_wide<T>,
      {backward<none, T>, backward<accumulate, T>, backward<adam, T>, backward<adam_moment, T>},
      {sink_rows<none, T>, sink_rows<accumulate, T>, sink_rows<adam, T>, sink_rows<adam_moment, T>}};
  return kernels;
}
template const DenseKernels<float>& dense_kernels<float>();
template const DenseKernels<double>& dense_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
