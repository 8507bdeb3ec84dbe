#include "rossby/kernels/optimiser.hpp"

#include <cmath>

namespace rossby::reference {

template <class T>
void adam_update(const Exec&, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
                 const AdamStep& step, bool decoupled) {
  const double decay_inside = decoupled ? 0 : step.decay, decay_outside = decoupled ? step.decay : 0;
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.count));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.count));
  for (std::size_t k = 0; k < theta.size(); ++k) {
    const double start = theta[k];
    const double g = (gradient.empty() ? 0 : step.gradient_scale * gradient[k]) + decay_inside * start;
    const double first = step.beta1 * (m.empty() ? 0 : m[k]) + (1 - step.beta1) * g;
    const double second =
        std::pow(step.beta2, static_cast<double>(step.missed + 1)) * v[k] + (1 - step.beta2) * g * g;
    if (!m.empty()) m[k] = static_cast<T>(first);
    v[k] = static_cast<T>(second);
    theta[k] =
        static_cast<T>(start - step.lr * decay_outside * start -
                       step.lr / correction1 * first / (std::sqrt(second / correction2) + step.epsilon));
  }
}

template <class T>
void adam_replay(const Exec&, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
                 std::span<const AdamConstants<T>> steps, Missed) {
  for (std::size_t k = 0; k < theta.size(); ++k)
    for (const AdamConstants<T>& a : steps) {
      const bool with_gradient = &a == &steps.back() && !gradient.empty();
      const double g = (with_gradient ? a.scale * static_cast<double>(gradient[k]) : 0) +
                       a.decay * static_cast<double>(theta[k]);
      const double first = a.beta1 * (m.empty() ? 0.0 : m[k]) + a.rest1 * g;
      const double second = a.beta2 * static_cast<double>(v[k]) + a.rest2 * g * g;
      if (!m.empty()) m[k] = static_cast<T>(first);
      v[k] = static_cast<T>(second);
      theta[k] = static_cast<T>(a.keep * static_cast<double>(theta[k]) -
                                a.step_size * first / (std::sqrt(second) * a.root_correction + a.epsilon));
    }
}

template <class T>
void adam_update_rows(const Exec&, MatrixView<T> theta, MatrixView<T> v, MatrixView<T> gradient,
                      std::span<const Index> rows, std::span<const Index> done, std::span<const T> factors,
                      const AdamConstants<T>& now) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (Index c = 0; c < theta.cols; ++c) {
      const Index row = rows[i];
      T& second = v.row(row)[c];
      for (auto k = static_cast<std::size_t>(done[i]); k < factors.size(); ++k)
        second = static_cast<T>(static_cast<double>(factors[k]) * second);
      if (!gradient.data) continue;
      const double g = now.scale * static_cast<double>(gradient.row(row)[c]);
      const double next = now.beta2 * static_cast<double>(second) + now.rest2 * g * g;
      second = static_cast<T>(next);
      theta.row(row)[c] =
          static_cast<T>(static_cast<double>(theta.row(row)[c]) -
                         now.step_size * g / (std::sqrt(next) * now.root_correction + now.epsilon));
      gradient.row(row)[c] = T(0);
    }
}

template <class T>
void sgd_update(const Exec&, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  for (std::size_t k = 0; k < theta.size(); ++k) {
    const double g = (gradient.empty() ? 0 : step.gradient_scale * gradient[k]) + step.decay * theta[k];
    const double b = step.momentum * (velocity.empty() ? 0 : velocity[k]) + g;
    if (!velocity.empty()) velocity[k] = static_cast<T>(b);
    theta[k] = static_cast<T>(theta[k] - step.lr * (g + step.momentum * b));
  }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, adam_update, adam_replay, adam_update_rows, sgd_update)
