#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// Several updates with gradient zero, taken in one hop; adam_hops.hpp has the mathematics.
struct AdamHop {
  static constexpr int mean_terms = 3, end_terms = 4, product_terms = 5;
  Index updates;  // so many
  Index parts;    // shorter hops that cover the same updates (Hops::parts), for values that this one does not
                  // hold for; 0: those take their updates one by one
  bool decays;    // decay moves theta and v; else m alone moves theta
  float sum;      // of the factors of 1 / (√v + epsilon)
  float epsilon;  // their mean
  float most;     // largest 1 / (√v + epsilon), at its mean, that a hop holds for
  float keep_v;   // v is multiplied by it,
  float keep_m;   // m,
  float keep;     // theta: AdamW
  // Decay. With x = 1 − what theta shrinks to, but for higher powers:
  float growth;            // of v by the decay's squares, its mean over the hop where theta stands still
  float least_v;           // times theta²: least v that a hop holds for
  float mean[mean_terms];  // mean growth: growth · (1 + x Σ mean[i] xⁱ)
  float all;               // growth at the end, where theta stands still: growth · all
  float end[end_terms];    // else growth · (all + x Σ end[i] xⁱ)
  float product[product_terms];  // theta is multiplied by 1 − x + x² Σ product[i] xⁱ
};

/// Hops that cover the first of the missed updates without gaps.
struct Hops {
  const AdamHop* first = nullptr;
  Index count = 0;
  const AdamHop* (*parts_of)(void* source,
                             Index hop) = nullptr;  // of one that has some; threads may ask at once
  void* source = nullptr;
};

/// Functions of one instruction set.
template <class T>
struct AdamKernels {
  /// Applies the `count` updates of `missed` with gradient zero, then `now` with `gradient` (null: zeros);
  /// `now` may be null. theta and v once through memory, however many updates. m may be null where beta1 = 0.
  /// Bit-equal to `count` + 1 separate calls where there are no hops (float only). A value that is beyond a
  /// hop takes its parts, one that is beyond a hop without parts its updates one by one.
  void (*update)(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>* missed,
                 Index count, const AdamConstants<T>* now, const Hops& hops);
  /// v times each of the factors, one after the other.
  void (*multiply)(Index size, T* v, const T* factors, Index count);
};

}  // namespace rossby::cpu
