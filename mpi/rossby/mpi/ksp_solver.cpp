#include "rossby/mpi/ksp_solver.hpp"

#include <algorithm>
#include <exception>
#include <limits>

#include <petscksp.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/petsc_library.hpp"
#include "rossby/mpi/watchdog.hpp"

namespace rossby {
namespace {

constexpr PetscInt most_iterations = 2000;

/// Context of the shell matrix: its product, and an exception thrown by one.
struct Product {
  const SpdSolver::Apply* apply = nullptr;
  std::exception_ptr failure;
};

// PETSc is C: exceptions must not pass through it.
PetscErrorCode multiply_shell(Mat matrix, Vec x, Vec y) {
  void* context = nullptr;
  const PetscErrorCode code = ROSSBY_PETSC_FUNCTION(MatShellGetContext)(matrix, &context);
  if (code != 0) return code;
  auto& product = *static_cast<Product*>(context);
  try {
    PetscInt size = 0;
    const PetscScalar* in = nullptr;
    PetscScalar* out = nullptr;
    ROSSBY_PETSC(VecGetLocalSize, x, &size);
    ROSSBY_PETSC(VecGetArrayRead, x, &in);
    ROSSBY_PETSC(VecGetArray, y, &out);
    const auto count = static_cast<std::size_t>(size);
    (*product.apply)(std::span(in, count), std::span(out, count));
    ROSSBY_PETSC(VecRestoreArray, y, &out);
    ROSSBY_PETSC(VecRestoreArrayRead, x, &in);
  } catch (...) {
    product.failure = std::current_exception();
    return PETSC_ERR_USER;
  }
  return code;
}

/// The objects of one solution, destroyed together.
struct System {
  Mat matrix = nullptr;
  Vec b = nullptr, x = nullptr;
  KSP ksp = nullptr;
  System() = default;
  System(const System&) = delete;
  System& operator=(const System&) = delete;
  ~System() {
    (void)ROSSBY_PETSC_FUNCTION(KSPDestroy)(&ksp);
    (void)ROSSBY_PETSC_FUNCTION(VecDestroy)(&x);
    (void)ROSSBY_PETSC_FUNCTION(VecDestroy)(&b);
    (void)ROSSBY_PETSC_FUNCTION(MatDestroy)(&matrix);
  }
};

}  // namespace

Index KspSolver::rows_before(Index rows) const {
  std::int64_t before = 0;
  const Wait wait(comm_, "the rows of other ranks (exscan)");
  MPI_Exscan(&rows, &before, 1, MPI_INT64_T, MPI_SUM, comm_.handle());
  return comm_.rank() == 0 ? 0 : before;  // MPI leaves rank 0's undefined
}

Index KspSolver::solve(const Apply& apply, std::span<const double> b, std::span<double> x,
                       double tolerance) const {
  require(b.size() == x.size(), "a solution has the size of the right-hand side");
  std::int64_t all = static_cast<std::int64_t>(b.size());
  // PETSc sums over ranks inside. Each product shows the watchdog progress.
  const Wait wait(comm_, "conjugate gradients");
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT64_T, MPI_SUM, comm_.handle());
  require(all <= std::numeric_limits<PetscInt>::max(), "unknowns fit PETSc's numbers");
  agree(comm_, load_petsc);
  const auto size = static_cast<PetscInt>(b.size());
  Product product{&apply, nullptr};
  System system;
  const MPI_Comm comm = comm_.handle();
  ROSSBY_PETSC(MatCreateShell, comm, size, size, PETSC_DETERMINE, PETSC_DETERMINE, &product, &system.matrix);
  ROSSBY_PETSC(MatShellSetOperation, system.matrix, MATOP_MULT, reinterpret_cast<void (*)()>(multiply_shell));
  ROSSBY_PETSC(VecCreateMPIWithArray, comm, 1, size, PETSC_DETERMINE, b.data(), &system.b);
  std::fill(x.begin(), x.end(), 0.0);
  ROSSBY_PETSC(VecCreateMPIWithArray, comm, 1, size, PETSC_DETERMINE, x.data(), &system.x);
  ROSSBY_PETSC(KSPCreate, comm, &system.ksp);
  ROSSBY_PETSC(KSPSetOperators, system.ksp, system.matrix, system.matrix);
  ROSSBY_PETSC(KSPSetType, system.ksp, KSPCG);
  ROSSBY_PETSC(KSPSetNormType, system.ksp, KSP_NORM_UNPRECONDITIONED);
  PC preconditioner = nullptr;
  ROSSBY_PETSC(KSPGetPC, system.ksp, &preconditioner);
  ROSSBY_PETSC(PCSetType, preconditioner, PCNONE);
  ROSSBY_PETSC(KSPSetTolerances, system.ksp, tolerance, PETSC_DEFAULT, PETSC_DEFAULT, most_iterations);
  const PetscErrorCode code = ROSSBY_PETSC_FUNCTION(KSPSolve)(system.ksp, system.b, system.x);
  if (product.failure) std::rethrow_exception(product.failure);
  check_petsc(code, "KSPSolve");
  KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
  PetscInt iterations = 0;
  PetscReal norm = 0;
  ROSSBY_PETSC(KSPGetConvergedReason, system.ksp, &reason);
  ROSSBY_PETSC(KSPGetIterationNumber, system.ksp, &iterations);
  ROSSBY_PETSC(KSPGetResidualNorm, system.ksp, &norm);
  if (reason < 0)
    user_error(
        "conjugate gradients did not converge: residual {:.2g} after {} iterations. Raise evaluate.ridge",
        norm, iterations);
  return iterations;
}

}  // namespace rossby
