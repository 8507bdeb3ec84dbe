#include "rossby/kernels/elementwise.hpp"

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"

namespace rossby::cpu {

template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x) {
  for_each_run(
      exec, [](Index size, T* to, const T* from) { std::copy_n(from, size, to); }, y, x);
}

template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, kernels_of<ElementwiseKernels, T>(exec.isa).add, y, a, b);
}

template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  const auto f = kernels_of<ElementwiseKernels, T>(exec.isa).scale;
  for_each_run(
      exec, [=](Index size, T* out, const T* in) { f(size, out, in, alpha); }, y, x);
}

template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  const auto f = kernels_of<ElementwiseKernels, T>(exec.isa).accumulate;
  for_each_run(
      exec, [=](Index size, T* out, const T* in) { f(size, out, in, alpha); }, y, x);
}

template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, kernels_of<ElementwiseKernels, T>(exec.isa).multiply, y, a, b);
}

template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_run(exec, kernels_of<ElementwiseKernels, T>(exec.isa).multiply_accumulate, y, a, b);
}

/// f(i, b) over rows, in pieces.
template <class F>
void for_each_place(const Exec& exec, Index rows, Index cols, Index channels, const F& f) {
  const Index piece = std::max<Index>(1, flat_piece / std::max<Index>(1, cols * channels));
  for_each_piece(exec, rows, piece, rows * cols * channels, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index b = 0; b < cols; ++b) f(i, b);
  });
}

template <class T>
void affine_rows_forward(const Exec& exec, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x) {
  for_each_place(exec, y.rows, y.cols, y.channels, [&](Index i, Index b) {
    const T *factor = scale.data() + i * y.channels, *offset = shift.data() + i * y.channels;
    const T* from = x.at(i, b);
    T* to = y.at(i, b);
    for (Index c = 0; c < y.channels; ++c) to[c] = factor[c] * from[c] + offset[c];
  });
}

template <class T>
void affine_rows_backward(const Exec& exec, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy) {
  for_each_place(exec, dx.rows, dx.cols, dx.channels, [&](Index i, Index b) {
    const T* factor = scale.data() + i * dx.channels;
    const T* from = dy.at(i, b);
    T* to = dx.at(i, b);
    for (Index c = 0; c < dx.channels; ++c) to[c] += factor[c] * from[c];
  });
}

template <class T>
void weigh_rows_forward(const Exec& exec, NodeView<T> y, const T* s, NodeView<const T> x) {
  for_each_place(exec, y.rows, y.cols, y.channels, [&](Index i, Index b) {
    const T weight = effective(s[i], true);
    const T* from = x.at(i, b);
    T* to = y.at(i, b);
    for (Index c = 0; c < y.channels; ++c) to[c] = weight * from[c];
  });
}

template <class T>
void weigh_rows_backward(const Exec& exec, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x) {
  const Index rows = std::max<Index>(1, flat_piece / std::max<Index>(1, x.width()));
  for_each_piece(exec, x.rows, rows, x.size(), [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const T weight = effective(s[i], true);
      T sum = T(0);
      for (Index b = 0; b < x.cols; ++b) {
        const T *g = dy.at(i, b), *from = x.at(i, b);
        T* to = dx.data ? dx.at(i, b) : nullptr;
        for (Index c = 0; c < x.channels; ++c) {
          if (to) to[c] += weight * g[c];
          sum += g[c] * from[c];
        }
      }
      if (ds && passes_gradient(s[i], true)) ds[i] += sum;
    }
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, pack, add, scale, accumulate, multiply, multiply_accumulate, affine_rows_forward,
                 affine_rows_backward, weigh_rows_forward, weigh_rows_backward)
