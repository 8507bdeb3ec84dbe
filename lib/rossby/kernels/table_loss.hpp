#pragma once

#include <span>

#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/loss.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

// Losses of a table's rows and their gradients in one pass over memory. Intermediate results of embed.hpp,
// activation.hpp, linear.hpp and loss.hpp stay in the first-level cache. Host only: devices use the separate
// kernels. Tables are (steps, n, d), packed; times lie in [0, steps). Sums are taken in double over blocks of
// rows that depend on the shape alone, in a fixed order.

/// Rows of a table as the columns of node data: column b is row times[b].
template <class T>
struct TableColumns {
  const T* table = nullptr;
  Index steps = 0;
  std::span<const Index> times;
};

/// Target of the gradients of columns: to[times[b], i] += …, repeated times in column order. If begins[b] is
/// not zero, the sum starts afresh; an empty `begins` means all zero. If `to` is null, no gradient is
/// written.
template <class T>
struct TableGradient {
  T* to = nullptr;
  Index steps = 0;
  std::span<const Index> times, begins;
};

/// The most values per node that these kernels take: in all columns of x, or in one column of a decoder's.
inline constexpr Index most_table_loss_width = 2048;
/// The most weights of a decoder.
inline constexpr Index most_decoder_weights = 1024;

/// Throws BugError unless all times lie in their tables.
template <class T>
void check_columns(const TableGradient<T>& dz, const TableColumns<T>& z) {
  require(all_within(z.times, z.steps), "times lie inside the table");
  if (!dz.to) return;
  require(dz.times.size() == z.times.size() && all_within(dz.times, dz.steps),
          "a column's gradient has a row of its own table");
  require(dz.begins.empty() || dz.begins.size() == z.times.size(), "a sum begins or goes on, one a column");
}

/// *sum += Σ (z − f(x))² over x (n, B, d), packed, f tanh or the identity, together with its gradients: dz +=
/// 2·scale·(z − f(x)), dx = or −= the same times f'(x).
template <class T>
void table_difference(const Exec& exec, const TableGradient<T>& dz, const GradientOut<T>& dx,
                      const TableColumns<T>& z, NodeView<const T> x, bool through_tanh, double scale,
                      double* sum) {
  check_columns(dz, z);
  require(!exec.device && x.packed() && x.cols == std::ssize(z.times) && x.width() <= most_table_loss_width,
          "packed node data of the host has a column for each row of the table");
  require(!dx.to.data || (dx.to.packed() && dx.to.rows == x.rows && dx.to.cols == x.cols &&
                          dx.to.channels == x.channels),
          "operands of a kernel have one shape");
  run_on_host<table_difference<T>>(exec, dz, dx, z, x, through_tanh, scale, sum);
}

/// Scratch values of table_decoded_error over `rows` nodes and `cols` columns, decoded from `in` to `out`
/// channels.
[[nodiscard]] Index table_decoded_error_scratch_size(Index rows, Index cols, Index out, Index in);

/// *sum += Σ (z·Wᵀ − x)² over `rows` nodes and the entries of x (its columns, m channels) that are not NaN,
/// together with its gradients: with e = 2·scale·(z·Wᵀ − x), dz += e·W and dW += eᵀ·z. `weight` is (m, d), or
/// has no data: then z itself is compared. dW has the weight's layout, or is null.
template <class T>
void table_decoded_error(const Exec& exec, const TableGradient<T>& dz, T* dweight, const TableColumns<T>& z,
                         MatrixView<const T> weight, const TableColumns<float>& x, Index rows, Index channels,
                         double scale, double* sum, std::span<T> scratch) {
  check_columns(dz, z);
  const Index cols = std::ssize(z.times), outputs = weight.data ? weight.rows : channels;
  require(!exec.device && x.times.size() == z.times.size() && all_within(x.times, x.steps),
          "a row of the targets is one of the host's table, one a column");
  require(std::max(channels, outputs) <= most_table_loss_width && weight.size() <= most_decoder_weights,
          "a decoder is small");
  require(!weight.data || (weight.cols == channels && weight.stride == channels),
          "a decoder has an input a channel");
  require(weight.data || !dweight, "there is a decoder, or no gradient of one");
  require(!dweight || exec.backend == Backend::reference ||
              std::ssize(scratch) >= table_decoded_error_scratch_size(rows, cols, outputs, channels),
          "scratch holds partial sums of the decoder's gradient");
  run_on_host<table_decoded_error<T>>(exec, dz, dweight, z, weight, x, rows, channels, scale, sum, scratch);
}

}  // namespace rossby
