// The one place that chooses a back end, and that checks what the contracts ask for.

#include <algorithm>

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"
#include "rossby/kernels/dropout.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/embed.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/reductions.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {
namespace {

constexpr const char* shapes_differ = "operands of a kernel have one shape";

template <class A, class... B>
bool same_shape(const NodeView<A>& a, const NodeView<B>&... b) {
  return ((a.rows == b.rows && a.cols == b.cols && a.channels == b.channels) && ...);
}

/// A gradient that may be skipped has the shape or no data.
template <class A, class B>
bool absent_or_same(const NodeView<A>& a, const NodeView<B>& b) {
  return !a.data || same_shape(a, b);
}

bool all_within(std::span<const Index> values, Index size) {
  return std::all_of(values.begin(), values.end(), [size](Index v) { return v >= 0 && v < size; });
}

}  // namespace

void settle(const Exec& exec) {
  if (exec.device) exec.device->settle();
}

template <class T>
void activation_forward(const Exec& exec, Activation f, NodeView<T> y, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  ROSSBY_DISPATCH(activation_forward, exec, f, y, x);
}

template <class T>
void activation_backward(const Exec& exec, Activation f, NodeView<T> dx, NodeView<const T> y,
                         NodeView<const T> dy) {
  require(same_shape(dx, y, dy), shapes_differ);
  ROSSBY_DISPATCH(activation_backward, exec, f, dx, y, dy);
}

template <class T>
void pack(const Exec& exec, NodeView<T> y, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  ROSSBY_DISPATCH(pack, exec, y, x);
}

template <class T>
void add(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  ROSSBY_DISPATCH(add, exec, y, a, b);
}

template <class T>
void scale(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  ROSSBY_DISPATCH(scale, exec, y, alpha, x);
}

template <class T>
void accumulate(const Exec& exec, NodeView<T> y, T alpha, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  ROSSBY_DISPATCH(accumulate, exec, y, alpha, x);
}

template <class T>
void multiply(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  ROSSBY_DISPATCH(multiply, exec, y, a, b);
}

template <class T>
void multiply_accumulate(const Exec& exec, NodeView<T> y, NodeView<const T> a, NodeView<const T> b) {
  require(same_shape(y, a, b), shapes_differ);
  ROSSBY_DISPATCH(multiply_accumulate, exec, y, a, b);
}

template <class T>
void affine_rows_forward(const Exec& exec, NodeView<T> y, std::span<const T> scale, std::span<const T> shift,
                         NodeView<const T> x) {
  require(same_shape(y, x) && std::ssize(scale) == y.rows * y.channels && shift.size() == scale.size(),
          "rows are scaled by a factor and a shift for every row and channel");
  ROSSBY_DISPATCH(affine_rows_forward, exec, y, scale, shift, x);
}

template <class T>
void affine_rows_backward(const Exec& exec, NodeView<T> dx, std::span<const T> scale, NodeView<const T> dy) {
  require(same_shape(dx, dy) && std::ssize(scale) == dx.rows * dx.channels,
          "rows are scaled by a factor for every row and channel");
  ROSSBY_DISPATCH(affine_rows_backward, exec, dx, scale, dy);
}

template <class T>
void weigh_rows_forward(const Exec& exec, NodeView<T> y, const T* s, NodeView<const T> x) {
  require(same_shape(y, x), shapes_differ);
  ROSSBY_DISPATCH(weigh_rows_forward, exec, y, s, x);
}

template <class T>
void weigh_rows_backward(const Exec& exec, NodeView<T> dx, T* ds, const T* s, NodeView<const T> dy,
                         NodeView<const T> x) {
  require(same_shape(dy, x) && (!dx.data || same_shape(dx, x)), shapes_differ);
  ROSSBY_DISPATCH(weigh_rows_backward, exec, dx, ds, s, dy, x);
}

template <class T>
void linear_forward(const Exec& exec, MatrixView<T> y, MatrixView<const T> x, MatrixView<const T> weight,
                    const T* bias, bool accumulate) {
  require(y.rows == x.rows && y.cols == weight.rows && x.cols == weight.cols,
          "a dense layer maps (m, in) to (m, out) by a weight of (out, in)");
  ROSSBY_DISPATCH(linear_forward, exec, y, x, weight, bias, accumulate);
}

template <class T>
void linear_backward_input(const Exec& exec, MatrixView<T> dx, MatrixView<const T> dy,
                           MatrixView<const T> weight, bool accumulate) {
  require(dx.rows == dy.rows && dy.cols == weight.rows && dx.cols == weight.cols,
          "a dense layer's adjoint maps (m, out) to (m, in) by a weight of (out, in)");
  ROSSBY_DISPATCH(linear_backward_input, exec, dx, dy, weight, accumulate);
}

template <class T>
void linear_backward_weight(const Exec& exec, MatrixView<T> dweight, MatrixView<const T> dy,
                            MatrixView<const T> x, std::span<T> scratch) {
  require(x.rows == dy.rows && dy.cols == dweight.rows && x.cols == dweight.cols,
          "a weight gradient of (out, in) comes from (m, out) and (m, in)");
  require(std::ssize(scratch) >= linear_scratch_size(x.rows, dweight.rows, dweight.cols),
          "the scratch is large enough");
  ROSSBY_DISPATCH(linear_backward_weight, exec, dweight, dy, x, scratch);
}

template <class T>
void column_sum(const Exec& exec, T* dbias, MatrixView<const T> dy, std::span<T> scratch) {
  require(std::ssize(scratch) >= linear_scratch_size(dy.rows, dy.cols, 1), "the scratch is large enough");
  ROSSBY_DISPATCH(column_sum, exec, dbias, dy, scratch);
}

template <class T>
void bias_add(const Exec& exec, MatrixView<T> y, const T* bias) {
  ROSSBY_DISPATCH(bias_add, exec, y, bias);
}

template <class T>
void embed_columns_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps,
                           std::span<const Index> times) {
  require(out.cols == std::ssize(times) && all_within(times, steps),
          "times lie inside the table, one a column");
  ROSSBY_DISPATCH(embed_columns_forward, exec, out, table, times);
}

template <class T>
void embed_columns_backward(const Exec& exec, T* dtable, Index steps, NodeView<const T> dout,
                            std::span<const Index> times, std::span<const Index> begins) {
  require(dout.cols == std::ssize(times) && all_within(times, steps),
          "times lie inside the table, one a column");
  require(begins.empty() || begins.size() == times.size(), "a sum begins or goes on, one a column");
  ROSSBY_DISPATCH(embed_columns_backward, exec, dtable, dout, times, begins);
}

template <class T>
void embed_pairs_forward(const Exec& exec, NodeView<T> out, const T* table, Index steps, Index n,
                         std::span<const Index> times, std::span<const Index> rows) {
  require(out.rows == std::ssize(times) && times.size() == rows.size() && out.cols == 1,
          "one time and one row a pair");
  require(all_within(times, steps) && all_within(rows, n), "pairs lie inside the table");
  ROSSBY_DISPATCH(embed_pairs_forward, exec, out, table, n, times, rows);
}

template <class T>
void embed_pairs_backward(const Exec& exec, T* dtable, Index steps, Index n, NodeView<const T> dout,
                          std::span<const Index> times, std::span<const Index> rows) {
  require(dout.rows == std::ssize(times) && times.size() == rows.size() && dout.cols == 1,
          "one time and one row a pair");
  require(all_within(times, steps) && all_within(rows, n), "pairs lie inside the table");
  ROSSBY_DISPATCH(embed_pairs_backward, exec, dtable, n, dout, times, rows);
}

template <class T>
void masked_error_sum(const Exec& exec, MaskedError kind, NodeView<const T> prediction,
                      NodeView<const float> target, double* sum) {
  require(same_shape(prediction, target), shapes_differ);
  ROSSBY_DISPATCH(masked_error_sum, exec, kind, prediction, target, sum);
}

template <class T>
void masked_error_backward(const Exec& exec, MaskedError kind, NodeView<T> dprediction,
                           NodeView<const T> prediction, NodeView<const float> target, double scale) {
  require(same_shape(dprediction, prediction, target), shapes_differ);
  ROSSBY_DISPATCH(masked_error_backward, exec, kind, dprediction, prediction, target, scale);
}

template <class T>
void squared_difference_sum(const Exec& exec, NodeView<const T> a, NodeView<const T> b, double* sum) {
  require(same_shape(a, b), shapes_differ);
  ROSSBY_DISPATCH(squared_difference_sum, exec, a, b, sum);
}

template <class T>
void squared_difference_gradients(const Exec& exec, const GradientOut<T>& da, const GradientOut<T>& db,
                                  NodeView<const T> a, NodeView<const T> b, double scale, double* sum) {
  require(same_shape(a, b) && absent_or_same(da.to, a) && absent_or_same(db.to, a), shapes_differ);
  ROSSBY_DISPATCH(squared_difference_gradients, exec, da, db, a, b, scale, sum);
}

template <class T>
void dropout_forward(const Exec& exec, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     const ColumnKeys& col_keys) {
  require(same_shape(y, x) && std::ssize(keep) == x.size(), "dropout keeps one byte a value");
  require(std::ssize(row_keys) == x.rows &&
              (x.cols == 0 || (!col_keys.windows.empty() && x.cols % std::ssize(col_keys.windows) == 0)),
          "dropout needs a key a row and a column");
  require(rate >= 0 && rate < 1, "a dropout rate lies in [0, 1)");
  ROSSBY_DISPATCH(dropout_forward, exec, y, keep, x, rate, random, row_keys, col_keys);
}

template <class T>
void dropout_backward(const Exec& exec, NodeView<T> dx, NodeView<const T> dy,
                      std::span<const std::uint8_t> keep, double rate) {
  require(same_shape(dx, dy) && std::ssize(keep) == dy.size(), "dropout keeps one byte a value");
  ROSSBY_DISPATCH(dropout_backward, exec, dx, dy, keep, rate);
}

template <class T>
void sum_of_squares(const Exec& exec, std::span<const T> x, double* sum) {
  ROSSBY_DISPATCH(sum_of_squares, exec, x, sum);
}

template <class T>
Index first_non_finite(const Exec& exec, std::span<const T> x) {
  ROSSBY_DISPATCH(first_non_finite, exec, x);
}

template <class T>
void clamp_unit(const Exec& exec, std::span<T> y, std::span<const T> m) {
  require(y.size() == m.size(), shapes_differ);
  ROSSBY_DISPATCH(clamp_unit, exec, y, m);
}

template <class T>
void clamp_l1_sum(const Exec& exec, std::span<const T> m, double* sum) {
  ROSSBY_DISPATCH(clamp_l1_sum, exec, m, sum);
}

template <class T>
void clamp_l1_backward(const Exec& exec, std::span<T> dm, std::span<const T> m, double scale) {
  require(dm.size() == m.size(), shapes_differ);
  ROSSBY_DISPATCH(clamp_l1_backward, exec, dm, m, scale);
}

#define ROSSBY_INSTANTIATE(T)                                                                                \
  template void activation_forward(const Exec&, Activation, NodeView<T>, NodeView<const T>);                 \
  template void activation_backward(const Exec&, Activation, NodeView<T>, NodeView<const T>,                 \
                                    NodeView<const T>);                                                      \
  template void dropout_forward(const Exec&, NodeView<T>, std::span<std::uint8_t>, NodeView<const T>,        \
                                double, const Random&, std::span<const Index>, const ColumnKeys&);           \
  template void dropout_backward(const Exec&, NodeView<T>, NodeView<const T>, std::span<const std::uint8_t>, \
                                 double);                                                                    \
  template void pack(const Exec&, NodeView<T>, NodeView<const T>);                                           \
  template void add(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);                         \
  template void scale(const Exec&, NodeView<T>, T, NodeView<const T>);                                       \
  template void accumulate(const Exec&, NodeView<T>, T, NodeView<const T>);                                  \
  template void multiply(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);                    \
  template void multiply_accumulate(const Exec&, NodeView<T>, NodeView<const T>, NodeView<const T>);         \
  template void affine_rows_forward(const Exec&, NodeView<T>, std::span<const T>, std::span<const T>,        \
                                    NodeView<const T>);                                                      \
  template void affine_rows_backward(const Exec&, NodeView<T>, std::span<const T>, NodeView<const T>);       \
  template void weigh_rows_forward(const Exec&, NodeView<T>, const T*, NodeView<const T>);                   \
  template void weigh_rows_backward(const Exec&, NodeView<T>, T*, const T*, NodeView<const T>,               \
                                    NodeView<const T>);                                                      \
  template void embed_columns_forward(const Exec&, NodeView<T>, const T*, Index, std::span<const Index>);    \
  template void embed_columns_backward(const Exec&, T*, Index, NodeView<const T>, std::span<const Index>,    \
                                       std::span<const Index>);                                              \
  template void embed_pairs_forward(const Exec&, NodeView<T>, const T*, Index, Index,                        \
                                    std::span<const Index>, std::span<const Index>);                         \
  template void embed_pairs_backward(const Exec&, T*, Index, Index, NodeView<const T>,                       \
                                     std::span<const Index>, std::span<const Index>);                        \
  template void bias_add(const Exec&, MatrixView<T>, const T*);                                              \
  template void linear_forward(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>,         \
                               const T*, bool);                                                              \
  template void linear_backward_input(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>,  \
                                      bool);                                                                 \
  template void linear_backward_weight(const Exec&, MatrixView<T>, MatrixView<const T>, MatrixView<const T>, \
                                       std::span<T>);                                                        \
  template void column_sum(const Exec&, T*, MatrixView<const T>, std::span<T>);                              \
  template void masked_error_sum(const Exec&, MaskedError, NodeView<const T>, NodeView<const float>,         \
                                 double*);                                                                   \
  template void masked_error_backward(const Exec&, MaskedError, NodeView<T>, NodeView<const T>,              \
                                      NodeView<const float>, double);                                        \
  template void squared_difference_sum(const Exec&, NodeView<const T>, NodeView<const T>, double*);          \
  template void squared_difference_gradients(const Exec&, const GradientOut<T>&, const GradientOut<T>&,      \
                                             NodeView<const T>, NodeView<const T>, double, double*);         \
  template void sum_of_squares(const Exec&, std::span<const T>, double*);                                    \
  template Index first_non_finite(const Exec&, std::span<const T>);                                          \
  template void clamp_unit(const Exec&, std::span<T>, std::span<const T>);                                   \
  template void clamp_l1_sum(const Exec&, std::span<const T>, double*);                                      \
  template void clamp_l1_backward(const Exec&, std::span<T>, std::span<const T>, double);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
