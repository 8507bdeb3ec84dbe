// One relation of a grid times a signal, and its adjoint, as diffusions call them: the terms of a convolution
// lie side by side, so that a row's columns are `terms` times their channels apart.

#include <fmt/format.h>

#include "benchmarks/sparse_operands.hpp"
#include "rossby/kernels/spmm.hpp"

namespace rossby::bench {
namespace {

constexpr Index terms = 5;

template <class T>
struct Operands {
  Index n, cols, channels;
  CsrBlock block;
  std::vector<LocalColumn> rows;
  Buffer<T> weight, z;

  Operands(Index n_lat, Index n_lon, Index b, Index c)
      : n(n_lat * n_lon), cols(b), channels(c), block(grid_block(n_lat, n_lon, GridRelations::one)) {
    for (Index i = 0; i < n; ++i) rows.push_back(static_cast<LocalColumn>(i));
    weight = random_values<T>(block.entries(), "weight");
    z = random_values<T>(n * cols * terms * channels, "z");
  }
  [[nodiscard]] SparseMatrix<T> matrix() const { return {&block, 0, weight.data()}; }
  [[nodiscard]] NodeView<T> term(Index k) {
    const Index apart = terms * channels;
    return {z.data() + k * channels, n, cols, channels, cols * apart, apart};
  }
  [[nodiscard]] NodeView<const T> read(Index k) { return term(k); }
};

template <class T>
struct Forward {
  Operands<T> in;
  Forward(Index n_lat, Index n_lon, Index b, Index c) : in(n_lat, n_lon, b, c) {}
  void run(const Exec& exec) {
    spmm_forward<T>(exec, in.term(1), in.matrix(), T{1}, {}, in.rows, in.read(0), {});
  }
  [[nodiscard]] Outputs<T> outputs() const { return {in.z.span()}; }
};

template <class T>
struct Adjoint {
  Operands<T> in;
  Adjoint(Index n_lat, Index n_lon, Index b, Index c) : in(n_lat, n_lon, b, c) {}
  void run(const Exec& exec) { spmm_adjoint<T>(exec, in.term(0), in.matrix(), T{1}, 0, in.read(1)); }
  [[nodiscard]] Outputs<T> outputs() const { return {in.z.span()}; }
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
      // Weight and column of an entry; x once, y written, or dx read and written.
      cases.push_back(checked<Forward>("spmm_forward/" + shape,
                                       {8 * entries + 4 * 2 * node, flops, 4 * terms * node}, n_lat, n_lon,
                                       cols, channels));
      cases.push_back(checked<Adjoint>("spmm_adjoint/" + shape,
                                       {12 * entries + 4 * 3 * node, flops, 4 * terms * node}, n_lat, n_lon,
                                       cols, channels));
    }
  return cases;
}

}  // namespace rossby::bench
