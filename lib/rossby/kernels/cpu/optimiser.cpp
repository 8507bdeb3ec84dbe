#include "rossby/kernels/optimiser.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>

#include "rossby/kernels/cpu/adam_hops.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/adam.hpp"

namespace rossby::cpu {

namespace {

template <class T>
void adam(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<const T> gradient,
          std::span<const AdamConstants<T>> steps, Missed how = Missed::in_hops) {
  const auto update = kernels_of<AdamKernels, T>(exec.isa).update;
  // Without a gradient, the last update is like the ones before it.
  const std::span<const AdamConstants<T>> missed = gradient.empty() ? steps : steps.first(steps.size() - 1);
  const AdamConstants<T>* now = gradient.empty() ? nullptr : &steps.back();
  std::optional<AdamHops> hops;
  if constexpr (std::is_same_v<T, float>)
    if (how == Missed::in_hops && !missed.empty()) hops.emplace(missed);
  const Hops view = hops ? hops->view() : Hops{};
  for_each_piece(exec, std::ssize(theta), flat_piece, 4 * std::ssize(theta), [&](Index first, Index last) {
    update(last - first, theta.data() + first, m.empty() ? nullptr : m.data() + first, v.data() + first,
           gradient.empty() ? nullptr : gradient.data() + first, missed.data(), std::ssize(missed), now,
           view);
  });
}

}  // namespace

template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step, bool decoupled) {
  const AdamConstants<T> now = adam_constants<T>(step, decoupled);
  adam<T>(exec, theta, m, v, gradient, {&now, 1});
}

template <class T>
void adam_replay(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, std::span<const AdamConstants<T>> steps, Missed how) {
  adam(exec, theta, m, v, gradient, steps, how);
}

template <class T>
void adam_update_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> v, MatrixView<T> gradient,
                      std::span<const Index> rows, std::span<const Index> done, std::span<const T> factors,
                      const AdamConstants<T>& now) {
  const AdamKernels<T>& kernels = kernels_of<AdamKernels, T>(exec.isa);
  const Index columns = theta.cols, count = std::ssize(rows);
  const Index pieces = (columns + flat_piece - 1) / flat_piece;  // of a row
  for_each_piece(exec, count * pieces, 1, 4 * count * columns, [&](Index piece, Index) {
    const auto at = static_cast<std::size_t>(piece / pieces);
    const Index row = rows[at];
    const Index first = piece % pieces * flat_piece, length = std::min(flat_piece, columns - first);
    T* second = v.row(row) + first;
    const auto owed = factors.subspan(static_cast<std::size_t>(done[at]));
    kernels.multiply(length, second, owed.data(), std::ssize(owed));
    if (!gradient.data) return;
    T* slope = gradient.row(row) + first;
    kernels.update(length, theta.row(row) + first, nullptr, second, slope, nullptr, 0, &now, {});
    std::fill_n(slope, length, T(0));
  });
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

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, adam_update, adam_replay, adam_update_rows, sgd_update)
