#include "rossby/data/correlation.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <cblas.h>

#include "rossby/base/user_error.hpp"

namespace rossby {
namespace {

constexpr Index block_nodes = 256;
constexpr std::size_t most_edges = std::size_t{1} << 27;

/// A block of nodes, (nodes, T) each: anomalies about the node's own mean (0 if missing). If any value of the
/// field is missing, also their squares, and 1 if observed.
struct Block {
  Index first = 0, count = 0;
  std::vector<double> x, xx, seen;  // (count, T)
  std::vector<double> squares;      // Σ x², one per node
  std::vector<double> smallest;     // Σ x² of a constant node, from rounding
};

/// The training part, and values shared by all blocks.
struct Field {
  std::span<const float> values;  // (T, n)
  Index steps = 0, nodes = 0;
  bool whole = true;                // no value is missing
  std::vector<double> mean, power;  // by node: mean, Σ v²

  Field(std::span<const float> x, Index t, Index n)
      : values(x), steps(t), nodes(n), mean(as_size(n)), power(as_size(n)) {
    std::vector<double> count(as_size(n));
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double v = values[k];
      const std::size_t i = k % mean.size();
      if (std::isnan(v)) continue;
      mean[i] += v;
      power[i] += v * v;
      count[i] += 1;
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      whole = whole && count[i] == static_cast<double>(steps);
      if (count[i] > 0) mean[i] /= count[i];
    }
  }
};

Block pack(const Field& field, Index first) {
  constexpr Index tile = 64;  // steps whose values stay cached during the transposition
  const Index steps = field.steps;
  Block block;
  block.first = first;
  block.count = std::min(block_nodes, field.nodes - first);
  block.x.resize(as_size(block.count * steps));
  if (!field.whole) block.xx.resize(block.x.size()), block.seen.resize(block.x.size());
  block.squares.resize(as_size(block.count));
  for (Index begin = 0; begin < steps; begin += tile)
    for (Index i = 0; i < block.count; ++i)
      for (Index t = begin; t < std::min(steps, begin + tile); ++t) {
        const double v = field.values[as_size(t * field.nodes + first + i)];
        const double x = std::isnan(v) ? 0 : v - field.mean[as_size(first + i)];
        const std::size_t k = as_size(i * steps + t);
        block.x[k] = x;
        block.squares[as_size(i)] += x * x;
        if (field.whole) continue;
        block.xx[k] = x * x;
        block.seen[k] = std::isnan(v) ? 0 : 1;
      }
  for (Index i = 0; i < block.count; ++i) block.smallest.push_back(1e-20 * field.power[as_size(first + i)]);
  return block;
}

/// a·bᵀ over time, (|a|, |b|).
std::vector<double> product(const Block& a, const std::vector<double>& of_a, const Block& b,
                            const std::vector<double>& of_b, Index steps) {
  std::vector<double> out(as_size(a.count * b.count));
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(a.count), static_cast<int>(b.count),
              static_cast<int>(steps), 1.0, of_a.data(), static_cast<int>(steps), of_b.data(),
              static_cast<int>(steps), 0.0, out.data(), static_cast<int>(b.count));
  return out;
}

/// Writes r of the nodes of `a` with those of `b` to their columns of `row`, (|a|, n); 0 if undefined.
void correlate(const Field& field, const Block& a, const Block& b, Index overlap, std::vector<double>& row) {
  const Index steps = field.steps, nodes = field.nodes;
  const std::vector<double> xy = product(a, a.x, b, b.x, steps);
  std::vector<double> n, sx, sy, sxx, syy;
  if (!field.whole) {
    n = product(a, a.seen, b, b.seen, steps);
    sx = product(a, a.x, b, b.seen, steps);
    sy = product(a, a.seen, b, b.x, steps);
    sxx = product(a, a.xx, b, b.seen, steps);
    syy = product(a, a.seen, b, b.xx, steps);
  }
  for (Index i = 0; i < a.count; ++i)
    for (Index j = 0; j < b.count; ++j) {
      const std::size_t k = as_size(i * b.count + j);
      const double common = n.empty() ? static_cast<double>(steps) : n[k];
      double& r = row[as_size(i * nodes + b.first + j)];
      r = 0;
      if (common < static_cast<double>(overlap) || a.first + i == b.first + j) continue;
      const double xx = n.empty() ? a.squares[as_size(i)] : sxx[k],
                   yy = n.empty() ? b.squares[as_size(j)] : syy[k];
      const double mean_x = n.empty() ? 0 : sx[k] / common, mean_y = n.empty() ? 0 : sy[k] / common;
      const double var_x = xx - common * mean_x * mean_x, var_y = yy - common * mean_y * mean_y;
      // Rounding gives a constant node a small sum of squares, also if it is constant only on the common
      // steps. That is no variance.
      if (!(var_x > std::max(1e-12 * xx, a.smallest[as_size(i)]))) continue;
      if (!(var_y > std::max(1e-12 * yy, b.smallest[as_size(j)]))) continue;
      r = std::clamp((xy[k] - common * mean_x * mean_y) / std::sqrt(var_x * var_y), -1.0, 1.0);
    }
}

/// Adds the edges that point to node `i` from its row of correlations.
void choose(std::span<const double> r, Index i, const CorrelationRule& rule, std::vector<Edge>& edges) {
  std::vector<Index> others;
  for (Index j = 0; j < static_cast<Index>(r.size()); ++j)
    if (r[as_size(j)] > 0 && r[as_size(j)] >= rule.threshold) others.push_back(j);
  if (const auto k = as_size(rule.neighbours); k > 0 && others.size() > k) {
    const auto stronger = [&](Index a, Index b) {
      return std::tuple(-r[as_size(a)], a) < std::tuple(-r[as_size(b)], b);
    };
    std::nth_element(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(k), others.end(), stronger);
    others.resize(k);
  }
  if (edges.size() + others.size() > most_edges)
    user_error(
        "more than {} edges have a correlation of {} or more. Raise --threshold, or limit the edges of each "
        "node with --neighbours",
        most_edges, rule.threshold);
  for (const Index j : others) edges.push_back({j, i, 0, r[as_size(j)]});
}

}  // namespace

std::vector<Edge> correlation_graph(std::span<const float> values, Index steps, Index nodes,
                                    const CorrelationRule& rule) {
  require(static_cast<Index>(values.size()) == steps * nodes, "values of all nodes at all steps");
  if (nodes > most_correlated_nodes)
    user_error(
        "{} nodes are too many for --from correlation, which allows at most {}. Use --from coordinates or "
        "--from distances",
        nodes, most_correlated_nodes);
  const Field field(values, steps, nodes);
  std::vector<Edge> edges;
  std::vector<double> row;
  for (Index first = 0; first < nodes; first += block_nodes) {
    const Block a = pack(field, first);
    row.resize(as_size(a.count * nodes));
    for (Index other = 0; other < nodes; other += block_nodes)
      correlate(field, a, other == first ? a : pack(field, other), rule.overlap, row);
    for (Index i = 0; i < a.count; ++i)
      choose(std::span(row).subspan(as_size(i * nodes), as_size(nodes)), first + i, rule, edges);
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return std::tie(a.source, a.destination) < std::tie(b.source, b.destination);
  });
  return edges;
}

}  // namespace rossby
