#include "rossby/kernels/gru.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/backends.hpp"

namespace rossby {
namespace {

template <class A, class... B>
void require_same_shape(const NodeView<A>& a, const NodeView<B>&... b) {
  require(((a.rows == b.rows && a.cols == b.cols && a.channels == b.channels) && ...),
          "operands of a gate have one shape");
}

/// A gradient that may be skipped has the shape or no data.
template <class A, class B>
void require_absent_or_same(const NodeView<A>& a, const NodeView<B>& b) {
  if (a.data) require_same_shape(a, b);
}

}  // namespace

template <class T>
void gru_reset_forward(const Exec& exec, NodeView<T> r, NodeView<T> y, NodeView<const T> h, const T* bias) {
  require_same_shape(r, y, h);
  ROSSBY_DISPATCH(gru_reset_forward, exec, r, y, h, bias);
}

template <class T>
void gru_reset_backward(const Exec& exec, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  require_same_shape(da, dy, r, h);
  require_absent_or_same(dh, dy);
  ROSSBY_DISPATCH(gru_reset_backward, exec, da, dh, dy, r, h);
}

template <class T>
void gru_output_forward(const Exec& exec, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u, const T* bias_c) {
  require_same_shape(u, c, y, h);
  ROSSBY_DISPATCH(gru_output_forward, exec, u, c, y, h, bias_u, bias_c);
}

template <class T>
void gru_output_backward(const Exec& exec, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  require_same_shape(da_u, da_c, dy, u, c, h);
  require_absent_or_same(dh, dy);
  ROSSBY_DISPATCH(gru_output_backward, exec, da_u, da_c, dh, dy, u, c, h);
}

#define ROSSBY_INSTANTIATE(T)                                                                              \
  template void gru_reset_forward(const Exec&, NodeView<T>, NodeView<T>, NodeView<const T>, const T*);     \
  template void gru_reset_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<const T>,               \
                                   NodeView<const T>, NodeView<const T>);                                  \
  template void gru_output_forward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>,  \
                                   const T*, const T*);                                                    \
  template void gru_output_backward(const Exec&, NodeView<T>, NodeView<T>, NodeView<T>, NodeView<const T>, \
                                    NodeView<const T>, NodeView<const T>, NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
