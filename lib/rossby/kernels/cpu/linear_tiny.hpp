#pragma once

// Dense layers with one or a few inputs or outputs, for which a GEMM call costs more than the products. Every
// function does nothing and returns false if the shape suits GEMM.

#include <array>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby::cpu::tiny {

inline constexpr Index few = 4;             // inputs or outputs that count as few
inline constexpr Index most_weights = 256;  // maximum to copy to the stack
inline constexpr Index few_products = 4096;

inline bool is_tiny(Index m, Index in, Index out) {
  return in <= few || out <= few || m * in * out <= few_products;
}

/// Copies W (out, in) with stride to packed Wᵀ (in, out).
template <class T>
void transpose(MatrixView<const T> weight, T* packed) {
  for (Index o = 0; o < weight.rows; ++o)
    for (Index k = 0; k < weight.cols; ++k) packed[k * weight.rows + o] = weight.row(o)[k];
}

/// Σ a[k]·b[k].
template <class T>
T dot(Index size, const T* a, const T* b) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (Index k = 0; k < size; ++k) sum += a[k] * b[k];
  return sum;
}

/// y = or += x·Wᵀ.
template <class T>
bool forward(MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight, bool add) {
  const Index out = weight.rows;
  const Index in = weight.cols;
  if (!is_tiny(y.rows, in, out)) return false;
  if (in == 1 && out == 1 && x.stride == 1 && y.stride == 1) {
    const T w = weight.data[0];
    if (add)
      for (Index i = 0; i < y.rows; ++i) y.data[i] += w * x.data[i];
    else
      for (Index i = 0; i < y.rows; ++i) y.data[i] = w * x.data[i];
    return true;
  }
  if (in <= few && out > 1 && weight.size() <= most_weights) {
    std::array<T, most_weights> packed;
    transpose(weight, packed.data());
    for (Index i = 0; i < y.rows; ++i) {
      T* to = y.row(i);
      const T* from = x.row(i);
      if (!add) std::fill_n(to, out, T{0});
      for (Index k = 0; k < in; ++k)
        for (Index o = 0; o < out; ++o) to[o] += from[k] * packed[static_cast<std::size_t>(k * out + o)];
    }
    return true;
  }
  if (in <= few && out > few && y.rows * weight.size() > few_products) return false;
  for (Index i = 0; i < y.rows; ++i)
    for (Index o = 0; o < out; ++o) {
      const T value = dot(in, x.row(i), weight.row(o));
      y.row(i)[o] = add ? y.row(i)[o] + value : value;
    }
  return true;
}

/// dx += dy·W.
template <class T>
bool backward_input(MatrixView<T> dx, MatrixView<const T> dy, MatrixView<const T> weight) {
  const Index out = weight.rows;
  const Index in = weight.cols;
  if (!is_tiny(dx.rows, in, out)) return false;
  if (in == 1 && out == 1 && dx.stride == 1 && dy.stride == 1) {
    const T w = weight.data[0];
    for (Index i = 0; i < dx.rows; ++i) dx.data[i] += w * dy.data[i];
    return true;
  }
  if (in <= few && out > few) {
    if (weight.size() > most_weights) return false;
    std::array<T, most_weights> packed;
    transpose(weight, packed.data());
    for (Index i = 0; i < dx.rows; ++i)
      for (Index k = 0; k < in; ++k) dx.row(i)[k] += dot(out, dy.row(i), packed.data() + k * out);
    return true;
  }
  for (Index i = 0; i < dx.rows; ++i)
    for (Index o = 0; o < out; ++o) {
      const T g = dy.row(i)[o];
      for (Index k = 0; k < in; ++k) dx.row(i)[k] += g * weight.row(o)[k];
    }
  return true;
}

/// dW += dyᵀ·x.
template <class T>
bool outer(MatrixView<T> dweight, MatrixView<const T> dy, MatrixView<const T> x) {
  const Index out = dweight.rows;
  const Index in = dweight.cols;
  if (!is_tiny(x.rows, in, out)) return false;
  if (in == 1 && out == 1) {
    dweight.data[0] += static_cast<T>(sum_lanes(
        x.rows, [&](Index i) { return double{dy.data[i * dy.stride]} * double{x.data[i * x.stride]}; }));
    return true;
  }
  if (in <= few && out > few) {
    if (dweight.size() > most_weights) return false;
    std::array<T, most_weights> packed{};
    for (Index i = 0; i < x.rows; ++i)
      for (Index k = 0; k < in; ++k)
        for (Index o = 0; o < out; ++o)
          packed[static_cast<std::size_t>(k * out + o)] += x.row(i)[k] * dy.row(i)[o];
    for (Index o = 0; o < out; ++o)
      for (Index k = 0; k < in; ++k) dweight.row(o)[k] += packed[static_cast<std::size_t>(k * out + o)];
    return true;
  }
  for (Index i = 0; i < x.rows; ++i)
    for (Index o = 0; o < out; ++o) {
      const T g = dy.row(i)[o];
      for (Index k = 0; k < in; ++k) dweight.row(o)[k] += g * x.row(i)[k];
    }
  return true;
}

}  // namespace rossby::cpu::tiny
