#include "rossby/kernels/elementwise.hpp"

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/device/backend.hpp"

namespace rossby::ROSSBY_DEVICE {

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

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(pack, add, scale, accumulate, multiply, multiply_accumulate, affine_rows_forward,
                        affine_rows_backward, weigh_rows_forward, weigh_rows_backward)
