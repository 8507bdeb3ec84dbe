#include "rossby/kernels/cpu/simd/spmm.hpp"

#include "rossby/kernels/cpu/simd/runs.hpp"

// Sums stay in registers over all terms of a row: a value of y is written once, whatever the degree.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

// What is left of a row behind its whole registers.

struct NoPart {
  struct V {};
  static constexpr bool counts = false;
};

/// So many values.
template <class T, int n>
struct ShortPart {
  using V = Vec<T, n>;
  static constexpr bool counts = true;
  ROSSBY_INLINE V load(const T* from) const { return ROSSBY_ISA::load<V>(from); }
  ROSSBY_INLINE void store(T* to, V v) const { ROSSBY_ISA::store(to, v); }
};

/// Any number of values below a register's.
template <class T>
struct FirstPart {
  using V = Vec<T, lanes<T>>;
  static constexpr bool counts = true;
  Index count;
  ROSSBY_INLINE V load(const T* from) const { return load_first<V>(from, count); }
  ROSSBY_INLINE void store(T* to, V v) const { store_first(to, v, count); }
};

/// Some channels of a row: `registers` whole registers, and what `Last` takes of one.
template <class T, int registers, class Last>
struct Strip {
  using V = Vec<T, lanes<T>>;
  V whole[registers > 0 ? registers : 1];
  typename Last::V last;

  ROSSBY_INLINE void start(const Last& part, const T* base, T share) {
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) whole[v] = base ? share * load<V>(base + v * lanes<T>) : V{};
    if constexpr (Last::counts)
      last = base ? share * part.load(base + registers * lanes<T>) : typename Last::V{};
  }
  ROSSBY_INLINE void add(const Last& part, T weight, const T* from) {
    const V w = splat<V>(weight);
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) whole[v] += w * load<V>(from + v * lanes<T>);
    if constexpr (Last::counts)
      last += splat<typename Last::V>(weight) * part.load(from + registers * lanes<T>);
  }
  ROSSBY_INLINE void finish(const Last& part, T* to) const {
#pragma GCC unroll 8
    for (int v = 0; v < registers; ++v) store(to + v * lanes<T>, whole[v]);
    if constexpr (Last::counts) part.store(to + registers * lanes<T>, last);
  }
};

/// The same channels, from c on, of `runs` columns from b on; base and y begin there.
template <int runs, int registers, bool ghosts, class Last, class T>
ROSSBY_INLINE void gather_runs(const Last& part, const ListedRows<T>& rows, T alpha, Index b, Index c,
                               const T* base, Index base_stride, T share, T* y, Index y_stride) {
  const T* owned = rows.owned.x + b * rows.owned.col_stride + c;
  const T* ghost = ghosts ? rows.ghost.x + b * rows.ghost.col_stride + c : nullptr;
  Strip<T, registers, Last> sum[runs];
#pragma GCC unroll 8
  for (int k = 0; k < runs; ++k) sum[k].start(part, base ? base + k * base_stride : nullptr, share);
  for (Index q = 0; q < rows.count; ++q) {
    const Index row = rows.row[q];
    const T* from = owned + row * rows.owned.row_stride;
    Index apart = rows.owned.col_stride;
    if (ghosts && row >= rows.owned_rows) {
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

template <bool ghosts, class T>
void gather_from(Index cols, Index channels, T* y, Index y_stride, const ListedRows<T>& rows, T alpha,
                 const T* base, Index base_stride, T share) {
  constexpr Index L = lanes<T>;
  Index c = 0, b = 0;
  const auto runs_of = [&]<int runs, int registers>(const auto& part) {
    for (; b + runs <= cols; b += runs)
      gather_runs<runs, registers, ghosts>(part, rows, alpha, b, c,
                                           base ? base + b * base_stride + c : nullptr, base_stride, share,
                                           y + b * y_stride + c, y_stride);
  };
  // About eight sums at once, in as many columns as that takes: each waits for the one before it of its own.
  const auto strip = [&]<int registers, class Last>(const Last& part) {
    constexpr int sums = registers + (Last::counts ? 1 : 0);
    b = 0;
    if constexpr (sums <= 1) runs_of.template operator()<8, registers>(part);
    if constexpr (sums <= 2) runs_of.template operator()<4, registers>(part);
    if constexpr (sums <= 4) runs_of.template operator()<2, registers>(part);
    runs_of.template operator()<1, registers>(part);
  };
  const auto some_whole = [&](Index whole, const auto& part) {
    if (whole == 0) strip.template operator()<0>(part);
    if (whole == 1) strip.template operator()<1>(part);
    if (whole == 2) strip.template operator()<2>(part);
    if (whole == 3) strip.template operator()<3>(part);
  };
  for (; c + 8 * L <= channels; c += 8 * L) strip.template operator()<8>(NoPart{});
  for (; c + 4 * L <= channels; c += 4 * L) strip.template operator()<4>(NoPart{});
  const Index whole = (channels - c) / L, rest = channels - c - whole * L;
  if (rest == 0) {
    if (whole > 0) some_whole(whole, NoPart{});
  } else if (rest == L / 2) {
    // Crosses fewer lines than a load with a mask.
    some_whole(whole, ShortPart<T, L / 2>{});
  } else if constexpr (masked_loads) {
    some_whole(whole, FirstPart<T>{rest});
  } else {
    if (whole > 0) some_whole(whole, NoPart{});
    for (c += whole * L; c < channels; ++c) strip.template operator()<0>(ShortPart<T, 1>{});
  }
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
