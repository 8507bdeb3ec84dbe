// Sampled products of a batch of (time, node) pairs over Z (T, n, d) in place, with sparse relations and with
// rows of a dense one.

#include <fmt/core.h>

#include "benchmarks/sparse_operands.hpp"
#include "rossby/kernels/sampled.hpp"

namespace rossby::bench {
namespace {

constexpr int relations = 8;

template <class T>
struct Sampled {
  Index steps, n, d;
  bool backward;
  CsrBlock block;
  std::vector<Sample> samples;
  std::vector<Device::Copy> kept;
  Array<T> weight, z, context, dz, dm, a;

  Sampled(const Exec& exec, Index t, Index n_lat, Index n_lon, Index channels, Index pairs, bool is_backward)
      : steps(t), n(n_lat * n_lon), d(channels), backward(is_backward), block(grid_block(n_lat, n_lon)) {
    kept = keep_block(exec, block);
    const Permutation order(Random(1, "pairs"), t * n);
    for (Index q = 0; q < pairs; ++q) samples.push_back({order(q) % n, order(q) / n});
    weight = {exec, random_values<T>(block.entries(), "weight", -0.1, 1.1)};
    z = {exec, random_values<T>(t * n * d, "z")};
    context = {exec, random_values<T>(pairs * relations * d, "context")};
    a = {exec, random_values<T>(d * relations * d, "a")};
    if (!backward) return;
    dz = {exec, t * n * d};
    dm = {exec, block.entries()};
  }
  void run(const Exec& exec) {
    const SparseRelate<T> relate{&block, weight.data(), true, {a.data(), d, relations * d}};
    const NodeView<const T> table(z.data(), n, steps, d, d, n * d);
    const MatrixView<T> rows(context.data(), std::ssize(samples), relations * d);
    if (backward)
      sampled_sparse_backward<T>(exec, {dz.data(), n, steps, d, d, n * d}, {}, dm.data(), relate, samples,
                                 rows, table, {});
    else
      sampled_sparse_forward<T>(exec, rows, relate, samples, table, {});
  }
  [[nodiscard]] Outputs<T> outputs() {
    return backward ? Outputs<T>{dz.values(), dm.values()} : Outputs<T>{context.values()};
  }
};

/// A rank's rows of one dense relation, twice as many as there are pairs.
template <class T>
struct SampledDense {
  Index steps, n, d, rows;
  bool backward;
  std::vector<Sample> samples;
  std::vector<Index> order;
  Array<T> weight, z, context, dz, dm, scratch;

  SampledDense(const Exec& exec, Index t, Index nodes, Index channels, Index pairs, bool is_backward)
      : steps(t), n(nodes), d(channels), rows(2 * pairs), backward(is_backward) {
    const Permutation draw(Random(1, "pairs"), t * rows);
    for (Index q = 0; q < pairs; ++q) samples.push_back({draw(q) % rows, draw(q) / rows});
    order.resize(samples.size());
    std::vector<Index> counts(static_cast<std::size_t>(steps + 1));
    order_by_column(samples, order, counts);
    weight = {exec, random_values<T>(rows * n, "weight", -0.1, 1.1)};
    z = {exec, random_values<T>(t * n * d, "z")};
    context = {exec, random_values<T>(pairs * d, "context")};
    scratch = {exec, sampled_dense_workspace(exec, relation(), d, pairs)};
    if (!backward) return;
    dz = {exec, t * n * d};
    dm = {exec, rows * n};
  }
  [[nodiscard]] DenseRelate<T> relation() const { return {rows, n, 1, weight.data(), nullptr, true, {}}; }
  void run(const Exec& exec) {
    const DenseRelate<T> relate = relation();
    const NodeView<const T> table(z.data(), n, steps, d, d, n * d);
    const MatrixView<T> out(context.data(), std::ssize(samples), d);
    const SampledWork<T> work{order, scratch.span()};
    if (backward)
      sampled_dense_backward<T>(exec, {dz.data(), n, steps, d, d, n * d}, dm.data(), relate, samples, out,
                                table, work);
    else
      sampled_dense_forward<T>(exec, out, relate, samples, table, work);
  }
  [[nodiscard]] Outputs<T> outputs() {
    return backward ? Outputs<T>{dz.values(), dm.values()} : Outputs<T>{context.values()};
  }
};

}  // namespace

std::vector<NamedCase> pair_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  const Index n_lat = sizes.n_lat(), n_lon = sizes.n_lon(), pairs = sizes.pairs();
  for (const Index d : {1, 8}) {
    const double entries =
        static_cast<double>(pairs) * grid_entries(n_lat, n_lon) / static_cast<double>(sizes.nodes());
    const auto values = static_cast<double>(pairs * relations * d), channels = static_cast<double>(d);
    const std::string name = fmt::format("/pairs:{}/n:{}/d:{}", pairs, sizes.nodes(), d);
    // Reads weight, column and latents of every sampled entry; writes the context or reads its gradient.
    cases.push_back(checked<Sampled>("sampled_sparse_forward" + name,
                                     {entries * (8 + 4 * channels) + 4 * values, 2 * entries * channels,
                                      entries * (8 + 4 * channels) + 4 * values},
                                     sizes.steps(), n_lat, n_lon, d, pairs, false));
    cases.push_back(checked<Sampled>("sampled_sparse_backward" + name,
                                     {entries * (16 + 12 * channels) + 4 * values, 4 * entries * channels,
                                      entries * (12 + 8 * channels) + 4 * values},
                                     sizes.steps(), n_lat, n_lon, d, pairs, true));
    // Reads rows of W and the latents of all steps; reads and writes the gradients of both.
    const double weights = static_cast<double>(pairs * sizes.nodes());
    const double latents = static_cast<double>(sizes.steps() * sizes.nodes()) * channels;
    cases.push_back(
        checked<SampledDense>("sampled_dense_forward" + name,
                              {4 * (weights + latents), 2 * weights * channels, 4 * (weights + latents)},
                              sizes.steps(), sizes.nodes(), d, pairs, false));
    cases.push_back(checked<SampledDense>(
        "sampled_dense_backward" + name,
        {4 * 3 * (weights + latents), 4 * weights * channels, 4 * 2 * (weights + latents)}, sizes.steps(),
        sizes.nodes(), d, pairs, true));
  }
  return cases;
}

}  // namespace rossby::bench
