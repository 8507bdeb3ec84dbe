#pragma once

#include "rossby/exchange/spd_solver.hpp"
#include "rossby/mpi/environment.hpp"

namespace rossby {

/// Conjugate gradients without preconditioner, by PETSc's KSP on a shell matrix: the matrix is never stored.
/// PETSc options have no effect on it.
class KspSolver final : public SpdSolver {
 public:
  explicit KspSolver(const Communicator& comm) : comm_(comm) {}
  [[nodiscard]] Index rows_before(Index rows) const override;
  [[nodiscard]] Index ranks() const override { return comm_.size(); }
  Index solve(const Apply& apply, std::span<const double> b, std::span<double> x,
              double tolerance) const override;

 private:
  Communicator comm_;
};

}  // namespace rossby
