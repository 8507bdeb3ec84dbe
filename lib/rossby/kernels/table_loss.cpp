#include "rossby/kernels/table_loss.hpp"

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/table_loss_backends.hpp"

namespace rossby {
namespace {

bool all_within(std::span<const Index> times, Index steps) {
  return std::all_of(times.begin(), times.end(), [steps](Index t) { return t >= 0 && t < steps; });
}

template <class T>
void check(const TableGradient<T>& dz, const TableColumns<T>& z) {
  require(all_within(z.times, z.steps), "times lie inside the table");
  if (!dz.to) return;
  require(dz.times.size() == z.times.size() && all_within(dz.times, dz.steps),
          "a column's gradient has a row of its own table");
  require(dz.begins.empty() || dz.begins.size() == z.times.size(), "a sum begins or goes on, one a column");
}

}  // namespace

template <class T>
void table_difference(const Exec& exec, const TableGradient<T>& dz, const GradientOut<T>& dx,
                      const TableColumns<T>& z, NodeView<const T> x, bool through_tanh, double scale,
                      double* sum) {
  check(dz, z);
  require(!exec.device && x.packed() && x.cols == std::ssize(z.times) && x.width() <= most_table_loss_width,
          "packed node data of the host has a column for each row of the table");
  require(!dx.to.data || (dx.to.packed() && dx.to.rows == x.rows && dx.to.cols == x.cols &&
                          dx.to.channels == x.channels),
          "operands of a kernel have one shape");
  if (exec.backend == Backend::reference)
    return reference::table_difference(exec, dz, dx, z, x, through_tanh, scale, sum);
  cpu::table_difference(exec, dz, dx, z, x, through_tanh, scale, sum);
}

template <class T>
void table_decoded_error(const Exec& exec, const TableGradient<T>& dz, T* dweight, const TableColumns<T>& z,
                         MatrixView<const T> weight, const TableColumns<float>& x, Index rows, Index channels,
                         double scale, double* sum, std::span<T> scratch) {
  check(dz, z);
  const Index cols = std::ssize(z.times), outputs = weight.data ? weight.rows : channels;
  require(!exec.device && x.times.size() == z.times.size() && all_within(x.times, x.steps),
          "a row of the targets is one of the host's table, one a column");
  require(std::max(channels, outputs) <= most_table_loss_width && weight.size() <= most_decoder_weights,
          "a decoder is small");
  require(!weight.data || (weight.cols == channels && weight.stride == channels),
          "a decoder has an input a channel");
  require(weight.data || !dweight, "there is a decoder, or no gradient of one");
  if (exec.backend == Backend::reference)
    return reference::table_decoded_error(exec, dz, dweight, z, weight, x, rows, channels, scale, sum,
                                          scratch);
  require(!dweight || std::ssize(scratch) >= table_decoded_error_scratch_size(rows, cols, outputs, channels),
          "scratch holds partial sums of the decoder's gradient");
  cpu::table_decoded_error(exec, dz, dweight, z, weight, x, rows, channels, scale, sum, scratch);
}

ROSSBY_TABLE_LOSSES(template, float)
ROSSBY_TABLE_LOSSES(template, double)

}  // namespace rossby
