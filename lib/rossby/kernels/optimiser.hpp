#pragma once

#include <span>

#include "rossby/kernels/adam_constants.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Flops per value and update: moments, correction, root, division and decay; each operation counts as one.
inline constexpr double adam_flops = 12;
/// Flops per value of one hop over up to 64 updates with gradient zero (cpu/adam_hops.hpp), however many they
/// are.
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
  Index missed = 0;  // preceding updates with gradient zero, not made yet; only if beta1 = decay = 0: v
                     // alone would have changed, by beta2^missed
};

/// Throws BugError unless all arrays have the parameter's size and the step fits its moments.
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
/// All spans have one size. An empty `gradient` stands for zeros. `m` may be empty if beta1 = 0 (then m = g).
/// Bias corrections are computed in double. `decoupled` (AdamW): first theta −= lr·decay·theta, and g has no
/// decay.
template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step, bool decoupled = false) {
  check_moments(theta, m, v, gradient, step);
  dispatch<adam_update<T>>(exec, theta, m, v, gradient, step, decoupled);
}

/// adam_update that also clears the gradient; a device does both in one pass.
template <class T>
void adam_take(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient,
               const AdamStep& step, bool decoupled);

/// The constants of `step`; of AdamW if `decoupled`.
template <class T>
AdamConstants<T> adam_constants(const AdamStep& step, bool decoupled);

/// How adam_replay applies updates with gradient zero to floats on the host. Preparing hops costs as much as
/// some hundred updates.
enum class Missed { in_hops, one_by_one };

/// Makes steps.size() updates in one pass over memory: the last with `gradient` (empty: zeros), the ones
/// before with gradient zero. The result equals as many calls of adam_update. It is bit-equal on one
/// instruction set for doubles, and for floats if momentum and decay occur together. Other floats on the host
/// take up to 64 zero-gradient updates in one hop (cpu/adam_hops.hpp), as exact as one by one. A value does
/// not depend on its neighbours. `m` may be empty if beta1 = 0 in all steps.
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

/// Pending updates of one row of a table: [begin, end) of a list.
struct RowUpdates {
  Index row = 0, begin = 0, end = 0;
};

/// adam_replay of rows of (rows, columns) values, each with its own updates; a device does it in one pass.
/// Row `rows[i].row` takes its pending updates of `steps`, the last of them with row i of `gradient` (zeros
/// if its data are null). m's data are null if beta1 = 0 in all steps. Rows are distinct.
template <class T>
void adam_replay_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> m, MatrixView<T> v,
                      MatrixView<const T> gradient, std::span<const RowUpdates> rows,
                      std::span<const AdamConstants<T>> steps, Missed how = Missed::in_hops);

/// Flops per value of adam_replay_rows if all steps have gradient zero and a hop holds for the value.
template <class T>
double replay_flops(const Exec& exec, std::span<const AdamConstants<T>> steps, Missed how = Missed::in_hops);

/// One update of some rows of (rows, columns) values, if beta1 = 0 and there is no decay. All other rows have
/// gradient zero, which only multiplies their v by a factor. Row `rows[i]` first takes its pending factors,
/// factors[done[i]] and all later ones, one after the other. The rows are therefore bit-equal to as many
/// calls of adam_update on all rows. The gradient of the rows is zero afterwards. With an empty `gradient`
/// only the pending factors are applied. Rows are distinct.
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

/// The factor that scales gradients of norm `norm` to at most `most` (as torch.nn.utils.clip_grad_norm_). 1
/// if the norm is NaN.
[[nodiscard]] inline double clipping_factor(double norm, double most) {
  const double factor = most / (norm + 1e-6);
  return factor < 1 ? factor : 1;
}

/// x *= clipping_factor(√*squares, most). On a device, *squares is the sum that kernels added to it since the
/// last settlement (loss.hpp); the host need not know its value.
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
/// All spans have one size. `velocity` may be empty if momentum = 0.
template <class T>
void sgd_update(const Exec& exec, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  require(gradient.empty() || gradient.size() == theta.size(), "the gradient has the size of the parameter");
  require(velocity.size() == theta.size() || (velocity.empty() && step.momentum == 0),
          "velocities are needed where momentum is not 0");
  dispatch<sgd_update<T>>(exec, theta, velocity, gradient, step);
}

}  // namespace rossby
