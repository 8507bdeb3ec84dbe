#include "rossby/kernels/batch_norm.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {
namespace {

template <class A, class... B>
void require_same_shape(const NodeView<A>& a, const NodeView<B>&... b) {
  require(((a.rows == b.rows && a.cols == b.cols && a.channels == b.channels) && ...),
          "operands of a normalisation have one shape");
}

template <class T>
void require_room(const Exec& exec, NodeView<const T> x, std::span<double> scratch) {
  require(std::ssize(scratch) >= batch_norm_scratch_size(exec, x.rows, x.channels),
          "a normalisation has scratch for sums of blocks of rows");
}

}  // namespace

template <class T>
void batch_norm_sums(const Exec& exec, double* sums, NodeView<const T> x, const T* shift,
                     std::span<double> scratch) {
  require_room(exec, x, scratch);
  ROSSBY_DISPATCH(batch_norm_sums, exec, sums, x, shift, scratch);
}

template <class T>
void batch_norm_factors(const Exec& exec, Index channels, const BatchNormFactors<T>& to, const double* sums,
                        const T* gain, const BatchNormRunning<T>& running) {
  ROSSBY_DISPATCH(batch_norm_factors, exec, channels, to, sums, gain, running);
}

template <class T>
void batch_norm_forward(const Exec& exec, NodeView<T> y, NodeView<const T> x, const T* mean, const T* factor,
                        const T* bias) {
  require_same_shape(y, x);
  ROSSBY_DISPATCH(batch_norm_forward, exec, y, x, mean, factor, bias);
}

template <class T>
void batch_norm_backward_sums(const Exec& exec, double* sums, NodeView<const T> dy, NodeView<const T> x,
                              const T* mean, const T* inverse_deviation, std::span<double> scratch) {
  require_same_shape(dy, x);
  require_room(exec, x, scratch);
  ROSSBY_DISPATCH(batch_norm_backward_sums, exec, sums, dy, x, mean, inverse_deviation, scratch);
}

template <class T>
void batch_norm_backward_parameters(const Exec& exec, Index channels, T* dgain, T* dbias,
                                    const double* sums) {
  ROSSBY_DISPATCH(batch_norm_backward_parameters, exec, channels, dgain, dbias, sums);
}

template <class T>
void batch_norm_slopes(const Exec& exec, Index channels, T* offset, T* slope, const double* sums,
                       const double* count, const T* inverse_deviation) {
  ROSSBY_DISPATCH(batch_norm_slopes, exec, channels, offset, slope, sums, count, inverse_deviation);
}

template <class T>
void batch_norm_backward_input(const Exec& exec, NodeView<T> dx, NodeView<const T> dy, NodeView<const T> x,
                               const T* mean, const T* factor, const T* offset, const T* slope) {
  require_same_shape(dx, dy, x);
  ROSSBY_DISPATCH(batch_norm_backward_input, exec, dx, dy, x, mean, factor, offset, slope);
}

ROSSBY_FOR_SCALARS(ROSSBY_BATCH_NORM)

}  // namespace rossby
