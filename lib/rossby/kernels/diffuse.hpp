#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/spmm.hpp"

// Computes all terms of a diffusion in one kernel launch on a device, with a column's rows in shared memory.
// Level by level (spmm.hpp), each term goes to memory and is read back entry by entry.

namespace rossby {

/// For each relation S of a block: z_0 = x, z_1 = S z_0, then z_k = 2 S z_(k−1) − z_(k−2) (chebyshev) or S
/// z_(k−1), up to k = steps. The terms lie side by side in z (rows, B, terms·c): z_0, then by k, relation
/// fastest; term of (k, relation) = 1 + (k − 1)·relations + relation.
struct DiffusionSteps {
  int steps = 1;
  bool chebyshev = true;
};

/// The most rows for which a thread block holds three terms in 48 KiB of shared memory: 64 or 32 bytes per
/// row and term.
inline constexpr Index most_diffused_rows = 512;

/// True if a block's relations can be diffused in one launch: no ghosts and at most most_diffused_rows rows.
[[nodiscard]] inline bool diffuses_at_once(const CsrBlock& block) {
  return block.relations > 0 && block.ghosts == 0 && block.rows <= most_diffused_rows;
}

/// Throws BugError unless z has room for the terms of x and a device can compute them in one launch.
template <class A, class B, class T>
void check_diffusion(const Exec& exec, const NodeView<A>& z, const SparseMatrix<T>& s,
                     const DiffusionSteps& steps, const NodeView<B>& x) {
  require(on_device(exec.backend) && !s.sparse_library, "diffuse: own kernels of a device");
  require(s.block && diffuses_at_once(*s.block), "diffuse: a block of few rows and no ghosts");
  require(steps.steps >= 1, "diffuse: one or more steps");
  require(x.rows == s.block->rows && z.rows == x.rows, "diffuse: rows are the owned rows");
  require(z.cols == x.cols && z.channels == (1 + Index{s.block->relations} * steps.steps) * x.channels,
          "diffuse: z holds every term of x");
}

/// z = the terms of x (rows, B, c), on devices that use own kernels. z overlaps no input; the relation of `s`
/// is ignored.
template <class T>
void diffuse_forward(const Exec& exec, NodeView<T> z, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> x) {
  check_diffusion(exec, z, s, steps, x);
  if (x.size() == 0) return;
  run_on_device<diffuse_forward<T>>(exec, z, s, steps, x);
}

/// The adjoint: dx += the contributions of the gradients dz of all terms (Clenshaw's recursion down each
/// relation's terms), summed first and then added. The order of sums depends only on the graph.
template <class T>
void diffuse_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> dz) {
  check_diffusion(exec, dz, s, steps, dx);
  if (dx.size() == 0) return;
  run_on_device<diffuse_adjoint<T>>(exec, dx, s, steps, dz);
}

}  // namespace rossby
