#pragma once

#include <span>

#include "rossby/kernels/exec.hpp"
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
                const StepScale<T>& scale, std::span<const float> extra);

/// out[i, b, f] = value f of row i in steps[b], as it is.
void copy_steps(const Exec& exec, NodeView<float> out, std::span<const float* const> steps);

}  // namespace rossby
