#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/optimiser.hpp"

// Adam hops replay missed updates with zero gradient at once. The truth is the recurrence in long double.

namespace rossby {
namespace {

struct Setting {
  double lr, beta1, beta2, epsilon, decay;
  bool decoupled;
};

template <class T>
std::vector<AdamConstants<T>> missed(const Setting& s, Index first, Index updates) {
  std::vector<AdamConstants<T>> steps;
  for (Index q = 0; q < updates; ++q) {
    // A schedule gives every update another rate; late updates have one rate.
    const double lr = first > 10000 ? s.lr : s.lr * (1 - 0.01 * static_cast<double>(q % 30));
    steps.push_back(adam_constants<T>({lr, s.beta1, s.beta2, s.epsilon, s.decay, 1, first + q}, s.decoupled));
  }
  return steps;
}

template <class T>
struct State {
  std::vector<T> theta, m, v;

  void replay(const Exec& exec, std::span<const AdamConstants<T>> steps) {
    adam_replay<T>(exec, theta, m, v, {}, steps);
  }
  [[nodiscard]] State picked(const std::vector<Index>& order) const {
    State to;
    for (const Index i : order) {
      const auto at = static_cast<std::size_t>(i);
      to.theta.push_back(theta[at]);
      if (!m.empty()) to.m.push_back(m[at]);
      to.v.push_back(v[at]);
    }
    return to;
  }
};

/// Values, and root mean squares of gradients, over many orders of magnitude.
State<float> drawn(Index size, bool with_m, std::uint64_t seed) {
  const Random random(seed, "hops");
  State<float> state;
  for (Index i = 0; i < size; ++i) {
    const double g = std::pow(10, random.uniform(i, -9, 0));
    // Small values shrink much before v grows by their squares.
    const double largest = i % 2 == 0 ? 1 : std::pow(10, random.at(3).uniform(i, -4, 0));
    state.theta.push_back(static_cast<float>(largest * random.at(1).uniform(i, -1, 1)));
    state.v.push_back(static_cast<float>(g * g));
    if (with_m) state.m.push_back(static_cast<float>(g * random.at(2).uniform(i, -1, 1)));
  }
  return state;
}

State<long double> followed(const State<float>& start, const std::vector<AdamConstants<float>>& steps) {
  State<long double> s{{start.theta.begin(), start.theta.end()},
                       {start.m.begin(), start.m.end()},
                       {start.v.begin(), start.v.end()}};
  for (const AdamConstants<float>& a : steps)
    for (std::size_t i = 0; i < s.theta.size(); ++i) {
      const long double g = static_cast<long double>(a.decay) * s.theta[i];
      s.v[i] = a.beta2 * s.v[i] + a.rest2 * g * g;
      if (!s.m.empty()) s.m[i] = a.beta1 * s.m[i] + a.rest1 * g;
      s.theta[i] = a.keep * s.theta[i] - a.step_size * (s.m.empty() ? g : s.m[i]) /
                                             (std::sqrt(s.v[i]) * a.root_correction + a.epsilon);
    }
  return s;
}

const std::vector<Setting> settings{{3e-3, 0, 0.999, 1e-9, 1e-7, false},  {3e-3, 0, 0.999, 1e-8, 1e-6, false},
                                    {1e-2, 0, 0.99, 1e-8, 1e-4, false},   {3e-3, 0.9, 0.999, 1e-9, 0, false},
                                    {3e-3, 0.9, 0.999, 1e-8, 1e-2, true}, {3e-3, 0, 0.999, 1e-8, 1e-2, true},
                                    {3e-3, 0.9, 0.999, 1e-9, 1e-6, false}};

std::string described(const Setting& s) {
  return "lr " + std::to_string(s.lr) + " beta1 " + std::to_string(s.beta1) + " decay " +
         std::to_string(s.decay) + (s.decoupled ? " decoupled" : "");
}

TEST(AdamHops, AreAsExactAsOneUpdateAfterTheOther) {
  for (const Isa isa : supported_isas())
    for (const Setting& setting : settings)
      for (const Index first : {1, 2, 20, 1000, 100000})
        for (const Index updates : {1, 2, 3, 7, 8, 9, 16, 50, 700}) {
          SCOPED_TRACE(to_string(isa));
          SCOPED_TRACE(described(setting));
          SCOPED_TRACE(updates);
          SCOPED_TRACE(first);
          const Exec exec{Backend::cpu, 1, isa};
          const auto steps = missed<float>(setting, first, updates);
          const State<float> start = drawn(5003, setting.beta1 != 0, static_cast<std::uint64_t>(updates));
          const State<long double> truth = followed(start, steps);
          State<float> at_once = start, one_by_one = start;
          at_once.replay(exec, steps);
          for (const AdamConstants<float>& step : steps) one_by_one.replay(exec, {&step, 1});
          // The last bits show whether hops are used: hops round differently.
          const bool hops = updates >= 7 && !(setting.beta1 > 0 && setting.decay > 0 && !setting.decoupled);
          EXPECT_EQ(at_once.theta != one_by_one.theta || at_once.v != one_by_one.v, hops);
          // Each update may round by half a unit, always to the same side. The logarithm of the shrink factor
          // has an error of the same kind.
          const double relative = 4e-7 + 2e-8 * static_cast<double>(updates);
          const auto compare = [&](const std::vector<float>& got, const std::vector<float>& slow,
                                   const std::vector<long double>& expected, const std::vector<float>& before,
                                   const char* what) {
            for (std::size_t i = 0; i < got.size(); ++i) {
              const auto size = static_cast<double>(std::abs(expected[i]));
              const auto error = static_cast<double>(std::abs(got[i] - expected[i]));
              const auto rounding = static_cast<double>(std::abs(slow[i] - expected[i]));
              const auto shrunk = static_cast<double>(std::abs(truth.theta[i] / start.theta[i]));
              const double more = setting.decay > 0 ? 1 + std::abs(std::log(shrunk)) : 1;
              // The move by m may nearly cancel theta.
              const auto moved = static_cast<double>(std::abs(expected[i] - before[i]));
              const double scale = setting.beta1 > 0 ? std::max(size, moved) : size;
              ASSERT_LE(error, 3 * rounding + relative * more * scale + 1e-37)
                  << what << ' ' << i << " to " << size << " from theta " << start.theta[i] << ", v "
                  << start.v[i];
            }
          };
          compare(at_once.theta, one_by_one.theta, truth.theta, start.theta, "theta");
          compare(at_once.m, one_by_one.m, truth.m, start.m, "m");
          compare(at_once.v, one_by_one.v, truth.v, start.v, "v");
        }
}

TEST(AdamHops, DoNotDependOnTheNeighbours) {
  constexpr Index size = 1000;
  std::vector<Index> order(size);
  std::iota(order.begin(), order.end(), 0);
  const Random random(11, "order");
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return random.uniform(a) < random.uniform(b); });
  for (const Isa isa : supported_isas())
    for (const Setting& setting : settings) {
      SCOPED_TRACE(described(setting));
      const Exec exec{Backend::cpu, 1, isa};
      const auto steps = missed<float>(setting, 5, 43);
      State<float> straight = drawn(size, setting.beta1 != 0, 17), mixed = straight.picked(order);
      straight.replay(exec, steps);
      mixed.replay(exec, steps);
      const State<float> expected = straight.picked(order);
      EXPECT_EQ(mixed.theta, expected.theta);
      EXPECT_EQ(mixed.m, expected.m);
      EXPECT_EQ(mixed.v, expected.v);
    }
}

// Several threads may reach values beyond a hop at the same time. Each of them must see the whole hop.
TEST(AdamHops, DoNotDependOnThreads) {
  constexpr Index size = 1 << 17;
  for (const Setting& setting : settings) {
    SCOPED_TRACE(described(setting));
    const auto steps = missed<float>(setting, 5, 150);  // three hops long
    const State<float> start = drawn(size, setting.beta1 != 0, 29);
    State<float> one = start, four = start;
    one.replay({Backend::cpu, 1}, steps);
    four.replay({Backend::cpu, 4}, steps);
    EXPECT_EQ(one.theta, four.theta);
    EXPECT_EQ(one.m, four.m);
    EXPECT_EQ(one.v, four.v);
  }
}

TEST(AdamHops, LeaveZerosAndWhatIsNotANumberAsUpdatesDo) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const Isa isa : supported_isas())
    for (const Setting& setting : settings) {
      SCOPED_TRACE(described(setting));
      const Exec exec{Backend::cpu, 1, isa};
      const auto steps = missed<float>(setting, 9, 12);
      State<float> start;
      for (const float theta : {0.0F, -0.0F, 1e-30F, 0.5F, 1e30F, inf, nan})
        for (const float v : {0.0F, 1e-42F, 1e-30F, 1e-6F, 1e30F, inf, nan})
          for (const float m : {0.0F, 1e-3F, inf, nan}) {
            start.theta.push_back(theta);
            start.v.push_back(v);
            if (setting.beta1 != 0) start.m.push_back(m);
          }
      State<float> at_once = start, one_by_one = start;
      at_once.replay(exec, steps);
      for (const AdamConstants<float>& step : steps) one_by_one.replay(exec, {&step, 1});
      const auto same = [&](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
        for (std::size_t i = 0; i < a.size(); ++i) {
          ASSERT_EQ(std::isfinite(a[i]), std::isfinite(b[i]))
              << what << " of theta " << start.theta[i] << ", v " << start.v[i] << ": " << a[i] << ", "
              << b[i];
          if (std::isfinite(b[i])) {
            ASSERT_NEAR(a[i], b[i], 2e-6 * std::abs(static_cast<double>(b[i])) + 1e-36)
                << what << " of theta " << start.theta[i] << ", v " << start.v[i];
          }
        }
      };
      same(at_once.theta, one_by_one.theta, "theta");
      same(at_once.m, one_by_one.m, "m");
      same(at_once.v, one_by_one.v, "v");
    }
}

TEST(AdamHops, OfDoublesAndOfUnlikeUpdatesAreReplaysToTheBit) {
  const State<float> drawn_state = drawn(777, false, 23);
  State<double> wide{
      {drawn_state.theta.begin(), drawn_state.theta.end()}, {}, {drawn_state.v.begin(), drawn_state.v.end()}};
  State<double> wide_slow = wide;
  const auto doubles = missed<double>(settings[0], 5, 40);
  wide.replay({Backend::cpu, 1}, doubles);
  for (const AdamConstants<double>& step : doubles) wide_slow.replay({Backend::cpu, 1}, {&step, 1});
  EXPECT_EQ(wide.theta, wide_slow.theta);
  EXPECT_EQ(wide.v, wide_slow.v);

  for (const Isa isa : supported_isas()) {
    const Exec exec{Backend::cpu, 1, isa};
    auto unlike = missed<float>(settings[0], 5, 40);
    unlike[20].decay *= 2;
    State<float> fast = drawn_state, slow = fast;
    fast.replay(exec, unlike);
    for (const AdamConstants<float>& step : unlike) slow.replay(exec, {&step, 1});
    EXPECT_EQ(fast.theta, slow.theta);
    EXPECT_EQ(fast.v, slow.v);
  }
}

/// Counts operations as they run. Steps that change nothing still count as hops: plan/walk.hpp relies on it.
TEST(AdamHops, AreToldAsWhatTheyAre) {
  const auto flops = [](const Setting& s, Index updates, const Exec& exec = {},
                        Missed how = Missed::in_hops) {
    const auto steps = missed<float>(s, 20, updates);
    return replay_flops<float>(exec, steps, how);
  };
  const Setting decays{3e-3, 0, 0.999, 1e-9, 1e-7, false}, hardly{1e-12, 0, 0.999, 1e-9, 1e-7, false},
      not_at_all{0, 0, 0.999, 1e-9, 1e-7, false}, both{3e-3, 0.9, 0.999, 1e-9, 1e-7, false};
  EXPECT_EQ(flops(decays, 3), 3 * adam_flops) << "few are as quick one by one";
  EXPECT_EQ(flops(decays, 4), hop_flops);
  EXPECT_EQ(flops(decays, 64), hop_flops);
  EXPECT_EQ(flops(decays, 65), 2 * hop_flops);
  EXPECT_EQ(flops(hardly, 64), hop_flops);
  EXPECT_EQ(flops(not_at_all, 64), 64 * adam_flops);
  EXPECT_EQ(flops(both, 20), 20 * adam_flops);
  EXPECT_EQ(flops(decays, 20, {}, Missed::one_by_one), 20 * adam_flops);
  EXPECT_EQ(flops(decays, 20, {Backend::reference, 1}), 20 * adam_flops);
  EXPECT_EQ(replay_flops<double>({}, missed<double>(decays, 20, 20)), 20 * adam_flops);
}

}  // namespace
}  // namespace rossby
