#pragma once

#include <span>

#include "rossby/kernels/cpu/simd/adam.hpp"

// Updates of Adam with gradient zero move a value smoothly: several of them have a form that takes one root.
// With decay (beta1 = 0, lambda = decay), update q of a hop is
//
//     v_q = beta2 v_{q−1} + (1 − beta2) (lambda theta_{q−1})²,    theta_q = theta_{q−1} (1 − x_q),
//     x_q = lambda step_q / (√v_q root_q + epsilon) = s_q / (√V_q + e_q)
//
// where V_q = v_q / beta2^q only grows, by the decay's squares, s_q = lambda step_q / (root_q beta2^{q/2})
// and e_q = epsilon / (root_q beta2^{q/2}). Let z = 1 / (√V + e) at the means of V_q and e_q that s_q weighs
// and x = z Σ s_q. Then theta's factor Π(1 − s_q z), theta_q² in V and so the mean of V are polynomials of x,
// with coefficients that are the same for all values of a table; the curvature of 1/√V over the hop adds 3/8
// Var(V) / V². What is left out is of the order (growth of V)² x and Var(e) z² x: below a float's rounding
// where x ≤ 1/4, V grows by less than 2⁻⁹ and z is below a bound; elsewhere updates are replayed. Without
// decay in the gradient V stands still, m shrinks by beta1, and theta moves by −m Σ keep^{k−q} step_q beta1^q
// / (root_q beta2^{q/2}) / (√v + e).

namespace rossby::cpu {

inline constexpr Index most_hops = 96;

/// Hops over the first of `steps` (as many as `hops` has room for), all with gradient zero, each followed by
/// its parts; returns how many there are: none where few steps are missed, or momentum and decay go together.
Index adam_hops(std::span<const AdamConstants<float>> steps, std::span<AdamHop, most_hops> hops);

}  // namespace rossby::cpu
