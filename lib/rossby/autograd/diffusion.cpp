#include "rossby/autograd/diffusion.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/diffuse.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"

namespace rossby {

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

/// Values per row and term that go through all levels together if nothing is exchanged.
constexpr Index values_a_slice = 128;

/// Collects a few items for one kernel call.
template <class V>
class Batch {
 public:
  static constexpr std::size_t room = most_sparse_products;
  using Run = std::function<void(std::span<const V>)>;

  explicit Batch(Run run) : run_(std::move(run)) {}
  void add(const V& value) {
    if (size_ == room) flush();
    values_[size_++] = value;
  }
  void flush() {
    if (size_ > 0) run_(std::span<const V>(values_.data(), size_));
    size_ = 0;
  }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool full() const { return size_ == room; }

 private:
  Run run_;
  std::array<V, room> values_;
  std::size_t size_ = 0;
};

/// The terms, side by side, and the products between them.
template <class T>
struct Terms {
  const Diffusion<T>* diffusion;
  Index channels;

  [[nodiscard]] NodeView<T> term(const NodeView<T>& all, int k, int count = 1) const {
    return slice(all, k * channels, count * channels);
  }
  [[nodiscard]] SparseMatrix<T> supports(const Exec& exec) const {
    return diffusion->support(exec.device, 0);
  }
  /// True if kernels run on a device, not on a stand-in for the host in a trace.
  [[nodiscard]] static bool device_works(const Exec& exec) {
    return on_device(exec.backend) && !exec.device->driver().stands_for_host();
  }
  /// True if a level is one launch, which reads the signal and adds to its gradient in place.
  [[nodiscard]] bool in_launches(const Exec& exec) const {
    return device_works(exec) && diffusion->alone && !diffusion->sparse_library &&
           !diffusion->plan.levels.empty();
  }
  /// True if all levels are one launch.
  [[nodiscard]] bool at_once(const Exec& exec) const {
    return in_launches(exec) && diffusion->plan.variant != DiffusionVariant::legacy &&
           diffuses_at_once(*diffusion->block);
  }
  [[nodiscard]] DiffusionSteps recursion() const {
    return {diffusion->plan.steps, diffusion->plan.variant != DiffusionVariant::powers};
  }
  /// True if backward recomputes the terms from x: while they are in a host's cache, this takes no more time
  /// than reading them from memory. Devices lack such caches and keep the terms.
  [[nodiscard]] bool made_again(const Exec& exec) const { return diffusion->alone && !device_works(exec); }
  [[nodiscard]] Index ghosts() const { return diffusion->exchange ? diffusion->exchange->ghosts() : 0; }
  [[nodiscard]] NodeView<T> ghost_buffer(Arena& arena, Index cols, int count) const {
    const Index size = ghosts() * cols * count * channels;
    return {arena.take<T>(size).data(), ghosts(), cols, count * channels};
  }

  /// f(columns of z) over a few columns at a time.
  template <class F>
  void for_each_slice(const Exec& exec, const NodeView<T>& z, const F& f) const {
    if (exec.device) return f(z);
    // A power of two, because kernels take eight registers at once, of one column or of several.
    const Index cols = static_cast<Index>(std::bit_floor(
        static_cast<std::uint64_t>(std::max<Index>(1, values_a_slice / std::max<Index>(1, channels)))));
    for (Index b = 0; b < z.cols; b += cols) {
      NodeView<T> part = z;
      part.data += b * z.col_stride;
      part.cols = std::min(cols, z.cols - b);
      f(part);
    }
  }

  /// Fills all terms from the signal. Collective.
  void forward(Tape<T>& tape, const NodeView<T>& z, const NodeView<const T>& x) const {
    const Exec& exec = tape.exec();
    if (at_once(exec)) return diffuse_forward(exec, z, supports(exec), recursion(), x);
    const bool whole = in_launches(exec);
    if (!whole) pack(exec, term(z, 0), x);
    const auto& levels = diffusion->plan.levels;
    if (diffusion->alone)
      return for_each_slice(exec, z, [&](const NodeView<T>& part) {
        for (const DiffusionPlan::Level& level : levels)
          products(exec, level, part, NodeView<T>(nullptr, 0, part.cols, level.count * channels),
                   diffusion->block->interior, whole && &level == &levels.front() ? x : NodeView<const T>{});
      });
    for (const DiffusionPlan::Level& level : levels) {
      const auto mark = tape.mark();
      const NodeView<T> ghost = ghost_buffer(tape.memory(), z.cols, level.count);
      diffusion->exchange->gather_begin(read(term(z, level.first, level.count)), ghost);
      products(exec, level, z, ghost, diffusion->block->interior);
      diffusion->exchange->gather_end();
      products(exec, level, z, ghost, diffusion->block->boundary);
      tape.rewind(mark);
    }
  }

  /// A level's products; also term 0 if it is to be copied from a signal `x`.
  void products(const Exec& exec, const DiffusionPlan::Level& level, const NodeView<T>& z,
                const NodeView<T>& ghost, std::span<const LocalColumn> rows,
                const NodeView<const T>& x = {}) const {
    Batch<SparseProduct<T>> batch(
        [&](std::span<const SparseProduct<T>> some) { spmm_products(exec, supports(exec), some, rows); });
    if (x.data) batch.add({-1, T{1}, term(z, 0), x, {}, {}});
    for (const DiffusionPlan::Product& product : level.products) {
      const bool signal = x.data && product.from == 0;
      batch.add({product.support, static_cast<T>(product.alpha()), term(z, product.to),
                 signal ? x : read(term(z, product.from)), read(term(ghost, product.from - level.first)),
                 product.minus >= 0 ? read(term(z, product.minus)) : NodeView<const T>{}});
    }
    batch.flush();
  }

  /// The adjoint: adds to `dx` the contributions of all terms' gradients. Collective.
  void backward(Tape<T>& tape, const NodeView<T>& dz, const NodeView<T>& dx) const {
    const Exec& exec = tape.exec();
    if (at_once(exec)) return diffuse_adjoint(exec, dx, supports(exec), recursion(), read(dz));
    const auto& levels = diffusion->plan.levels;
    const bool whole = in_launches(exec);
    if (diffusion->alone) {
      for_each_slice(exec, dz, [&](const NodeView<T>& part) {
        for (auto level = levels.rbegin(); level != levels.rend(); ++level)
          adjoints(exec, *level, part, owned_terms(part, *level), 0,
                   whole && &*level == &levels.front() ? dx : NodeView<T>{});
      });
    } else {
      for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
        const auto mark = tape.mark();
        const NodeView<T> ghost = ghost_buffer(tape.memory(), dz.cols, level->count);
        clear(exec, ghost.data, ghost.size());
        adjoints(exec, *level, dz, ghost, dz.rows);
        diffusion->exchange->scatter_add_begin(read(ghost), term(dz, level->first, level->count));
        adjoints(exec, *level, dz, owned_terms(dz, *level), 0);
        diffusion->exchange->scatter_add_end();
        tape.rewind(mark);
      }
    }
    if (!whole) accumulate(exec, dx, T{1}, read(term(dz, 0)));
  }

  [[nodiscard]] NodeView<T> owned_terms(const NodeView<T>& dz, const DiffusionPlan::Level& level) const {
    return term(dz, level.first, level.count);
  }

  /// `to` holds the gradients of the level's gathered terms: of owned columns (first = 0), which also get the
  /// shares of subtracted terms, or of ghosts. `dx` gets the contributions of term 0 and its shares.
  void adjoints(const Exec& exec, const DiffusionPlan::Level& level, const NodeView<T>& dz,
                const NodeView<T>& to, Index first, const NodeView<T>& dx = {}) const {
    constexpr std::size_t most = most_sparse_shares;
    std::array<std::array<SparseShare<T>, most>, Batch<SparseGradient<T>>::room> shares;
    Batch<SparseGradient<T>> batch(
        [&](std::span<const SparseGradient<T>> some) { spmm_gradients(exec, supports(exec), some, first); });
    for (const DiffusionPlan::Gradient& gradient : level.gradients) {
      const int place = gradient.of - level.first;
      const bool gathered = place >= 0 && place < level.count;
      if (first > 0 && !gathered) continue;
      const bool signal = dx.data && gradient.of == 0;
      NodeView<const T> start = signal ? read(term(dz, 0)) : NodeView<const T>{};
      for (std::size_t at = 0; at < gradient.shares.size();) {
        if (batch.full()) batch.flush();
        std::array<SparseShare<T>, most>& mine = shares[batch.size()];
        std::size_t count = 0;
        for (; at < gradient.shares.size() && count < most; ++at) {
          const DiffusionPlan::Share& share = gradient.shares[at];
          if (first > 0 && share.support < 0) continue;
          mine[count++] = {share.support, static_cast<T>(share.alpha), read(term(dz, share.from))};
        }
        if (count == 0) break;
        batch.add({signal     ? dx
                   : gathered ? term(to, place)
                              : term(dz, gradient.of),
                   start, std::span<const SparseShare<T>>(mine.data(), count)});
        if (at < gradient.shares.size()) batch.flush();  // the rest adds to the same gradient
        start = {};
      }
    }
    batch.flush();
  }
};

template <class T>
struct DiffusionBackward {
  Tape<T>* tape;
  Terms<T> terms;
  NodeView<T> z;  // all terms, if they are kept
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
          terms.made_again(exec) ? diffusion_terms(*tape, *terms.diffusion, read(x.value)) : z;
      linear_backward_weight(exec, MatrixView<T>(dweight, weight.rows, weight.cols), dy,
                             MatrixView<const T>(as_matrix(all)), scratch);
      tape->rewind(kept);
    }
    if (dbias) column_sum(exec, dbias, dy, scratch);
    if (x.tracked()) {
      const Index rows = x.rows(), cols = x.cols(), width = weight.cols;
      const NodeView<T> dz(tape->memory().template take<T>(rows * cols * width).data(), rows, cols, width);
      linear_backward_input(exec, as_matrix(dz), dy, weight, false);
      terms.backward(*tape, dz, x.gradient);
    }
    tape->rewind(mark);
  }
};

template <class T>
OpCost cost_of(const Exec& exec, const Terms<T>& terms, const Var<T>& x, Index out, bool trained) {
  const Diffusion<T>& diffusion = *terms.diffusion;
  const bool at_once = terms.at_once(exec);
  const auto rows = static_cast<double>(x.rows() * x.cols());
  const auto channels = static_cast<double>(x.channels());
  OpCost cost = costs::linear(rows, channels * diffusion.plan.terms, static_cast<double>(out), sizeof(T),
                              x.tracked(), trained);
  const double row_bytes = static_cast<double>(x.value.width()) * sizeof(T);
  const auto messages = [](Cost& sum, const Traffic& traffic) {
    sum.messages += static_cast<double>(traffic.messages);
    sum.message_bytes += static_cast<double>(traffic.bytes);
  };
  // A launch of all levels reads the signal once and writes each term; other launches also read the factors.
  const double term_bytes = static_cast<double>(x.rows()) * row_bytes;
  Cost products, gathers, scatters;
  if (at_once) products.bytes += 2 * term_bytes;
  for (const auto& level : diffusion.plan.levels) {
    for (const auto& product : level.products) {
      const double entries = diffusion.entries[static_cast<std::size_t>(product.support)];
      products.flops += 2 * entries * static_cast<double>(x.value.width());
      products.bytes += entries * (4 + sizeof(T)) + (at_once ? 1 : 2) * term_bytes;
    }
    const auto bytes = static_cast<Index>(row_bytes) * level.count;
    messages(gathers, diffusion.exchange->gather_cost(bytes));
    messages(scatters, diffusion.exchange->scatter_cost(bytes));
  }
  cost.forward += products;
  cost.forward += gathers;
  if (x.tracked()) {
    cost.backward += products;
    if (at_once) cost.backward.bytes += term_bytes;  // added to the signal's gradient
    cost.backward += scatters;
  }
  // Recomputed terms cost memory traffic; their flops are not the model's.
  if (terms.made_again(exec) && trained) cost.backward.bytes += products.bytes;
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
  if (terms.made_again(tape.exec()) || !tape.recording()) tape.rewind(mark);
  const OpCost cost = cost_of(tape.exec(), terms, x, y.channels(), dweight != nullptr);
  tape.touches(y, x, weight, bias);
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
  terms.forward(tape, z, x);
  return z;
}

template <class T>
void diffusion_adjoint(Tape<T>& tape, const Diffusion<T>& diffusion, NodeView<T> dz, NodeView<T> dx) {
  Terms<T>{&diffusion, dx.channels}.backward(tape, dz, dx);
}

template <class T>
Var<T> diffusion_linear(Tape<T>& tape, const Diffusion<T>& diffusion, const Var<T>& x, Parameter<T>& weight,
                        std::type_identity_t<Parameter<T>>* bias, bool add_bias) {
  check_weight(diffusion, x, weight);
  require(!bias || bias->size() == weight.shape[0], "a diffusion's bias is (out)");
  T* dweight = tape.recording() ? weight.gradient_target() : nullptr;
  T* dbias = bias && tape.recording() ? bias->gradient_target() : nullptr;
  const Var<T> y = tape.make(x.rows(), x.cols(), weight.shape[0], x.tracked() || dweight || dbias);
  convolve(tape, y, diffusion, x, weight, add_bias ? bias : nullptr, dweight, dbias, false);
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
  tape.touches(y, x);
  finish(tape, "propagate",
         OpCost{cost(exchange.gather_cost(row_bytes)), cost(exchange.scatter_cost(row_bytes))}, y.tracked(),
         PropagateBackward<T>{&tape, &diffusion, x, y});
  return y;
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template Var<T> propagate(Tape<T>&, const Diffusion<T>&, const Var<T>&);                               \
  template NodeView<T> diffusion_terms(Tape<T>&, const Diffusion<T>&, NodeView<const T>);                \
  template void diffusion_adjoint(Tape<T>&, const Diffusion<T>&, NodeView<T>, NodeView<T>);              \
  template Var<T> diffusion_linear(Tape<T>&, const Diffusion<T>&, const Var<T>&, Parameter<T>&,          \
                                   Parameter<T>*, bool);                                                 \
  template void diffusion_linear_accumulate(Tape<T>&, const Var<T>&, const Diffusion<T>&, const Var<T>&, \
                                            Parameter<T>&);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
