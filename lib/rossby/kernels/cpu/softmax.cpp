#include "rossby/kernels/softmax.hpp"

#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {

// Rows are independent and cost one exponential per value, so this uses the reference's loops with a few rows
// per thread.

namespace {

constexpr Index rows_a_piece = 16;

template <class V>
MatrixView<V> some_rows(MatrixView<V> m, Index first, Index last) {
  return {m.row(first), last - first, m.cols, m.stride};
}

template <class V>
std::span<V> flags_of(std::span<V> flags, Index cols, Index first, Index last) {
  return flags.subspan(static_cast<std::size_t>(first * cols),
                       static_cast<std::size_t>((last - first) * cols));
}

}  // namespace

template <class T>
void softmax_relu_forward(const Exec& exec, MatrixView<T> a, std::span<std::uint8_t> positive) {
  for_each_piece(exec, a.rows, rows_a_piece, a.size(), [&](Index first, Index last) {
    Implementation<rossby::softmax_relu_forward<T>>::reference()(exec, some_rows(a, first, last),
                                                                 flags_of(positive, a.cols, first, last));
  });
}

template <class T>
void softmax_relu_backward(const Exec& exec, MatrixView<T> d, MatrixView<const T> a,
                           std::span<const std::uint8_t> positive) {
  for_each_piece(exec, d.rows, rows_a_piece, d.size(), [&](Index first, Index last) {
    Implementation<rossby::softmax_relu_backward<T>>::reference()(
        exec, some_rows(d, first, last), some_rows(a, first, last), flags_of(positive, d.cols, first, last));
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, softmax_relu_forward, softmax_relu_backward)
