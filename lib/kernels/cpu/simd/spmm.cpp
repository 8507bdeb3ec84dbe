#include "rossby/kernels/cpu/simd/spmm.hpp"

#include "rossby/kernels/cpu/simd/vec.hpp"

// Sums stay in registers over all terms of a row: a value of y is written once, whatever the degree.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// `width` values from channel c on, `registers` of V side by side.
template <class V, int registers, class T>
ROSSBY_INLINE void combine_run(T* y, const WeightedRow<T>* terms, Index count, const T* base, T share,
                               Index b, Index c, Index y_stride, Index base_stride) {
  constexpr int L = static_cast<int>(sizeof(V) / sizeof(T));
  V sum[registers];
#pragma GCC unroll 8
  for (int k = 0; k < registers; ++k)
    sum[k] = base ? share * load<V>(base + b * base_stride + c + k * L) : V{};
  for (Index q = 0; q < count; ++q) {
    const T* x = terms[q].x + b * terms[q].stride + c;
    const V w = splat<V>(terms[q].weight);
#pragma GCC unroll 8
    for (int k = 0; k < registers; ++k) sum[k] += w * load<V>(x + k * L);
  }
#pragma GCC unroll 8
  for (int k = 0; k < registers; ++k) store(y + b * y_stride + c + k * L, sum[k]);
}

template <class T>
void combine(Index cols, Index channels, T* y, Index y_stride, const WeightedRow<T>* terms, Index count,
             const T* base, Index base_stride, T share) {
  using V = Vec<T, lanes<T>>;
  for (Index b = 0; b < cols; ++b) {
    Index c = 0;
    for (; c + 8 * lanes<T> <= channels; c += 8 * lanes<T>)
      combine_run<V, 8>(y, terms, count, base, share, b, c, y_stride, base_stride);
    for (; c + 4 * lanes<T> <= channels; c += 4 * lanes<T>)
      combine_run<V, 4>(y, terms, count, base, share, b, c, y_stride, base_stride);
    for (; c + lanes<T> <= channels; c += lanes<T>)
      combine_run<V, 1>(y, terms, count, base, share, b, c, y_stride, base_stride);
    for (; c < channels; ++c)
      combine_run<Vec<T, 1>, 1>(y, terms, count, base, share, b, c, y_stride, base_stride);
  }
}

}  // namespace

template <class T>
const SpmmKernels<T>& spmm_kernels() {
  static constexpr SpmmKernels<T> kernels{combine<T>};
  return kernels;
}
template const SpmmKernels<float>& spmm_kernels<float>();
template const SpmmKernels<double>& spmm_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
