#include "rossby/autograd/diffusion.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"

namespace rossby {

DiffusionPlan::DiffusionPlan(int supports, int steps, DiffusionVariant variant) {
  require(supports >= 0 && steps >= 0, "a diffusion has zero or more supports and steps");
  if (supports == 0 || steps == 0) return;
  terms = 1 + supports * steps;
  const auto term = [supports](int k, int s) { return k == 0 ? 0 : 1 + (k - 1) * supports + s; };
  if (variant != DiffusionVariant::legacy) {
    const bool powers = variant == DiffusionVariant::powers;
    for (int k = 1; k <= steps; ++k) {
      Level level{k == 1 ? 0 : term(k - 1, 0), k == 1 ? 1 : supports, {}};
      for (int s = 0; s < supports; ++s)
        level.products.push_back({s, term(k - 1, s), term(k, s), powers || k == 1 ? -1 : term(k - 2, s)});
      levels.push_back(std::move(level));
    }
    return;
  }
  int start = 0;
  for (int s = 0; s < supports; ++s) {
    for (int k = 1; k <= steps; ++k) {
      const int from = k == 1 ? start : term(k - 1, s);
      const int minus = k == 1 ? -1 : k == 2 ? start : term(k - 2, s);
      // The next support starts from a term whose ghosts have just come in.
      if (!levels.empty() && levels.back().first == from)
        levels.back().products.push_back({s, from, term(k, s), minus});
      else
        levels.push_back({from, 1, {{s, from, term(k, s), minus}}});
    }
    start = steps == 1 ? start : term(steps - 1, s);
  }
}

namespace {

template <class T>
MatrixView<T> as_matrix(const NodeView<T>& view) {
  require(view.rows <= 1 || view.cols <= 1 || view.row_stride == view.cols * view.col_stride,
          "a diffusion's output is some channels of a packed value");
  const Index rows = view.rows * view.cols;
  const Index stride = view.cols <= 1 ? view.row_stride : view.col_stride;
  return {view.data, rows, view.channels, rows <= 1 ? view.channels : stride};
}

/// Channels [first, first + count) of a view.
template <class T>
NodeView<T> slice(NodeView<T> view, Index first, Index count) {
  view.data += first;
  view.channels = count;
  return view;
}

using detail::finish;
using detail::read;

/// Values of a row and term that go through all levels together where nothing is exchanged.
constexpr Index values_a_slice = 128;

/// The terms side by side, and the products between them.
template <class T>
struct Terms {
  const Diffusion<T>* diffusion;
  Index channels;

  [[nodiscard]] NodeView<T> term(const NodeView<T>& all, int k, int count = 1) const {
    return slice(all, k * channels, count * channels);
  }
  [[nodiscard]] SparseMatrix<T> support(const Exec& exec, int s) const {
    return diffusion->support(exec.device, s);
  }
  [[nodiscard]] Index ghosts() const { return diffusion->exchange ? diffusion->exchange->ghosts() : 0; }
  [[nodiscard]] NodeView<T> ghost_buffer(Arena& arena, Index cols, int count) const {
    const Index size = ghosts() * cols * count * channels;
    return {arena.take<T>(size).data(), ghosts(), cols, count * channels};
  }

  /// f(columns of z) over a few columns at a time.
  template <class F>
  void for_each_slice(const Exec& exec, const NodeView<T>& z, const F& f) const {
    if (exec.device) return f(z);
    // A power of two: kernels take eight registers at once, of one column or of several.
    const Index cols = static_cast<Index>(std::bit_floor(
        static_cast<std::uint64_t>(std::max<Index>(1, values_a_slice / std::max<Index>(1, channels)))));
    for (Index b = 0; b < z.cols; b += cols) {
      NodeView<T> part = z;
      part.data += b * z.col_stride;
      part.cols = std::min(cols, z.cols - b);
      f(part);
    }
  }

  /// Fills terms 1, 2, … from term 0. Collective.
  void forward(Tape<T>& tape, const NodeView<T>& z) const {
    if (diffusion->alone)
      return for_each_slice(tape.exec(), z, [&](const NodeView<T>& part) {
        for (const DiffusionPlan::Level& level : diffusion->plan.levels)
          products(tape.exec(), level, part, NodeView<T>(nullptr, 0, part.cols, level.count * channels),
                   diffusion->block->interior);
      });
    for (const DiffusionPlan::Level& level : diffusion->plan.levels) {
      const auto mark = tape.mark();
      const NodeView<T> ghost = ghost_buffer(tape.memory(), z.cols, level.count);
      diffusion->exchange->gather_begin(read(term(z, level.first, level.count)), ghost);
      products(tape.exec(), level, z, ghost, diffusion->block->interior);
      diffusion->exchange->gather_end();
      products(tape.exec(), level, z, ghost, diffusion->block->boundary);
      tape.rewind(mark);
    }
  }

  void products(const Exec& exec, const DiffusionPlan::Level& level, const NodeView<T>& z,
                const NodeView<T>& ghost, std::span<const LocalColumn> rows) const {
    for (const DiffusionPlan::Product& product : level.products) {
      const NodeView<const T> minus = product.minus >= 0 ? read(term(z, product.minus)) : NodeView<const T>{};
      spmm_forward(exec, term(z, product.to), support(exec, product.support), static_cast<T>(product.alpha()),
                   minus, rows, read(term(z, product.from)), read(term(ghost, product.from - level.first)));
    }
  }

  /// The adjoint: adds to the gradient of term 0 what those of terms 1, 2, … make of it. Collective.
  void backward(Tape<T>& tape, const NodeView<T>& dz) const {
    const auto& levels = diffusion->plan.levels;
    if (diffusion->alone)
      return for_each_slice(tape.exec(), dz, [&](const NodeView<T>& part) {
        for (auto level = levels.rbegin(); level != levels.rend(); ++level)
          owned_backward(tape.exec(), *level, part);
      });
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      const auto mark = tape.mark();
      const NodeView<T> ghost = ghost_buffer(tape.memory(), dz.cols, level->count);
      clear(tape.exec(), ghost.data, ghost.size());
      adjoints(tape.exec(), *level, dz, ghost, dz.rows);
      diffusion->exchange->scatter_add_begin(read(ghost), term(dz, level->first, level->count));
      owned_backward(tape.exec(), *level, dz);
      diffusion->exchange->scatter_add_end();
      tape.rewind(mark);
    }
  }

  /// What a level's products pass on to owned rows.
  void owned_backward(const Exec& exec, const DiffusionPlan::Level& level, const NodeView<T>& dz) const {
    adjoints(exec, level, dz, slice(dz, level.first * channels, level.count * channels), 0);
    for (const DiffusionPlan::Product& product : level.products)
      if (product.minus >= 0) accumulate(exec, term(dz, product.minus), T{-1}, read(term(dz, product.to)));
  }

  /// `to` holds the gradients of the level's gathered terms: of owned columns (first = 0) or of ghosts.
  void adjoints(const Exec& exec, const DiffusionPlan::Level& level, const NodeView<T>& dz,
                const NodeView<T>& to, Index first) const {
    for (const DiffusionPlan::Product& product : level.products)
      spmm_adjoint(exec, term(to, product.from - level.first), support(exec, product.support),
                   static_cast<T>(product.alpha()), first, read(term(dz, product.to)));
  }
};

template <class T>
struct DiffusionBackward {
  Tape<T>* tape;
  Terms<T> terms;
  NodeView<T> z;  // all terms, but where they are made again
  Var<T> y;
  Var<T> x;
  MatrixView<const T> weight;
  T* dweight;  // null: not trained
  T* dbias;

  void operator()() const {
    const Exec& exec = tape->exec();
    const auto mark = tape->mark();
    const MatrixView<const T> dy = as_matrix(y.gradient);
    const Index scratch_size = std::max(linear_scratch_size(dy.rows, weight.rows, weight.cols),
                                        linear_scratch_size(dy.rows, weight.rows, 1));
    const std::span<T> scratch = tape->memory().template take<T>(scratch_size);
    if (dweight) {
      const auto kept = tape->mark();
      const NodeView<T> all =
          terms.diffusion->alone ? diffusion_terms(*tape, *terms.diffusion, read(x.value)) : z;
      linear_backward_weight(exec, MatrixView<T>(dweight, weight.rows, weight.cols), dy,
                             MatrixView<const T>(as_matrix(all)), scratch);
      tape->rewind(kept);
    }
    if (dbias) column_sum(exec, dbias, dy, scratch);
    if (x.tracked()) {
      const Index rows = x.rows(), cols = x.cols(), width = weight.cols;
      const NodeView<T> dz(tape->memory().template take<T>(rows * cols * width).data(), rows, cols, width);
      linear_backward_input(exec, as_matrix(dz), dy, weight, false);
      terms.backward(*tape, dz);
      accumulate(exec, x.gradient, T{1}, read(terms.term(dz, 0)));
    }
    tape->rewind(mark);
  }
};

template <class T>
OpCost cost_of(const Diffusion<T>& diffusion, const Var<T>& x, Index out, bool trained) {
  const auto rows = static_cast<double>(x.rows() * x.cols());
  const auto channels = static_cast<double>(x.channels());
  OpCost cost = costs::linear(rows, channels * diffusion.plan.terms, static_cast<double>(out), sizeof(T),
                              x.tracked(), trained);
  const double row_bytes = static_cast<double>(x.value.width()) * sizeof(T);
  const auto messages = [](Cost& sum, const Traffic& traffic) {
    sum.messages += static_cast<double>(traffic.messages);
    sum.message_bytes += static_cast<double>(traffic.bytes);
  };
  Cost products, gathers, scatters;
  for (const auto& level : diffusion.plan.levels) {
    for (const auto& product : level.products) {
      const double entries = diffusion.entries[static_cast<std::size_t>(product.support)];
      products.flops += 2 * entries * static_cast<double>(x.value.width());
      products.bytes += entries * (4 + sizeof(T)) + 2 * static_cast<double>(x.rows()) * row_bytes;
    }
    const auto bytes = static_cast<Index>(row_bytes) * level.count;
    messages(gathers, diffusion.exchange->gather_cost(bytes));
    messages(scatters, diffusion.exchange->scatter_cost(bytes));
  }
  cost.forward += products;
  cost.forward += gathers;
  if (x.tracked()) {
    cost.backward += products;
    cost.backward += scatters;
  }
  // Terms that are made again are memory's time; their flops are not the model's.
  if (diffusion.alone && trained) cost.backward.bytes += products.bytes;
  return cost;
}

/// y += or = Σ z_k W_kᵀ (+ bias), recorded.
template <class T>
void convolve(Tape<T>& tape, const Var<T>& y, const Diffusion<T>& diffusion, const Var<T>& x,
              Parameter<T>& weight, Parameter<T>* bias, T* dweight, T* dbias, bool accumulate_to_y) {
  const Terms<T> terms{&diffusion, x.channels()};
  const auto mark = tape.mark();
  const NodeView<T> z = diffusion_terms(tape, diffusion, read(x.value));
  const MatrixView<const T> w(weight.data(tape.exec().device), weight.shape[0], weight.shape[1]);
  linear_forward(tape.exec(), as_matrix(y.value), MatrixView<const T>(as_matrix(z)), w,
                 bias ? bias->data(tape.exec().device) : nullptr, accumulate_to_y);
  // Made again out of x while they are in the cache, terms take no more time than read from memory.
  if (diffusion.alone || !tape.recording()) tape.rewind(mark);
  const OpCost cost = cost_of(diffusion, x, y.channels(), dweight != nullptr);
  finish(tape, "diffusion", cost, y.tracked(),
         DiffusionBackward<T>{&tape, terms, z, y, x, w, dweight, dbias});
}

template <class T>
void check_weight(const Diffusion<T>& diffusion, const Var<T>& x, const Parameter<T>& weight) {
  require(weight.shape.size() == 2 && weight.shape[1] == diffusion.plan.terms * x.channels(),
          "a diffusion's weight is (out, terms·channels)");
  require(!diffusion.block || diffusion.block->rows == x.rows(), "a diffusion's rows are the owned rows");
}

}  // namespace

template <class T>
NodeView<T> diffusion_terms(Tape<T>& tape, const Diffusion<T>& diffusion, NodeView<const T> x) {
  const Terms<T> terms{&diffusion, x.channels};
  const Index width = diffusion.plan.terms * x.channels;
  const NodeView<T> z(tape.memory().template take<T>(x.rows * x.cols * width).data(), x.rows, x.cols, width);
  pack(tape.exec(), terms.term(z, 0), x);
  terms.forward(tape, z);
  return z;
}

template <class T>
Var<T> diffusion_linear(Tape<T>& tape, const Diffusion<T>& diffusion, const Var<T>& x, Parameter<T>& weight,
                        std::type_identity_t<Parameter<T>>* bias) {
  check_weight(diffusion, x, weight);
  require(!bias || bias->size() == weight.shape[0], "a diffusion's bias is (out)");
  T* dweight = tape.recording() ? weight.gradient_target() : nullptr;
  T* dbias = bias && tape.recording() ? bias->gradient_target() : nullptr;
  const Var<T> y = tape.make(x.rows(), x.cols(), weight.shape[0], x.tracked() || dweight || dbias);
  convolve(tape, y, diffusion, x, weight, bias, dweight, dbias, false);
  return y;
}

template <class T>
void diffusion_linear_accumulate(Tape<T>& tape, const Var<T>& y, const Diffusion<T>& diffusion,
                                 const Var<T>& x, Parameter<T>& weight) {
  check_weight(diffusion, x, weight);
  require(y.rows() == x.rows() && y.cols() == x.cols() && y.channels() == weight.shape[0],
          "a diffusion adds to a value of (rows, B, out)");
  T* dweight = tape.recording() ? weight.gradient_target() : nullptr;
  require(y.tracked() || !tape.recording() || !(x.tracked() || dweight),
          "y is tracked where something upstream is trained");
  convolve<T>(tape, y, diffusion, x, weight, nullptr, dweight, nullptr, true);
}

namespace {

template <class T>
struct PropagateBackward {
  Tape<T>* tape;
  const Diffusion<T>* diffusion;
  Var<T> x;
  Var<T> y;

  void operator()() const {
    const SparseMatrix<T> support = diffusion->support(tape->exec().device, 0);
    Exchange& exchange = *diffusion->exchange;
    const auto mark = tape->mark();
    const Index size = exchange.ghosts() * x.value.width();
    const NodeView<T> ghost(tape->memory().template take_zeroed<T>(size).data(), exchange.ghosts(), x.cols(),
                            x.channels());
    spmm_adjoint(tape->exec(), ghost, support, T{1}, x.rows(), read(y.gradient));
    exchange.scatter_add_begin(read(ghost), x.gradient);
    spmm_adjoint(tape->exec(), x.gradient, support, T{1}, Index{0}, read(y.gradient));
    exchange.scatter_add_end();
    tape->rewind(mark);
  }
};

}  // namespace

template <class T>
Var<T> propagate(Tape<T>& tape, const Diffusion<T>& diffusion, const Var<T>& x) {
  require(diffusion.block && diffusion.block->relations > 0 && diffusion.block->rows == x.rows(),
          "a signal of the owned rows goes along a support");
  const CsrBlock& block = *diffusion.block;
  const SparseMatrix<T> support = diffusion.support(tape.exec().device, 0);
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked());
  Exchange& exchange = *diffusion.exchange;
  const auto mark = tape.mark();
  const Index size = exchange.ghosts() * x.value.width();
  const NodeView<T> ghost(tape.memory().template take<T>(size).data(), exchange.ghosts(), x.cols(),
                          x.channels());
  exchange.gather_begin(read(x.value), ghost);
  spmm_forward(tape.exec(), y.value, support, T{1}, {}, block.interior, read(x.value), read(ghost));
  exchange.gather_end();
  spmm_forward(tape.exec(), y.value, support, T{1}, {}, block.boundary, read(x.value), read(ghost));
  tape.rewind(mark);
  const double flops = 2.0 * static_cast<double>(block.entries()) * static_cast<double>(x.value.width());
  const auto row_bytes = x.value.width() * static_cast<Index>(sizeof(T));
  const auto cost = [&](const Traffic& sent) {
    return Cost{flops, static_cast<double>(2 * x.rows() * row_bytes), static_cast<double>(sent.messages),
                static_cast<double>(sent.bytes)};
  };
  finish(tape, "propagate",
         OpCost{cost(exchange.gather_cost(row_bytes)), cost(exchange.scatter_cost(row_bytes))}, y.tracked(),
         PropagateBackward<T>{&tape, &diffusion, x, y});
  return y;
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template Var<T> propagate(Tape<T>&, const Diffusion<T>&, const Var<T>&);                               \
  template NodeView<T> diffusion_terms(Tape<T>&, const Diffusion<T>&, NodeView<const T>);                \
  template Var<T> diffusion_linear(Tape<T>&, const Diffusion<T>&, const Var<T>&, Parameter<T>&,          \
                                   Parameter<T>*);                                                       \
  template void diffusion_linear_accumulate(Tape<T>&, const Var<T>&, const Diffusion<T>&, const Var<T>&, \
                                            Parameter<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
