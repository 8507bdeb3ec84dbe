// Latents Z (T, n, d): reading rows and adding gradients to them; and the optimiser's pass over Z.

#include <fmt/core.h>

#include "benchmarks/kernel_case.hpp"
#include "rossby/autograd/costs.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/optimiser.hpp"

namespace rossby::bench {
namespace {

/// Eight steps of the table, spread over it.
std::vector<Index> slab_times(Index steps) {
  std::vector<Index> times;
  for (Index b = 0; b < 8; ++b) times.push_back(b * steps / 8);
  return times;
}

template <class T>
struct EmbedColumns {
  Index steps, n, d;
  bool backward;
  std::vector<Index> times;
  Array<T> table, out;
  EmbedColumns(const Exec& exec, Index t, Index nodes, Index channels, bool is_backward)
      : steps(t),
        n(nodes),
        d(channels),
        backward(is_backward),
        times(slab_times(t)),
        table(exec, random_values<T>(t * n * d, "table")),
        out(exec, random_values<T>(8 * n * d, "out")) {}
  void run(const Exec& exec) {
    const NodeView<T> view(out.data(), n, 8, d);
    if (backward)
      embed_columns_backward<T>(exec, table.data(), steps, view, times);
    else
      embed_columns_forward<T>(exec, view, table.data(), steps, times);
  }
  [[nodiscard]] Outputs<T> outputs() { return {table.values(), out.values()}; }
};

template <class T>
struct EmbedPairs {
  Index steps, n, d;
  bool backward;
  std::vector<Index> times, rows;
  Array<T> table, out;
  EmbedPairs(const Exec& exec, Index t, Index nodes, Index channels, Index pairs, bool is_backward)
      : steps(t),
        n(nodes),
        d(channels),
        backward(is_backward),
        table(exec, random_values<T>(t * n * d, "table")),
        out(exec, random_values<T>(pairs * d, "out")) {
    const Permutation order(Random(1, "pairs"), t * n);
    for (Index q = 0; q < pairs; ++q) {
      times.push_back(order(q) / n);
      rows.push_back(order(q) % n);
    }
  }
  void run(const Exec& exec) {
    const NodeView<T> view(out.data(), std::ssize(times), 1, d);
    if (backward)
      embed_pairs_backward<T>(exec, table.data(), steps, n, view, times, rows);
    else
      embed_pairs_forward<T>(exec, view, table.data(), steps, n, times, rows);
  }
  [[nodiscard]] Outputs<T> outputs() { return {table.values(), out.values()}; }
};

template <class T>
struct Adam {
  AdamStep step;
  bool has_gradient;
  Array<T> theta, m, v, gradient;
  Adam(const Exec& exec, Index size, double beta1, bool gradient_given) : has_gradient(gradient_given) {
    step.beta1 = beta1;
    step.decay = 1e-6;
    step.count = 3;
    theta = {exec, random_values<T>(size, "theta")};
    if (beta1 > 0) m = {exec, random_values<T>(size, "m")};
    v = {exec, random_values<T>(size, "v", 0.1, 1)};
    gradient = {exec, random_values<T>(has_gradient ? size : 0, "gradient")};
  }
  void run(const Exec& exec) {
    adam_update<T>(exec, theta.span(), m.span(), v.span(), gradient.span(), step);
  }
  [[nodiscard]] Outputs<T> outputs() { return {theta.values(), m.values(), v.values()}; }
};

/// Missed updates of a table with gradient zero, as in a slab of latents. All of them can be joined.
template <class T>
struct AdamReplay {
  std::vector<AdamConstants<T>> steps;
  Array<T> theta, m, v;
  AdamReplay(const Exec& exec, Index size, double beta1, Index missed) {
    AdamStep step;
    step.lr = 3e-3;
    step.beta1 = beta1;
    step.decay = beta1 > 0 ? 0 : 1e-7;
    step.beta2 = 1 - 0x1p-23;  // v stays the same, however often a benchmark runs
    for (Index q = 0; q < missed; ++q) {
      step.count = 1000 + q;
      steps.push_back(adam_constants<T>(step, false));
    }
    theta = {exec, random_values<T>(size, "theta")};
    if (beta1 > 0) m = {exec, random_values<T>(size, "m", 0, 1e-6)};
    v = {exec, random_values<T>(size, "v", 1e-14, 1e-12)};
  }
  void run(const Exec& exec) { adam_replay<T>(exec, theta.span(), m.span(), v.span(), {}, steps); }
  [[nodiscard]] Outputs<T> outputs() { return {theta.values(), m.values(), v.values()}; }
};

}  // namespace

std::vector<NamedCase> table_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  const Index n = sizes.nodes(), steps = sizes.steps();
  for (const Index d : {1, 3, 6, 8, 24}) {
    const auto slab = static_cast<double>(8 * n * d), pairs = static_cast<double>(sizes.pairs() * d);
    const OpCost columns = costs::embed(slab, 4), single = costs::embed(pairs, 4);
    const std::string name = fmt::format("/steps:{}/n:{}/d:{}", steps, n, d);
    cases.push_back(checked<EmbedColumns>("embed_columns_forward" + name, work_of(columns.forward, 8 * slab),
                                          steps, n, d, false));
    cases.push_back(checked<EmbedColumns>("embed_columns_backward" + name,
                                          work_of(columns.backward, 8 * slab), steps, n, d, true));
    cases.push_back(checked<EmbedPairs>("embed_pairs_forward" + name, work_of(single.forward, 8 * pairs),
                                        steps, n, d, sizes.pairs(), false));
    cases.push_back(checked<EmbedPairs>("embed_pairs_backward" + name, work_of(single.backward, 8 * pairs),
                                        steps, n, d, sizes.pairs(), true));
  }
  // Sizes: entries of the sparse relations; all of Z at d = 1; more than any cache holds.
  for (const Index size : {8 * n, steps * n, sizes.full ? Index{24'000'000} : Index{999}})
    for (const double beta1 : {0.0, 0.9})
      for (const bool gradient : {true, false}) {
        const auto values = static_cast<double>(size);
        // Reads and writes θ, v and, with momentum, m; reads the gradient.
        const double scalars = (beta1 > 0 ? 6 : 4) + (gradient ? 1 : 0);
        cases.push_back(checked<Adam>(
            fmt::format("adam/beta1:{}/gradient:{}/values:{}", beta1, gradient ? 1 : 0, size),
            {4 * scalars * values, 12 * values, 4 * ((beta1 > 0 ? 3 : 2) + (gradient ? 1 : 0)) * values},
            size, beta1, gradient));
      }
  constexpr Index missed = 25;
  for (const Index size : {8 * n, sizes.full ? Index{24'000'000} : Index{999}})
    for (const double beta1 : {0.0, 0.9}) {
      const auto values = static_cast<double>(size);
      const double arrays = beta1 > 0 ? 3 : 2;
      cases.push_back(
          checked<AdamReplay>(fmt::format("adam_replay/beta1:{}/missed:{}/values:{}", beta1, missed, size),
                              {8 * arrays * values, 40 * values, 4 * arrays * values}, size, beta1, missed));
    }
  return cases;
}

}  // namespace rossby::bench
