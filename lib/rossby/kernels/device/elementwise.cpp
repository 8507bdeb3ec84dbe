#include "rossby/kernels/elementwise.hpp"

#include <cmath>

#include "rossby/kernels/activation.hpp"
#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/launch.hpp"
#include "rossby/kernels/device/values.hpp"
#include "rossby/kernels/gru.hpp"

namespace rossby::ROSSBY_DEVICE {

template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(exec, entries_of(y, x), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const T value = x.at(i, b)[c];
    T& to = y.at(i, b)[c];
    if (f == Activation::tanh)
      to = std::tanh(value);
    else if (f == Activation::sigmoid)
      to = sigmoid(value);
    else
      to = value < T(0) ? T(0) : value;
  });
}

template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  for_each_entry(exec, entries_of(dx, y, dy), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const T value = y.at(i, b)[c];
    T slope = value > T(0) ? T(1) : T(0);
    if (f == Activation::tanh) slope = T(1) - value * value;
    if (f == Activation::sigmoid) slope = value * (T(1) - value);
    dx.at(i, b)[c] += dy.at(i, b)[c] * slope;
  });
}

template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(exec, entries_of(y, x),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) { y.at(i, b)[c] = x.at(i, b)[c]; });
}

template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(exec, entries_of(y, a, b), [=] ROSSBY_ON_DEVICE(Index i, Index t, Index c) {
    y.at(i, t)[c] = a.at(i, t)[c] + b.at(i, t)[c];
  });
}

template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(exec, entries_of(y, x),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) { y.at(i, b)[c] = alpha * x.at(i, b)[c]; });
}

template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(exec, entries_of(y, x),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) { y.at(i, b)[c] += alpha * x.at(i, b)[c]; });
}

template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(exec, entries_of(y, a, b), [=] ROSSBY_ON_DEVICE(Index i, Index t, Index c) {
    y.at(i, t)[c] = a.at(i, t)[c] * b.at(i, t)[c];
  });
}

template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(exec, entries_of(y, a, b), [=] ROSSBY_ON_DEVICE(Index i, Index t, Index c) {
    y.at(i, t)[c] += a.at(i, t)[c] * b.at(i, t)[c];
  });
}

template <class T>
void affine_rows_forward(const Exec& exec, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x) {
  const T* factor = exec.device->on_device(scale);
  const T* offset = exec.device->on_device(shift);
  for_each_entry(exec, numbered(y), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    const Index k = i * y.channels + c;
    y.at(i, b)[c] = factor[k] * x.at(i, b)[c] + offset[k];
  });
}

template <class T>
void affine_rows_backward(const Exec& exec, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy) {
  const T* factor = exec.device->on_device(scale);
  for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    dx.at(i, b)[c] += factor[i * dx.channels + c] * dy.at(i, b)[c];
  });
}

template <class T>
void weigh_rows_forward(const Exec& exec, NodeView<T> y, const T* s, NodeView<const T> x) {
  for_each_entry(exec, numbered(y), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
    y.at(i, b)[c] = effective(s[i], true) * x.at(i, b)[c];
  });
}

template <class T>
void weigh_rows_backward(const Exec& exec, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x) {
  if (dx.data)
    for_each_entry(exec, numbered(dx), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index c) {
      dx.at(i, b)[c] += effective(s[i], true) * dy.at(i, b)[c];
    });
  if (ds)
    for_each(exec, x.rows, [=] ROSSBY_ON_DEVICE(Index i) {
      if (!passes_gradient(s[i], true)) return;
      T sum = T(0);
      for (Index b = 0; b < x.cols; ++b)
        for (Index c = 0; c < x.channels; ++c) sum += dy.at(i, b)[c] * x.at(i, b)[c];
      ds[i] += sum;
    });
}

template <class T>
void gru_reset_forward(const Exec& exec, NodeView<T> r, NodeView<T> y, NodeView<const T> h, const T* bias) {
  const Entries entries = bias ? numbered(y) : entries_of(y, r, h);
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T gate = sigmoid(bias ? r.at(i, b)[k] + bias[k] : r.at(i, b)[k]);
    r.at(i, b)[k] = gate;
    y.at(i, b)[k] = gate * h.at(i, b)[k];
  });
}

template <class T>
void gru_reset_backward(const Exec& exec, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  for_each_entry(exec, entries_of(dy, r, h, da, dh), [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T g = dy.at(i, b)[k], gate = r.at(i, b)[k];
    da.at(i, b)[k] += g * h.at(i, b)[k] * gate * (T(1) - gate);
    if (dh.data) dh.at(i, b)[k] += g * gate;
  });
}

template <class T>
void gru_output_forward(const Exec& exec, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u, const T* bias_c) {
  const Entries entries = bias_u || bias_c ? numbered(y) : entries_of(y, u, c, h);
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
    const T gate = sigmoid(bias_u ? u.at(i, b)[k] + bias_u[k] : u.at(i, b)[k]);
    const T candidate = std::tanh(bias_c ? c.at(i, b)[k] + bias_c[k] : c.at(i, b)[k]);
    u.at(i, b)[k] = gate;
    c.at(i, b)[k] = candidate;
    y.at(i, b)[k] = gate * h.at(i, b)[k] + (T(1) - gate) * candidate;
  });
}

template <class T>
void gru_output_backward(const Exec& exec, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  for_each_entry(exec, entries_of(dy, u, c, h, da_u, da_c, dh),
                 [=] ROSSBY_ON_DEVICE(Index i, Index b, Index k) {
                   const T g = dy.at(i, b)[k], gate = u.at(i, b)[k], candidate = c.at(i, b)[k];
                   da_u.at(i, b)[k] += g * (h.at(i, b)[k] - candidate) * gate * (T(1) - gate);
                   da_c.at(i, b)[k] += g * (T(1) - gate) * (T(1) - candidate * candidate);
                   if (dh.data) dh.at(i, b)[k] += g * gate;
                 });
}

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template void activation_forward(const Exec&, Activation, NodeView<T>, NodeView<const T>);               \
  template void activation_backward(const Exec&, Activation, NodeView<T>, NodeView<const T>,               \
                                    NodeView<const T>);                                                    \
  template void pack(const Exec&, NodeView<T>, NodeView<const T>);                                         \
  template void add(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);                       \
  template void scale(const Exec&, NodeView<T>, T, NodeView<const T>);                                     \
  template void accumulate(const Exec&, NodeView<T>, T, NodeView<const T>);                                \
  template void multiply(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);                  \
  template void multiply_accumulate(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);       \
  template void affine_rows_forward(const Exec&, NodeView<T>, std::span<const T>, std::span<const T>,      \
                                    NodeView<const T>);                                                    \
  template void affine_rows_backward(const Exec&, NodeView<T>, std::span<const T>, NodeView<const T>);     \
  template void weigh_rows_forward(const Exec&, NodeView<T>, const T*, NodeView<const T>);                 \
  template void weigh_rows_backward(const Exec&, NodeView<T>, T*, const T*, NodeView<const T>,             \
                                    NodeView<const T>);                                                    \
  template void gru_reset_forward(const Exec&, NodeView<T>, NodeView<T>, NodeView<const T>, const T*);     \
  template void gru_reset_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<const T>,               \
                                   NodeView<const T>, NodeView<const T>);                                  \
  template void gru_output_forward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>,  \
                                   const T*, const T*);                                                    \
  template void gru_output_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>, \
                                    NodeView<const T>, NodeView<const T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby::ROSSBY_DEVICE
