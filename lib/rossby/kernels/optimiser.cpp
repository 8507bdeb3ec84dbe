#include "rossby/kernels/optimiser.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/base/error.hpp"
#include "rossby/kernels/cpu/adam_hops.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {

template <class T>
void adam_take(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient,
               const AdamStep& step, bool decoupled) {
  check_moments<T>(theta, m, v, gradient, step);
  require(gradient.size() == theta.size(), "there is a gradient to take");
  if (on_device(exec.backend))
    return run_on_device<adam_take<T>>(exec, theta, m, v, gradient, step, decoupled);
  adam_update<T>(exec, theta, m, v, gradient, step, decoupled);
  clear(exec, gradient.data(), std::ssize(gradient));
}

template <class T>
void clip_by_norm(const Exec& exec, std::span<T> x, double* squares, double most) {
  if (on_device(exec.backend)) return run_on_device<clip_by_norm<T>>(exec, x, squares, most);
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
  if (on_device(exec.backend))
    return run_on_device<adam_replay_rows<T>>(exec, theta, m, v, gradient, rows, steps, how);
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

ROSSBY_FOR_SCALARS(adam_take)
ROSSBY_FOR_SCALARS(clip_by_norm)
ROSSBY_FOR_SCALARS(adam_constants)
ROSSBY_FOR_SCALARS(replay_flops)
ROSSBY_FOR_SCALARS(adam_replay_rows)

}  // namespace rossby
