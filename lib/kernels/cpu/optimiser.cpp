#include "rossby/kernels/optimiser.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

namespace {

/// The constants of one update, rounded once from double.
template <class T>
struct AdamConstants {
  T beta1, rest1, beta2, rest2, root_correction, step_size, epsilon, scale, decay, keep;

  AdamConstants(const AdamStep& step, double decay_inside, double decay_outside)
      : beta1(static_cast<T>(step.beta1)),
        rest1(static_cast<T>(1 - step.beta1)),
        beta2(static_cast<T>(step.beta2)),
        rest2(static_cast<T>(1 - step.beta2)),
        root_correction(
            static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, static_cast<double>(step.count))))),
        step_size(static_cast<T>(step.lr / (1 - std::pow(step.beta1, static_cast<double>(step.count))))),
        epsilon(static_cast<T>(step.epsilon)),
        scale(static_cast<T>(step.gradient_scale)),
        decay(static_cast<T>(decay_inside)),
        keep(static_cast<T>(1 - step.lr * decay_outside)) {}
};

/// `with_m` and `with_gradient` are compile-time choices: the loops below stay free of branches.
template <bool with_m, bool with_gradient, class T>
void adam_piece(Index size, T* theta, T* m, T* v, const T* gradient, const AdamConstants<T>& a) {
  for (Index k = 0; k < size; ++k) {
    T g = a.decay * theta[k];
    if constexpr (with_gradient) g += a.scale * gradient[k];
    T first = a.rest1 * g;
    if constexpr (with_m) {
      first += a.beta1 * m[k];
      m[k] = first;
    }
    v[k] = a.beta2 * v[k] + a.rest2 * g * g;
    theta[k] = a.keep * theta[k] - a.step_size * first / (std::sqrt(v[k]) * a.root_correction + a.epsilon);
  }
}

template <class T>
void adam(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
          const AdamConstants<T>& a) {
  for_each_piece(exec, std::ssize(theta), flat_piece, 4 * std::ssize(theta), [&](Index first, Index last) {
    const Index size = last - first;
    T* value = theta.data() + first;
    T* second = v.data() + first;
    if (m.empty() && gradient.empty())
      adam_piece<false, false, T>(size, value, nullptr, second, nullptr, a);
    else if (m.empty())
      adam_piece<false, true, T>(size, value, nullptr, second, gradient.data() + first, a);
    else if (gradient.empty())
      adam_piece<true, false, T>(size, value, m.data() + first, second, nullptr, a);
    else
      adam_piece<true, true, T>(size, value, m.data() + first, second, gradient.data() + first, a);
  });
}

}  // namespace

template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step) {
  adam(exec, theta, m, v, gradient, AdamConstants<T>(step, step.decay, 0));
}

template <class T>
void adamw_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                  std::span<const T> gradient, const AdamStep& step) {
  adam(exec, theta, m, v, gradient, AdamConstants<T>(step, 0, step.decay));
}

template <class T>
void sgd_update(const Exec& exec, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  const T lr = static_cast<T>(step.lr);
  const T momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.decay);
  const T factor = static_cast<T>(step.gradient_scale);
  for_each_piece(exec, std::ssize(theta), flat_piece, 3 * std::ssize(theta), [&](Index first, Index last) {
    for (Index k = first; k < last; ++k) {
      const T g = (gradient.empty() ? T{0} : factor * gradient[k]) + decay * theta[k];
      T b = g;
      if (!velocity.empty()) {
        b += momentum * velocity[k];
        velocity[k] = b;
      }
      theta[k] -= lr * (g + momentum * b);
    }
  });
}

#define ROSSBY_INSTANTIATE(T)                                                                           \
  template void adam_update(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<const T>,  \
                            const AdamStep&);                                                           \
  template void adamw_update(const Exec&, std::span<T>, std::span<T>, std::span<T>, std::span<const T>, \
                             const AdamStep&);                                                          \
  template void sgd_update(const Exec&, std::span<T>, std::span<T>, std::span<const T>, const SgdStep&);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::cpu
