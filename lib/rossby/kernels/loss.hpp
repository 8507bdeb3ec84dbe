#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Sums are taken in double over blocks of rows that depend on the shape alone, in a fixed order: they are
// bit-equal at every number of threads. All operands have equal shapes. A NaN target is missing and adds
// nothing, whatever the prediction is.

/// The loss of an error e = prediction − target. `at` is δ of huber (units of the target) or τ of pinball.
///
///     squared    e²
///     absolute   |e|
///     huber      e² / 2 if |e| ≤ δ, else δ (|e| − δ / 2)
///                (Huber, Ann. Math. Stat. 35, 1964)
///     pinball    −τ e if e < 0, else (1 − τ) e: least at quantile τ
///                (Koenker, Bassett, Econometrica 46, 1978)
struct MaskedError {
  enum Kind { squared, absolute, huber, pinball };
  Kind kind = absolute;
  double at = 0;

  constexpr MaskedError(Kind of, double where = 0) : kind(of), at(where) {}  // NOLINT: a kind is an error
  friend constexpr bool operator==(const MaskedError&, const MaskedError&) = default;

  /// The loss of an error e, computed in the type of e.
  template <class E>
  [[nodiscard]] constexpr E value(E e) const {
    const E size = e < E(0) ? -e : e, bound = static_cast<E>(at);
    if (kind == squared) return e * e;
    if (kind == absolute) return size;
    if (kind == huber) return size <= bound ? e * e / 2 : bound * (size - bound / 2);
    return e < E(0) ? -bound * e : (1 - bound) * e;
  }
  /// The derivative of the loss; 0 at an error of exactly 0. NaN stays NaN.
  template <class E>
  [[nodiscard]] constexpr E gradient(E e) const {
    const E bound = static_cast<E>(at);
    if (kind == squared) return 2 * e;
    if (kind == absolute) return e > E(0) ? E(1) : e < E(0) ? E(-1) : e;
    if (kind == huber) return e > bound ? bound : e < -bound ? -bound : e;
    return e > E(0) ? 1 - bound : e < E(0) ? -bound : e;
  }
};

// Host kernels add to *sum at once; a device adds when it settles (settle in exec.hpp). Keep *sum in place
// until then.

/// *sum += Σ kind.value(prediction − target) over observed entries.
template <class T>
void masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* sum) {
  require(same_shape(prediction, target), shapes_differ);
  dispatch<masked_error_sum<T>>(exec, kind, prediction, target, sum);
}

/// dprediction += scale · kind.gradient(prediction − target) at observed entries.
template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  require(same_shape(dprediction, prediction, target), shapes_differ);
  dispatch<masked_error_backward<T>>(exec, kind, dprediction, prediction, target, scale);
}

/// *sum += Σ (a − b)².
template <class T>
void squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b, double* sum) {
  require(same_shape(a, b), shapes_differ);
  dispatch<squared_difference_sum<T>>(exec, a, b, sum);
}

/// A gradient that a kernel writes or adds to.
template <class T>
struct GradientOut {
  NodeView<T> to;  // no data: gradient not wanted
  bool add = true;
};

/// squared_difference_sum with its gradients: da = or += 2·scale·(a − b), db = or −= the same. If da and db
/// are the same view, the second is added to the first.
template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  require(same_shape(a, b) && absent_or_same(da.to, a) && absent_or_same(db.to, a), shapes_differ);
  dispatch<squared_difference_gradients<T>>(exec, da, db, a, b, scale, sum);
}

}  // namespace rossby
