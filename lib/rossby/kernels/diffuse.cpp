#include "rossby/kernels/diffuse.hpp"

#include "rossby/base/error.hpp"
#include "rossby/kernels/spmm_backends.hpp"

namespace rossby {
namespace {

template <class A, class B, class T>
void check(const Exec& exec, const NodeView<A>& z, const SparseMatrix<T>& s, const DiffusionSteps& steps,
           const NodeView<B>& x) {
  require(on_device(exec.backend) && !s.sparse_library, "diffuse: own kernels of a device");
  require(s.block && diffuses_at_once(*s.block), "diffuse: a block of few rows and no ghosts");
  require(steps.steps >= 1, "diffuse: one or more steps");
  require(x.rows == s.block->rows && z.rows == x.rows, "diffuse: rows are the owned rows");
  require(z.cols == x.cols && z.channels == (1 + Index{s.block->relations} * steps.steps) * x.channels,
          "diffuse: z holds every term of x");
}

}  // namespace

bool diffuses_at_once(const CsrBlock& block) {
  return block.relations > 0 && block.ghosts == 0 && block.rows <= most_diffused_rows;
}

template <class T>
void diffuse_forward(const Exec& exec, NodeView<T> z, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> x) {
  check(exec, z, s, steps, x);
  if (x.size() == 0) return;
  if (exec.backend == Backend::simulated) return simulated::diffuse_forward(exec, z, s, steps, x);
  ROSSBY_FROM_CUDA(diffuse_forward, exec, z, s, steps, x);
}

template <class T>
void diffuse_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> dz) {
  check(exec, dz, s, steps, dx);
  if (dx.size() == 0) return;
  if (exec.backend == Backend::simulated) return simulated::diffuse_adjoint(exec, dx, s, steps, dz);
  ROSSBY_FROM_CUDA(diffuse_adjoint, exec, dx, s, steps, dz);
}

#define ROSSBY_INSTANTIATE(T)                                                                            \
  template void diffuse_forward(const Exec&, NodeView<T>, const SparseMatrix<T>&, const DiffusionSteps&, \
                                NodeView<const T>);                                                      \
  template void diffuse_adjoint(const Exec&, NodeView<T>, const SparseMatrix<T>&, const DiffusionSteps&, \
                                NodeView<const T>);
ROSSBY_FOR_SCALARS(ROSSBY_INSTANTIATE)
#undef ROSSBY_INSTANTIATE

}  // namespace rossby
