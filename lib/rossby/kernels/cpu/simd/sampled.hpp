#pragma once

#include <cstdint>

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// A piece of a row of a dense W times the latents of one time step. Latents and their gradients are in
/// planes: channel f of the piece's columns at f·stride, padded with zeros to whole SampledKernels::run.
template <class T>
struct SampledRow {
  const T* weight = nullptr;              // of the piece's columns, as stored
  const std::uint8_t* pattern = nullptr;  // 0: no relation; null: all
  T* dm = nullptr;                        // +=; null: not wanted
  Index columns = 0;
  Index d = 1;
  Index stride = 0;
  bool clamped = false;
  const T* z = nullptr;        // planes
  T* dz = nullptr;             // planes, +=; null: not wanted
  const T* g = nullptr;        // (d), of backward
  T* context = nullptr;        // (d), +=, of forward
  const T* next = nullptr;     // weights and
  const T* next_dm = nullptr;  // gradients to read next; null: none
};

/// Functions of one instruction set.
template <class T>
struct SampledKernels {
  Index run;  // the lengths of planes are multiples of it
  /// planes = z (columns, d), padded with zeros; dz += planes.
  void (*to_planes)(Index columns, Index d, const T* z, Index row_stride, T* planes, Index stride);
  void (*add_planes)(Index columns, Index d, T* dz, Index row_stride, const T* planes, Index stride);
  void (*forward)(const SampledRow<T>&);
  void (*backward)(const SampledRow<T>&);
};

}  // namespace rossby::cpu
