#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Sums are taken in double over blocks of rows that depend on the shape alone, in a fixed order: the same
// bits at every number of threads. Shapes of all operands are equal. A NaN target is a missing one: it adds
// nothing, whatever the prediction is.

/// How an error e = prediction − target counts. `at` is δ of huber (units of the target) and τ of pinball.
///
///     squared    e²
///     absolute   |e|
///     huber      e² / 2 if |e| ≤ δ, else δ (|e| − δ / 2)                  Huber, Ann. Math. Stat. 35, 1964
///     pinball    −τ e if e < 0, else (1 − τ) e: least at quantile τ       Koenker, Bassett, Econometrica 46,
///     1978
struct MaskedError {
  enum Kind { squared, absolute, huber, pinball };
  Kind kind = absolute;
  double at = 0;

  constexpr MaskedError(Kind of, double where = 0) : kind(of), at(where) {}  // NOLINT: a kind is an error
  friend constexpr bool operator==(const MaskedError&, const MaskedError&) = default;

  /// Of an error e, computed in the type of e.
  template <class E>
  [[nodiscard]] constexpr E value(E e) const {
    const E size = e < E(0) ? -e : e, bound = static_cast<E>(at);
    if (kind == squared) return e * e;
    if (kind == absolute) return size;
    if (kind == huber) return size <= bound ? e * e / 2 : bound * (size - bound / 2);
    return e < E(0) ? -bound * e : (1 - bound) * e;
  }
  /// Its derivative; 0 at an error of exactly 0. NaN stays NaN.
  template <class E>
  [[nodiscard]] constexpr E gradient(E e) const {
    const E bound = static_cast<E>(at);
    if (kind == squared) return 2 * e;
    if (kind == absolute) return e > E(0) ? E(1) : e < E(0) ? E(-1) : e;
    if (kind == huber) return e > bound ? bound : e < -bound ? -bound : e;
    return e > E(0) ? 1 - bound : e < E(0) ? -bound : e;
  }
};

// *sum is added to at once by the host's kernels, by a device's when it settles (settle in exec.hpp): it
// stays in place until then.

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

/// A gradient that a kernel writes, or adds to.
template <class T>
struct GradientOut {
  NodeView<T> to;  // no data: nobody wants it
  bool add = true;
};

/// The same, and at once its gradients: da = or += 2·scale·(a − b), db = or −= that. da and db may be one, of
/// which the second is then added to.
template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  require(same_shape(a, b) && absent_or_same(da.to, a) && absent_or_same(db.to, a), shapes_differ);
  dispatch<squared_difference_gradients<T>>(exec, da, db, a, b, scale, sum);
}

}  // namespace rossby
