#include "rossby/kernels/cpu/simd/dense.hpp"

#include "rossby/kernels/cpu/simd/dense_backward.hpp"
#include "rossby/kernels/cpu/simd/dense_forward.hpp"
#include "rossby/kernels/cpu/simd/dense_sink.hpp"

namespace rossby::cpu::ROSSBY_ISA {

namespace {
using enum DenseSink;
}

#define ROSSBY_DENSE_TABLE(S)                                                                        \
  ROSSBY_TABLE_OF(                                                                                   \
      DenseKernels, S, Strip<T>::columns, Strip<T>::paired, lanes<Arithmetic<T>>, forward_narrow<T>, \
      forward_wide<T>,                                                                               \
      {backward<none, T>, backward<accumulate, T>, backward<adam, T>, backward<adam_moment, T>},     \
      {sink_rows<none, T>, sink_rows<accumulate, T>, sink_rows<adam, T>, sink_rows<adam_moment, T>})
ROSSBY_DENSE_TABLE(float)
ROSSBY_DENSE_TABLE(Bf16)
#ifdef ROSSBY_ISA_DOUBLES
ROSSBY_DENSE_TABLE(double)
#endif

}  // namespace rossby::cpu::ROSSBY_ISA
