#pragma once

#include <span>
#include <type_traits>

#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

// Windows out of a series that lies once in memory: each column of what is read is one time step, named by a
// pointer to its (rows, features) values where the data lie. The lists themselves are arrays of the host.

namespace rossby {

/// How values of a series become a model's inputs: (x − shift)·inverse, one of each a row and feature.
template <class T>
struct StepScale {
  Index features = 0;
  std::span<const T> shift, inverse;  // (rows, features)
  std::span<const T> fill;            // what stands for a missing value
};

/// out[i, b, f] = the scaled value f of row i in steps[b]; channels behind the features are those of the
/// step, extra[b·(channels − features) + …], the same in every row.
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

/// out[i, b, f] = value f of row i in steps[b], as it is.
template <class T>
void copy_steps(const Exec& exec, NodeView<T> out, std::type_identity_t<std::span<const T* const>> steps) {
  require(out.cols == std::ssize(steps), "a step for every column");
  dispatch<copy_steps<T>>(exec, out, steps);
}

}  // namespace rossby
