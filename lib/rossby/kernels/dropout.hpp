#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rossby/base/random.hpp"
#include "rossby/kernels/kernel.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Global indices of columns that lie in steps of windows; there is one key per window.
struct ColumnKeys {
  std::span<const Index> windows;  // >= 0
  Index steps = 1, first = 0;      // of a window; index of the first columns' step

  // NOLINTNEXTLINE(google-explicit-constructor): a key a column
  ColumnKeys(const std::vector<Index>& keys) : windows(keys) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  ColumnKeys(std::span<const Index> keys, Index steps_of_window = 1, Index first_step = 0)
      : windows(keys), steps(steps_of_window), first(first_step) {}
  [[nodiscard]] Index operator[](Index b) const {
    const auto count = static_cast<Index>(windows.size());
    return windows[static_cast<std::size_t>(b % count)] * steps + first + b / count;
  }
};

/// keep[i, b, c] = random.at(row_keys[i]).uniform(col_keys[b]·channels + c) >= rate, y = x ∘ keep / (1 −
/// rate). x and y are (rows, cols, channels); keep is packed, one byte per value. row_keys (rows) are global
/// indices >= 0; cols is a multiple of the number of column keys; 0 <= rate < 1. If keep is 0, y is 0 even if
/// x is NaN.
template <class T>
void dropout_forward(const Exec& exec, NodeView<T> y, std::span<std::uint8_t> keep, NodeView<const T> x,
                     double rate, const Random& random, std::span<const Index> row_keys,
                     const ColumnKeys& col_keys) {
  require(same_shape(y, x) && std::ssize(keep) == x.size(), "dropout keeps one byte a value");
  require(std::ssize(row_keys) == x.rows &&
              (x.cols == 0 || (!col_keys.windows.empty() && x.cols % std::ssize(col_keys.windows) == 0)),
          "dropout needs a key a row and a column");
  require(rate >= 0 && rate < 1, "a dropout rate lies in [0, 1)");
  dispatch<dropout_forward<T>>(exec, y, keep, x, rate, random, row_keys, col_keys);
}

/// dx += dy ∘ keep / (1 − rate).
template <class T>
void dropout_backward(const Exec& exec, NodeView<T> dx, NodeView<const T> dy,
                      std::span<const std::uint8_t> keep, double rate) {
  require(same_shape(dx, dy) && std::ssize(keep) == dy.size(), "dropout keeps one byte a value");
  dispatch<dropout_backward<T>>(exec, dx, dy, keep, rate);
}

}  // namespace rossby
