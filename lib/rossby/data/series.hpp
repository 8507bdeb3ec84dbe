#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// The rank's tile of a series X (T, n, m), float32, NaN if missing: its owned rows at all time steps, or on
/// a process grid at the steps of its time group. The only copy. Step numbers refer to the whole series.
struct Series {
  Index first = 0;  // first step on this rank
  Index steps = 0;  // number of steps on this rank
  Index rows = 0;   // owned
  Index features = 0;
  Buffer<float> values;  // (T, owned, m)

  Series() = default;
  Series(Index t, Index n, Index m) : steps(t), rows(n), features(m), values(t * n * m) {}

  [[nodiscard]] bool holds(Index t) const { return first <= t && t < first + steps; }
  /// Values (rows, features) of a step on this rank.
  [[nodiscard]] const float* at(Index t) const { return values.data() + (t - first) * rows * features; }
  [[nodiscard]] float& at(Index t, Index i, Index f) {
    return values[((t - first) * rows + i) * features + f];
  }
  [[nodiscard]] float at(Index t, Index i, Index f) const { return at(t)[i * features + f]; }

  /// Steps [begin, begin + count) as node data, in place.
  [[nodiscard]] NodeView<const float> view(Index begin, Index count) const {
    return {at(begin), rows, count, features, features, rows * features};
  }
};

}  // namespace rossby
