#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Several updates with gradient zero, taken in one hop; adam_hops.hpp has the mathematics.
struct AdamHop {
  static constexpr int mean_terms = 3, end_terms = 4, product_terms = 5;
  Index updates;  // in this hop
  Index parts;    // shorter hops over the same updates (Hops::parts), for values that this one does not
                  // hold for; 0: such values take their updates one by one
  bool decays;    // decay moves theta and v; otherwise m alone moves theta
  float sum;      // of the factors of 1 / (√v + epsilon)
  float epsilon;  // their mean
  float most;     // largest 1 / (√v + epsilon), at its mean, that a hop holds for
  float keep_v;   // v is multiplied by it,
  float keep_m;   // m,
  float keep;     // theta: AdamW
  // Decay. x = 1 − theta's factor, up to higher powers:
  float growth;                  // of v by the decay's squares: mean over the hop if theta is constant
  float least_v;                 // times theta²: least v that the hop holds for
  float mean[mean_terms];        // mean growth: growth · (1 + x Σ mean[i] xⁱ)
  float all;                     // final growth if theta is constant: growth · all
  float end[end_terms];          // final growth otherwise: growth · (all + x Σ end[i] xⁱ)
  float product[product_terms];  // theta is multiplied by 1 − x + x² Σ product[i] xⁱ
};

/// Hops that cover the first missed updates without gaps.
struct Hops {
  static constexpr Index most_parts = 8;  // of one hop
  const AdamHop* first = nullptr;
  Index count = 0;
  const AdamHop* parts = nullptr;  // of hop h: from h · most_parts on
};

/// Functions of one instruction set.
template <class T>
struct AdamKernels {
  /// Applies the `count` updates of `missed` with gradient zero, then `now` with `gradient` (null: zeros);
  /// `now` may be null. theta and v go once through memory, however many updates there are. m may be null if
  /// beta1 = 0. Without hops (which are for float only), bit-equal to `count` + 1 separate calls. A value
  /// that a hop does not hold for takes its parts, or its updates one by one if the hop has no parts.
  void (*update)(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed,
                 Index count, const AdamConstants<T>* now, const Hops& hops);
  /// v times each of the factors, one after the other.
  void (*multiply)(Index size, T* v, const T* factors, Index count);
};

}  // namespace rossby::cpu
