#include "rossby/kernels/cpu/simd/spmm.hpp"

#include "rossby/kernels/cpu/simd/strip.hpp"

// Sums stay in registers over all terms of a row: a value of y is written once, whatever the degree.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

/// The same channels, from c on, of `runs` columns from b on; base and y begin there.
template <int runs, int registers, class Last, class T>
ROSSBY_INLINE void gather_runs(const Last& part, const ListedRows<T>& rows, T alpha, Index b, Index c,
                               const T* base, Index base_stride, T share, T* y, Index y_stride) {
  const T* owned = rows.owned.x + b * rows.owned.col_stride + c;
  const T* ghost = rows.ghost.x ? rows.ghost.x + b * rows.ghost.col_stride + c : nullptr;
  Strip<T, registers, Last> sum[runs];
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k) sum[k].start(part, base ? base + k * base_stride : nullptr, share);
  for (Index q = 0; q < rows.count; ++q) {
    const Index row = rows.row[q];
    const T* from = owned + row * rows.owned.row_stride;
    Index apart = rows.owned.col_stride;
    if (ghost && row >= rows.owned_rows) {
      from = ghost + (row - rows.owned_rows) * rows.ghost.row_stride;
      apart = rows.ghost.col_stride;
    }
    const T weight = alpha * (rows.entry ? rows.weight[rows.entry[q]] : rows.weight[q]);
#pragma GCC unroll 8
    for (int k = 0; k < runs; ++k) sum[k].add(part, weight, from + k * apart);
  }
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k) sum[k].finish(part, y + k * y_stride);
}

template <class T>
void gather(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
            const T* base, Index base_stride, T share) {
  // About eight sums at once, over as many columns as that takes: each sum waits for its previous addition.
  each_strip<T, 8>(channels, [&]<int registers, class Last>(const Last& part, Index c) {
    constexpr int sums = registers + (Last::counts ? 1 : 0);
    Index b = 0;
    const auto runs_of = [&]<int runs>() {
      for (; b + runs <= cols; b += runs)
        gather_runs<runs, registers>(part, rows, alpha, b, c, base ? base + b * base_stride + c : nullptr,
                                     base_stride, share, y + b * y_stride + c, y_stride);
    };
    if constexpr (sums <= 1) runs_of.template operator()<8>();
    if constexpr (sums <= 2) runs_of.template operator()<4>();
    if constexpr (sums <= 4) runs_of.template operator()<2>();
    runs_of.template operator()<1>();
  });
}

}  // namespace

ROSSBY_TABLE(SpmmKernels, gather<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
