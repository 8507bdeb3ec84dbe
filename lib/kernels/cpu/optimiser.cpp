#include "rossby/kernels/optimiser.hpp"

#include <cmath>

#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/adam.hpp"

namespace rossby::cpu {

namespace {

template <class T>
AdamConstants<T> constants(const AdamStep& step, double decay_inside, double decay_outside) {
  AdamConstants<T> a;
  a.beta1 = static_cast<T>(step.beta1);
  a.rest1 = static_cast<T>(1 - step.beta1);
  a.beta2 = static_cast<T>(step.beta2);
  a.rest2 = static_cast<T>(1 - step.beta2);
  const auto count = static_cast<double>(step.count);
  a.root_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(step.beta2, count)));
  a.step_size = static_cast<T>(step.lr / (1 - std::pow(step.beta1, count)));
  a.epsilon = static_cast<T>(step.epsilon);
  a.scale = static_cast<T>(step.gradient_scale);
  a.decay = static_cast<T>(decay_inside);
  a.keep = static_cast<T>(1 - step.lr * decay_outside);
  return a;
}

template <class T>
void adam(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
          const AdamConstants<T>& a) {
  const auto update = adam_kernels<T>(exec.isa).update;
  for_each_piece(exec, std::ssize(theta), flat_piece, 4 * std::ssize(theta), [&](Index first, Index last) {
    update(last - first, theta.data() + first, m.empty() ? nullptr : m.data() + first, v.data() + first,
           gradient.empty() ? nullptr : gradient.data() + first, nullptr, 0, &a);
  });
}

}  // namespace

template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step) {
  adam(exec, theta, m, v, gradient, constants<T>(step, step.decay, 0));
}

template <class T>
void adamw_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                  std::span<const T> gradient, const AdamStep& step) {
  adam(exec, theta, m, v, gradient, constants<T>(step, 0, step.decay));
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
