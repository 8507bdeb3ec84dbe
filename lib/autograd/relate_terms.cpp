#include "rossby/autograd/relate_terms.hpp"

#include <algorithm>

#include "rossby/kernels/clamp.hpp"

namespace rossby::detail {

template <class T>
LowRank<T> LowRank<T>::reduce(Tape<T>& tape, const RelationBank<T>& bank, const RelationTerm<T>& term,
                              const WeightBlock<T>& a, NodeView<const T> z) {
  const Exec& exec = tape.exec();
  const Index k = term.u->shape.back();
  const Index w = a.value.rows;
  const Index out_width = z.cols * w;
  const Index scratch =
      std::max({linear_scratch_size(z.rows, k, z.width()), linear_scratch_size(z.rows, k, out_width),
                linear_scratch_size(k * z.cols, w, z.channels)});
  Arena& arena = tape.arena();
  LowRank term_data{{term.u->value.data(), z.rows, k},
                    {term.v->value.data(), z.rows, k},
                    tape.recording() ? term.u->gradient_target() : nullptr,
                    tape.recording() ? term.v->gradient_target() : nullptr,
                    a,
                    bank.reducer,
                    T(1) / static_cast<T>(bank.nodes),
                    {arena.take_zeroed<T>(k * z.width()).data(), k, z.width()},
                    {arena.take<T>(k * out_width).data(), k, out_width},
                    arena.take<T>(scratch)};
  linear_backward_weight<T>(exec, term_data.s, term_data.v, by_row(z), term_data.scratch);
  bank.reducer->sum(std::span<T>(term_data.s.data, static_cast<std::size_t>(term_data.s.size())));
  for (Index i = 0; i < term_data.s.size(); ++i) term_data.s.data[i] *= term_data.inverse_n;
  const MatrixView<T> s_rows(term_data.s.data, k * z.cols, z.channels);
  const MatrixView<T> q_rows(term_data.q.data, k * z.cols, w);
  linear_forward<T>(exec, q_rows, s_rows, a.value, nullptr, false);
  return term_data;
}

template <class T>
void LowRank<T>::apply(const Exec& exec, NodeView<T> h) const {
  linear_backward_input<T>(exec, by_row(h), u, q);
}

template <class T>
void LowRank<T>::backward(const Exec& exec, NodeView<const T> delta, NodeView<const T> z,
                          NodeView<T> dz) const {
  const Index k = u.cols;
  const Index w = delta.channels;
  // q is no longer needed once dU is known, s not once dA is: their memory takes dq and ds.
  if (du) linear_forward<T>(exec, MatrixView<T>(du, u.rows, k), by_row(delta), q, nullptr, true);
  std::fill_n(q.data, q.size(), T(0));
  linear_backward_weight<T>(exec, q, u, by_row(delta), scratch);
  const MatrixView<T> dq_rows(q.data, k * z.cols, w);
  const MatrixView<T> s_rows(s.data, k * z.cols, z.channels);
  // dA takes this rank's share of dq: the step's allreduce adds the shares of all ranks.
  if (a.gradient.data) linear_backward_weight<T>(exec, a.gradient, dq_rows, s_rows, scratch);
  reducer->sum(std::span<T>(q.data, static_cast<std::size_t>(q.size())));
  std::fill_n(s.data, s.size(), T(0));
  linear_backward_input<T>(exec, s_rows, dq_rows, a.value);
  for (Index i = 0; i < s.size(); ++i) s.data[i] *= inverse_n;
  if (dv) linear_forward<T>(exec, MatrixView<T>(dv, v.rows, k), by_row(z), s, nullptr, true);
  if (dz.data) linear_backward_input<T>(exec, by_row(dz), v, s);
}

template <class T>
SelfTerm<T> SelfTerm<T>::forward(Tape<T>& tape, const RelationTerm<T>& term, const WeightBlock<T>& a,
                                 NodeView<T> h, NodeView<const T> z) {
  Arena& arena = tape.arena();
  SelfTerm self{term.weight->value.data(),
                tape.recording() ? term.weight->gradient_target() : nullptr,
                a,
                {arena.take<T>(z.size()).data(), z.rows, z.cols, z.channels},
                {arena.take<T>(z.size()).data(), z.rows, z.cols, z.channels},
                arena.take<T>(linear_scratch_size(z.rows * z.cols, h.channels, z.channels))};
  for (Index i = 0; i < z.rows; ++i) {
    const T weight = effective(self.s[i], true);
    for (Index q = 0; q < z.width(); ++q) self.context.row(i)[q] = weight * z.row(i)[q];
  }
  linear_forward<T>(tape.exec(), by_column(h), by_column(self.context), a.value, nullptr, true);
  return self;
}

template <class T>
void SelfTerm<T>::backward(const Exec& exec, NodeView<const T> delta, NodeView<const T> z,
                           NodeView<T> dz) const {
  if (a.gradient.data)
    linear_backward_weight<T>(exec, a.gradient, by_column(delta), by_column(NodeView<const T>(context)),
                              scratch);
  std::fill_n(d_context.data, d_context.size(), T(0));
  linear_backward_input<T>(exec, by_column(d_context), by_column(delta), a.value);
  for (Index i = 0; i < z.rows; ++i) {
    const T* g = d_context.row(i);
    const T weight = effective(s[i], true);
    if (dz.data)
      for (Index q = 0; q < z.width(); ++q) dz.row(i)[q] += weight * g[q];
    if (!ds || !passes_gradient(s[i], true)) continue;
    T sum = 0;
    for (Index q = 0; q < z.width(); ++q) sum += g[q] * z.row(i)[q];
    ds[i] += sum;
  }
}

template struct LowRank<float>;
template struct LowRank<double>;
template struct SelfTerm<float>;
template struct SelfTerm<double>;

}  // namespace rossby::detail
