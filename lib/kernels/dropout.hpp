#pragma once

#include <cstdint>
#include <span>

#include "rossby/base/random.hpp"
#include "rossby/kernels/exec.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// keep[i, b, c] = random.at(row_keys[i]).uniform(col_keys[b]·channels + c) >= rate, y = x ∘ keep / (1 −
/// rate). x, y (rows, cols, channels); keep packed, one byte a value; row_keys (rows), col_keys (cols) are
/// global indices, >= 0; 0 <= rate < 1. Where keep is 0, y is 0 even if x is NaN.
template <class T>
void dropout_forward(const Exec& exec, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     std::span<const Index> col_keys);

/// dx += dy ∘ keep / (1 − rate).
template <class T>
void dropout_backward(const Exec& exec, NodeView<T> dx, NodeView<const T> dy,
                      std::span<const std::uint8_t> keep, double rate);

}  // namespace rossby
