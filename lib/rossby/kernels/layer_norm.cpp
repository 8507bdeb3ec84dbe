#include "rossby/kernels/layer_norm.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {
namespace {

template <class A, class... B>
void require_same_shape(const NodeView<A>& a, const NodeView<B>&... b) {
  require(((a.rows == b.rows && a.cols == b.cols && a.channels == b.channels) && ...),
          "operands of a layer normalisation have one shape");
}

template <class T>
void require_room(const Exec& exec, NodeView<const T> x, std::span<double> scratch) {
  require(std::ssize(scratch) >= layer_norm_scratch_size(exec, x.rows, x.cols),
          "a layer normalisation has scratch for sums of blocks of rows");
}

}  // namespace

template <class T>
void layer_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, std::span<double> scratch) {
  require_room(exec, x, scratch);
  ROSSBY_DISPATCH(layer_norm_sums, exec, sums, x, scratch);
}

template <class T>
void layer_norm_moments(const Exec& exec, Index cols, T* mean, T* inverse_deviation, const double* sums,
                        double epsilon) {
  require(epsilon > 0, "a layer normalisation has an epsilon above 0");
  ROSSBY_DISPATCH(layer_norm_moments, exec, cols, mean, inverse_deviation, sums, epsilon);
}

template <class T>
void layer_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean,
                        const T* inverse_deviation, const T* gain, const T* bias) {
  require_same_shape(y, x);
  ROSSBY_DISPATCH(layer_norm_forward, exec, y, x, mean, inverse_deviation, gain, bias);
}

template <class T>
void layer_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, const T* gain,
                              std::span<double> scratch) {
  require_same_shape(dy, x);
  require_room(exec, x, scratch);
  ROSSBY_DISPATCH(layer_norm_backward_sums, exec, sums, dy, x, mean, inverse_deviation, gain, scratch);
}

template <class T>
void layer_norm_backward_parameters(const Exec& exec, T* dgain, T* dbias, NodeView<const T> dy,
                                    NodeView<const T> x, const T* mean, const T* inverse_deviation) {
  require_same_shape(dy, x);
  ROSSBY_DISPATCH(layer_norm_backward_parameters, exec, dgain, dbias, dy, x, mean, inverse_deviation);
}

template <class T>
void layer_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* inverse_deviation, const T* gain, const double* sums,
                               const double* count) {
  require_same_shape(dx, dy, x);
  ROSSBY_DISPATCH(layer_norm_backward_input, exec, dx, dy, x, mean, inverse_deviation, gain, sums, count);
}

ROSSBY_FOR_SCALARS(ROSSBY_LAYER_NORM)

}  // namespace rossby
