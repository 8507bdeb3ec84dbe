#include "rossby/kernels/optimiser.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/few.hpp"
#include "rossby/kernels/device/values.hpp"

namespace rossby::ROSSBY_DEVICE {
namespace {

/// The constants of updates for one kernel. Updates differ in two numbers: up to `most` travel with the
/// launch.
template <class T>
class Updates {
 public:
  static constexpr int most = 128;

  Updates(Device& device, std::span<const AdamConstants<T>> steps) {
    if (steps.empty()) return;
    alike_ = steps[0];
    const bool few = std::ssize(steps) <= most && std::all_of(steps.begin(), steps.end(), [&](const auto& s) {
                       return s.beta1 == alike_.beta1 && s.beta2 == alike_.beta2 &&
                              s.epsilon == alike_.epsilon && s.scale == alike_.scale &&
                              s.decay == alike_.decay && s.keep == alike_.keep;
                     });
    if (!few) many_ = device.on_device(steps);
    for (std::size_t s = 0; few && s < steps.size(); ++s) {
      root_correction_[s] = steps[s].root_correction;
      step_size_[s] = steps[s].step_size;
    }
  }
  ROSSBY_ON_DEVICE AdamConstants<T> operator[](Index s) const {
    if (many_) return many_[s];
    AdamConstants<T> constants = alike_;
    constants.root_correction = root_correction_[s];
    constants.step_size = step_size_[s];
    return constants;
  }

 private:
  AdamConstants<T> alike_{};
  T root_correction_[most] = {}, step_size_[most] = {};
  const AdamConstants<T>* many_ = nullptr;
};

/// `count` updates of every value, the last with its gradient.
template <class T>
struct Replay {
  T* theta;
  T* m;
  T* v;
  const T* gradient;
  Updates<T> steps;
  Index count;

  ROSSBY_ON_DEVICE void operator()(Index k) const {
    T value = theta[k], second = v[k], first = m ? m[k] : T(0);
    for (Index s = 0; s < count; ++s)
      adam_step(value, first, second, gradient && s + 1 == count ? gradient[k] : T(0), steps[s]);
    theta[k] = value;
    v[k] = second;
    if (m) m[k] = first;
  }
};

}  // namespace

template <class T>
void adam_replay(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, std::span<const AdamConstants<T>> steps, Missed) {
  for_each(exec, std::ssize(theta),
           Replay<T>{theta.data(),
                     m.empty() ? nullptr : m.data(),
                     v.data(),
                     gradient.empty() ? nullptr : gradient.data(),
                     {*exec.device, steps},
                     std::ssize(steps)});
}

template <class T>
void adam_take(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v, std::span<T> gradient,
               const AdamStep& step, bool decoupled) {
  const AdamConstants<T> constants = adam_constants<T>(step, decoupled);
  T *values = theta.data(), *second = v.data(), *slope = gradient.data();
  T* first = m.empty() ? nullptr : m.data();
  for_each(exec, std::ssize(theta), [=] ROSSBY_ON_DEVICE(Index k) {
    T moment = first ? first[k] : T(0);
    adam_step(values[k], moment, second[k], slope[k], constants);
    if (first) first[k] = moment;
    slope[k] = T(0);
  });
}

template <class T>
void clip_by_norm(const Exec& exec, std::span<T> x, double* sum, double most) {
  const double* squares = exec.device->later(sum);
  T* values = x.data();
  for_each(exec, std::ssize(x), [=] ROSSBY_ON_DEVICE(Index k) {
    const double factor = most / (std::sqrt(*squares) + 1e-6);  // clipping_factor
    if (factor < 1) values[k] *= static_cast<T>(factor);
  });
}

template <class T>
void adam_replay_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> m, MatrixView<T> v,
                      MatrixView<const T> gradient, std::span<const RowUpdates> rows,
                      std::span<const AdamConstants<T>> steps, Missed) {
  const Few<RowUpdates, 16> list(*exec.device, rows);
  const Updates<T> constants(*exec.device, steps);
  const Index columns = theta.cols;
  for_each(exec, std::ssize(rows) * columns, [=] ROSSBY_ON_DEVICE(Index k) {
    const Index q = k / columns, c = k % columns;
    const RowUpdates of = list[q];
    T value = theta.row(of.row)[c], second = v.row(of.row)[c];
    T first = m.data ? m.row(of.row)[c] : T(0);
    for (Index s = of.begin; s < of.end; ++s)
      adam_step(value, first, second, gradient.data && s + 1 == of.end ? gradient.row(q)[c] : T(0),
                constants[s]);
    theta.row(of.row)[c] = value;
    v.row(of.row)[c] = second;
    if (m.data) m.row(of.row)[c] = first;
  });
}

template <class T>
void adam_update(const Exec& exec, std::span<T> theta, std::span<T> m, std::span<T> v,
                 std::span<const T> gradient, const AdamStep& step, bool decoupled) {
  const AdamConstants<T> constants = adam_constants<T>(step, decoupled);
  ROSSBY_DEVICE::adam_replay<T>(exec, theta, m, v, gradient, {&constants, 1}, Missed::one_by_one);
}

template <class T>
void adam_update_rows(const Exec& exec, MatrixView<T> theta, MatrixView<T> v, MatrixView<T> gradient,
                      std::span<const Index> rows, std::span<const Index> done, std::span<const T> factors,
                      const AdamConstants<T>& now) {
  const Index *row_of = exec.device->on_device(rows), *done_of = exec.device->on_device(done);
  const T* factor = exec.device->on_device(factors);
  const Index count = std::ssize(factors), columns = theta.cols;
  for_each(exec, std::ssize(rows) * columns, [=] ROSSBY_ON_DEVICE(Index k) {
    const Index row = row_of[k / columns], c = k % columns;
    T second = v.row(row)[c];
    for (Index f = done_of[k / columns]; f < count; ++f) second *= factor[f];
    if (gradient.data) {
      T first = T(0);
      adam_step(theta.row(row)[c], first, second, gradient.row(row)[c], now);
      gradient.row(row)[c] = T(0);
    }
    v.row(row)[c] = second;
  });
}

template <class T>
void sgd_update(const Exec& exec, std::span<T> theta, std::span<T> velocity, std::span<const T> gradient,
                const SgdStep& step) {
  T* value = theta.data();
  T* speed = velocity.empty() ? nullptr : velocity.data();
  const T* slope = gradient.empty() ? nullptr : gradient.data();
  const T lr = static_cast<T>(step.lr), momentum = static_cast<T>(step.momentum);
  const T decay = static_cast<T>(step.decay), scale = static_cast<T>(step.gradient_scale);
  for_each(exec, std::ssize(theta), [=] ROSSBY_ON_DEVICE(Index k) {
    const T g = (slope ? scale * slope[k] : T(0)) + decay * value[k];
    const T b = (speed ? momentum * speed[k] : T(0)) + g;
    if (speed) speed[k] = b;
    value[k] -= lr * (g + momentum * b);
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(adam_update, adam_replay, adam_take, clip_by_norm, adam_replay_rows, adam_update_rows,
                        sgd_update)
