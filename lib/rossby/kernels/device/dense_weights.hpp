#pragma once

#include <type_traits>

#include "rossby/kernels/clamp.hpp"
#include "rossby/kernels/device/launch.hpp"
#include "rossby/kernels/relate_dense.hpp"

namespace rossby::ROSSBY_DEVICE {

/// Effective weights of dense relations, on the device.
template <class T>
struct DenseWeights {
  Index rows, columns;
  const T* weight;
  const Bf16* bf16;
  const std::uint8_t* pattern;
  bool clamped;

  DenseWeights(const Exec& exec, const DenseRelate<T>& relate)
      : rows(relate.rows),
        columns(relate.columns),
        weight(relate.weight),
        bf16(relate.bf16),
        pattern(nullptr),
        clamped(relate.clamped) {
    const auto size = static_cast<std::size_t>(relate.relations * relate.rows * relate.columns);
    if (relate.pattern) pattern = exec.device->on_device(std::span<const std::uint8_t>(relate.pattern, size));
  }

  [[nodiscard]] ROSSBY_ON_DEVICE bool exists(Index e) const { return !pattern || pattern[e] != 0; }
  [[nodiscard]] ROSSBY_ON_DEVICE T stored(Index e) const {
    if constexpr (std::is_same_v<T, float>)
      if (bf16) return widen(bf16[e]);
    return weight[e];
  }
  [[nodiscard]] ROSSBY_ON_DEVICE T at(Index relation, Index i, Index j) const {
    const Index e = (relation * rows + i) * columns + j;
    return exists(e) ? effective(stored(e), clamped) : T(0);
  }
};

}  // namespace rossby::ROSSBY_DEVICE
