#pragma once

#include "rossby/kernels/kernel.hpp"
#include "rossby/kernels/spmm.hpp"

// All terms of a diffusion in one launch of a device, which holds a column's rows in shared memory: level by
// level (spmm.hpp) each term goes to memory and comes back an entry at a time.

namespace rossby {

/// Of the relations S of a block each: z_0 = x, z_1 = S z_0, then z_k = 2 S z_(k−1) − z_(k−2) (chebyshev) or
/// S z_(k−1), up to k = steps. The terms lie side by side in z (rows, B, terms·c): z_0, then by k, relation
/// fastest; term of (k, relation) = 1 + (k − 1)·relations + relation.
struct DiffusionSteps {
  int steps = 1;
  bool chebyshev = true;
};

/// Rows that a block of threads holds three terms of, in 48 KiB: 64 bytes of each, or 32.
inline constexpr Index most_diffused_rows = 512;

/// Whether a block's relations can be diffused so: no ghosts, no more rows than that.
[[nodiscard]] inline bool diffuses_at_once(const CsrBlock& block) {
  return block.relations > 0 && block.ghosts == 0 && block.rows <= most_diffused_rows;
}

/// Throws BugError unless z holds the terms of x, and a device can compute them at once.
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

/// z = the terms of x (rows, B, c), of devices that multiply by own kernels. z overlaps nothing that is read;
/// the relation of `s` is not looked at.
template <class T>
void diffuse_forward(const Exec& exec, NodeView<T> z, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> x) {
  check_diffusion(exec, z, s, steps, x);
  if (x.size() == 0) return;
  run_on_device<diffuse_forward<T>>(exec, z, s, steps, x);
}

/// The adjoint: dx += what the gradients dz of all terms make of it (Clenshaw's recursion down each
/// relation's terms), summed first and then added. The order of sums follows from the graph.
template <class T>
void diffuse_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, const DiffusionSteps& steps,
                     NodeView<const T> dz) {
  check_diffusion(exec, dz, s, steps, dx);
  if (dx.size() == 0) return;
  run_on_device<diffuse_adjoint<T>>(exec, dx, s, steps, dz);
}

}  // namespace rossby
