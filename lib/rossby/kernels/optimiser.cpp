#include "rossby/kernels/optimiser.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/adam_hops.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/tensor/device.hpp"

// The device's alone: the host goes row by row, and clears what it has read.
#define ROSSBY_DEVICES_ALONE                                                                             \
  template <class T>                                                                                     \
  void adam_replay_rows(const Exec&, MatrixView<T>, MatrixView<T>, MatrixView<T>, MatrixView<const T>,   \
                        std::span<const RowUpdates>, std::span<const AdamConstants<T>>);                 \
  template <class T>                                                                                     \
  void adam_take(const Exec&, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient, \
                 const AdamConstants<T>&);                                                               \
  template <class T>                                                                                     \
  void clip_by_norm(const Exec&, std::span<T> x, const double* squares, double most);
namespace rossby::simulated {
ROSSBY_DEVICES_ALONE
}
ROSSBY_IN_CUDA(ROSSBY_DEVICES_ALONE)

namespace rossby {
namespace {

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

}  // namespace

template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step) {
  check_moments(theta, m, v, gradient, step);
  ROSSBY_DISPATCH(adam_update, exec, theta, m, v, gradient, step);
}

template <class T>
void adamw_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                  std::span<const T> gradient, const AdamStep& step) {
  check_moments(theta, m, v, gradient, step);
  ROSSBY_DISPATCH(adamw_update, exec, theta, m, v, gradient, step);
}

template <class T>
void adam_take(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient,
               const AdamStep& step, bool decoupled) {
  check_moments<T>(theta, m, v, gradient, step);
  require(gradient.size() == theta.size(), "there is a gradient to take");
  if (exec.backend == Backend::simulated)
    return simulated::adam_take(exec, theta, m, v, gradient, adam_constants<T>(step, decoupled));
  if (exec.backend == Backend::cuda)
    ROSSBY_FROM_CUDA(adam_take, exec, theta, m, v, gradient, adam_constants<T>(step, decoupled));
  (decoupled ? adamw_update<T> : adam_update<T>)(exec, theta, m, v, gradient, step);
  clear(exec, gradient.data(), std::ssize(gradient));
}

template <class T>
void clip_by_norm(const Exec& exec, std::span<T> x, double* squares, double most) {
  if (exec.backend == Backend::simulated)
    return simulated::clip_by_norm<T>(exec, x, exec.device->later(squares), most);
  if (exec.backend == Backend::cuda)
    ROSSBY_FROM_CUDA(clip_by_norm<T>, exec, x, exec.device->later(squares), most);
  const NodeView<T> view(x.data(), 1, 1, std::ssize(x));
  scale<T>(exec, view, static_cast<T>(clipping_factor(std::sqrt(*squares), most)), view);
}

template <class T>
AdamConstants<T> adam_constants(const AdamStep& step, bool decoupled) {
  require(step.count >= 1, "updates are counted from 1");
  const auto count = static_cast<double>(step.count);
  AdamConstants<T> a;
  a.beta1 = static_cast<T>(step.beta1);
  a.rest1 = static_cast<T>(1 - step.beta1);
  require(step.missed == 0 || (step.beta1 == 0 && step.decay == 0), "missed updates have no closed form");
  a.beta2 = static_cast<T>(std::pow(step.beta2, static_cast<double>(step.missed + 1)));
  a.rest2 = static_cast<T>(1 - step.beta2);
  a.root_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
  a.step_size = static_cast<T>(step.lr / (1 - std::pow(step.beta1, count)));
  a.epsilon = static_cast<T>(step.epsilon);
  a.scale = static_cast<T>(step.gradient_scale);
  a.decay = static_cast<T>(decoupled ? 0 : step.decay);
  a.keep = static_cast<T>(decoupled ? 1 - step.lr * step.decay : 1);
  return a;
}

template <class T>
double replay_flops(const Exec& exec, std::span<const AdamConstants<T>> steps, Missed how) {
  Index hopped = 0;
  if constexpr (std::is_same_v<T, float>)
    if (how == Missed::in_hops && is_of_host(exec)) hopped = cpu::hopped_updates(steps);
  return hop_flops * static_cast<double>((hopped + cpu::most_hopped - 1) / cpu::most_hopped) +
         adam_flops * static_cast<double>(std::ssize(steps) - hopped);
}

template <class T>
void adam_replay(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, std::span<const AdamConstants<T>> steps, Missed how) {
  require(v.size() == theta.size() && (gradient.empty() || gradient.size() == theta.size()),
          "second moments and gradient have the size of the parameter");
  require(m.empty() || m.size() == theta.size(), "first moments have the size of the parameter");
  if (steps.empty()) return;
  ROSSBY_DISPATCH(adam_replay, exec, theta, m, v, gradient, steps, how);
}

template <class T>
void adam_replay_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> m, MatrixView<T> v,
                      MatrixView<const T> gradient, std::span<const RowUpdates> rows,
                      std::span<const AdamConstants<T>> steps, Missed how) {
  const auto fits = [&](const auto& view) { return view.rows == theta.rows && view.cols == theta.cols; };
  require(fits(v) && (!m.data || fits(m)), "moments have the table's shape");
  require(!gradient.data || (gradient.rows >= std::ssize(rows) && gradient.cols == theta.cols),
          "a row of the gradient for each of the rows");
  require(std::ranges::all_of(rows,
                              [&](const RowUpdates& of) {
                                return of.row >= 0 && of.row < theta.rows && of.begin >= 0 &&
                                       of.begin <= of.end && of.end <= std::ssize(steps);
                              }),
          "rows are the table's, and their updates are listed");
  if (rows.empty()) return;
  if (exec.backend == Backend::simulated)
    return simulated::adam_replay_rows(exec, theta, m, v, gradient, rows, steps);
  if (exec.backend == Backend::cuda)
    ROSSBY_FROM_CUDA(adam_replay_rows, exec, theta, m, v, gradient, rows, steps);
  const auto row = [&](MatrixView<T> of, Index r) {
    return of.data ? std::span<T>(of.row(r), static_cast<std::size_t>(of.cols)) : std::span<T>();
  };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const RowUpdates& of = rows[i];
    const auto size = static_cast<std::size_t>(gradient.data ? theta.cols : 0);
    const std::span<const T> slope(size > 0 ? gradient.row(static_cast<Index>(i)) : nullptr, size);
    adam_replay<T>(
        exec, row(theta, of.row), row(m, of.row), row(v, of.row), slope,
        steps.subspan(static_cast<std::size_t>(of.begin), static_cast<std::size_t>(of.end - of.begin)), how);
  }
}

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
  ROSSBY_DISPATCH(adam_update_rows, exec, theta, v, gradient, rows, done, factors, now);
}

template <class T>
void sgd_update(const Exec& exec, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  require(gradient.empty() || gradient.size() == theta.size(), "the gradient has the size of the parameter");
  require(velocity.size() == theta.size() || (velocity.empty() && step.momentum == 0),
          "velocities are needed where momentum is not 0");
  ROSSBY_DISPATCH(sgd_update, exec, theta, velocity, gradient, step);
}

#define ROSSBY_INSTANTIATE(T)                                                                           \
  template void adam_update(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<const T>,  \
                            const AdamStep&);                                                           \
  template void adamw_update(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<const T>, \
                             const AdamStep&);                                                          \
  template void adam_take(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<T>,          \
                          const AdamStep&, bool);                                                       \
  template void clip_by_norm(const Exec&, std::span<T>, double*, double);                               \
  template AdamConstants<T> adam_constants(const AdamStep&, bool);                                      \
  template double replay_flops(const Exec&, std::span<const AdamConstants<T>>, Missed);                 \
  template void adam_replay(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<const T>,  \
                            std::span<const AdamConstants<T>>, Missed);                                 \
  template void adam_replay_rows(const Exec&, MatrixView<T>, MatrixView<T>, MatrixView<T>,              \
                                 MatrixView<const T>, std::span<const RowUpdates>,                      \
                                 std::span<const AdamConstants<T>>, Missed);                            \
  template void adam_update_rows(const Exec&, MatrixView<T>, MatrixView<T>, MatrixView<T>,              \
                                 std::span<const Index>, std::span<const Index>, std::span<const T>,    \
                                 const AdamConstants<T>&);                                              \
  template void sgd_update(const Exec&, std::span<T>, std::span<T>, std::span<const T>, const SgdStep&);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
