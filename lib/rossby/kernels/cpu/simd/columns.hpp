#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// The most columns of one call.
inline constexpr Index joined_columns = 8;

/// Functions of one instruction set that move between `columns` arrays of (nodes, d), packed, and node data
/// with contiguous columns: node i, column b at i·row_stride + b·d.
template <class T>
struct ColumnKernels {
  /// out[i, b] = from[b][i].
  void (*join)(Index nodes, Index columns, Index d, const T* const* from, T* out, Index row_stride);
  /// to[b][i] += in[i, b], in order of b: arrays may be the same. If anew[b] is not zero, to[b][i] = in[i,
  /// b]; a null `anew` means all zero.
  void (*split_add)(Index nodes, Index columns, Index d, T* const* to, const Index* anew, const T* in,
                    Index row_stride);
};

}  // namespace rossby::cpu
