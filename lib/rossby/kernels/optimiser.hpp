#pragma once

#include <span>

#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Of one value in one update: moments, correction, root, division and decay, each of which counts as one.
inline constexpr double adam_flops = 12;
/// The same of one hop over up to 64 updates with gradient zero (cpu/adam_hops.hpp), however many.
inline constexpr double hop_flops = 45;

/// One update of Adam (Kingma, Ba, ICLR 2015) or AdamW (Loshchilov, Hutter, ICLR 2019).
struct AdamStep {
  double lr = 3e-3;
  double beta1 = 0;
  double beta2 = 0.999;
  double epsilon = 1e-9;
  double decay = 0;  // Adam: added to the gradient as decay·theta; AdamW: theta shrinks by lr·decay
  double gradient_scale = 1;  // multiplies the gradient first: clipping
  Index count = 1;            // this update's number for this parameter, from 1
  Index missed = 0;  // updates with gradient zero just before, not made yet; only where beta1 = decay = 0: v
                     // alone would have changed, by beta2^missed
};

/// Throws BugError unless all arrays fit the parameter, and the step its moments.
template <class T>
void check_moments(std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
                   const AdamStep& step) {
  require(v.size() == theta.size() && (gradient.empty() || gradient.size() == theta.size()),
          "second moments and gradient have the size of the parameter");
  require(m.size() == theta.size() || (m.empty() && step.beta1 == 0),
          "first moments are needed where beta1 is not 0");
  require(step.count >= 1, "updates are counted from 1");
  require(step.missed == 0 || (step.beta1 == 0 && step.decay == 0), "missed updates have no closed form");
}

/// g = gradient_scale·gradient + decay·theta;  m = beta1·m + (1 − beta1)·g;  v = beta2·v + (1 − beta2)·g²;
/// theta −= lr/(1 − beta1^count) · m / (√v / √(1 − beta2^count) + epsilon).
/// All spans have one size. An empty `gradient` stands for zeros; an empty `m` is allowed where beta1 = 0 (m
/// is g then). Bias corrections are computed in double. `decoupled` (AdamW): theta −= lr·decay·theta first,
/// and no decay in g.
template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step, bool decoupled = false) {
  check_moments(theta, m, v, gradient, step);
  dispatch<adam_update<T>>(exec, theta, m, v, gradient, step, decoupled);
}

/// adam_update with a gradient that is zero afterwards: on a device in
/// the same pass.
template <class T>
void adam_take(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient,
               const AdamStep& step, bool decoupled);

/// The constants of `step`; `decoupled`: of AdamW.
template <class T>
AdamConstants<T> adam_constants(const AdamStep& step, bool decoupled);

/// How adam_replay takes updates with gradient zero of a host's floats: what hops need for all values takes
/// as long as the updates of some hundred.
enum class Missed { in_hops, one_by_one };

/// steps.size() updates in one pass over memory: the last with `gradient` (empty: zeros), those before with
/// gradient zero. Equal to as many calls of adam_update: to the bit on one instruction set
/// for doubles, and for floats where momentum and decay go together; else floats of a host take up to 64 of
/// those with gradient zero in one hop (cpu/adam_hops.hpp), as exact as one by one. A value does not depend
/// on its neighbours. `m` may be empty where beta1 = 0 in all of them.
template <class T>
void adam_replay(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, std::span<const AdamConstants<T>> steps,
                 Missed how = Missed::in_hops) {
  require(v.size() == theta.size() && (gradient.empty() || gradient.size() == theta.size()),
          "second moments and gradient have the size of the parameter");
  require(m.empty() || m.size() == theta.size(), "first moments have the size of the parameter");
  if (steps.empty()) return;
  dispatch<adam_replay<T>>(exec, theta, m, v, gradient, steps, how);
}

/// What a row of a table is owed: updates [begin, end) of a list.
struct RowUpdates {
  Index row = 0, begin = 0, end = 0;
};

/// adam_replay of rows of (rows, columns) values, each with its own updates, on a device in one pass: row
/// `rows[i].row` takes those of `steps` that it is owed, the last of them with row i of `gradient` (its data
/// null: zeros). m's data are null where beta1 = 0 in all of them. Rows come once each.
template <class T>
void adam_replay_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> m, MatrixView<T> v,
                      MatrixView<const T> gradient, std::span<const RowUpdates> rows,
                      std::span<const AdamConstants<T>> steps, Missed how = Missed::in_hops);

/// Flops a value of that, where all steps have gradient zero and a hop holds for the value.
template <class T>
double replay_flops(const Exec& exec, std::span<const AdamConstants<T>> steps, Missed how = Missed::in_hops);

/// One update of some rows of (rows, columns) values, where beta1 = 0 and nothing decays: those of all other
/// rows have gradient zero, which multiplies their v by a factor and changes nothing else. What row `rows[i]`
/// is owed of that since its last update, factors[done[i]] and all behind it, is made up for first, one after
/// the other: the rows are equal to the bit to those of as many calls of adam_update for all. Then
/// their gradient is zero. An empty `gradient` makes up for what is owed and ends there. Rows come once each.
template <class T>
void adam_update_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> v, MatrixView<T> gradient,
                      std::span<const Index> rows, std::span<const Index> done, std::span<const T> factors,
                      const AdamConstants<T>& now) {
  const auto fits = [&](MatrixView<T> m) { return m.rows == theta.rows && m.cols == theta.cols; };
  require(fits(v) && (!gradient.data || fits(gradient)), "moments and gradient have the parameter's shape");
  require(done.size() == rows.size() &&
              std::ranges::all_of(rows, [&](Index row) { return row >= 0 && row < theta.rows; }),
          "rows are the parameter's");
  require(now.beta1 == T(0) && now.decay == T(0) && now.keep == T(1),
          "rows without a gradient stand still where beta1 = 0 and nothing decays");
  if (rows.empty()) return;
  dispatch<adam_update_rows<T>>(exec, theta, v, gradient, rows, done, factors, now);
}

/// What gradients of norm `norm` are multiplied by to have at most `most` (as
/// torch.nn.utils.clip_grad_norm_). 1 where the norm is NaN.
[[nodiscard]] inline double clipping_factor(double norm, double most) {
  const double factor = most / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

/// x *= clipping_factor(√*squares, most). On a device *squares is what kernels there have added to it since
/// the last settlement (loss.hpp): the host need not know it.
template <class T>
void clip_by_norm(const Exec& exec, std::span<T> x, double* squares, double most);

/// One update of stochastic gradient descent with Nesterov momentum (Sutskever et al., ICML 2013, in the form
/// without look-ahead parameters).
struct SgdStep {
  double lr = 1e-2;
  double momentum = 0.9;
  double decay = 0;           // added to the gradient as decay·theta
  double gradient_scale = 1;  // multiplies the gradient first
};

/// g = gradient_scale·gradient + decay·theta;  b = momentum·b + g;  theta −= lr·(g + momentum·b).
/// Spans as above; `velocity` may be empty where momentum = 0.
template <class T>
void sgd_update(const Exec& exec, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  require(gradient.empty() || gradient.size() == theta.size(), "the gradient has the size of the parameter");
  require(velocity.size() == theta.size() || (velocity.empty() && step.momentum == 0),
          "velocities are needed where momentum is not 0");
  dispatch<sgd_update<T>>(exec, theta, velocity, gradient, step);
}

}  // namespace rossby
