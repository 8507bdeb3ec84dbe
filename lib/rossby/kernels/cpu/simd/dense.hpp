#pragma once

#include <cstdint>

#include "rossby/base/bf16.hpp"
#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/adam.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

// Products with one dense W (rows, columns) and node data of `width` = B·d values per node. "Strips" are
// groups of DenseKernels::strip columns: data of a strip is (width, strip), transposed, padded with zeros. W
// and its moments are stored as S; everything else and the arithmetic is in T.

/// Zeroed rows that a caller appends to G, so that register blocks never end early.
inline constexpr Index dense_row_padding = 8;

/// context (rows, width) = clamp(W) z for a few rows.
template <class S>
struct DenseForward {
  using T = Arithmetic<S>;
  const S* weight;              // (rows, stride)
  const std::uint8_t* pattern;  // the same; null: all
  Index stride;
  Index rows;  // at most dense_forward_rows
  Index columns;
  bool clamped;
  const T* z;  // narrow: strips; wide: (columns, width rounded up to lanes)
  Index width;
  T* context;             // (rows, width)
  double weight_sum = 0;  // Σ effective weights is added
};
inline constexpr Index dense_forward_rows = 96;
/// Rows whose weights are summed before they are added: tiles of any multiple of it give bit-equal results.
inline constexpr Index dense_sum_rows = 24;

/// Treatment of the gradient of W, entry by entry.
enum class DenseSink {
  none,        // W is given
  accumulate,  // dm += gradient
  adam,        // weight and v are updated; beta1 = 0
  adam_moment  // weight, m and v are updated
};

/// Over some columns and all rows: u += clamp(W)ᵀ G, and the gradient G zᵀ, which goes to its sink at once.
template <class S>
struct DenseBackward {
  using T = Arithmetic<S>;
  S* weight;  // (rows, stride) at the first column; written by adam only
  const std::uint8_t* pattern;
  T* dm;
  S* m;
  S* v;
  const AdamConstants<T>* adam;
  Index stride;
  Index rows;
  Index columns;
  bool clamped;
  T l1;        // added to the gradient if it passes
  const T* g;  // (rows, width), and dense_row_padding rows of zeros
  Index width;
  const T* z;                   // strips
  T* u;                         // strips; null: not wanted
  StochasticRounding rounding;  // bf16: of the first row here, whose relation is `relation`
  Index relation;
  Index first_column;        // global number of the first column here
  bool large_cache = false;  // the second-level cache has room for one more tile
  Index ahead = 0;           // `sink`: prefetch distance in columns
  double squares = 0;        // out: Σ gradient²
};

/// Functions of one instruction set.
template <class S>
struct DenseKernels {
  using T = Arithmetic<S>;
  Index strip;
  bool paired;  // a strip's data holds its even columns first, then the odd ones
  Index lanes;
  void (*forward_narrow)(DenseForward<S>&);  // best for width < lanes
  void (*forward_wide)(DenseForward<S>&);
  void (*backward[4])(DenseBackward<S>&);  // by DenseSink
  /// The sink alone: `gradient` (rows, gradient_stride) = G zᵀ, unmasked, for the first rows of `b`.
  void (*sink[4])(DenseBackward<S>& b, const T* gradient, Index gradient_stride);
};

}  // namespace rossby::cpu
