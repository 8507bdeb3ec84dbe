#pragma once

#include <functional>
#include <span>

#include "rossby/base/index.hpp"

namespace rossby {

/// Port: solves A·x = b for a symmetric positive definite A, given only by its products. The unknowns are
/// distributed over ranks.
class SpdSolver {
 public:
  virtual ~SpdSolver() = default;

  /// y = A·x for this rank's unknowns. Collective.
  using Apply = std::function<void(std::span<const double> x, std::span<double> y)>;

  /// Number of rows on the ranks before this one. Each rank passes its own count. Collective.
  [[nodiscard]] virtual Index rows_before(Index rows) const = 0;
  [[nodiscard]] virtual Index ranks() const = 0;

  /// Finds x with ‖b − A·x‖ ≤ tolerance·‖b‖ (over all ranks) and returns the number of iterations. Throws
  /// UserError on all ranks if it does not converge. Collective.
  virtual Index solve(const Apply& apply, std::span<const double> b, std::span<double> x,
                      double tolerance) const = 0;
};

}  // namespace rossby
