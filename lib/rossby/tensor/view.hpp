#pragma once

#include <concepts>
#include <type_traits>

#include "rossby/base/index.hpp"

namespace rossby {

/// Node data (rows, cols, channels) without ownership: `rows` nodes, `cols` time steps or windows, channels
/// contiguous. Packed data hold one node's columns side by side (row_stride = cols·channels, col_stride =
/// channels). Without moving data, a row is then one message unit, a sparse product sees (rows ×
/// cols·channels), and a dense layer (rows·cols × channels). Strided views read other layouts in place, such
/// as Z (T, n, d) with row_stride = d and col_stride = n·d.
template <class T>
struct NodeView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index channels = 0;
  Index row_stride = 0;
  Index col_stride = 0;

  constexpr NodeView() = default;
  constexpr NodeView(T* d, Index r, Index b, Index c)
      : data(d), rows(r), cols(b), channels(c), row_stride(b * c), col_stride(c) {}
  constexpr NodeView(T* d, Index r, Index b, Index c, Index rs, Index cs)
      : data(d), rows(r), cols(b), channels(c), row_stride(rs), col_stride(cs) {}
  template <class U>
  requires(std::same_as<const U, T> && !std::is_const_v<U>) constexpr NodeView(const NodeView<U>& other)
      : NodeView(other.data, other.rows, other.cols, other.channels, other.row_stride, other.col_stride) {}

  [[nodiscard]] constexpr T* row(Index i) const { return data + i * row_stride; }
  [[nodiscard]] constexpr T* at(Index i, Index b) const { return data + i * row_stride + b * col_stride; }
  [[nodiscard]] constexpr Index width() const { return cols * channels; }
  [[nodiscard]] constexpr Index size() const { return rows * cols * channels; }
  [[nodiscard]] constexpr bool packed() const {
    return (col_stride == channels || cols <= 1) && (row_stride == cols * channels || rows <= 1);
  }
};

/// A row-major matrix without ownership.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0;
  Index cols = 0;
  Index stride = 0;

  constexpr MatrixView() = default;
  constexpr MatrixView(T* d, Index r, Index c) : data(d), rows(r), cols(c), stride(c) {}
  constexpr MatrixView(T* d, Index r, Index c, Index s) : data(d), rows(r), cols(c), stride(s) {}
  template <class U>
  requires(std::same_as<const U, T> && !std::is_const_v<U>) constexpr MatrixView(const MatrixView<U>& other)
      : MatrixView(other.data, other.rows, other.cols, other.stride) {}

  [[nodiscard]] constexpr T* row(Index i) const { return data + i * stride; }
  [[nodiscard]] constexpr Index size() const { return rows * cols; }
};

}  // namespace rossby
