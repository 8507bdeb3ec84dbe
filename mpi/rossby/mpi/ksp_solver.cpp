#include "rossby/mpi/ksp_solver.hpp"

#include <algorithm>
#include <exception>
#include <limits>

#include <petscksp.h>

#include "rossby/base/user_error.hpp"
#include "rossby/mpi/petsc_error.hpp"
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
  PetscErrorCode code = MatShellGetContext(matrix, &context);
  if (code != 0) return code;
  auto& product = *static_cast<Product*>(context);
  PetscInt size = 0;
  const PetscScalar* in = nullptr;
  PetscScalar* out = nullptr;
  if ((code = VecGetLocalSize(x, &size)) != 0) return code;
  if ((code = VecGetArrayRead(x, &in)) != 0) return code;
  if ((code = VecGetArray(y, &out)) != 0) return code;
  try {
    const auto count = static_cast<std::size_t>(size);
    (*product.apply)(std::span(in, count), std::span(out, count));
  } catch (...) {
    product.failure = std::current_exception();
  }
  if ((code = VecRestoreArray(y, &out)) != 0) return code;
  if ((code = VecRestoreArrayRead(x, &in)) != 0) return code;
  return product.failure ? PETSC_ERR_USER : 0;
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
    (void)KSPDestroy(&ksp);
    (void)VecDestroy(&x);
    (void)VecDestroy(&b);
    (void)MatDestroy(&matrix);
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
  const auto size = static_cast<PetscInt>(b.size());
  Product product{&apply, nullptr};
  System system;
  const MPI_Comm comm = comm_.handle();
  check_petsc(MatCreateShell(comm, size, size, PETSC_DETERMINE, PETSC_DETERMINE, &product, &system.matrix),
              "MatCreateShell");
  check_petsc(MatShellSetOperation(system.matrix, MATOP_MULT, reinterpret_cast<void (*)()>(multiply_shell)),
              "MatShellSetOperation");
  check_petsc(VecCreateMPIWithArray(comm, 1, size, PETSC_DETERMINE, b.data(), &system.b),
              "VecCreateMPIWithArray");
  std::fill(x.begin(), x.end(), 0.0);
  check_petsc(VecCreateMPIWithArray(comm, 1, size, PETSC_DETERMINE, x.data(), &system.x),
              "VecCreateMPIWithArray");
  check_petsc(KSPCreate(comm, &system.ksp), "KSPCreate");
  check_petsc(KSPSetOperators(system.ksp, system.matrix, system.matrix), "KSPSetOperators");
  check_petsc(KSPSetType(system.ksp, KSPCG), "KSPSetType");
  check_petsc(KSPSetNormType(system.ksp, KSP_NORM_UNPRECONDITIONED), "KSPSetNormType");
  PC preconditioner = nullptr;
  check_petsc(KSPGetPC(system.ksp, &preconditioner), "KSPGetPC");
  check_petsc(PCSetType(preconditioner, PCNONE), "PCSetType");
  check_petsc(KSPSetTolerances(system.ksp, tolerance, PETSC_DEFAULT, PETSC_DEFAULT, most_iterations),
              "KSPSetTolerances");
  const PetscErrorCode code = KSPSolve(system.ksp, system.b, system.x);
  if (product.failure) std::rethrow_exception(product.failure);
  check_petsc(code, "KSPSolve");
  KSPConvergedReason reason = KSP_CONVERGED_ITERATING;
  PetscInt iterations = 0;
  PetscReal norm = 0;
  check_petsc(KSPGetConvergedReason(system.ksp, &reason), "KSPGetConvergedReason");
  check_petsc(KSPGetIterationNumber(system.ksp, &iterations), "KSPGetIterationNumber");
  check_petsc(KSPGetResidualNorm(system.ksp, &norm), "KSPGetResidualNorm");
  if (reason < 0)
    user_error(
        "conjugate gradients did not converge: residual {:.2g} after {} iterations. Raise evaluate.ridge",
        norm, iterations);
  return iterations;
}

}  // namespace rossby
