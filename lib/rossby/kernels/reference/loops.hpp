#pragma once

#include "rossby/tensor/view.hpp"

namespace rossby::reference {

/// f(i, b, c) for every entry of a view's shape, rows first.
template <class T, class F>
void for_each_entry(NodeView<T> shape, const F& f) {
  for (Index i = 0; i < shape.rows; ++i)
    for (Index b = 0; b < shape.cols; ++b)
      for (Index c = 0; c < shape.channels; ++c) f(i, b, c);
}

/// Entry (i, b, c) of a view.
template <class T>
T& entry(NodeView<T> view, Index i, Index b, Index c) {
  return view.at(i, b)[c];
}

}  // namespace rossby::reference
