#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// The largest inputs × outputs that NarrowLinearKernels take.
inline constexpr Index narrow_weights = 1024;

/// Functions of one instruction set: dense layers with few inputs and outputs over many rows. x (rows, in)
/// and y (rows, out) packed; the weight of input f and output o lies at w[f·input_stride + o·output_stride].
template <class T>
struct NarrowLinearKernels {
  /// y = x·w, every row from `start` (out; null: zero), or y += x·w with `add`, which ignores `start`.
  void (*multiply)(Index rows, Index in, Index out, const T* x, const T* w, Index input_stride,
                   Index output_stride, const T* start, T* y, bool add);
  /// dw += xᵀ·dy.
  void (*outer)(Index rows, Index in, Index out, const T* x, const T* dy, T* dw, Index input_stride,
                Index output_stride);
};

}  // namespace rossby::cpu
