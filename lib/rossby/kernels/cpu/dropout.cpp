#include "rossby/kernels/dropout.hpp"

#include <cmath>

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/dropout.hpp"

namespace rossby::cpu {

template <class T>
void dropout_forward(const Exec& exec, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     const ColumnKeys& col_keys) {
  const T factor = static_cast<T>(1 / (1 - rate));
  // uniform() >= rate as a comparison of integers.
  const auto least = static_cast<std::uint64_t>(std::ceil(std::ldexp(rate, 53)));
  const DropoutKernels<T>& kernels = kernels_of<DropoutKernels, T>(exec.isa);
  const Index piece = std::max<Index>(1, flat_piece / std::max<Index>(1, y.width()));
  const bool whole_rows = y.col_stride == y.channels && x.col_stride == x.channels;
  for_each_piece(exec, y.rows, piece, y.size() * 16, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) {
      const Random row = random.at(static_cast<std::uint64_t>(row_keys[i]));
      for (Index b = 0; b < y.cols; ++b) {
        const auto counter = static_cast<std::uint64_t>(col_keys[b] * y.channels);
        std::uint8_t* mask = keep.data() + (i * y.cols + b) * y.channels;
        kernels.draw(y.channels, mask, row.key(), counter, least);
        if (!whole_rows) kernels.apply(y.channels, y.at(i, b), x.at(i, b), mask, factor);
      }
      if (whole_rows) kernels.apply(y.width(), y.at(i, 0), x.at(i, 0), keep.data() + i * y.width(), factor);
    }
  });
}

template <class T>
void dropout_backward(const Exec& exec, NodeView<T> dx, NodeView<const T> dy,
                      std::span<const std::uint8_t> keep, double rate) {
  const T factor = static_cast<T>(1 / (1 - rate));
  const DropoutKernels<T>& kernels = kernels_of<DropoutKernels, T>(exec.isa);
  const NodeView<const std::uint8_t> mask(keep.data(), dy.rows, dy.cols, dy.channels);
  for_each_run(
      exec,
      [&](Index size, T* to, const T* from, const std::uint8_t* kept) {
        kernels.apply_backward(size, to, from, kept, factor);
      },
      dx, dy, mask);
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, dropout_forward, dropout_backward)
