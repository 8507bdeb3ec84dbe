#pragma once

// Inside lib/kernels only: the back ends behind the dispatcher.

#include <cstdint>
#include <span>

#include "rossby/base/random.hpp"
#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/tensor/view.hpp"

/// Instantiates a kernel's definition for both scalar types. The macro takes the scalar's name.
#define ROSSBY_FOR_SCALARS(INSTANTIATE) \
  INSTANTIATE(float)                    \
  INSTANTIATE(double)

namespace rossby::reference {
#include "rossby/kernels/backend.inc"
}

namespace rossby::cpu {
#include "rossby/kernels/backend.inc"
}
