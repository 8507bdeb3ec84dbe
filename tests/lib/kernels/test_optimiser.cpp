#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/kernels/optimiser.hpp"

namespace rossby {
namespace {

/// The reference, then the cpu kernels of every instruction set that this processor has.
std::vector<Exec> all_execs() {
  std::vector<Exec> execs{{Backend::reference, 1, Isa::portable}};
  for (const Isa isa : supported_isas()) execs.push_back({Backend::cpu, 1, isa});
  return execs;
}
const std::vector<Exec> execs = all_execs();

TEST(Adam, FirstStepWithoutFirstMomentIsTheSignOfTheGradient) {
  // count 1, beta1 0: lr·g/(|g| + epsilon), whatever the size of g.
  for (const Exec& exec : execs) {
    std::vector<double> theta{1, 1, 1}, v(3, 0);
    const std::vector<double> g{1e-7, -5, 0};
    AdamStep step;
    step.lr = 0.01;
    adam_update<double>(exec, theta, {}, v, g, step);
    EXPECT_NEAR(theta[0], 1 - 0.01 * 1e-7 / (1e-7 + 1e-9), 1e-15);
    EXPECT_NEAR(theta[1], 1 + 0.01 * 5 / (5 + 1e-9), 1e-15);
    EXPECT_EQ(theta[2], 1) << "0 / (0 + epsilon) is no update";
  }
}

TEST(Adam, DecayActsThroughTheGradientAndIsNormalised) {
  // A factor outside the batch: g = 1e-7·z moves it by lr·|g|/(|g| + epsilon) towards zero.
  for (const Exec& exec : execs) {
    std::vector<double> theta{0.05}, v{0};
    AdamStep step;
    step.decay = 1e-7;
    adam_update<double>(exec, theta, {}, v, {}, step);
    const double g = 0.05e-7;
    EXPECT_NEAR(theta[0], 0.05 - 3e-3 * g / (g + 1e-9), 1e-16);
  }
}

/// Plain transcription of the published update for one value, several steps.
struct Scalar {
  double theta, m = 0, v = 0;
  void adam(double gradient, const AdamStep& s, bool decoupled) {
    if (decoupled) theta -= s.lr * s.decay * theta;
    const double g = s.gradient_scale * gradient + (decoupled ? 0 : s.decay * theta);
    m = s.beta1 * m + (1 - s.beta1) * g;
    v = s.beta2 * v + (1 - s.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(s.beta1, s.count));
    const double v_hat = v / (1 - std::pow(s.beta2, s.count));
    theta -= s.lr * m_hat / (std::sqrt(v_hat) + s.epsilon);
  }
};

TEST(Adam, FollowsThePublishedRecurrence) {
  for (const Exec& exec : execs)
    for (const bool decoupled : {false, true})
      for (const double beta1 : {0.0, 0.9}) {
        Scalar expected{0.7};
        std::vector<double> theta{0.7}, m{0}, v{0};
        std::vector<float> theta32{0.7f}, m32{0}, v32{0};
        for (Index count = 1; count <= 20; ++count) {
          const AdamStep step{1e-2, beta1, 0.999, 1e-8, 0.05, 0.8, count};
          const double gradient = std::sin(static_cast<double>(count));
          const std::vector<double> g{gradient};
          const std::vector<float> g32{static_cast<float>(gradient)};
          expected.adam(gradient, step, decoupled);
          adam_update<double>(exec, theta, m, v, g, step, decoupled);
          adam_update<float>(exec, theta32, m32, v32, g32, step, decoupled);
        }
        EXPECT_NEAR(theta[0], expected.theta, 1e-14);
        EXPECT_NEAR(m[0], expected.m, 1e-15);
        EXPECT_NEAR(v[0], expected.v, 1e-15);
        EXPECT_NEAR(theta32[0], expected.theta, 1e-6);
      }
}

template <class T>
void check_empty_gradient(const Exec& exec) {
  std::vector<T> a{T(0.3), -2}, b = a, ma{T(0.1), T(0.2)}, mb = ma, va{T(0.5), T(0.6)}, vb = va;
  const std::vector<T> zeros(2, 0);
  const AdamStep step{1e-2, 0.9, 0.99, 1e-8, 0.01, 1, 4};
  adam_update<T>(exec, a, ma, va, zeros, step);
  adam_update<T>(exec, b, mb, vb, {}, step);
  EXPECT_EQ(a, b);
  EXPECT_EQ(ma, mb);
  EXPECT_EQ(va, vb);
  EXPECT_NE(va[0], T(0.5)) << "v decays without a gradient";
}

TEST(Adam, AnEmptyGradientIsAGradientOfZeros) {
  for (const Exec& exec : execs) {
    check_empty_gradient<double>(exec);
    check_empty_gradient<float>(exec);
  }
}

TEST(Sgd, NesterovFollowsItsRecurrence) {
  for (const Exec& exec : execs) {
    double theta = 0.7, velocity = 0;
    std::vector<double> x{0.7}, b{0};
    for (int s = 0; s < 10; ++s) {
      const std::vector<double> gradient{std::cos(s)};
      const double g = 0.5 * gradient[0] + 0.1 * theta;
      velocity = 0.9 * velocity + g;
      theta -= 0.02 * (g + 0.9 * velocity);
      sgd_update<double>(exec, x, b, gradient, SgdStep{0.02, 0.9, 0.1, 0.5});
    }
    EXPECT_NEAR(x[0], theta, 1e-15);
    EXPECT_NEAR(b[0], velocity, 1e-15);
  }
}

}  // namespace
}  // namespace rossby
