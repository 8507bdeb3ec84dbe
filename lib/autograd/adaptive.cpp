#include "rossby/autograd/adaptive.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/product.hpp"

namespace rossby {
namespace {

using detail::finish;
using detail::read;

/// Values of a rank's buffer of all positions: more columns are taken in turns.
constexpr Index most_values = Index{1} << 24;

template <class T>
MatrixView<T> adjacency_matrix(const NodeView<T>& view) {
  return {view.data, view.rows, view.channels};
}

/// Rows of a (n, k) table in another order, packed.
template <class T>
MatrixView<T> take_rows(Arena& arena, const Parameter<T>& table, std::span<const Index> rows) {
  const Index k = table.shape[1];
  const MatrixView<T> packed(arena.take<T>(std::ssize(rows) * k).data(), std::ssize(rows), k);
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::copy_n(table.value.data() + rows[i] * k, k, packed.row(static_cast<Index>(i)));
  return packed;
}

template <class T>
void add_rows(T* table, std::span<const Index> rows, MatrixView<const T> packed) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (Index c = 0; c < packed.cols; ++c)
      table[rows[i] * packed.cols + c] += packed.row(static_cast<Index>(i))[c];
}

/// Scores become softmax(relu(scores)) in place; `positive` keeps where relu lets gradients through.
template <class T>
void softmax_row(T* a, std::uint8_t* positive, Index n) {
  double largest = 0;
  for (Index w = 0; w < n; ++w) {
    positive[w] = a[w] > 0;
    largest = std::max(largest, static_cast<double>(a[w]));
  }
  double sum = 0;
  for (Index w = 0; w < n; ++w) {
    const double score = a[w] > 0 || std::isnan(a[w]) ? static_cast<double>(a[w]) : 0.0;
    const double power = std::exp(score - largest);
    a[w] = static_cast<T>(power);
    sum += power;
  }
  for (Index w = 0; w < n; ++w) a[w] = static_cast<T>(static_cast<double>(a[w]) / sum);
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
    for (Index v = 0; v < nodes->owned; ++v) {
      const T* value = a.value.row(v);
      T* d = a.gradient.row(v);
      double mean = 0;
      for (Index w = 0; w < n; ++w) mean += static_cast<double>(value[w]) * static_cast<double>(d[w]);
      for (Index w = 0; w < n; ++w)
        d[w] = positive[static_cast<std::size_t>(v * n + w)]
                   ? static_cast<T>(static_cast<double>(value[w]) * (static_cast<double>(d[w]) - mean))
                   : T{0};
    }
    const Arena::Mark mark = tape->arena().mark();
    const MatrixView<const T> dscores = adjacency_matrix(read(a.gradient));
    const auto product = [&](Operand op, Index rows, MatrixView<const T> other) {
      const MatrixView<T> d(tape->arena().template take<T>(rows * k).data(), rows, k);
      matrix_product(exec, d, op, dscores, Operand::plain, other, false);
      return MatrixView<const T>(d);
    };
    if (dsource)
      add_rows(dsource, nodes->own(),
               product(Operand::plain, nodes->owned, take_rows(tape->arena(), *target, nodes->global)));
    if (dtarget)
      add_rows(dtarget, std::span<const Index>(nodes->global),
               product(Operand::transposed, n, take_rows(tape->arena(), *source, nodes->own())));
    tape->arena().rewind(mark);
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
  const auto positive = tape.arena().template take<std::uint8_t>(owned * n);
  const Arena::Mark mark = tape.arena().mark();
  matrix_product(tape.exec(), adjacency_matrix(a.value), Operand::plain,
                 MatrixView<const T>(take_rows(tape.arena(), source, nodes.own())), Operand::transposed,
                 MatrixView<const T>(take_rows(tape.arena(), target, std::span<const Index>(nodes.global))),
                 false);
  tape.arena().rewind(mark);
  for (Index v = 0; v < owned; ++v) softmax_row(a.value.row(v), positive.data() + v * n, n);
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

  /// Columns of all positions that are in memory at once.
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
  /// f(first column, columns) for those that are taken together.
  template <class F>
  void for_each_block(const F& f) const {
    for (Index b = 0; b < x.cols(); b += block()) {
      const Arena::Mark mark = tape->arena().mark();
      f(b, std::min(block(), x.cols() - b));
      tape->arena().rewind(mark);
    }
  }
  [[nodiscard]] NodeView<T> buffer(Index cols) const {
    const Index n = nodes->rows();
    return {tape->arena().template take<T>(n * cols * x.channels()).data(), n, cols, x.channels()};
  }
  [[nodiscard]] MatrixView<const T> adjacency() const { return adjacency_matrix(read(a.value)); }

  void forward() const {
    for_each_block([&](Index first, Index count) {
      const NodeView<T> to = columns(y.value, first, count);
      const NodeView<T> all = nodes->exchange ? buffer(count) : to;
      matrix_product(tape->exec(), matrix(all), Operand::transposed, adjacency(), Operand::plain,
                     const_matrix(columns(x.value, first, count)), false);
      if (!nodes->exchange) return;
      for (Index i = 0; i < to.rows; ++i) std::fill_n(to.row(i), to.width(), T{0});
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
