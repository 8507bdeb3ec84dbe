#include "rossby/kernels/table_loss.hpp"

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/elementwise.hpp"
#include "rossby/kernels/cpu/simd/linear.hpp"
#include "rossby/kernels/cpu/simd/losses.hpp"
#include "rossby/kernels/cpu/table_blocks.hpp"

namespace rossby::cpu {
namespace {

// The few arrays of a block's values that a kernel keeps fit the first-level cache.
constexpr Index block_values = 1024, most_block_rows = 64;

/// Nodes per block if a node has `width` values.
Index block_rows(Index width) {
  return std::clamp<Index>(block_values / std::max<Index>(1, width), 1, most_block_rows);
}

/// Rows of a partial sum: whole blocks; depends on the shape alone.
Index sum_rows(Index n, Index width) {
  const Index rows = block_rows(width);
  const Index wanted =
      std::max((n + reduction_blocks - 1) / reduction_blocks, flat_piece / std::max<Index>(1, width));
  return std::max<Index>(1, (wanted + rows - 1) / rows) * rows;
}

template <class T>
using Block = std::array<T, most_table_loss_width>;

/// to (rows, columns, d) = nodes [first, first + rows) of the table's columns.
template <class T>
void read_block(const ColumnKernels<T>& kernels, const TableColumns<T>& z, Index n, Index d, Index first,
                Index rows, T* to) {
  const Index width = std::ssize(z.times) * d;
  for_each_group(z.table, z.times, n, d, first, [&](Index b, Index count, const T* const* from) {
    for (Index q = 0; q < count; ++q) ask_ahead(from[q], rows * d);
    kernels.join(rows, count, d, from, to + b * d, width);
  });
}

template <class T>
void add_block(const ColumnKernels<T>& kernels, const TableGradient<T>& dz, Index n, Index d, Index first,
               Index rows, const T* from) {
  const Index width = std::ssize(dz.times) * d;
  const Index* begins = dz.begins.empty() ? nullptr : dz.begins.data();
  for_each_group(dz.to, dz.times, n, d, first, [&](Index b, Index count, T* const* to) {
    kernels.split_add(rows, count, d, to, begins ? begins + b : nullptr, from + b * d, width);
  });
}

}  // namespace

template <class T>
void table_difference(const Exec& exec, const TableGradient<T>& dz, const GradientOut<T>& dx,
                      const TableColumns<T>& z, NodeView<const T> x, bool through_tanh, double scale,
                      double* sum) {
  const Index n = x.rows, d = x.channels, width = x.width(), rows = block_rows(width);
  const ColumnKernels<T>& columns = kernels_of<ColumnKernels, T>(exec.isa);
  const ElementwiseKernels<T>& elementwise = kernels_of<ElementwiseKernels, T>(exec.isa);
  const LossKernels<T>& losses = kernels_of<LossKernels, T>(exec.isa);
  const T factor = static_cast<T>(2 * scale);
  *sum += reduce_blocks(exec, n, sum_rows(n, width), x.size(), [&](Index begin, Index end) {
    alignas(64) Block<T> target, predicted, slope;
    double part = 0;
    for (Index first = begin; first < end; first += rows) {
      const Index count = std::min(rows, end - first), size = count * width;
      read_block(columns, z, n, d, first, count, target.data());
      const T* p = x.row(first);
      if (through_tanh) {
        elementwise.tanh(size, predicted.data(), p);
        p = predicted.data();
      }
      T* const to_x = dx.to.data ? dx.to.row(first) : nullptr;
      T* const dp = to_x && through_tanh ? slope.data() : to_x;
      T* const dt = dz.to ? target.data() : nullptr;
      if (!dt && !dp) {
        part += losses.squared_difference_sum(size, target.data(), p);
        continue;
      }
      part += losses.squared_difference_gradients(size, dt, false, dp, dp == to_x && dx.add, target.data(), p,
                                                  factor);
      if (dp != to_x) {
        if (!dx.add) std::fill_n(to_x, size, T(0));
        elementwise.tanh_backward(size, to_x, p, dp);
      }
      if (dt) add_block<T>(columns, dz, n, d, first, count, dt);
    }
    return part;
  });
}

namespace {

/// y = z·Wᵀ of `rows` rows.
template <class T>
void decode(Isa isa, Index rows, MatrixView<const T> weight, const T* z, T* y) {
  if (weight.size() == 1) return kernels_of<ElementwiseKernels, T>(isa).scale(rows, y, z, weight.data[0]);
  kernels_of<NarrowLinearKernels, T>(isa).multiply(rows, weight.cols, weight.rows, z, weight.data, 1,
                                                   weight.stride, nullptr, y, false);
}

/// dz = or += dy·W.
template <class T>
void give_back(Isa isa, Index rows, MatrixView<const T> weight, const T* dy, T* dz, bool add) {
  if (weight.size() != 1)
    return kernels_of<NarrowLinearKernels, T>(isa).multiply(rows, weight.rows, weight.cols, dy, weight.data,
                                                            weight.stride, 1, nullptr, dz, add);
  const ElementwiseKernels<T>& elementwise = kernels_of<ElementwiseKernels, T>(isa);
  (add ? elementwise.accumulate : elementwise.scale)(rows, dz, dy, weight.data[0]);
}

}  // namespace

// A decoder sees one node at one step at a time: rows of tables are read in place, run by run.
template <class T>
void table_decoded_error(const Exec& exec, const TableGradient<T>& dz, T* dweight, const TableColumns<T>& z,
                         MatrixView<const T> weight, const TableColumns<float>& x, Index n, Index d,
                         double scale, double* sum, std::span<T> scratch) {
  const Index m = weight.data ? weight.rows : d, cols = std::ssize(z.times);
  const Index covered = sum_rows(n, cols * std::max(d, m));
  const Index rows = std::max<Index>(1, block_values / std::max<Index>({1, d, m}));
  const LossKernels<T>& losses = kernels_of<LossKernels, T>(exec.isa);
  const T factor = static_cast<T>(2 * scale);
  *sum += reduce_blocks(exec, n, covered, n * cols * std::max(d, m), [&](Index begin, Index end) {
    alignas(64) Block<T> decoded, slope;
    T* const partial = dweight ? scratch.data() + begin / covered * m * d : nullptr;
    if (partial) std::fill_n(partial, m * d, T(0));
    double part = 0, single = 0;  // of the only weight, if there is one
    for (std::size_t b = 0; b < z.times.size(); ++b)
      for (Index first = begin; first < end; first += rows) {
        const Index count = std::min(rows, end - first);
        const T* const latents = z.table + (z.times[b] * n + first) * d;
        const float* const target = x.table + (x.times[b] * n + first) * m;
        T* const to = dz.to ? dz.to + (dz.times[b] * n + first) * d : nullptr;
        const bool add = dz.begins.empty() || dz.begins[b] == 0;
        const T* y = latents;
        if (weight.data) {
          decode(exec.isa, count, weight, latents, decoded.data());
          y = decoded.data();
        }
        if (!to && !partial) {
          part += losses.masked_squared_sum(count * m, y, target);
          continue;
        }
        // Without a decoder the slope is the latents' gradient.
        T* const dy = weight.data || add ? slope.data() : to;
        part += losses.masked_squared_gradient(count * m, dy, y, target, factor);
        if (partial && m * d == 1)
          single += losses.dot(count, dy, latents);
        else if (partial)
          kernels_of<NarrowLinearKernels, T>(exec.isa).outer(count, m, d, dy, latents, partial, d, 1);
        if (to && weight.data)
          give_back<T>(exec.isa, count, weight, dy, to, add);
        else if (to && add)
          kernels_of<ElementwiseKernels, T>(exec.isa).accumulate(count * d, to, dy, T(1));
      }
    if (partial && m * d == 1) partial[0] = static_cast<T>(single);
    return part;
  });
  for (Index k = 0; dweight && k < m * d; ++k) {
    double total = 0;
    for (Index first = 0; first < n; first += covered)
      total += static_cast<double>(scratch[static_cast<std::size_t>(first / covered * m * d + k)]);
    dweight[k] += static_cast<T>(total);
  }
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, table_difference, table_decoded_error)

namespace rossby {

Index table_decoded_error_scratch_size(Index rows, Index cols, Index out, Index in) {
  const Index covered = cpu::sum_rows(rows, cols * std::max(out, in));
  return (rows + covered - 1) / covered * out * in;
}

}  // namespace rossby
