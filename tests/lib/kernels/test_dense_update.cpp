#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/kernels/cpu/simd/dense.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/update_place.hpp"
#include "rossby/tensor/simulated_device.hpp"
#include "tests/lib/kernels/dense_problem.hpp"

// The update from a complete gradient (sent by a device) against the one that backward makes tile by tile.

namespace rossby {
namespace {

using namespace dense_problem;

/// Weights, moments and a gradient, stored as S.
template <class S>
struct Updated {
  using T = Arithmetic<S>;
  static constexpr bool narrow = std::is_same_v<S, Bf16>;
  Problem<T> problem;
  std::vector<T> m, v, gradient;
  std::vector<Bf16> m16, v16;
  double squares = 0;

  Updated(const Shape& shape, Weights kind, bool moment) : problem(shape, kind) {
    const std::size_t size = problem.weight.size();
    if constexpr (narrow) {
      problem.round_weights();
      problem.hold_in_bf16();
      m16.assign(moment ? size : 0, {});
      v16.assign(size, {});
    } else {
      m.assign(moment ? size : 0, T(0));
      v.assign(size, T(0));
    }
  }
  [[nodiscard]] DenseUpdate<T> update(const AdamStep& step, bool decoupled, double l1) {
    DenseUpdate<T> update;
    if constexpr (narrow) {
      update.bf16 = {problem.bf16.data(), m16.empty() ? nullptr : m16.data(), v16.data(),
                     StochasticRounding{static_cast<std::uint64_t>(77 + step.count), 5}};
    } else {
      update.theta = problem.weight.data();
      update.m = m.empty() ? nullptr : m.data();
      update.v = v.data();
    }
    update.step = step;
    update.decoupled = decoupled;
    update.l1 = l1;
    return update;
  }
  /// Updates in the tiles of backward.
  void fused(const Exec& exec, const AdamStep& step, bool decoupled, double l1) {
    DenseUpdate<T> all = update(step, decoupled, l1);
    problem.run(exec, &all);
    squares += all.squares;
  }
  /// Backward into a buffer first. The buffer's entries without a relation do not count.
  void in_two(const Exec& exec, const AdamStep& step, bool decoupled, double l1) {
    std::fill(problem.dm.begin(), problem.dm.end(), T(0));
    problem.run(exec);
    gradient.assign(problem.dm.begin() + Problem<T>::guard, problem.dm.end() - Problem<T>::guard);
    for (std::size_t e = 0; e < problem.pattern.size(); ++e)
      if (!problem.pattern[e]) gradient[e] = T(99);
    DenseUpdate<T> all = update(step, decoupled, l1);
    relate_dense_update<T>(exec, all, problem.relate, gradient.data());
    EXPECT_TRUE(all.applied);
    EXPECT_THROW(relate_dense_update<T>(exec, all, problem.relate, gradient.data()), std::exception);
    squares += all.squares;
  }
};

AdamStep step_number(Index count, double beta1) {
  return {3e-2, beta1, 0.99, 1e-3, 1e-2, 0.5, count};
}

template <class Values>
void expect_same(const Values& a, const Values& b, const char* what) {
  EXPECT_EQ(a.size(), b.size());
  for (std::size_t e = 0; e < a.size(); ++e) ASSERT_EQ(a[e], b[e]) << what << " " << e;
}

class DenseUpdates : public testing::TestWithParam<Shape> {};

template <class T>
void check(const Shape& shape, Weights kind, double beta1, bool decoupled, const Exec& exec,
           double tolerance) {
  Updated<double> truth(shape, kind, beta1 != 0);
  Updated<T> two(shape, kind, beta1 != 0), threads(shape, kind, beta1 != 0);
  Exec three = exec;
  three.threads = 3;
  for (Index count = 1; count <= 3; ++count) {
    const AdamStep step = step_number(count, beta1);
    truth.fused({Backend::reference, 1}, step, decoupled, 0.02);
    two.in_two(exec, step, decoupled, 0.02);
    threads.in_two(three, step, decoupled, 0.02);
  }
  expect_near(two.problem.weight, truth.problem.weight, tolerance, "theta");
  expect_near(two.v, truth.v, tolerance, "v");
  expect_near(two.m, truth.m, tolerance, "m");
  EXPECT_NEAR(two.squares, truth.squares, tolerance * (1 + truth.squares));
  expect_same(threads.problem.weight, two.problem.weight, "theta");
  expect_same(threads.v, two.v, "v");
  EXPECT_EQ(threads.squares, two.squares);
}

TEST_P(DenseUpdates, EqualTheFusedOne) {
  for (const Weights kind : {Weights::clamped, Weights::patterned})
    for (const double beta1 : {0.0, 0.9})
      for (const bool decoupled : {false, true}) {
        SCOPED_TRACE("beta1 " + std::to_string(beta1));
        check<double>(GetParam(), kind, beta1, decoupled, {Backend::reference, 1}, 1e-13);
        check<double>(GetParam(), kind, beta1, decoupled, {Backend::cpu, 1}, 1e-12);
        for (const Isa isa : supported_isas()) {
          SCOPED_TRACE(std::string(to_string(isa)));
          check<float>(GetParam(), kind, beta1, decoupled, {Backend::cpu, 1, isa}, 1e-3);
        }
      }
}

// One step from the same gradient, with the same random bits: equal up to the last bit of the arithmetic.
TEST_P(DenseUpdates, InBf16AreRoundedTheSame) {
  for (const bool moment : {false, true})
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(std::string(to_string(isa)));
      const AdamStep step = step_number(1, moment ? 0.9 : 0);
      const Exec exec{Backend::cpu, 1, isa};
      Updated<Bf16> truth(GetParam(), Weights::patterned, moment),
          here(GetParam(), Weights::patterned, moment);
      truth.in_two({Backend::reference, 1}, step, false, 0.02);
      here.in_two(exec, step, false, 0.02);
      std::size_t different = 0;
      for (std::size_t e = 0; e < truth.v16.size(); ++e) {
        different += here.problem.bf16[e] != truth.problem.bf16[e] || here.v16[e] != truth.v16[e] ||
                     (moment && here.m16[e] != truth.m16[e]);
        ASSERT_NEAR(widen(here.problem.bf16[e]), widen(truth.problem.bf16[e]), 1e-2) << e;
      }
      EXPECT_LE(different, 2 + truth.v16.size() / 50);
      Updated<Bf16> threads(GetParam(), Weights::patterned, moment);
      threads.in_two({Backend::cpu, 3, isa}, step, false, 0.02);
      expect_same(threads.problem.bf16, here.problem.bf16, "theta");
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DenseUpdates,
                         testing::Values(Shape{0, 7, 1, 1, 2, 2}, Shape{7, 0, 1, 1, 2, 2},
                                         Shape{1, 1, 1, 1, 1, 1}, Shape{7, 33, 3, 1, 1, 1},
                                         Shape{33, 101, 3, 1, 5, 3}, Shape{97, 101, 1, 2, 1, 1},
                                         Shape{9, 3203, 1, 1, 1, 1}));

/// A NaN with every bit of its payload set, as GPUs make, must not be carried into another value.
TEST(DenseUpdate, NotANumberStaysOne) {
  const float odd = std::bit_cast<float>(0x7FFFFFFFU);
  for (const Isa isa : supported_isas()) {
    Updated<Bf16> narrow({5, 70, 1, 1, 1, 1}, Weights::clamped, true);
    std::fill(narrow.problem.bf16.begin(), narrow.problem.bf16.end(), round_nearest(0.5F));
    std::vector<float> gradient(350, odd);
    DenseUpdate<float> update = narrow.update(step_number(1, 0.9), false, 0);
    relate_dense_update<float>({Backend::cpu, 1, isa}, update, narrow.problem.relate, gradient.data());
    for (const Bf16 value : narrow.problem.bf16) ASSERT_TRUE(std::isnan(widen(value)));
    for (const Bf16 value : narrow.v16) ASSERT_TRUE(std::isnan(widen(value)));
    EXPECT_TRUE(std::isnan(update.squares));
  }
}

TEST(UpdatePlace, TheHostHasToSaveATenth) {
  const auto chosen = [](double device, double host) {
    UpdatePlaceChoice choice{UpdatePlace::device, {device, host}};
    choose(choice);
    return choice.way;
  };
  EXPECT_EQ(chosen(1, 0.95), UpdatePlace::device);
  EXPECT_EQ(chosen(1, 0.85), UpdatePlace::host);
  EXPECT_EQ(chosen(1, 2), UpdatePlace::device);
  EXPECT_EQ(to_string(UpdatePlaceChoice{UpdatePlace::host, {5.12e-3, 3e-3}}),
            "host (device 5.120 ms, host 3.000 ms)");
  EXPECT_EQ(to_string(UpdatePlaceChoice{}), "device");
}

TEST(UpdatePlace, BothAreTimedAsTheyWillRun) {
  Device device(std::make_unique<SimulatedDriver>());
  const Exec exec{Backend::simulated, 1, widest_isa(), &device};
  const std::size_t before = device.used_bytes();
  for (const Transfer transfer : {Transfer::pageable, Transfer::pinned_async})
    for (const bool bf16 : {false, true}) {
      const UpdatePlaceChoice choice = try_update_places<float>(
          exec, {.rows = 40, .columns = 500, .bf16 = bf16, .moment = true, .transfer = transfer});
      EXPECT_GT(choice.seconds[0], 0);
      EXPECT_GT(choice.seconds[1], 0);
    }
  EXPECT_EQ(device.used_bytes(), before) << "the trial gives its memory back";
  EXPECT_EQ(try_update_places<double>(exec, {.rows = 0, .columns = 5}).seconds[0], 0);
}

/// The caches determine how backward walks through memory, but never its results, to the bit.
TEST(DenseBackward, IsTheSameBesideAnyCache) {
  constexpr Index rows = 70, columns = 150;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!supported(isa)) continue;
    const cpu::DenseKernels<float>& kernels = cpu::kernels_of<cpu::DenseKernels, float>(isa);
    const Index padded = (columns + kernels.strip - 1) / kernels.strip * kernels.strip;
    for (const Index width : {1, 40, 64, 130})
      for (const cpu::DenseSink sink : {cpu::DenseSink::adam, cpu::DenseSink::adam_moment}) {
        const auto values = [](Index count, double step) {
          std::vector<float> all;
          for (Index k = 0; k < count; ++k)
            all.push_back(static_cast<float>(0.5 + 0.4 * std::sin(step * static_cast<double>(k))));
          return all;
        };
        const auto run = [&](bool large) {
          std::vector<float> w = values(rows * columns, 0.7), m = values(rows * columns, 0.3),
                             v = values(rows * columns, 0.1), u(static_cast<std::size_t>(padded * width));
          const std::vector<float> z = values(padded * width, 0.9);
          std::vector<float> g = values(rows * width, 1.3);
          g.resize(static_cast<std::size_t>((rows + cpu::dense_row_padding) * width));
          const AdamConstants<float> adam = adam_constants<float>({.beta1 = 0.9, .count = 3}, false);
          cpu::DenseBackward<float> b{};
          b.weight = w.data(), b.v = v.data(), b.adam = &adam;
          if (sink == cpu::DenseSink::adam_moment) b.m = m.data();
          b.stride = b.columns = columns, b.rows = rows, b.clamped = true;
          b.g = g.data(), b.width = width, b.z = z.data(), b.u = u.data(), b.large_cache = large;
          kernels.backward[static_cast<int>(sink)](b);
          EXPECT_GT(b.squares, 0);
          for (const auto* more : {&m, &v, &u}) w.insert(w.end(), more->begin(), more->end());
          return std::pair(b.squares, w);
        };
        EXPECT_EQ(run(true), run(false)) << to_string(isa) << ", " << width << " columns";
      }
  }
}

TEST(DenseForward, IsTheSameInTilesOfAnyRows) {
  constexpr Index rows = 91, columns = 1300;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (!supported(isa)) continue;
    const cpu::DenseKernels<float>& kernels = cpu::kernels_of<cpu::DenseKernels, float>(isa);
    const Index strips = (columns + kernels.strip - 1) / kernels.strip * kernels.strip;
    for (const bool narrow : {true, false})
      for (const Index width : {1, 3, 7, 64, 272}) {
        if (narrow && width >= kernels.lanes) continue;
        const Index padded = narrow ? width : (width + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
        std::vector<float> w, z(static_cast<std::size_t>((narrow ? strips : columns) * padded));
        for (Index k = 0; k < rows * columns; ++k)
          // Magnitudes whose sums in double depend on their order.
          w.push_back(
              static_cast<float>((1.5 + std::sin(0.7 * static_cast<double>(k))) *
                                 std::pow(10, (k / columns / 24 * 5 + k % columns / 128 * 8) % 19 - 9)));
        for (std::size_t k = 0; k < z.size(); ++k)
          z[k] = static_cast<float>(std::cos(0.9 * static_cast<double>(k)));
        const auto run = [&](Index tile) {
          std::vector<float> context(rows * static_cast<std::size_t>(width));
          double sum = 0.1;
          for (Index begin = 0; begin < rows; begin += tile) {
            cpu::DenseForward<float> f{w.data() + begin * columns,
                                       nullptr,
                                       columns,
                                       std::min(tile, rows - begin),
                                       columns,
                                       false,
                                       z.data(),
                                       width,
                                       context.data() + begin * width,
                                       sum};
            (narrow ? kernels.forward_narrow : kernels.forward_wide)(f);
            sum = f.weight_sum;
          }
          EXPECT_GT(sum, 1e6);
          return std::pair(sum, context);
        };
        const auto whole = run(cpu::dense_forward_rows);
        for (const Index tile : {cpu::dense_sum_rows, 2 * cpu::dense_sum_rows})
          EXPECT_EQ(run(tile), whole) << to_string(isa) << ", " << width << " columns, " << tile << " rows";
      }
  }
}

}  // namespace
}  // namespace rossby
