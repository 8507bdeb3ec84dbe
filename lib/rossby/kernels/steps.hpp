#pragma once

#include <span>
#include <type_traits>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

// Windows of a series that is stored once. Each column read is one time step, given by a pointer to its
// (rows, features) values in the memory of the back end. The lists themselves are host arrays.

namespace rossby {

/// Scaling of a series to a model's inputs: (x − shift)·inverse, one of each per row and feature.
template <class T>
struct StepScale {
  Index features = 0;
  std::span<const T> shift, inverse;  // (rows, features)
  std::span<const T> fill;            // replaces missing values
};

/// out[i, b, f] = the scaled value f of row i in steps[b]. Channels after the features belong to the step and
/// are the same in every row: extra[b·(channels − features) + …].
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
  dispatch<read_steps<T>>(exec, out, steps, scale, extra);
}

/// out[i, b, f] = value f of row i in steps[b], unscaled.
template <class T>
void copy_steps(const Exec& exec, NodeView<T> out, std::type_identity_t<std::span<const T* const>> steps) {
  require(out.cols == std::ssize(steps), "a step for every column");
  dispatch<copy_steps<T>>(exec, out, steps);
}

}  // namespace rossby
