#pragma once

#include <string>
#include <vector>

#include "rossby/base/index.hpp"
#include "rossby/tensor/buffer.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// The rank's tile of a series X (T, n, m): all time steps of its owned rows, float32, NaN where missing. The
/// only copy.
struct Series {
  Index steps = 0;
  Index rows = 0;  // owned
  Index features = 0;
  Buffer<float> values;  // (T, owned, m)

  Series() = default;
  Series(Index t, Index n, Index m) : steps(t), rows(n), features(m), values(t * n * m) {}

  [[nodiscard]] float& at(Index t, Index i, Index f) { return values[(t * rows + i) * features + f]; }
  [[nodiscard]] float at(Index t, Index i, Index f) const { return values[(t * rows + i) * features + f]; }

  /// Steps [first, first + count) as node data, in place.
  [[nodiscard]] NodeView<const float> view(Index first, Index count) const {
    return {values.data() + first * rows * features, rows, count, features, features, rows * features};
  }
};

}  // namespace rossby
