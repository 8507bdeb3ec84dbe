#include "rossby/kernels/cpu/simd/spmm.hpp"

#include "rossby/kernels/cpu/simd/vec.hpp"

// Sums stay in registers over all terms of a row: a value of y is written once, whatever the degree.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// `runs` runs of `registers` registers of V from channel c on, run k in column b + k; base and y begin
/// there.
template <class V, int runs, int registers, bool ghosts, class T>
ROSSBY_INLINE void gather_runs(const ListedRows<T>& rows, T alpha, Index b, Index c, const T* base,
                               Index base_stride, T share, T* y, Index y_stride) {
  constexpr int L = static_cast<int>(sizeof(V) / sizeof(T));
  const T* owned = rows.owned.x + b * rows.owned.col_stride + c;
  const T* ghost = ghosts ? rows.ghost.x + b * rows.ghost.col_stride + c : nullptr;
  V sum[runs][registers];
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v)
      sum[k][v] = base ? share * load<V>(base + k * base_stride + v * L) : V{};
  for (Index q = 0; q < rows.count; ++q) {
    const Index row = rows.row[q];
    const T* from = owned + row * rows.owned.row_stride;
    Index apart = rows.owned.col_stride;
    if (ghosts && row >= rows.owned_rows) {
      from = ghost + (row - rows.owned_rows) * rows.ghost.row_stride;
      apart = rows.ghost.col_stride;
    }
    const V w = splat<V>(alpha * (rows.entry ? rows.weight[rows.entry[q]] : rows.weight[q]));
#pragma GCC unroll 8
    for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
      for (int v = 0; v < registers; ++v) sum[k][v] += w * load<V>(from + k * apart + v * L);
  }
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) store(y + k * y_stride + v * L, sum[k][v]);
}

template <bool ghosts, class T>
void gather_from(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
                 const T* base, Index base_stride, T share) {
  using V = Vec<T, lanes<T>>;
  constexpr Index L = lanes<T>;
  Index c = 0;
  const auto strips = [&]<int registers, class W, int together>() {
    const auto strip = [&]<int runs>(Index b) {
      gather_runs<W, runs, registers, ghosts>(rows, alpha, b, c, base ? base + b * base_stride + c : nullptr,
                                              base_stride, share, y + b * y_stride + c, y_stride);
    };
    Index b = 0;
    if constexpr (together > 1)
      for (; b + together <= cols; b += together) strip.template operator()<together>(b);
    for (; b < cols; ++b) strip.template operator()<1>(b);
  };
  for (; c + 8 * L <= channels; c += 8 * L) strips.template operator()<8, V, 1>();
  for (; c + 4 * L <= channels; c += 4 * L) strips.template operator()<4, V, 2>();
  for (; c + L <= channels; c += L) strips.template operator()<1, V, 8>();
  for (; c < channels; ++c) strips.template operator()<1, Vec<T, 1>, 1>();
}

template <class T>
void gather(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
            const T* base, Index base_stride, T share) {
  if (rows.ghost.x)
    gather_from<true>(cols, channels, y, y_stride, rows, alpha, base, base_stride, share);
  else
    gather_from<false>(cols, channels, y, y_stride, rows, alpha, base, base_stride, share);
}

}  // namespace

template <class T>
const SpmmKernels<T>& spmm_kernels() {
  static constexpr SpmmKernels<T> kernels{gather<T>};
  return kernels;
}
template const SpmmKernels<float>& spmm_kernels<float>();
template const SpmmKernels<double>& spmm_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
