#include "rossby/kernels/cpu/adam_hops.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace rossby::cpu {
namespace {

constexpr Index least_updates = 4;  // fewer are as fast one by one
// Updates of a short hop: x and the growth of V stay small.
constexpr Index most_decaying = most_hopped / Hops::most_parts;
constexpr float least_beta2 = 0.9F;  // V's frame of reference moves little in a hop
constexpr double most_shrinking = 0.5, most_shrinking_long = 0.25;  // x
constexpr double most_growth = 0x1p-9;                              // of V
constexpr double tolerance = 0x1p-25;                               // relative, of omitted terms
constexpr double largest = 1e38;                                    // float

/// s_q of the updates as shares of their sum, 1 / beta2^q, and mean and variance of e_q. `lean`: Σ of squared
/// shares times e_q's distance from its mean.
struct Factors {
  std::array<double, most_hopped> share, rise;
  double sum = 0, keep_v = 1, epsilon = 0, variance = 0, lean = 0;

  /// lambda: decay, or 1 if m moves theta.
  Factors(std::span<const AdamConstants<float>> steps, double lambda, double beta1) {
    double power1 = 1, risen = 1, root_risen = 1;  // beta2 is that of all
    const double by = 1 / static_cast<double>(steps[0].beta2), root_by = std::sqrt(by);
    const auto k = steps.size();
    std::array<double, most_hopped> s, e;
    for (std::size_t q = 0; q < k; ++q) {
      const AdamConstants<float>& a = steps[q];
      keep_v *= a.beta2;
      power1 *= beta1;
      risen *= by;
      root_risen *= root_by;
      rise[q] = risen;
      const double scale = root_risen / a.root_correction;
      s[q] = lambda * a.step_size * scale * power1;
      e[q] = a.epsilon * scale;
    }
    double keep = 1;
    for (std::size_t q = k; q-- > 0; keep *= steps[q].keep) s[q] *= keep;
    for (std::size_t q = 0; q < k; ++q) {
      sum += s[q];
      epsilon += s[q] * e[q];
    }
    if (sum == 0) return;
    epsilon /= sum;
    for (std::size_t q = 0; q < k; ++q) {
      share[q] = s[q] / sum;
      variance += share[q] * (e[q] - epsilon) * (e[q] - epsilon);
      lean += share[q] * share[q] * (e[q] - epsilon);
    }
  }
};

/// Growth of V over (lambda theta_0)² (1 − beta2) while theta shrinks by x: its mean and its final value.
/// Several x are computed side by side, because each update waits for the one before.
template <std::size_t count>
struct Growth {
  std::array<double, count> mean{}, end{};

  Growth(const std::array<double, count>& x, std::size_t updates, const Factors& f) {
    std::array<double, count> factor;
    factor.fill(1);
    for (std::size_t q = 0; q < updates; ++q)
      for (std::size_t i = 0; i < count; ++i) {
        end[i] += factor[i] * factor[i] * f.rise[q];
        mean[i] += f.share[q] * end[i];
        factor[i] *= 1 - x[i] * f.share[q];
      }
  }
};

/// Finds p with y_i = Σ_j p_j x_iʲ by Newton's divided differences.
template <std::size_t terms>
void interpolate(float (&p)[terms], const std::array<double, terms>& x, std::array<double, terms> y) {
  for (std::size_t order = 1; order < terms; ++order)
    for (std::size_t i = terms - 1; i >= order; --i) y[i] = (y[i] - y[i - 1]) / (x[i] - x[i - order]);
  std::array<double, terms> sum{};
  for (std::size_t i = terms; i-- > 0;) {
    for (std::size_t j = terms - 1; j > 0; --j) sum[j] = sum[j - 1] - x[i] * sum[j];
    sum[0] = y[i] - x[i] * sum[0];
  }
  for (std::size_t j = 0; j < terms; ++j) p[j] = static_cast<float>(sum[j]);
}

AdamHop decaying(std::span<const AdamConstants<float>> steps) {
  const double lambda = steps[0].decay;
  const Factors f(steps, lambda, 1);
  const double shrinking = std::ssize(steps) > most_decaying ? most_shrinking_long : most_shrinking;
  AdamHop hop{};
  hop.decays = true;
  hop.updates = std::ssize(steps);
  hop.sum = static_cast<float>(f.sum);
  hop.epsilon = static_cast<float>(f.epsilon);
  hop.keep_v = static_cast<float>(f.keep_v);
  hop.keep_m = hop.keep = 1;
  constexpr std::size_t at_mean = 1, at_end = at_mean + AdamHop::mean_terms,
                        nodes = at_end + AdamHop::end_terms;
  std::array<double, nodes> x{};  // none, those for the mean, those for the end
  for (std::size_t i = 0; i < nodes; ++i) {
    if (i >= at_mean) x[i] = shrinking * static_cast<double>(i - at_mean + 1) / AdamHop::mean_terms;
    if (i >= at_end) x[i] = shrinking * static_cast<double>(i - at_end + 1) / AdamHop::end_terms;
  }
  const Growth<nodes> growths(x, steps.size(), f);
  const double still_mean = growths.mean[0], still_end = growths.end[0];
  // The largest x follows from the omitted terms: the variance of e_q, and the error of replacing Σ s_q² z_q²
  // by z² Σ s_q², where z_q follows e_q or V_q.
  double grown = 0, lean = 0;
  for (std::size_t q = 0; q < steps.size(); ++q) {
    grown += f.rise[q];
    lean += f.share[q] * f.share[q] * (grown / still_mean - 1);
  }
  const auto limit = [](double left_out) { return left_out > 0 ? tolerance / left_out : 1; };
  const double z = 1 / f.sum;
  const double most =
      std::min({shrinking, std::cbrt(limit(f.variance * z * z)), std::cbrt(limit(std::abs(f.lean) * z)),
                std::sqrt(limit(most_growth / 4 * std::abs(lean)))});
  hop.most = static_cast<float>(std::min(most * z, largest));
  const double growth = steps[0].rest2 * lambda * lambda * still_mean;
  hop.growth = static_cast<float>(growth);
  hop.all = static_cast<float>(still_end / still_mean);
  hop.least_v = static_cast<float>(growth * still_end / still_mean / most_growth);
  std::array<double, AdamHop::mean_terms> x_mean, mean;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    x_mean[i] = x[at_mean + i];
    mean[i] = (growths.mean[at_mean + i] / still_mean - 1) / x_mean[i];
  }
  interpolate(hop.mean, x_mean, mean);
  std::array<double, AdamHop::end_terms> x_end, end;
  for (std::size_t i = 0; i < end.size(); ++i) {
    x_end[i] = x[at_end + i];
    end[i] = (growths.end[at_end + i] - still_end) / still_mean / x_end[i];
  }
  interpolate(hop.end, x_end, end);
  std::array<double, AdamHop::product_terms + 2> product{1};
  for (std::size_t q = 0; q < steps.size(); ++q)
    for (std::size_t i = product.size() - 1; i > 0; --i) product[i] -= f.share[q] * product[i - 1];
  for (std::size_t i = 0; i < AdamHop::product_terms; ++i)
    hop.product[i] = static_cast<float>(product[i + 2]);
  return hop;
}

AdamHop drifting(std::span<const AdamConstants<float>> steps) {
  const double beta1 = steps[0].beta1;
  const Factors f(steps, 1, beta1);
  double keep = 1;
  for (const AdamConstants<float>& a : steps) keep *= a.keep;
  AdamHop hop{};
  hop.updates = std::ssize(steps);
  hop.sum = static_cast<float>(f.sum);
  hop.epsilon = static_cast<float>(f.epsilon);
  const double most = f.variance > 0 ? std::sqrt(tolerance / f.variance) : largest;
  hop.most = static_cast<float>(std::min(most, largest));
  hop.keep_v = static_cast<float>(f.keep_v);
  hop.keep = static_cast<float>(keep);
  hop.keep_m = static_cast<float>(std::pow(beta1, static_cast<double>(steps.size())));
  return hop;
}

}  // namespace

Index hopped_updates(std::span<const AdamConstants<float>> steps) {
  if (steps.empty()) return 0;
  const AdamConstants<float>& a = steps[0];
  const bool drifts = a.decay == 0;
  if (a.beta2 < least_beta2 || (!drifts && (a.beta1 != 0 || a.keep != 1))) return 0;
  const auto alike = [&](const AdamConstants<float>& b) {
    return b.beta1 == a.beta1 && b.beta2 == a.beta2 && b.epsilon == a.epsilon && b.decay == a.decay &&
           (drifts || b.keep == 1) && b.step_size > 0;
  };
  if (!std::all_of(steps.begin(), steps.end(), alike)) return 0;
  // As many updates as there are hops for.
  const Index all = std::min(std::ssize(steps), most_hopped * most_hops);
  return all < least_updates ? 0 : all;
}

namespace {

AdamHop hop_over(std::span<const AdamConstants<float>> steps, Index first, Index last) {
  const auto part = steps.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
  return steps[0].decay == 0 ? drifting(part) : decaying(part);
}

}  // namespace

AdamHops::AdamHops(std::span<const AdamConstants<float>> steps) {
  const Index all = hopped_updates(steps);
  count_ = (all + most_hopped - 1) / most_hopped;
  for (Index h = 0; h < count_; ++h) {
    const Index first = h * all / count_, length = (h + 1) * all / count_ - first;
    AdamHop& whole = wholes_[static_cast<std::size_t>(h)];
    whole = hop_over(steps, first, first + length);
    if (steps[0].decay == 0 || length <= most_decaying) continue;
    whole.parts = (length + most_decaying - 1) / most_decaying;
    for (Index p = 0; p < whole.parts; ++p)
      parts_[static_cast<std::size_t>(h * Hops::most_parts + p)] =
          hop_over(steps, first + p * length / whole.parts, first + (p + 1) * length / whole.parts);
  }
}

}  // namespace rossby::cpu
