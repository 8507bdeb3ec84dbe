// The relation kernels on a 60 x 168 grid with eight directional relations: time beside the floor that this
// machine's memory allows. A result that differs from the reference kernel is an error, not a time.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "rossby/base/random.hpp"
#include "rossby/kernels/relate.hpp"
#include "rossby/relation/builders.hpp"

namespace rossby {
namespace {

/// Measured once: bytes a second of y = x + s·z over arrays that no cache holds, one thread.
double triad_bandwidth() {
  static const double measured = [] {
    constexpr std::size_t size = std::size_t{1} << 24;
    std::vector<double> x(size, 1), y(size, 2), z(size, 3);
    double best = 0;
    for (int repeat = 0; repeat < 5; ++repeat) {
      const auto begin = std::chrono::steady_clock::now();
      for (std::size_t i = 0; i < size; ++i) x[i] = y[i] + 0.5 * z[i];
      benchmark::DoNotOptimize(x.data());
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = std::max(best, 3.0 * sizeof(double) * static_cast<double>(size) / seconds);
    }
    return best;
  }();
  return measured;
}

struct Problem {
  Index n, cols, d;
  CsrBlock block;
  std::vector<LocalColumn> rows;
  std::vector<float> m, z, delta, a;

  Problem(Index b, Index channels) : n(60 * 168), cols(b), d(channels) {
    Grid grid{60, 168, {}, false};
    for (Index i = 0; i < n; ++i) grid.node_of_cell.push_back(i);
    const RowPartition partition = RowPartition::blocks(n, 1);
    block = localise(grid_neighbours(grid, GridRelations::directional, partition, 0), partition, 0, {});
    for (Index i = 0; i < n; ++i) rows.push_back(static_cast<LocalColumn>(i));
    const auto random = [](std::size_t size, const char* stream, double low, double high) {
      std::vector<float> values(size);
      for (std::size_t i = 0; i < size; ++i)
        values[i] = static_cast<float>(Random(1, stream).uniform(i, low, high));
      return values;
    };
    m = random(block.column.size(), "m", 0, 1);
    z = random(static_cast<std::size_t>(n * cols * d), "z", -1, 1);
    delta = random(z.size(), "delta", -1, 1);
    a = random(static_cast<std::size_t>(d * 8 * d), "a", -1, 1);
  }
  [[nodiscard]] SparseRelate<float> relate() const { return {&block, m.data(), true, {a.data(), d, 8 * d}}; }
  [[nodiscard]] NodeView<const float> z_view() const { return {z.data(), n, cols, d}; }
  [[nodiscard]] NodeView<const float> delta_view() const { return {delta.data(), n, cols, d}; }
};

/// Largest difference relative to the largest value.
double difference(const std::vector<float>& x, const std::vector<float>& truth) {
  double worst = 0, scale = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(x[i] - truth[i])));
    scale = std::max(scale, static_cast<double>(std::abs(truth[i])));
  }
  return worst / scale;
}

void report(benchmark::State& state, double bytes) {
  const double rate = bytes * static_cast<double>(state.iterations());
  state.counters["bytes_per_second"] = benchmark::Counter(rate, benchmark::Counter::kIsRate);
  state.counters["floor_percent"] =
      benchmark::Counter(100 * rate / triad_bandwidth(), benchmark::Counter::kIsRate);
}

void forward(benchmark::State& state) {
  const Problem p(state.range(0), state.range(1));
  std::vector<float> h(p.z.size()), truth(p.z.size());
  std::vector<float> workspace(static_cast<std::size_t>(relate_sparse_workspace(p.relate(), p.cols, p.d)));
  const auto run = [&](const Exec& exec, std::vector<float>& out) {
    relate_sparse_forward<float>(exec, {out.data(), p.n, p.cols, p.d}, p.relate(), p.rows, p.z_view(), {},
                                 workspace);
  };
  run({Backend::reference, 1}, truth);
  run({Backend::cpu, 1}, h);
  if (const double error = difference(h, truth); error > 1e-5)
    return state.SkipWithError(("wrong result: relative error " + std::to_string(error)).c_str());
  for (auto _ : state) run({Backend::cpu, 1}, h);
  // Weight and column of every entry once, z and h once.
  report(state, 8.0 * static_cast<double>(p.m.size()) + 4.0 * 3.0 * static_cast<double>(p.z.size()));
}

void backward(benchmark::State& state) {
  const Problem p(state.range(0), state.range(1));
  struct Outputs {
    std::vector<float> dz, da, dm;
  };
  const auto zeros = [&] {
    return Outputs{std::vector<float>(p.z.size()), std::vector<float>(p.a.size()),
                   std::vector<float>(p.m.size())};
  };
  std::vector<float> workspace(static_cast<std::size_t>(relate_sparse_workspace(p.relate(), p.cols, p.d)));
  const auto run = [&](const Exec& exec, Outputs& out) {
    relate_sparse_backward<float>(exec, {out.dz.data(), p.n, p.cols, p.d}, {out.da.data(), p.d, 8 * p.d},
                                  out.dm.data(), p.relate(), 0, p.delta_view(), p.z_view(), workspace);
  };
  Outputs truth = zeros(), out = zeros();
  run({Backend::reference, 1}, truth);
  run({Backend::cpu, 1}, out);
  const double error = std::max(
      {difference(out.dz, truth.dz), difference(out.da, truth.da) / 100, difference(out.dm, truth.dm)});
  if (error > 1e-5)
    return state.SkipWithError(("wrong result: relative error " + std::to_string(error)).c_str());
  for (auto _ : state) run({Backend::cpu, 1}, out);
  // Weight, gradient (read and written), row and place of every entry; z, δ and dz.
  report(state, 24.0 * static_cast<double>(p.m.size()) + 4.0 * 4.0 * static_cast<double>(p.z.size()));
}

BENCHMARK(forward)->ArgNames({"cols", "d"})->Args({8, 1})->Args({8, 8})->Args({64, 1});
BENCHMARK(backward)->ArgNames({"cols", "d"})->Args({8, 1})->Args({8, 8})->Args({64, 1});

}  // namespace
}  // namespace rossby

BENCHMARK_MAIN();
