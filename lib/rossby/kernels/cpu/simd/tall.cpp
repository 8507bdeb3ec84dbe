#include "rossby/kernels/cpu/simd/tall.hpp"

#include "rossby/kernels/cpu/simd/vec.hpp"

// b is packed once into panels as wide as a few registers: all of it, or as much as fits well in the
// second-level cache. A few rows of a at a time, read in place and kept in the first-level cache, meet all
// panels: each value is broadcast to a register and serves a whole panel. Twelve rows (AVX-512) by two
// registers keep both multipliers busy: 24 sums in registers, 14 loads for 24 multiply-adds.

namespace rossby::cpu::ROSSBY_ISA {
namespace {

inline constexpr int panel_vectors = 2;
inline constexpr int tile_rows = register_bytes == 64 ? 12 : register_bytes == 32 ? 6 : 4;
inline constexpr Index packed_bytes = 256 * 1024;
inline constexpr Index most_apart = 512;   // depth up to which rows of a that are not packed are copied
inline constexpr Index least_depth = 128;  // of a panel, if b is not packed as a whole

template <class T>
inline constexpr int panel_columns = panel_vectors* lanes<T>;

/// packed (depth, panel columns) = rows [0, depth) of `columns` columns of b, zeros after them.
template <class T>
ROSSBY_INLINE void pack_panel(Index depth, Index columns, Strided<T> b, T* packed) {
  constexpr Index width = panel_columns<T>;
  if (b.col_stride == 1 && columns == width) {
    for (Index p = 0; p < depth; ++p)
      for (int v = 0; v < panel_vectors; ++v)
        store(packed + p * width + v * lanes<T>,
              load<Vec<T, lanes<T>>>(b.data + p * b.row_stride + v * lanes<T>));
    return;
  }
  for (Index p = 0; p < depth; ++p)
    for (Index j = 0; j < width; ++j)
      packed[p * width + j] = j < columns ? b.data[p * b.row_stride + j * b.col_stride] : T(0);
}

/// A block of c (rows, panel columns) (+)= rows of a times the panel.
template <class T, int rows>
ROSSBY_INLINE void tile(Index depth, Strided<T> a, const T* panel, T* c, Index stride, bool add) {
  using V = Vec<T, lanes<T>>;
  V sum[rows][panel_vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v) sum[r][v] = add ? load<V>(c + r * stride + v * lanes<T>) : V{};
  const T* at[rows];
  for (int r = 0; r < rows; ++r) at[r] = a.data + r * a.row_stride;
  for (Index p = 0; p < depth; ++p) {
    const V b0 = load<V>(panel), b1 = load<V>(panel + lanes<T>);
    panel += panel_columns<T>;
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V x = splat<V>(at[r][p * a.col_stride]);
      sum[r][0] = mul_add(x, b0, sum[r][0]);
      sum[r][1] = mul_add(x, b1, sum[r][1]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v) store(c + r * stride + v * lanes<T>, sum[r][v]);
}

/// The same if c has fewer columns than the panel.
template <class T, int rows>
void narrow_tile(Index depth, Strided<T> a, const T* panel, T* c, Index stride, Index columns, bool add) {
  constexpr Index width = panel_columns<T>;
  T part[rows * width];
  for (int r = 0; r < rows; ++r)
    for (Index j = 0; j < width; ++j) part[r * width + j] = add && j < columns ? c[r * stride + j] : T(0);
  tile<T, rows>(depth, a, panel, part, width, true);
  for (int r = 0; r < rows; ++r)
    for (Index j = 0; j < columns; ++j) c[r * stride + j] = part[r * width + j];
}

/// Prefetches part `part` of `parts` of the next rows of a.
template <class T, int rows>
ROSSBY_INLINE void ask_for(Index depth, Strided<T> a, Index part, Index parts) {
  constexpr Index line = 64 / static_cast<Index>(sizeof(T));
  const Index first = part * depth / parts, last = (part + 1) * depth / parts;
  if (a.row_stride == 1) {
    for (Index p = first; p < last; ++p) __builtin_prefetch(a.data + p * a.col_stride + rows - 1);
    return;
  }
  if (a.col_stride != 1) return;
  for (int r = 0; r < rows; ++r)
    for (Index p = first; p < last; p += line) __builtin_prefetch(a.data + r * a.row_stride + p);
}

/// Packs rows of a whose values lie far apart: (depth, rows).
template <class T, int rows>
ROSSBY_INLINE Strided<T> pack_rows(Index depth, Strided<T> a, T* packed) {
  if (a.row_stride == 1)
    for (Index p = 0; p < depth; ++p)
      __builtin_memcpy(packed + p * rows, a.data + p * a.col_stride, rows * sizeof(T));
  else
    for (Index p = 0; p < depth; ++p)
      for (int r = 0; r < rows; ++r) packed[p * rows + r] = a.data[r * a.row_stride + p * a.col_stride];
  return {packed, 1, rows};
}

/// Computes `rows` rows of c at a time, from `first` on; returns the first row left.
template <class T, int rows>
Index tiles(Index first, Index m, Index n, Index depth, Strided<T> a, const T* packed, T* c, Index stride,
            bool add) {
  constexpr Index width = panel_columns<T>;
  const Index panels = (n + width - 1) / width;
  const bool apart = a.col_stride != 1 && panels > 1 && depth <= most_apart;
  alignas(64) T together[rows * most_apart];
  for (; first + rows <= m; first += rows) {
    Strided<T> here{a.data + first * a.row_stride, a.row_stride, a.col_stride};
    const Strided<T> next{here.data + rows * a.row_stride, a.row_stride, a.col_stride};
    if (apart) here = pack_rows<T, rows>(depth, here, together);
    for (Index j = 0; j < panels; ++j) {
      if (first + 2 * rows <= m) ask_for<T, rows>(depth, next, j, panels);
      T* to = c + first * stride + j * width;
      if (n - j * width >= width)
        tile<T, rows>(depth, here, packed + j * depth * width, to, stride, add);
      else
        narrow_tile<T, rows>(depth, here, packed + j * depth * width, to, stride, n - j * width, add);
    }
  }
  return first;
}

template <class T>
void multiply(Index m, Index n, Index k, Strided<T> a, Strided<T> b, T* c, Index stride, bool add) {
  constexpr Index width = panel_columns<T>, most = packed_bytes / static_cast<Index>(sizeof(T));
  alignas(64) T packed[most];
  for (Index i = 0; k == 0 && !add && i < m; ++i)
    for (Index j = 0; j < n; ++j) c[i * stride + j] = T(0);
  const Index widest = most / least_depth / width * width;
  for (Index j = 0; j < n; j += widest) {
    const Index columns = n - j < widest ? n - j : widest;
    const Index panels = (columns + width - 1) / width;
    Index deepest = most / (panels * width);
    if (a.col_stride != 1 && deepest > most_apart) deepest = most_apart;
    if (k > deepest) deepest = (k + (k - 1) / deepest) / ((k - 1) / deepest + 1);  // equal depths
    for (Index p = 0; p < k; p += deepest) {
      const Index depth = k - p < deepest ? k - p : deepest;
      for (Index q = 0; q < panels; ++q) {
        const Index first = j + q * width, here = columns - q * width < width ? columns - q * width : width;
        pack_panel<T>(depth, here,
                      {b.data + p * b.row_stride + first * b.col_stride, b.row_stride, b.col_stride},
                      packed + q * depth * width);
      }
      const Strided<T> deep{a.data + p * a.col_stride, a.row_stride, a.col_stride};
      const bool more = add || p > 0;
      Index done = tiles<T, tile_rows>(0, m, columns, depth, deep, packed, c + j, stride, more);
      done = tiles<T, tile_rows * 2 / 3>(done, m, columns, depth, deep, packed, c + j, stride, more);
      done = tiles<T, tile_rows / 3>(done, m, columns, depth, deep, packed, c + j, stride, more);
      tiles<T, 1>(done, m, columns, depth, deep, packed, c + j, stride, more);
    }
  }
}

}  // namespace

ROSSBY_TABLE(TallKernels, multiply<T>)

}  // namespace rossby::cpu::ROSSBY_ISA
