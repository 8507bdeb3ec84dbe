// h += Σ_k (W_k z) A_kᵀ over the eight directional relations of a grid, and its adjoint.

#include <fmt/core.h>

#include "benchmarks/sparse_operands.hpp"

namespace rossby::bench {
namespace {

constexpr int relations = 8;

struct Shape {
  Index d, cols;
};
// Rows of whole registers and of partial ones, as in slabs of any number of steps and in forecasts from many
// origins.
constexpr Shape shapes[] = {{1, 1}, {1, 4},  {1, 7},  {1, 8}, {1, 23}, {2, 6}, {2, 60}, {3, 10}, {4, 1},
                            {4, 8}, {4, 20}, {4, 21}, {5, 8}, {6, 5},  {7, 6}, {8, 1},  {8, 4},  {8, 8}};

template <class T>
struct Operands {
  Index n, cols, d;
  bool learned;
  CsrBlock block;
  std::vector<LocalColumn> rows;
  std::vector<Device::Copy> kept;
  Array<T> weight, z, delta, a, workspace;

  Operands(const Exec& exec, Index n_lat, Index n_lon, Index b, Index channels, bool is_learned)
      : n(n_lat * n_lon), cols(b), d(channels), learned(is_learned), block(grid_block(n_lat, n_lon)) {
    for (Index i = 0; i < n; ++i) rows.push_back(static_cast<LocalColumn>(i));
    kept = keep_block(exec, block);
    if (exec.device) kept.push_back(exec.device->keep(rows));
    // Learned weights lie on both sides of both clamp limits.
    weight = {exec, random_values<T>(block.entries(), "weight", learned ? -0.1 : 0, learned ? 1.1 : 1)};
    z = {exec, random_values<T>(n * cols * d, "z")};
    delta = {exec, random_values<T>(n * cols * d, "delta")};
    a = {exec, random_values<T>(d * relations * d, "a")};
    workspace = {exec, relate_sparse_workspace<T>(exec, relate(), cols, d)};
  }
  [[nodiscard]] SparseRelate<T> relate() const {
    return {&block, weight.data(), learned, {a.data(), d, relations * d}};
  }
  [[nodiscard]] NodeView<const T> node(const Array<T>& values) const { return {values.data(), n, cols, d}; }
};

template <class T>
struct RelateForward {
  Operands<T> in;
  Array<T> h;
  RelateForward(const Exec& exec, Index n_lat, Index n_lon, Index b, Index d, bool learned)
      : in(exec, n_lat, n_lon, b, d, learned), h(exec, in.n * b * d) {}
  void run(const Exec& exec) {
    relate_sparse_forward<T>(exec, {h.data(), in.n, in.cols, in.d}, in.relate(), {}, in.rows, in.node(in.z),
                             {}, in.workspace.span());
  }
  [[nodiscard]] Outputs<T> outputs() { return {h.values()}; }
};

template <class T>
struct RelateBackward {
  Operands<T> in;
  Array<T> dz, da, dm;
  RelateBackward(const Exec& exec, Index n_lat, Index n_lon, Index b, Index d, bool learned)
      : in(exec, n_lat, n_lon, b, d, learned),
        dz(exec, in.z.size()),
        da(exec, in.a.size()),
        dm(exec, learned ? in.block.entries() : 0) {}
  void run(const Exec& exec) {
    relate_sparse_backward<T>(exec, {dz.data(), in.n, in.cols, in.d}, {da.data(), in.d, relations * in.d},
                              in.learned ? dm.data() : nullptr, in.relate(), {}, {}, 0, in.node(in.delta),
                              in.node(in.z), in.workspace.span());
  }
  [[nodiscard]] Outputs<T> outputs() { return {dz.values(), da.values(), dm.values()}; }
};

}  // namespace

std::vector<NamedCase> sparse_cases(const Sizes& sizes) {
  std::vector<NamedCase> cases;
  const Index n_lat = sizes.n_lat(), n_lon = sizes.n_lon();
  const double entries = grid_entries(n_lat, n_lon), n = static_cast<double>(n_lat * n_lon);
  for (const bool learned : {false, true})
    for (const auto& [d, cols] : shapes) {
      const double channels = static_cast<double>(d), node = n * static_cast<double>(cols) * channels;
      const double layer = 2 * node * channels * relations, product = 2 * entries * node / n;
      const std::string name =
          fmt::format("{}/n:{}/d:{}/cols:{}", learned ? "learned" : "given", n_lat * n_lon, d, cols);
      // Reads weight and column of each entry and z once; reads and writes h.
      cases.push_back(
          checked<RelateForward>("relate_sparse_forward/" + name,
                                 {8 * entries + 4 * 3 * node, product + layer, 8 * entries + 8 * node}, n_lat,
                                 n_lon, cols, d, learned));
      // Reads weight and row of each entry, z and δ once; reads and writes the entry's gradient and dz.
      // Computes W_kᵀδ, dz, dA and, if learned, one dot product per entry.
      const double entry = learned ? 16 : 8;
      cases.push_back(
          checked<RelateBackward>("relate_sparse_backward/" + name,
                                  {entry * entries + 4 * 4 * node, product * (learned ? 2 : 1) + 2 * layer,
                                   entry * entries + 12 * node},
                                  n_lat, n_lon, cols, d, learned));
    }
  return cases;
}

}  // namespace rossby::bench
