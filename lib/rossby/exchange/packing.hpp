#pragma once

#include <algorithm>
#include <span>

#include "rossby/base/index.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// out (1, cols, channels) = row i of `from`, contiguous.
template <class T>
void pack_row(NodeView<const T> from, Index i, T* out) {
  if (from.col_stride == from.channels) {
    std::copy_n(from.row(i), from.width(), out);
    return;
  }
  for (Index b = 0; b < from.cols; ++b) std::copy_n(from.at(i, b), from.channels, out + b * from.channels);
}

/// Row i of `to` += in (1, cols, channels), contiguous.
template <class T>
void add_row(const T* in, NodeView<T> to, Index i) {
  for (Index b = 0; b < to.cols; ++b) {
    T* out = to.at(i, b);
    const T* values = in + b * to.channels;
    for (Index c = 0; c < to.channels; ++c) out[c] += values[c];
  }
}

/// out (rows.size(), cols, channels) = the listed rows of `from`, packed.
template <class T>
void pack_rows(NodeView<const T> from, std::span<const LocalColumn> rows, T* out) {
  for (const LocalColumn row : rows) {
    pack_row(from, row, out);
    out += from.width();
  }
}

/// The listed rows of `to` += in (rows.size(), cols, channels), in list order. A row listed twice gets both.
template <class T>
void add_rows(const T* in, NodeView<T> to, std::span<const LocalColumn> rows) {
  for (const LocalColumn row : rows) {
    add_row(in, to, row);
    in += to.width();
  }
}

}  // namespace rossby
