#include "rossby/kernels/relate_dense.hpp"

#include "rossby/kernels/clamp.hpp"

// The truth: the sums of the contract, written out.

namespace rossby::reference {
namespace {

/// f(k, i, j, position, effective weight) for every entry that exists.
template <class T, class Visit>
void each_entry(const DenseRelate<T>& relate, const Visit& visit) {
  for (int k = 0; k < relate.relations; ++k)
    for (Index i = 0; i < relate.rows; ++i)
      for (Index j = 0; j < relate.columns; ++j) {
        const Index e = (k * relate.rows + i) * relate.columns + j;
        const bool exists = !relate.pattern || relate.pattern[e];
        visit(k, i, j, e, exists, exists ? effective(relate.stored(e), relate.clamped) : T(0));
      }
}

/// The same in double, with one rounding.
void update_bf16_entry(DenseUpdate<float>& update, Index e, double gradient, const RoundingBits& random) {
  const Bf16Arrays& arrays = update.bf16;
  double theta = widen(arrays.theta[e]), v = widen(arrays.v[e]), m = arrays.m ? widen(arrays.m[e]) : 0;
  adam_update<double>({Backend::reference}, {&theta, 1}, {&m, arrays.m ? std::size_t{1} : 0}, {&v, 1},
                      {&gradient, 1}, update.step, update.decoupled);
  arrays.theta[e] = round_stochastic(static_cast<float>(theta), random.theta);
  arrays.v[e] = round_stochastic(static_cast<float>(v), random.v);
  if (arrays.m) arrays.m[e] = round_stochastic(static_cast<float>(m), random.m);
}

template <class T>
void update_entry(DenseUpdate<T>& update, Index e, T gradient) {
  adam_update<T>({Backend::reference}, {update.theta + e, 1},
                 {update.m ? update.m + e : nullptr, update.m ? std::size_t{1} : 0}, {update.v + e, 1},
                 {&gradient, 1}, update.step, update.decoupled);
}

/// Updates one entry; the gradient is zero if it does not pass.
template <class T>
void pass_to_update(DenseUpdate<T>& update, const DenseRelate<T>& relate, const RoundingBits& random, Index e,
                    bool exists, T gradient) {
  gradient = exists && passes_gradient(relate.stored(e), relate.clamped)
                 ? gradient + static_cast<T>(update.l1)
                 : T(0);
  *update.squares_to() += double{gradient} * double{gradient};
  if constexpr (std::is_same_v<T, float>)
    if (relate.bf16) return update_bf16_entry(update, e, gradient, random);
  update_entry(update, e, gradient);
}

}  // namespace

template <class T>
void relate_dense_forward(const Exec&, NodeView<T> h, const DenseRelate<T>& relate, NodeView<const T> z,
                          std::span<T>) {
  const Index d = relate.a.cols / relate.relations;
  if (relate.context) std::fill_n(relate.context, relate.relations * relate.rows * z.width(), T(0));
  each_entry(relate, [&](int k, Index i, Index j, Index, bool, T weight) {
    if (relate.weight_sum) *relate.weight_sum += double{weight};
    for (Index b = 0; b < h.cols; ++b)
      for (Index f = 0; f < d; ++f) {
        const T product = weight * z.at(j, b)[f];
        if (relate.context) relate.context[(k * relate.rows + i) * z.width() + b * d + f] += product;
        for (Index o = 0; o < h.channels; ++o) h.at(i, b)[o] += product * relate.a.row(o)[k * d + f];
      }
  });
}

template <class T>
void relate_dense_backward(const Exec&, NodeView<T> dz, MatrixView<T> da, DenseGradient<T> dm,
                           const DenseRelate<T>& relate, NodeView<const T> delta, NodeView<const T> z,
                           std::span<T>) {
  const Index d = relate.a.cols / relate.relations;
  each_entry(relate, [&](int k, Index i, Index j, Index e, bool exists, T weight) {
    T gradient = 0;
    for (Index b = 0; b < delta.cols; ++b)
      for (Index o = 0; o < delta.channels; ++o)
        for (Index f = 0; f < d; ++f) {
          const T g = delta.at(i, b)[o];
          const T a = relate.a.row(o)[k * d + f];
          if (dz.data) dz.at(j, b)[f] += weight * g * a;
          if (da.data) da.row(o)[k * d + f] += weight * g * z.at(j, b)[f];
          gradient += g * a * z.at(j, b)[f];
        }
    if (dm.buffer && exists && passes_gradient(relate.stored(e), relate.clamped)) dm.buffer[e] += gradient;
    if (dm.update)
      pass_to_update(*dm.update, relate, {dm.update->bf16.rounding.row(k, i), j}, e, exists, gradient);
  });
}

template <class T>
void relate_dense_update(const Exec&, DenseUpdate<T>& update, const DenseRelate<T>& relate,
                         const T* gradient) {
  each_entry(relate, [&](int k, Index i, Index j, Index e, bool exists, T) {
    pass_to_update(update, relate, {update.bf16.rounding.row(k, i), j}, e, exists, gradient[e]);
  });
}

template <class T>
Index relate_dense_workspace(const Exec&, const DenseRelate<T>&, Index, Index) {
  return 0;
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, relate_dense_workspace, relate_dense_forward, relate_dense_backward,
                 relate_dense_update)
