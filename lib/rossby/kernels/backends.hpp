#pragma once

// Inside lib/rossby/kernels only: the back ends behind the dispatcher.

#include <cstdint>
#include <span>

#include "rossby/base/error.hpp"
#include "rossby/base/random.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/batch_norm.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/layer_norm.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/kernels/rows.hpp"
#include "rossby/kernels/steps.hpp"
#include "rossby/tensor/device.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {
/// Whether the kernels of the host compute, or would: a trace of what these take has a device that is
/// addresses alone.
[[nodiscard]] inline bool is_of_host(const Exec& exec) {
  return exec.device ? exec.device->driver().stands_for_host() : exec.backend == Backend::cpu;
}
}  // namespace rossby

/// Instantiates a kernel's definition for both scalar types. The macro takes the scalar's name.
#define ROSSBY_FOR_SCALARS(INSTANTIATE) \
  INSTANTIATE(float)                    \
  INSTANTIATE(double)

/// Instantiates the kernels of batch_norm.hpp: in every back end and in the dispatcher.
#define ROSSBY_BATCH_NORM(T)                                                                                \
  template void batch_norm_sums(const Exec&, double*, NodeView<const T>, const T*, std::span<double>);      \
  template void batch_norm_factors(const Exec&, Index, const BatchNormFactors<T>&, const double*, const T*, \
                                   const BatchNormRunning<T>&);                                             \
  template void batch_norm_forward(const Exec&, NodeView<T>, NodeView<const T>, const T*, const T*,         \
                                   const T*);                                                               \
  template void batch_norm_backward_sums(const Exec&, double*, NodeView<const T>, NodeView<const T>,        \
                                         const T*, const T*, std::span<double>);                            \
  template void batch_norm_backward_parameters(const Exec&, Index, T*, T*, const double*);                  \
  template void batch_norm_slopes(const Exec&, Index, T*, T*, const double*, const double*, const T*);      \
  template void batch_norm_backward_input(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>,   \
                                          const T*, const T*, const T*, const T*);

/// The same for layer_norm.hpp.
#define ROSSBY_LAYER_NORM(T)                                                                              \
  template void layer_norm_sums(const Exec&, double*, NodeView<const T>, std::span<double>);              \
  template void layer_norm_moments(const Exec&, Index, T*, T*, const double*, double);                    \
  template void layer_norm_forward(const Exec&, NodeView<T>, NodeView<const T>, const T*, const T*,       \
                                   const T*, const T*);                                                   \
  template void layer_norm_backward_sums(const Exec&, double*, NodeView<const T>, NodeView<const T>,      \
                                         const T*, const T*, const T*, std::span<double>);                \
  template void layer_norm_backward_parameters(const Exec&, T*, T*, NodeView<const T>, NodeView<const T>, \
                                               const T*, const T*);                                       \
  template void layer_norm_backward_input(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>, \
                                          const T*, const T*, const T*, const double*, const double*);

// The GPU's, which a build without CUDA does not have.
#if defined(ROSSBY_CUDA)
#define ROSSBY_IN_CUDA(DECLARE) \
  namespace rossby::cuda {      \
  DECLARE                       \
  }
#define ROSSBY_FROM_CUDA(kernel, ...) return cuda::kernel(__VA_ARGS__)
#else
#define ROSSBY_IN_CUDA(DECLARE)
#define ROSSBY_FROM_CUDA(kernel, ...) bug("this build has no CUDA")
#endif

/// DECLARE in the namespace of every back end.
#define ROSSBY_EVERY_BACKEND(DECLARE) \
  namespace rossby::reference {       \
  DECLARE                             \
  }                                   \
  namespace rossby::cpu {             \
  DECLARE                             \
  }                                   \
  namespace rossby::simulated {       \
  DECLARE                             \
  }                                   \
  ROSSBY_IN_CUDA(DECLARE)

/// Returns what the kernel of Exec's back end returns.
#define ROSSBY_DISPATCH(kernel, ...)         \
  switch (exec.backend) {                    \
    case Backend::reference:                 \
      return reference::kernel(__VA_ARGS__); \
    case Backend::simulated:                 \
      return simulated::kernel(__VA_ARGS__); \
    case Backend::cuda:                      \
      ROSSBY_FROM_CUDA(kernel, __VA_ARGS__); \
    case Backend::cpu:                       \
      break;                                 \
  }                                          \
  return cpu::kernel(__VA_ARGS__)

namespace rossby::reference {
#include "rossby/kernels/backend.inc"
}

namespace rossby::cpu {
#include "rossby/kernels/backend.inc"
}

namespace rossby::simulated {
#include "rossby/kernels/backend.inc"
}

#if defined(ROSSBY_CUDA)
namespace rossby::cuda {
#include "rossby/kernels/backend.inc"
}
#endif
