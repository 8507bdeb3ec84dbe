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

/// `runs` runs of `registers` registers of V, run k at k·apart from the first; offsets as of column b and
/// channel c in x, base and y.
template <class V, int runs, int registers, class T>
ROSSBY_INLINE void gather_runs(const ListedRows<T>& rows, T alpha, const T* x, Index x_apart, const T* base,
                               Index base_apart, T share, T* y, Index y_apart) {
  constexpr int L = static_cast<int>(sizeof(V) / sizeof(T));
  V sum[runs][registers];
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v)
      sum[k][v] = base ? share * load<V>(base + k * base_apart + v * L) : V{};
  for (Index q = 0; q < rows.count; ++q) {
    const T* from = x + rows.row[q] * rows.row_stride;
    const V w = splat<V>(alpha * (rows.entry ? rows.weight[rows.entry[q]] : rows.weight[q]));
#pragma GCC unroll 8
    for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
      for (int v = 0; v < registers; ++v) sum[k][v] += w * load<V>(from + k * x_apart + v * L);
  }
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k)
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) store(y + k * y_apart + v * L, sum[k][v]);
}

template <class T>
void gather(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
            const T* base, Index base_stride, T share) {
  using V = Vec<T, lanes<T>>;
  using One = Vec<T, 1>;
  constexpr Index L = lanes<T>;
  const Index x_stride = rows.col_stride;
  Index c = 0;
  const auto strip = [&](Index b, auto run) {
    run(rows.x + b * x_stride + c, base ? base + b * base_stride + c : nullptr, y + b * y_stride + c);
  };
  for (; c + 8 * L <= channels; c += 8 * L)
    for (Index b = 0; b < cols; ++b)
      strip(b, [&](const T* x, const T* from, T* to) {
        gather_runs<V, 1, 8>(rows, alpha, x, 0, from, 0, share, to, 0);
      });
  const auto strips = [&]<int registers, class W, int together>() {
    Index b = 0;
    for (; b + together <= cols; b += together)
      strip(b, [&](const T* x, const T* from, T* to) {
        gather_runs<W, together, registers>(rows, alpha, x, x_stride, from, base_stride, share, to, y_stride);
      });
    for (; b < cols; ++b)
      strip(b, [&](const T* x, const T* from, T* to) {
        gather_runs<W, 1, registers>(rows, alpha, x, 0, from, 0, share, to, 0);
      });
  };
  for (; c + 4 * L <= channels; c += 4 * L) strips.template operator()<4, V, 2>();
  for (; c + L <= channels; c += L) strips.template operator()<1, V, 8>();
  for (; c < channels; ++c) strips.template operator()<1, One, 1>();
}

}  // namespace

template <class T>
const SpmmKernels<T>& spmm_kernels() {
  static constexpr SpmmKernels<T> kernels{combine<T>, gather<T>};
  return kernels;
}
template const SpmmKernels<float>& spmm_kernels<float>();
template const SpmmKernels<double>& spmm_kernels<double>();

}  // namespace rossby::cpu::ROSSBY_ISA
