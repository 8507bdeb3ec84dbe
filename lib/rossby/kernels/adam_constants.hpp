#pragma once

// No includes: the vector kernels include this file too.

namespace rossby {

/// The constants of one update of Adam or AdamW, rounded once from double (adam_constants in optimiser.hpp).
template <class T>
struct AdamConstants {
  T beta1, rest1, beta2, rest2;
  T root_correction;  // 1 / √(1 − beta2^count)
  T step_size;        // lr / (1 − beta1^count)
  T epsilon;
  T scale;  // multiplies the gradient
  T decay;  // added to the gradient times theta
  T keep;   // multiplies theta first: decoupled decay
};

}  // namespace rossby
