#pragma once

#include <cstdint>
#include <type_traits>

#include "rossby/kernels/device/launch.hpp"

namespace rossby::ROSSBY_DEVICE {

/// Neighbouring channels that one load reads.
template <class T, int n>
struct alignas(sizeof(T) * n) Run {
  T value[n];
};

/// Channels of a run in 16 bytes.
template <class T>
inline constexpr int whole_run = static_cast<int>(16 / sizeof(T));

/// True if one load can read every run of a view.
template <class T>
bool in_runs(const NodeView<T>& view) {
  constexpr int n = whole_run<std::remove_const_t<T>>;
  return view.channels % n == 0 && view.row_stride % n == 0 && view.col_stride % n == 0 &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0;
}

template <int n, class T>
ROSSBY_ON_DEVICE Run<std::remove_const_t<T>, n> load(T* at) {
  return *reinterpret_cast<const Run<std::remove_const_t<T>, n>*>(at);
}

template <int n, class T>
ROSSBY_ON_DEVICE void store(T* at, const Run<T, n>& run) {
  *reinterpret_cast<Run<T, n>*>(at) = run;
}

}  // namespace rossby::ROSSBY_DEVICE
