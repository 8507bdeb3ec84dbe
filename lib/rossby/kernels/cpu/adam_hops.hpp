#pragma once

#include <array>
#include <span>

#include "rossby/kernels/cpu/simd/adam.hpp"

// Updates of Adam with gradient zero move a value smoothly, so several of them have a form with a single
// root. With decay (beta1 = 0, lambda = decay), update q of a hop is
//
//     v_q = beta2 v_{q−1} + (1 − beta2) (lambda theta_{q−1})²,    theta_q = theta_{q−1} (1 − x_q),
//     x_q = lambda step_q / (√v_q root_q + epsilon) = s_q / (√V_q + e_q)
//
// where V_q = v_q / beta2^q only grows, by the decay's squares, s_q = lambda step_q / (root_q beta2^{q/2})
// and e_q = epsilon / (root_q beta2^{q/2}). Let z = 1 / (√V + e) at the means of V_q and e_q weighted by s_q,
// and x = z Σ s_q. Then theta's factor Π(1 − s_q z), theta_q² in V and the mean of V are polynomials of x
// whose coefficients are the same for all values of a table. The omitted terms, relative to theta or v, are:
//
//     (growth)² x / 32, (growth)² x / 12      curvature of 1/√V; z is larger at first, when V is smaller
//     Var(e) z² x                              curvature of 1/(√V + e)
//     growth x² lean / 4, x² z lean_e          z_q at large s_q instead of their mean
//
// `growth` is the relative growth of V over the hop. All terms are below a float's rounding if growth ≤ 2⁻⁹
// and x is at most 1/2 or the limit that the last three terms allow. Only the polynomials' last terms grow
// with the number of updates: in a hop over more than 8 updates, x is at most 1/4. Values beyond such a hop
// take hops of 8; values beyond those are replayed.
//
// Without decay in the gradient V is constant, m shrinks by beta1, and theta moves by −m Σ keep^{k−q} step_q
// beta1^q / (root_q beta2^{q/2}) / (√v + e).

namespace rossby::cpu {

inline constexpr Index most_hops = 8;
inline constexpr Index most_hopped = 64;  // updates of one hop: beta2^k stays near 1

/// Returns how many of the first `steps`, all with gradient zero, are taken in hops. Returns 0 if few are
/// missed, or if momentum and decay occur together.
Index hopped_updates(std::span<const AdamConstants<float>> steps);

/// Hops over some steps.
class AdamHops {
 public:
  explicit AdamHops(std::span<const AdamConstants<float>> steps);

  /// The view for kernels, valid while this object lives.
  [[nodiscard]] Hops view() const { return {wholes_.data(), count_, parts_.data()}; }

 private:
  Index count_ = 0;
  std::array<AdamHop, most_hops> wholes_;
  std::array<AdamHop, most_hops * Hops::most_parts> parts_;
};

}  // namespace rossby::cpu
