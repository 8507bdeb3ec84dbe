#include "rossby/autograd/recurrent.hpp"

#include "rossby/autograd/costs.hpp"
#include "rossby/autograd/record.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/gru.hpp"
#include "rossby/tensor/device.hpp"

namespace rossby {
namespace {

using detail::count;
using detail::finish;
using detail::read;

}  // namespace

bool gates_add_bias(const Exec& exec) {
  return on_device(exec.backend) && !exec.device->driver().stands_for_host();
}

template <class T>
Var<T> gru_reset(Tape<T>& tape, const Var<T>& a, const Var<T>& h, const T* bias) {
  const Var<T> y = tape.make(h.rows(), h.cols(), h.channels(), a.tracked() || h.tracked());
  gru_reset_forward(tape.exec(), a.value, y.value, read(h.value), bias);
  require(a.tracked() || !y.tracked(), "a gate's pre-activation is tracked where the state is");
  tape.touches(y, a, h);
  finish(tape, "gru_reset", costs::gru_reset(count(y), sizeof(T)), y.tracked(),
         [exec = tape.exec(), a, h, y] {
           gru_reset_backward(exec, a.gradient, h.gradient, read(y.gradient), read(a.value), read(h.value));
         });
  return y;
}

template <class T>
Var<T> gru_output(Tape<T>& tape, const Var<T>& a_u, const Var<T>& a_c, const Var<T>& h, const T* bias_u,
                  const T* bias_c) {
  const Var<T> y = tape.make(h.rows(), h.cols(), h.channels(), a_u.tracked() || a_c.tracked() || h.tracked());
  gru_output_forward(tape.exec(), a_u.value, a_c.value, y.value, read(h.value), bias_u, bias_c);
  require((a_u.tracked() && a_c.tracked()) || !y.tracked(),
          "a gate's pre-activation is tracked where the state is");
  tape.touches(y, a_u, a_c, h);
  finish(tape, "gru_output", costs::gru_output(count(y), sizeof(T)), y.tracked(),
         [exec = tape.exec(), a_u, a_c, h, y] {
           gru_output_backward(exec, a_u.gradient, a_c.gradient, h.gradient, read(y.gradient),
                               read(a_u.value), read(a_c.value), read(h.value));
         });
  return y;
}

template <class T>
void assign(Tape<T>& tape, const Var<T>& y, const Var<T>& x) {
  require(y.tracked() || !tape.recording() || !x.tracked(),
          "what is assigned to is tracked where its source is");
  pack(tape.exec(), y.value, read(x.value));
  if (BlockTrace* trace = tape.trace())
    trace->same(y.value.data, static_cast<std::size_t>(y.value.size()) * sizeof(T), x.value.data);
  tape.touches(y, x);
  finish(tape, "assign", costs::assign(count(y), sizeof(T)), x.tracked(),
         [exec = tape.exec(), x, y] { accumulate(exec, x.gradient, T{1}, read(y.gradient)); });
}

template <class T>
Var<T> affine_rows(Tape<T>& tape, const Var<T>& x, const T* scale, const T* shift) {
  const Var<T> y = tape.make(x.rows(), x.cols(), x.channels(), x.tracked());
  const auto size = static_cast<std::size_t>(x.rows() * x.channels());
  const std::span<const T> factors(scale, size), offsets(shift, size);
  affine_rows_forward(tape.exec(), y.value, factors, offsets, read(x.value));
  tape.touches(y, x);
  finish(tape, "affine_rows", costs::affine_rows(count(y), sizeof(T)), y.tracked(),
         [exec = tape.exec(), x, y, factors] {
           affine_rows_backward(exec, x.gradient, factors, read(y.gradient));
         });
  return y;
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template Var<T> gru_reset(Tape<T>&, const Var<T>&, const Var<T>&, const T*);                           \
  template Var<T> gru_output(Tape<T>&, const Var<T>&, const Var<T>&, const Var<T>&, const T*, const T*); \
  template void assign(Tape<T>&, const Var<T>&, const Var<T>&);                                          \
  template Var<T> affine_rows(Tape<T>&, const Var<T>&, const T*, const T*);
ROSSBY_INSTANTIATE(float)
ROSSBY_INSTANTIATE(double)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
