#include "rossby/kernels/elementwise.hpp"

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/reference/loops.hpp"

namespace rossby::reference {

template <class T>
void pack(const Exec&, NodeView<T> y, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) { entry(y, i, b, c) = entry(x, i, b, c); });
}

template <class T>
void add(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) = static_cast<T>(double{entry(a, i, t, c)} + double{entry(b, i, t, c)});
  });
}

template <class T>
void scale(const Exec&, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>(double{alpha} * double{entry(x, i, b, c)});
  });
}

template <class T>
void accumulate(const Exec&, NodeView<T> y, T alpha, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>(double{entry(y, i, b, c)} + double{alpha} * double{entry(x, i, b, c)});
  });
}

template <class T>
void multiply(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) = static_cast<T>(double{entry(a, i, t, c)} * double{entry(b, i, t, c)});
  });
}

template <class T>
void multiply_accumulate(const Exec&, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  for_each_entry(y, [&](Index i, Index t, Index c) {
    entry(y, i, t, c) =
        static_cast<T>(double{entry(y, i, t, c)} + double{entry(a, i, t, c)} * double{entry(b, i, t, c)});
  });
}

template <class T>
void affine_rows_forward(const Exec&, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    const auto k = static_cast<std::size_t>(i * y.channels + c);
    entry(y, i, b, c) = static_cast<T>(double{scale[k]} * double{entry(x, i, b, c)} + double{shift[k]});
  });
}

template <class T>
void affine_rows_backward(const Exec&, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy) {
  for_each_entry(dx, [&](Index i, Index b, Index c) {
    const auto k = static_cast<std::size_t>(i * dx.channels + c);
    entry(dx, i, b, c) =
        static_cast<T>(double{entry(dx, i, b, c)} + double{scale[k]} * double{entry(dy, i, b, c)});
  });
}

template <class T>
void weigh_rows_forward(const Exec&, NodeView<T> y, const T* s, NodeView<const T> x) {
  for_each_entry(y, [&](Index i, Index b, Index c) {
    entry(y, i, b, c) = static_cast<T>(double{effective(s[i], true)} * double{entry(x, i, b, c)});
  });
}

template <class T>
void weigh_rows_backward(const Exec&, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x) {
  if (dx.data)
    for_each_entry(dx, [&](Index i, Index b, Index c) {
      entry(dx, i, b, c) = static_cast<T>(double{entry(dx, i, b, c)} +
                                          double{effective(s[i], true)} * double{entry(dy, i, b, c)});
    });
  for (Index i = 0; ds && i < x.rows; ++i) {
    double sum = 0;
    for (Index b = 0; b < x.cols; ++b)
      for (Index c = 0; c < x.channels; ++c) sum += double{entry(dy, i, b, c)} * double{entry(x, i, b, c)};
    if (passes_gradient(s[i], true)) ds[i] = static_cast<T>(double{ds[i]} + sum);
  }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, pack, add, scale, accumulate, multiply, multiply_accumulate, affine_rows_forward,
                 affine_rows_backward, weigh_rows_forward, weigh_rows_backward)
