#include "rossby/autograd/relate_terms.hpp"

#include <algorithm>

#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/optimiser.hpp"
#include "rossby/kernels/reductions.hpp"

namespace rossby::detail {

namespace {

/// Rows of U and V per tile of backward. On the host, as many as stay in the first-level cache with their
/// moments. On a device each tile is ten launches, so as many as its memory has space for.
Index tile_rows(const Exec& exec, Index rows, Index k) {
  const bool device = exec.device && !exec.device->driver().stands_for_host();
  const Index values = device ? Index{1} << 24 : 2560;
  return std::clamp<Index>(values / std::max<Index>(k, 1), 1, std::max<Index>(rows, 1));
}

template <class T>
MatrixView<const T> some_rows(MatrixView<const T> x, Index begin, Index rows) {
  return {x.row(begin), rows, x.cols, x.stride};
}

template <class T>
DenseGradient<T> claim(Parameter<T>& parameter) {
  const DenseGradient<T> target = parameter.dense_target();
  if (target.update) {
    require(!target.update->recorded, "a relation that is updated in backward serves one layer a step");
    target.update->recorded = true;
  }
  return target;
}

}  // namespace

template <class T>
LowRank<T> LowRank<T>::begin(Tape<T>& tape, const RelationBank<T>& bank, const RelationTerm<T>& term,
                             const WeightBlock<T>& a, NodeView<const T> z) {
  const Exec& exec = tape.exec();
  const Index k = term.u->shape.back();
  const Index w = a.value.rows;
  const Index out_width = z.cols * w;
  Index scratch =
      std::max({linear_scratch_size(z.rows, k, z.width()), linear_scratch_size(z.rows, k, out_width),
                linear_scratch_size(k * z.cols, w, z.channels)});
  const Index tile = tile_rows(exec, z.rows, k);
  for (const Index rows : {tile, z.rows % tile})
    scratch =
        std::max({scratch, linear_scratch_size(rows, k, z.width()), linear_scratch_size(rows, k, out_width)});
  Arena& arena = tape.memory();
  LowRank low{{term.u->data(exec.device), z.rows, k},
              {term.v->data(exec.device), z.rows, k},
              {},
              {},
              a,
              bank.reducer,
              T(1) / static_cast<T>(bank.nodes),
              {arena.take_zeroed<T>(k * z.width()).data(), k, z.width()},
              {arena.take<T>(k * out_width).data(), k, out_width},
              {arena.take<T>(k * out_width).data(), k, out_width},
              arena.take<T>(scratch),
              {}};
  if (tape.recording()) {
    low.du = claim(*term.u);
    low.dv = claim(*term.v);
    if (low.du.update || low.dv.update) low.gradient = arena.take<T>(tile * k);
  }
  linear_backward_weight<T>(exec, low.s, low.v, by_row(z), low.scratch);
  bank.reducer->sum_begin(std::span<T>(low.s.data, static_cast<std::size_t>(low.s.size())));
  return low;
}

template <class T>
void LowRank<T>::end(const Exec& exec, NodeView<T> h) const {
  reducer->sum_end();
  scale_all(exec, std::span<T>(s.data, static_cast<std::size_t>(s.size())), inverse_n);
  const MatrixView<T> s_rows(s.data, s.rows * h.cols, a.value.cols);
  const MatrixView<T> q_rows(q.data, q.rows * h.cols, h.channels);
  linear_forward<T>(exec, q_rows, s_rows, a.value, nullptr, false);
  linear_backward_input<T>(exec, by_row(h), u, q);
}

/// Rows [begin, begin + rows) of dU = x yᵀ (or dV), into the buffer or into their update.
template <class T>
void LowRank<T>::weight_backward(const Exec& exec, const DenseGradient<T>& d, Index begin, Index rows,
                                 MatrixView<const T> x, MatrixView<const T> y) const {
  const Index k = y.rows;
  if (d.buffer)
    return linear_forward<T>(exec, MatrixView<T>(d.buffer + begin * k, rows, k), x, y, nullptr, true);
  if (!d.update) return;
  DenseUpdate<T>& update = *d.update;
  const auto size = static_cast<std::size_t>(rows * k);
  const std::span<T> tile = gradient.first(size);
  linear_forward<T>(exec, MatrixView<T>(tile.data(), rows, k), x, y, nullptr, false);
  sum_of_squares<T>(exec, tile, &update.squares);
  const auto part = [&](T* values) {
    return std::span<T>(values ? values + begin * k : nullptr, values ? size : 0);
  };
  adam_update<T>(exec, part(update.theta), part(update.m), part(update.v), tile, update.step,
                 update.decoupled);
  update.applied = true;
}

template <class T>
void LowRank<T>::backward_begin(const Exec& exec, NodeView<const T> delta) const {
  const Index k = u.cols;
  const Index w = delta.channels;
  const Index cols = delta.cols;
  clear(exec, dq.data, dq.size());
  const Index tile = tile_rows(exec, u.rows, k);
  for (Index begin = 0; begin < u.rows; begin += tile) {
    const Index rows = std::min(tile, u.rows - begin);
    const MatrixView<const T> d = some_rows<T>(by_row(delta), begin, rows);
    linear_backward_weight<T>(exec, dq, some_rows<T>(u, begin, rows), d, scratch);
    weight_backward(exec, du, begin, rows, d, q);
  }
  const MatrixView<T> dq_rows(dq.data, k * cols, w);
  const MatrixView<T> s_rows(s.data, k * cols, a.value.cols);
  // dA takes this rank's share of dq: the step's allreduce adds the shares of all ranks.
  if (a.gradient.data) linear_backward_weight<T>(exec, a.gradient, dq_rows, s_rows, scratch);
  reducer->sum_begin(std::span<T>(dq.data, static_cast<std::size_t>(dq.size())));
}

template <class T>
void LowRank<T>::backward_end(const Exec& exec, NodeView<const T> z, NodeView<T> dz) const {
  const Index k = v.cols;
  reducer->sum_end();
  const MatrixView<T> dq_rows(dq.data, k * z.cols, a.value.rows);
  const MatrixView<T> ds_rows(s.data, k * z.cols, z.channels);
  clear(exec, s.data, s.size());
  linear_backward_input<T>(exec, ds_rows, dq_rows, a.value);
  scale_all(exec, std::span<T>(s.data, static_cast<std::size_t>(s.size())), inverse_n);
  const Index tile = tile_rows(exec, v.rows, k);
  for (Index begin = 0; begin < v.rows; begin += tile) {
    const Index rows = std::min(tile, v.rows - begin);
    if (dz.data)
      linear_backward_input<T>(exec, MatrixView<T>(dz.row(begin), rows, dz.width()),
                               some_rows<T>(v, begin, rows), s);
    weight_backward(exec, dv, begin, rows, some_rows<T>(by_row(z), begin, rows), s);
  }
}

template <class T>
SelfTerm<T> SelfTerm<T>::forward(Tape<T>& tape, const RelationTerm<T>& term, const WeightBlock<T>& a,
                                 NodeView<T> h, NodeView<const T> z) {
  Arena& arena = tape.memory();
  SelfTerm self{term.weight->data(tape.exec().device),
                tape.recording() ? term.weight->gradient_target() : nullptr,
                a,
                {arena.take<T>(z.size()).data(), z.rows, z.cols, z.channels},
                {arena.take<T>(z.size()).data(), z.rows, z.cols, z.channels},
                arena.take<T>(linear_scratch_size(z.rows * z.cols, h.channels, z.channels))};
  weigh_rows_forward(tape.exec(), self.context, self.s, z);
  linear_forward<T>(tape.exec(), by_column(h), by_column(self.context), a.value, nullptr, true);
  return self;
}

template <class T>
void SelfTerm<T>::backward(const Exec& exec, NodeView<const T> delta, NodeView<const T> z,
                           NodeView<T> dz) const {
  if (a.gradient.data)
    linear_backward_weight<T>(exec, a.gradient, by_column(delta), by_column(NodeView<const T>(context)),
                              scratch);
  clear(exec, d_context.data, d_context.size());
  linear_backward_input<T>(exec, by_column(d_context), by_column(delta), a.value);
  weigh_rows_backward(exec, dz, ds, s, NodeView<const T>(d_context), z);
}

template struct LowRank<float>;
template struct LowRank<double>;
template struct SelfTerm<float>;
template struct SelfTerm<double>;

}  // namespace rossby::detail
