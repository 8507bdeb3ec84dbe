#include "rossby/kernels/steps.hpp"

#include <cmath>

#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void read_steps(const Exec&, NodeView<T> out, std::span<const float* const> steps, const StepScale<T>& scale,
                std::span<const float> extra) {
  const Index m = scale.features, more = out.channels - m;
  for_each_entry(out, [&](Index i, Index b, Index f) {
    if (f >= m) {
      entry(out, i, b, f) = static_cast<T>(extra[static_cast<std::size_t>(b * more + f - m)]);
      return;
    }
    const auto k = static_cast<std::size_t>(i * m + f);
    const float x = steps[static_cast<std::size_t>(b)][k];
    entry(out, i, b, f) =
        std::isnan(x) ? scale.fill[k]
                      : static_cast<T>((double{x} - double{scale.shift[k]}) * double{scale.inverse[k]});
  });
}

template <class T>
void copy_steps(const Exec&, NodeView<T> out, std::span<const T* const> steps) {
  for_each_entry(out, [&](Index i, Index b, Index f) {
    entry(out, i, b, f) = steps[static_cast<std::size_t>(b)][i * out.channels + f];
  });
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, read_steps, copy_steps)
