#include "rossby/kernels/steps.hpp"

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/few.hpp"
#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

/// The most columns whose lists travel with the launch: 1.5 KB of its 4 KB of arguments.
inline constexpr int columns_in_launch = 128;

template <class T>
void read_steps(const Exec& exec, NodeView<T> out, std::span<const float* const> steps,
                const StepScale<T>& scale, std::span<const float> extra) {
  const Few<const float*, columns_in_launch> step(*exec.device, steps);
  const Few<float, columns_in_launch> more(*exec.device, extra);
  const T* shift = exec.device->on_device(scale.shift);
  const T* inverse = exec.device->on_device(scale.inverse);
  const T* fill = exec.device->on_device(scale.fill);
  const Index m = scale.features, others = out.channels - m;
  for_each_entry(exec, numbered(out), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index f) {
    T& to = out.at(i, b)[f];
    if (f >= m) {
      to = static_cast<T>(more[b * others + f - m]);
      return;
    }
    const Index k = i * m + f;
    const float x = step[b][k];
    to = x == x ? (static_cast<T>(x) - shift[k]) * inverse[k] : fill[k];
  });
}

template <class T>
void copy_steps(const Exec& exec, NodeView<T> out, std::span<const T* const> steps) {
  const Few<const T*, columns_in_launch> step(*exec.device, steps);
  for_each_entry(exec, numbered(out), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index f) {
    out.at(i, b)[f] = step[b][i * out.channels + f];
  });
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(read_steps, copy_steps)
