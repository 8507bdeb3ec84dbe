// One relation of a grid times a signal, and its adjoint, as in diffusions. The terms of a convolution lie
// side by side, so that the stride of a row's columns is `terms` times their channels.

#include <fmt/core.h>

#include "benchmarks/sparse_operands.hpp"
#include "rossby/kernels/sparse_library.hpp"
#include "rossby/kernels/spmm.hpp"

namespace rossby::bench {
namespace {

constexpr Index terms = 5;

template <class T>
struct Operands {
  Index n, cols, channels;
  CsrBlock block;
  std::vector<LocalColumn> rows;
  std::vector<Device::Copy> kept;
  Array<T> weight, z;
  std::unique_ptr<SparseLibrary<T>> library;

  Operands(const Exec& exec, Index n_lat, Index n_lon, Index b, Index c, bool with_library)
      : n(n_lat * n_lon), cols(b), channels(c), block(grid_block(n_lat, n_lon, GridRelations::one)) {
    for (Index i = 0; i < n; ++i) rows.push_back(static_cast<LocalColumn>(i));
    kept = keep_block(exec, block);
    if (exec.device) kept.push_back(exec.device->keep(rows));
    weight = {exec, random_values<T>(block.entries(), "weight")};
    z = {exec, random_values<T>(n * cols * terms * channels, "z")};
    if (with_library && exec.device)
      library = std::make_unique<SparseLibrary<T>>(exec, *cusparse(), block, weight.host().span());
  }
  [[nodiscard]] SparseMatrix<T> matrix() const { return {&block, 0, weight.data(), library.get()}; }
  [[nodiscard]] NodeView<T> term(Index k) {
    const Index apart = terms * channels;
    return {z.data() + k * channels, n, cols, channels, cols * apart, apart};
  }
  [[nodiscard]] NodeView<const T> read(Index k) { return term(k); }
};

template <class T>
struct SpmmForward {
  Operands<T> in;
  SpmmForward(const Exec& exec, Index n_lat, Index n_lon, Index b, Index c, bool library)
      : in(exec, n_lat, n_lon, b, c, library) {}
  void run(const Exec& exec) {
    spmm_forward<T>(exec, in.term(1), in.matrix(), T{1}, {}, in.rows, in.read(0), {});
  }
  [[nodiscard]] Outputs<T> outputs() { return {in.z.values()}; }
};

template <class T>
struct SpmmAdjoint {
  Operands<T> in;
  SpmmAdjoint(const Exec& exec, Index n_lat, Index n_lon, Index b, Index c, bool library)
      : in(exec, n_lat, n_lon, b, c, library) {}
  void run(const Exec& exec) { spmm_adjoint<T>(exec, in.term(0), in.matrix(), T{1}, 0, in.read(1)); }
  [[nodiscard]] Outputs<T> outputs() { return {in.z.values()}; }
};

}  // namespace

std::vector<NamedCase> spmm_cases(const Sizes& sizes) {
  struct Shape {
    Index n_lat, n_lon, cols;
  };
  std::vector<NamedCase> cases;
  const std::vector<Shape> shapes =
      sizes.full ? std::vector<Shape>{{9, 23, 64}, {24, 30, 8}} : std::vector<Shape>{{7, 11, 5}};
  for (const auto& [n_lat, n_lon, cols] : shapes)
    for (const Index channels : {1, 24, 32, 64}) {
      const double entries = grid_entries(n_lat, n_lon);
      const auto node = static_cast<double>(n_lat * n_lon * cols * channels);
      const std::string shape = fmt::format("n:{}/cols:{}/channels:{}", n_lat * n_lon, cols, channels);
      const double flops = 2 * entries * static_cast<double>(cols * channels);
      // Reads weight and column of each entry and x once; writes y, or reads and writes dx.
      for (const bool library : {false, true}) {
        if (library && !sizes.with_cusparse) continue;
        const std::string whose = library ? "_cusparse/" : "/";
        cases.push_back(checked<SpmmForward>("spmm_forward" + whose + shape,
                                             {8 * entries + 4 * 2 * node, flops, 4 * terms * node}, n_lat,
                                             n_lon, cols, channels, library));
        cases.push_back(checked<SpmmAdjoint>("spmm_adjoint" + whose + shape,
                                             {12 * entries + 4 * 3 * node, flops, 4 * terms * node}, n_lat,
                                             n_lon, cols, channels, library));
      }
    }
  return cases;
}

}  // namespace rossby::bench
