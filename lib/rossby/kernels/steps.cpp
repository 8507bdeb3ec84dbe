#include "rossby/kernels/steps.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {

template <class T>
void read_steps(const Exec& exec, NodeView<T> out, std::span<const float* const> steps,
                const StepScale<T>& scale, std::span<const float> extra) {
  const Index values = out.rows * scale.features;
  require(out.cols == std::ssize(steps) && out.channels >= scale.features, "a step for every column");
  require(std::ssize(scale.shift) == values && std::ssize(scale.inverse) == values &&
              std::ssize(scale.fill) == values,
          "a scale for every row and feature");
  require(std::ssize(extra) == out.cols * (out.channels - scale.features),
          "a value a step for every further channel");
  ROSSBY_DISPATCH(read_steps, exec, out, steps, scale, extra);
}

void copy_steps(const Exec& exec, NodeView<float> out, std::span<const float* const> steps) {
  require(out.cols == std::ssize(steps), "a step for every column");
  ROSSBY_DISPATCH(copy_steps, exec, out, steps);
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template void read_steps(const Exec&, NodeView<T>, std::span<const float* const>, const StepScale<T>&, \
                           std::span<const float>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
