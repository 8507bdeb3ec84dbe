#include "rossby/kernels/cpu/simd/bf16_product.hpp"

#include "rossby/base/bf16.hpp"
#include "rossby/base/flush_subnormals.hpp"
#include "rossby/kernels/cpu/simd/transpose.hpp"
#include "rossby/kernels/cpu/simd/vec.hpp"

// Both operands are rounded while they are packed. b is packed whole, or as much as fits well in the
// second-level cache, in panels two registers of columns wide. A few rows of a at a time stay in the
// first-level cache and meet all panels. Terms come in pairs (p, p + 1) of the inner index, zeros after an
// odd one.
//
//     a: [row][p] if its rows are contiguous, otherwise as b
//     b: [pair][column][2] for instructions that take the two terms of a pair at once;
//        otherwise, as floats, [pair][2][column]

namespace rossby::cpu::ROSSBY_ISA {
namespace {

#if defined(__AVX512BF16__)
using Half = Bf16;
#else
using Half = float;  // lower half is zero
#endif

using V = Vec<float, lanes<float>>;
using Bits = Vec<std::uint32_t, lanes<float>>;

inline constexpr int panel_vectors = 2;
inline constexpr Index panel = panel_vectors * lanes<float>;
inline constexpr int tile_rows = register_bytes == 64 ? 12 : register_bytes == 32 ? 6 : 4;
inline constexpr Index most_depth = 512;
inline constexpr Index packed_halves = 256 * 1024 / sizeof(Half);
inline constexpr Index row_step = 32;  // packed rows of a are multiples of it

/// Strides of packed a: from a row, a pair and the first term of a pair to the next.
struct Left {
  const Half* data;
  Index row_stride, pair_stride, term_stride;
};

#if defined(__AVX512BF16__)

/// Rounds values [0, 32), of which the first `count` exist.
ROSSBY_INLINE __m512i round_in_order(const float* from, Index count) {
  if (count >= 32) return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + 16), _mm512_loadu_ps(from));
  const std::uint32_t there = (1U << count) - 1;
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(static_cast<__mmask16>(there >> 16), from + 16),
                                      _mm512_maskz_loadu_ps(static_cast<__mmask16>(there), from));
}

/// Rounds a row's values, padded to a multiple of row_step.
ROSSBY_INLINE void pack_row(const float* from, Index count, Half* to) {
  for (Index p = 0; p < count; p += row_step)
    _mm512_storeu_si512(to + p, round_in_order(from + p, count - p));
}

/// Packs pairs of `columns` columns from rows of b or of aᵀ, `stride` apart: [pair][width][2].
ROSSBY_INLINE void pack_side_by_side(Index depth, Index columns, const float* from, Index stride, Half* to,
                                     Index width) {
  alignas(64) static constexpr std::uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                                21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                                11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(interleaved);
  for (Index p = 0; p < depth; p += 2)
    for (Index j = 0; j < width; j += 16) {
      const Index left = columns - j;
      const auto there = static_cast<__mmask16>(left >= 16 ? 0xFFFF : left <= 0 ? 0 : (1 << left) - 1);
      const float* at = from + p * stride + j;
      const __m512 first = _mm512_maskz_loadu_ps(there, at);
      const __m512 second = p + 1 < depth ? _mm512_maskz_loadu_ps(there, at + stride) : _mm512_setzero_ps();
      const auto both = (__m512i)_mm512_cvtne2ps_pbh(second, first);
      _mm512_storeu_si512(to + p * width + 2 * j, _mm512_permutexvar_epi16(order, both));
    }
}

/// Packs a panel of b whose columns are contiguous, `stride` apart.
ROSSBY_INLINE void pack_columns(Index depth, Index columns, const float* from, Index stride, Half* to) {
  for (Index j = 0; j < panel; j += 16)
    for (Index p = 0; p < depth; p += 32) {
      V pairs[16];
      for (Index q = 0; q < 16; ++q)
        pairs[q] = j + q < columns ? (V)round_in_order(from + (j + q) * stride + p, depth - p) : V{};
      interleave<float, 16, 16>(pairs);
      const Index count = depth - p < 32 ? (depth - p + 1) / 2 : 16;
      for (Index q = 0; q < count; ++q) __builtin_memcpy(to + (p + 2 * q) * panel + 2 * j, pairs + q, 64);
    }
}

template <int rows>
ROSSBY_INLINE void add_pair(V (&sum)[rows][panel_vectors], const Half* const (&at)[rows], const Left& a,
                            Index p, const Half* b) {
  const __m512i b0 = _mm512_loadu_si512(b), b1 = _mm512_loadu_si512(b + 32);
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r) {
    int both;
    __builtin_memcpy(&both, at[r] + p * a.pair_stride, sizeof(both));
    const auto x = (__m512bh)_mm512_set1_epi32(both);
    sum[r][0] = (V)_mm512_dpbf16_ps((__m512)sum[r][0], x, (__m512bh)b0);
    sum[r][1] = (V)_mm512_dpbf16_ps((__m512)sum[r][1], x, (__m512bh)b1);
  }
}

#else

/// The nearest bf16 value; subnormals become zero, and NaN becomes quiet.
ROSSBY_INLINE float rounded(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t near = bits + 0x7FFFU + (bits >> 16 & 1);
  const std::uint32_t quiet = bits | 0x400000U, size = bits & 0x7FFFFFFFU;
  const std::uint32_t of = size > 0x7F800000U ? quiet : size < 0x800000U ? bits & 0x80000000U : near;
  return __builtin_bit_cast(float, of & 0xFFFF0000U);
}

ROSSBY_INLINE void pack_row(const float* from, Index count, Half* to) {
  for (Index p = 0; p < count; ++p) to[p] = rounded(from[p]);
  if (count % 2 != 0) to[count] = 0;
}

/// Packs columns from rows of b or of aᵀ, `stride` apart: [pair][2][width].
ROSSBY_INLINE void pack_side_by_side(Index depth, Index columns, const float* from, Index stride, Half* to,
                                     Index width) {
  for (Index p = 0; p < depth + depth % 2; ++p) {
    const Index there = p < depth ? columns : 0;
    for (Index j = 0; j < there; ++j) to[p * width + j] = rounded(from[p * stride + j]);
    for (Index j = there; j < width; ++j) to[p * width + j] = 0;
  }
}

/// Packs a panel of b whose columns are contiguous, `stride` apart.
ROSSBY_INLINE void pack_columns(Index depth, Index columns, const float* from, Index stride, Half* to) {
  for (Index j = 0; j < panel; ++j)
    for (Index p = 0; p < depth + depth % 2; ++p)
      to[p * panel + j] = p < depth && j < columns ? rounded(from[j * stride + p]) : 0;
}

template <int rows>
ROSSBY_INLINE void add_pair(V (&sum)[rows][panel_vectors], const Half* const (&at)[rows], const Left& a,
                            Index p, const Half* b) {
#pragma GCC unroll 2
  for (int term = 1; term >= 0; --term) {
    const V b0 = load<V>(b + term * panel), b1 = load<V>(b + term * panel + lanes<float>);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const V x = splat<V>(at[r][p * a.pair_stride + term * a.term_stride]);
      sum[r][0] = mul_add(x, b0, sum[r][0]);
      sum[r][1] = mul_add(x, b1, sum[r][1]);
    }
  }
}

#endif

ROSSBY_INLINE void pack_b(Index depth, Index columns, Strided<float> b, Half* to) {
  if (b.col_stride == 1)
    pack_side_by_side(depth, columns, b.data, b.row_stride, to, panel);
  else
    pack_columns(depth, columns, b.data, b.col_stride, to);
}

/// Rounds rows [0, rows) of a into `to`.
template <int rows>
ROSSBY_INLINE Left pack_a(Index depth, Strided<float> a, Half* to) {
  if (a.col_stride == 1) {
    const Index stride = (depth + row_step - 1) / row_step * row_step;
    for (int r = 0; r < rows; ++r) pack_row(a.data + r * a.row_stride, depth, to + r * stride);
    return {to, stride, 2, 1};
  }
  constexpr Index width = 16;
  static_assert(rows <= width);
  pack_side_by_side(depth, rows, a.data, a.col_stride, to, width);
#if defined(__AVX512BF16__)
  return {to, 2, 2 * width, 1};
#else
  return {to, 1, 2 * width, width};
#endif
}

/// A block of c (rows, panel columns) (+)= packed rows of a times a panel.
template <int rows>
ROSSBY_INLINE void tile(Index pairs, const Left& a, const Half* b, float* c, Index stride, bool add) {
  V sum[rows][panel_vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v)
      sum[r][v] = add ? load<V>(c + r * stride + v * lanes<float>) : V{};
  const Half* at[rows];
  for (int r = 0; r < rows; ++r) at[r] = a.data + r * a.row_stride;
  for (Index p = 0; p < pairs; ++p) add_pair<rows>(sum, at, a, p, b + p * 2 * panel);
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < panel_vectors; ++v) store(c + r * stride + v * lanes<float>, sum[r][v]);
}

/// The same if c has fewer columns than the panel.
template <int rows>
void narrow_tile(Index pairs, const Left& a, const Half* b, float* c, Index stride, Index columns, bool add) {
  float part[rows * panel];
  for (int r = 0; r < rows; ++r)
    for (Index j = 0; j < panel; ++j) part[r * panel + j] = add && j < columns ? c[r * stride + j] : 0.0F;
  tile<rows>(pairs, a, b, part, panel, true);
  for (int r = 0; r < rows; ++r)
    for (Index j = 0; j < columns; ++j) c[r * stride + j] = part[r * panel + j];
}

/// Computes `rows` rows of c at a time, from `first` on; returns the first row left.
template <int rows>
Index tiles(Index first, Index m, Index n, Index depth, Strided<float> a, const Half* packed, float* c,
            Index stride, bool add) {
  alignas(64) Half of_a[(rows > 16 ? rows : 16) * most_depth];
  const Index pairs = (depth + 1) / 2;
  for (; first + rows <= m; first += rows) {
    const Left left = pack_a<rows>(depth, {a.data + first * a.row_stride, a.row_stride, a.col_stride}, of_a);
    for (Index j = 0; j < n; j += panel) {
      const Half* b = packed + j * 2 * pairs;
      float* to = c + first * stride + j;
      if (n - j >= panel)
        tile<rows>(pairs, left, b, to, stride, add);
      else
        narrow_tile<rows>(pairs, left, b, to, stride, n - j, add);
    }
  }
  return first;
}

/// c (+)= a·b, packing as much of b at once as fits.
[[gnu::noinline]] void by_parts(Index m, Index n, Index k, Strided<float> a, Strided<float> b, float* c,
                                Index stride, bool add) {
  alignas(64) Half packed[packed_halves];
  constexpr Index least_depth = 128, widest = packed_halves / least_depth / panel * panel;
  for (Index j = 0; j < n; j += widest) {
    const Index columns = n - j < widest ? n - j : widest;
    const Index across = (columns + panel - 1) / panel * panel;
    Index deepest = packed_halves / across & ~Index{1};  // pairs are not cut
    if (deepest > most_depth) deepest = most_depth;
    for (Index p = 0; p < k; p += deepest) {
      const Index depth = k - p < deepest ? k - p : deepest;
      for (Index q = 0; q < columns; q += panel)
        pack_b(depth, columns - q < panel ? columns - q : panel,
               {b.data + p * b.row_stride + (j + q) * b.col_stride, b.row_stride, b.col_stride},
               packed + q * (depth + depth % 2));
      const Strided<float> deep{a.data + p * a.col_stride, a.row_stride, a.col_stride};
      const bool more = add || p > 0;
      Index done = tiles<tile_rows>(0, m, columns, depth, deep, packed, c + j, stride, more);
      done = tiles<tile_rows / 3>(done, m, columns, depth, deep, packed, c + j, stride, more);
      tiles<1>(done, m, columns, depth, deep, packed, c + j, stride, more);
    }
  }
}

void multiply(Index m, Index n, Index k, Strided<float> a, Strided<float> b, float* c, Index stride,
              bool add) {
  for (Index i = 0; k == 0 && !add && i < m; ++i)
    for (Index j = 0; j < n; ++j) c[i * stride + j] = 0;
  const FlushSubnormals flush;  // as the bf16 instructions do
  by_parts(m, n, k, a, b, c, stride, add);
}

}  // namespace

template <>
const Bf16Products& table<Bf16Products>() {
  static constexpr Bf16Products products{multiply};
  return products;
}

}  // namespace rossby::cpu::ROSSBY_ISA
