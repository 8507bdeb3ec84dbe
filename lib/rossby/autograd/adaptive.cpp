#include "rossby/autograd/adaptive.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/product.hpp"
#include "rossby/kernels/softmax.hpp"

namespace rossby {
namespace {

using detail::finish;
using detail::read;

/// Maximum size, in values, of a rank's buffer for all positions. Wider values are processed in column
/// blocks.
constexpr Index most_values = Index{1} << 24;

template <class T>
MatrixView<T> adjacency_matrix(const NodeView<T>& view) {
  return {view.data, view.rows, view.channels};
}

/// Returns the given rows of a (n, k) table, packed.
template <class T>
MatrixView<T> take_rows(Tape<T>& tape, Parameter<T>& table, std::span<const Index> rows) {
  const Index n = table.shape[0], k = table.shape[1], count = std::ssize(rows);
  const MatrixView<T> packed(tape.memory().template take<T>(count * k).data(), count, k);
  embed_columns_forward<T>(tape.exec(), NodeView<T>(packed.data, 1, count, k), table.data(tape.exec().device),
                           n, rows);
  return packed;
}

template <class T>
void add_rows(const Exec& exec, T* table, Index n, std::span<const Index> rows, MatrixView<const T> packed) {
  embed_columns_backward<T>(exec, table, n, NodeView<const T>(packed.data, 1, packed.rows, packed.cols),
                            rows);
}

template <class T>
struct AdjacencyBackward {
  Tape<T>* tape;
  const AllNodes* nodes;
  Var<T> a;
  std::span<const std::uint8_t> positive;
  Parameter<T>* source;
  Parameter<T>* target;
  T* dsource;  // null: not trained
  T* dtarget;

  void operator()() const {
    const Exec& exec = tape->exec();
    const Index n = nodes->rows(), k = source->shape[1];
    softmax_relu_backward(exec, adjacency_matrix(a.gradient), adjacency_matrix(read(a.value)), positive);
    const auto mark = tape->mark();
    const MatrixView<const T> dscores = adjacency_matrix(read(a.gradient));
    const auto product = [&](Operand op, Index rows, MatrixView<const T> other) {
      const MatrixView<T> d(tape->memory().template take<T>(rows * k).data(), rows, k);
      matrix_product(exec, d, op, dscores, Operand::plain, other, false);
      return MatrixView<const T>(d);
    };
    if (dsource)
      add_rows(exec, dsource, n, nodes->own(),
               product(Operand::plain, nodes->owned,
                       take_rows(*tape, *target, std::span<const Index>(nodes->global))));
    if (dtarget)
      add_rows(exec, dtarget, n, std::span<const Index>(nodes->global),
               product(Operand::transposed, n, take_rows(*tape, *source, nodes->own())));
    tape->rewind(mark);
  }
};

template <class T>
T* gradient_of(Tape<T>& tape, Parameter<T>& parameter) {
  return tape.recording() ? parameter.gradient_target() : nullptr;
}

}  // namespace

template <class T>
Var<T> adaptive_adjacency(Tape<T>& tape, const AllNodes& nodes, Parameter<T>& source, Parameter<T>& target) {
  const Index n = nodes.rows(), owned = nodes.owned;
  require(source.shape.size() == 2 && source.shape == target.shape && source.shape[0] == n,
          "an adaptive adjacency has two tables of (n, k)");
  T* dsource = gradient_of(tape, source);
  T* dtarget = gradient_of(tape, target);
  const Var<T> a = tape.make(owned, 1, n, dsource || dtarget);
  const auto positive = tape.memory().template take<std::uint8_t>(owned * n);
  const auto mark = tape.mark();
  matrix_product(tape.exec(), adjacency_matrix(a.value), Operand::plain,
                 MatrixView<const T>(take_rows(tape, source, nodes.own())), Operand::transposed,
                 MatrixView<const T>(take_rows(tape, target, std::span<const Index>(nodes.global))), false);
  tape.rewind(mark);
  softmax_relu_forward(tape.exec(), adjacency_matrix(a.value), positive);
  tape.touches(a, source, target);
  finish(tape, "adaptive_adjacency",
         costs::adaptive_adjacency(static_cast<double>(owned), static_cast<double>(n),
                                   static_cast<double>(source.shape[1]), sizeof(T)),
         a.tracked(), AdjacencyBackward<T>{&tape, &nodes, a, positive, &source, &target, dsource, dtarget});
  return a;
}

namespace {

template <class T>
struct Spread {
  Tape<T>* tape;
  const AllNodes* nodes;
  Var<T> a, x, y;

  /// Number of columns in one column block.
  [[nodiscard]] Index block() const {
    return std::max<Index>(1, most_values / std::max<Index>(1, nodes->rows() * x.channels()));
  }
  [[nodiscard]] static NodeView<T> columns(NodeView<T> view, Index first, Index count) {
    view.data += first * view.col_stride;
    view.cols = count;
    return view;
  }
  [[nodiscard]] static MatrixView<T> matrix(const NodeView<T>& part) {
    return {part.data, part.rows, part.width(), part.rows <= 1 ? part.width() : part.row_stride};
  }
  [[nodiscard]] static MatrixView<const T> const_matrix(const NodeView<T>& part) { return matrix(part); }
  /// Calls f(first column, columns) for each column block.
  template <class F>
  void for_each_block(const F& f) const {
    for (Index b = 0; b < x.cols(); b += block()) {
      const auto mark = tape->mark();
      f(b, std::min(block(), x.cols() - b));
      tape->rewind(mark);
    }
  }
  [[nodiscard]] NodeView<T> buffer(Index cols) const {
    const Index n = nodes->rows();
    return {tape->memory().template take<T>(n * cols * x.channels()).data(), n, cols, x.channels()};
  }
  [[nodiscard]] MatrixView<const T> adjacency() const { return adjacency_matrix(read(a.value)); }

  void forward() const {
    for_each_block([&](Index first, Index count) {
      const NodeView<T> to = columns(y.value, first, count);
      const NodeView<T> all = nodes->exchange ? buffer(count) : to;
      matrix_product(tape->exec(), matrix(all), Operand::transposed, adjacency(), Operand::plain,
                     const_matrix(columns(x.value, first, count)), false);
      if (!nodes->exchange) return;
      clear_view(tape->exec(), to);
      nodes->exchange->template scatter_add<T>(read(all), to);
    });
  }

  void operator()() const {
    for_each_block([&](Index first, Index count) {
      const NodeView<T> dy = columns(y.gradient, first, count);
      const NodeView<T> all = nodes->exchange ? buffer(count) : dy;
      if (nodes->exchange) nodes->exchange->template gather<T>(read(dy), all);
      if (x.tracked())
        matrix_product(tape->exec(), matrix(columns(x.gradient, first, count)), Operand::plain, adjacency(),
                       Operand::plain, const_matrix(all), true);
      if (a.tracked())
        matrix_product(tape->exec(), adjacency_matrix(a.gradient), Operand::plain,
                       const_matrix(columns(x.value, first, count)), Operand::transposed, const_matrix(all),
                       true);
    });
  }

  [[nodiscard]] OpCost cost() const {
    OpCost cost = costs::spread(static_cast<double>(x.rows()), static_cast<double>(nodes->rows()),
                                static_cast<double>(x.value.width()), sizeof(T), x.tracked(), a.tracked());
    if (!nodes->exchange) return cost;
    for (Index b = 0; b < x.cols(); b += block()) {
      const Index bytes = std::min(block(), x.cols() - b) * x.channels() * static_cast<Index>(sizeof(T));
      const Traffic there = nodes->exchange->scatter_cost(bytes), back = nodes->exchange->gather_cost(bytes);
      cost.forward += {0, 0, static_cast<double>(there.messages), static_cast<double>(there.bytes)};
      cost.backward += {0, 0, static_cast<double>(back.messages), static_cast<double>(back.bytes)};
    }
    return cost;
  }
};

}  // namespace

template <class T>
Var<T> spread(Tape<T>& tape, const AllNodes& nodes, const Var<T>& adjacency, const Var<T>& x) {
  require(adjacency.rows() == nodes.owned && adjacency.channels() == nodes.rows() && x.rows() == nodes.owned,
          "an adjacency is of the owned rows and all positions");
  require(x.value.col_stride == x.channels() || x.cols() <= 1, "columns of what is spread lie side by side");
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked() || adjacency.tracked());
  const Spread<T> spread{&tape, &nodes, adjacency, x, y};
  spread.forward();
  tape.touches(y, adjacency, x);
  finish(tape, "spread", spread.cost(), y.tracked(), spread);
  return y;
}

#define ROSSBY_INSTANTIATE(T)                                                                  \
  template Var<T> adaptive_adjacency(Tape<T>&, const AllNodes&, Parameter<T>&, Parameter<T>&); \
  template Var<T> spread(Tape<T>&, const AllNodes&, const Var<T>&, const Var<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
