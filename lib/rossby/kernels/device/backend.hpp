#pragma once

// Includes for sources of this folder that implement kernels in the namespace that they are compiled for.

#include "rossby/kernels/device/launch.hpp"
#include "rossby/kernels/kernel.hpp"

#if defined(ROSSBY_CUDA)
#define ROSSBY_IMPLEMENT_DEVICE(...) ROSSBY_IMPLEMENT(ROSSBY_DEVICE, __VA_ARGS__)
#define ROSSBY_IMPLEMENT_DEVICE_ONE(KERNEL) ROSSBY_IMPLEMENT_ONE(ROSSBY_DEVICE, KERNEL)
#else
// Satisfies the linker in a build without CUDA, in which no kernel runs on a GPU.
namespace rossby {
namespace cuda = simulated;
}
#define ROSSBY_IMPLEMENT_DEVICE(...)       \
  ROSSBY_IMPLEMENT(simulated, __VA_ARGS__) \
  ROSSBY_IMPLEMENT(cuda, __VA_ARGS__)
#define ROSSBY_IMPLEMENT_DEVICE_ONE(KERNEL) \
  ROSSBY_IMPLEMENT_ONE(simulated, KERNEL)   \
  ROSSBY_IMPLEMENT_ONE(cuda, KERNEL)
#endif
