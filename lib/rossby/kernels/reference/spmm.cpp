#include "rossby/kernels/spmm.hpp"

// The truth: the sums of the contract, written out, in double.

namespace rossby::reference {

template <class T>
void spmm_forward(const Exec&, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  const CsrBlock& block = *s.block;
  for (const LocalColumn i : rows)
    for (Index b = 0; b < y.cols; ++b)
      for (Index c = 0; c < y.channels; ++c) {
        double sum = 0;
        const Index list = i * block.relations + s.relation;
        for (Index e = block.ptr[list]; e < block.ptr[list + 1]; ++e) {
          const Index column = block.column[e];
          const T* x = column < owned.rows ? owned.at(column, b) : ghost.at(column - owned.rows, b);
          sum += double{s.weight[e]} * double{x[c]};
        }
        sum *= double{alpha};
        if (minus.data) sum -= double{minus.at(i, b)[c]};
        y.at(i, b)[c] = static_cast<T>(sum);
      }
}

template <class T>
void spmm_adjoint(const Exec&, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  const CsrBlock& block = *s.block;
  for (Index i = 0; i < block.rows; ++i) {
    const Index list = i * block.relations + s.relation;
    for (Index e = block.ptr[list]; e < block.ptr[list + 1]; ++e) {
      const Index column = Index{block.column[e]} - first;
      if (column < 0 || column >= dx.rows) continue;
      for (Index b = 0; b < dx.cols; ++b)
        for (Index c = 0; c < dx.channels; ++c)
          dx.at(column, b)[c] = static_cast<T>(double{dx.at(column, b)[c]} +
                                               double{alpha} * double{s.weight[e]} * double{dy.at(i, b)[c]});
    }
  }
}

}  // namespace rossby::reference

ROSSBY_IMPLEMENT(reference, spmm_forward, spmm_adjoint)
