#pragma once

#include <functional>
#include <span>

#include "rossby/base/index.hpp"

namespace rossby {

/// Port: solves A·x = b where A is symmetric positive definite, known by its products alone, and the unknowns
/// are spread over ranks.
class SpdSolver {
 public:
  virtual ~SpdSolver() = default;

  /// y = A·x, of this rank's unknowns. Collective.
  using Apply = std::function<void(std::span<const double> x, std::span<double> y)>;

  /// Rows of the ranks before this one, each of which passes its own count. Collective.
  [[nodiscard]] virtual Index rows_before(Index rows) const = 0;
  [[nodiscard]] virtual Index ranks() const = 0;

  /// Puts x with ‖b − A·x‖ ≤ tolerance·‖b‖ (over all ranks) in place and returns the iterations it took.
  /// Throws UserError on all ranks where it does not come so far. Collective.
  virtual Index solve(const Apply& apply, std::span<const double> b, std::span<double> x,
                      double tolerance) const = 0;
};

}  // namespace rossby
