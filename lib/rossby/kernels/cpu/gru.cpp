#include "rossby/kernels/gru.hpp"

#include "rossby/kernels/cpu/loops.hpp"
#include "rossby/kernels/cpu/simd/gru.hpp"

namespace rossby::cpu {
namespace {

/// On the host, layers start from their bias at no cost, so a cell's gates never get one.
template <class T>
void add_bias(const Exec& exec, const NodeView<T>& a, const T* bias) {
  if (!bias) return;
  const Index rows_a_piece = std::max<Index>(1, flat_piece / std::max<Index>(1, a.width()));
  for_each_piece(exec, a.rows, rows_a_piece, a.size(), [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      for (Index b = 0; b < a.cols; ++b)
        for (Index k = 0; k < a.channels; ++k) a.at(i, b)[k] += bias[k];
  });
}

}  // namespace

template <class T>
void gru_reset_forward(const Exec& exec, NodeView<T> r, NodeView<T> y, NodeView<const T> h, const T* bias) {
  add_bias(exec, r, bias);
  for_each_run(exec, kernels_of<GruKernels, T>(exec.isa).reset, r, y, h);
}

template <class T>
void gru_reset_backward(const Exec& exec, NodeView<T> da, NodeView<T> dh, NodeView<const T> dy,
                        NodeView<const T> r, NodeView<const T> h) {
  const auto kernel = kernels_of<GruKernels, T>(exec.isa).reset_backward;
  if (dh.data) return for_each_run(exec, kernel, da, dh, dy, r, h);
  for_each_run(
      exec,
      [&](Index size, T* to, const T* g, const T* gate, const T* old) {
        kernel(size, to, nullptr, g, gate, old);
      },
      da, dy, r, h);
}

template <class T>
void gru_output_forward(const Exec& exec, NodeView<T> u, NodeView<T> c, NodeView<T> y, NodeView<const T> h,
                        const T* bias_u, const T* bias_c) {
  add_bias(exec, u, bias_u);
  add_bias(exec, c, bias_c);
  for_each_run(exec, kernels_of<GruKernels, T>(exec.isa).output, u, c, y, h);
}

template <class T>
void gru_output_backward(const Exec& exec, NodeView<T> da_u, NodeView<T> da_c, NodeView<T> dh,
                         NodeView<const T> dy, NodeView<const T> u, NodeView<const T> c,
                         NodeView<const T> h) {
  const auto kernel = kernels_of<GruKernels, T>(exec.isa).output_backward;
  if (dh.data) return for_each_run(exec, kernel, da_u, da_c, dh, dy, u, c, h);
  for_each_run(
      exec,
      [&](Index size, T* to_u, T* to_c, const T* g, const T* gate, const T* candidate, const T* old) {
        kernel(size, to_u, to_c, nullptr, g, gate, candidate, old);
      },
      da_u, da_c, dy, u, c, h);
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, gru_reset_forward, gru_reset_backward, gru_output_forward, gru_output_backward)
