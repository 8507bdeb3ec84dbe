#include "rossby/kernels/spmm.hpp"

#include <algorithm>

#include "rossby/kernels/device/backend.hpp"
#include "rossby/kernels/device/runs.hpp"
#include "rossby/kernels/device/sparse.hpp"

namespace rossby::ROSSBY_DEVICE {

namespace {

/// Products and gradients in the form of launch arguments.
template <class T>
struct Products {
  SparseProduct<T> of[most_sparse_products];
};
template <class T>
struct Gradients {
  struct One {
    NodeView<T> to;
    NodeView<const T> start;
    SparseShare<T> share[most_sparse_shares];
    int shares = 0;
  };
  One of[most_sparse_products];
};

/// Splits a place among all of several arrays of `size` into the array's number and the place in it.
struct Parted {
  int array;
  Index at;
};
ROSSBY_ON_DEVICE Parted parted(Index place, Index size) {
  int array = 0;
  for (; place >= size; place -= size) ++array;  // a division takes longer
  return {array, place};
}

/// One thread per run of results: neighbouring threads read neighbouring values of the same rows, and a run
/// shares an entry's weight and column.
template <int n, class T>
void products_in_runs(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
                      std::span<const LocalColumn> rows) {
  const DeviceCsr csr(exec, *s.block);
  const LocalColumn* listed = exec.device->on_device(rows);
  const T* weight = s.weight;
  Products<T> all{};
  std::copy(products.begin(), products.end(), all.of);
  const Index count = std::ssize(rows);
  const NodeView<T>& shape = products[0].y;
  const Entries entries{count * std::ssize(products), shape.cols, shape.channels / n, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index place, Index b, Index run) {
    const auto [p, q] = parted(place, count);
    const Index i = listed[q], c = run * n;
    const SparseProduct<T>& product = all.of[p];
    Run<T, n> sum{};
    if (product.relation < 0) {
      sum = load<n>(product.owned.at(i, b) + c);
    } else {
      const Columns<T> x{product.owned, product.ghost};
      const Index list = i * csr.relations + product.relation;
      for (Index e = csr.ptr[list]; e < csr.ptr[list + 1]; ++e) {
        const Run<T, n> from = load<n>(x.at(csr.column[e], b) + c);
        const T factor = weight[e];
        ROSSBY_UNROLL
        for (int k = 0; k < n; ++k) sum.value[k] += factor * from.value[k];
      }
    }
    ROSSBY_UNROLL
    for (int k = 0; k < n; ++k) sum.value[k] *= product.alpha;
    if (product.minus.data) {
      const Run<T, n> less = load<n>(product.minus.at(i, b) + c);
      ROSSBY_UNROLL
      for (int k = 0; k < n; ++k) sum.value[k] -= less.value[k];
    }
    store<n>(product.y.at(i, b) + c, sum);
  });
}

template <int n, class T>
void gradients_in_runs(const Exec& exec, const SparseMatrix<T>& s, const Gradients<T>& all, Index count,
                       Index first) {
  const DeviceCsr csr(exec, *s.block);
  const T* weight = s.weight;
  const NodeView<T>& shape = all.of[0].to;
  const Index columns = shape.rows;
  const Entries entries{columns * count, shape.cols, shape.channels / n, false};
  for_each_entry(exec, entries, [=] ROSSBY_ON_DEVICE(Index place, Index b, Index run) {
    const auto [g, j] = parted(place, columns);
    const Index c = run * n;
    const auto& gradient = all.of[g];
    T* const to = gradient.to.at(j, b) + c;
    Run<T, n> value = load<n>(gradient.start.data ? gradient.start.at(j, b) + c : static_cast<const T*>(to));
    for (int q = 0; q < gradient.shares; ++q) {
      const SparseShare<T>& share = gradient.share[q];
      Run<T, n> sum{};
      if (share.relation < 0) {
        sum = load<n>(share.dy.at(j, b) + c);
      } else {
        const Index list = (first + j) * csr.relations + share.relation;
        for (Index e = csr.t_ptr[list]; e < csr.t_ptr[list + 1]; ++e) {
          const Run<T, n> from = load<n>(share.dy.at(csr.t_row[e], b) + c);
          const T factor = weight[csr.t_entry[e]];
          ROSSBY_UNROLL
          for (int k = 0; k < n; ++k) sum.value[k] += factor * from.value[k];
        }
      }
      ROSSBY_UNROLL
      for (int k = 0; k < n; ++k) value.value[k] += share.alpha * sum.value[k];
    }
    if (gradient.start.data) {
      const Run<T, n> before = load<n>(static_cast<const T*>(to));
      ROSSBY_UNROLL
      for (int k = 0; k < n; ++k) value.value[k] += before.value[k];
    }
    store<n>(to, value);
  });
}

}  // namespace

template <class T>
void spmm_products(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseProduct<T>> products,
                   std::span<const LocalColumn> rows) {
  bool runs = true;
  for (const SparseProduct<T>& p : products)
    runs = runs && in_runs(p.y) && (!p.minus.data || in_runs(p.minus)) && in_runs(p.owned) &&
           (p.ghost.rows == 0 || in_runs(p.ghost));
  if (runs) return products_in_runs<whole_run<T>>(exec, s, products, rows);
  products_in_runs<1>(exec, s, products, rows);
}

template <class T>
void spmm_gradients(const Exec& exec, const SparseMatrix<T>& s, std::span<const SparseGradient<T>> gradients,
                    Index first) {
  Gradients<T> all{};
  bool runs = true;
  for (std::size_t g = 0; g < gradients.size(); ++g) {
    const SparseGradient<T>& from = gradients[g];
    auto& to = all.of[g];
    to.to = from.to;
    to.start = from.start;
    to.shares = static_cast<int>(from.shares.size());
    std::copy(from.shares.begin(), from.shares.end(), to.share);
    runs = runs && in_runs(from.to) && (!from.start.data || in_runs(from.start));
    for (const SparseShare<T>& share : from.shares) runs = runs && in_runs(share.dy);
  }
  const auto count = std::ssize(gradients);
  if (runs) return gradients_in_runs<whole_run<T>>(exec, s, all, count, first);
  gradients_in_runs<1>(exec, s, all, count, first);
}

template <class T>
void spmm_forward(const Exec& exec, NodeView<T> y, const SparseMatrix<T>& s, T alpha, NodeView<const T> minus,
                  std::span<const LocalColumn> rows, NodeView<const T> owned, NodeView<const T> ghost) {
  const SparseProduct<T> product{s.relation, alpha, y, owned, ghost, minus};
  ROSSBY_DEVICE::spmm_products<T>(exec, s, {&product, 1}, rows);
}

template <class T>
void spmm_adjoint(const Exec& exec, NodeView<T> dx, const SparseMatrix<T>& s, T alpha, Index first,
                  NodeView<const T> dy) {
  const SparseShare<T> share{s.relation, alpha, dy};
  const SparseGradient<T> gradient{dx, {}, {&share, 1}};
  ROSSBY_DEVICE::spmm_gradients<T>(exec, s, {&gradient, 1}, first);
}

}  // namespace rossby::ROSSBY_DEVICE

ROSSBY_IMPLEMENT_DEVICE(spmm_forward, spmm_adjoint, spmm_products, spmm_gradients)
