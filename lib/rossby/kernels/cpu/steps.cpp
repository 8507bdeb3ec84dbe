#include "rossby/kernels/steps.hpp"

#include <algorithm>
#include <cmath>

#include "rossby/kernels/cpu/loops.hpp"

namespace rossby::cpu {
namespace {

constexpr Index block_rows = 64;  // their columns stay in the first-level cache

/// Calls f(i, b) over blocks of rows, with columns outside: each step's rows are read contiguously.
template <class F>
void for_each_place(const Exec& exec, Index rows, Index cols, Index channels, const F& f) {
  for_each_piece(exec, rows, block_rows, rows * cols * channels, [&](Index first, Index last) {
    for (Index b = 0; b < cols; ++b)
      for (Index i = first; i < last; ++i) f(i, b);
  });
}

}  // namespace

template <class T>
void read_steps(const Exec& exec, NodeView<T> out, std::span<const float* const> steps,
                const StepScale<T>& scale, std::span<const float> extra) {
  const Index m = scale.features, more = out.channels - m;
  for_each_place(exec, out.rows, out.cols, out.channels, [&](Index i, Index b) {
    const float* x = steps[static_cast<std::size_t>(b)] + i * m;
    T* to = out.at(i, b);
    for (Index f = 0; f < m; ++f) {
      const auto k = static_cast<std::size_t>(i * m + f);
      to[f] = std::isnan(x[f]) ? scale.fill[k] : (static_cast<T>(x[f]) - scale.shift[k]) * scale.inverse[k];
    }
    for (Index f = 0; f < more; ++f)
      to[m + f] = static_cast<T>(extra[static_cast<std::size_t>(b * more + f)]);
  });
}

template <class T>
void copy_steps(const Exec& exec, NodeView<T> out, std::span<const T* const> steps) {
  const Index m = out.channels;
  for_each_place(exec, out.rows, out.cols, m, [&](Index i, Index b) {
    std::copy_n(steps[static_cast<std::size_t>(b)] + i * m, m, out.at(i, b));
  });
}

}  // namespace rossby::cpu

ROSSBY_IMPLEMENT(cpu, read_steps, copy_steps)
