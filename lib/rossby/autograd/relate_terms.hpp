#pragma once

#include "rossby/autograd/relation_bank.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/kernels/elementwise.hpp"
#include "rossby/kernels/linear.hpp"
#include "rossby/kernels/relate.hpp"

// Internal to relate_linear: forward and backward functions on views for each kind of relation term.

namespace rossby::detail {

/// Tape::touches for a layer of relations.
template <class T>
void touch(Tape<T>& tape, const RelationBank<T>& bank, const Var<T>& h, const Var<T>& z,
           const Parameter<T>& weight, const Parameter<T>* bias) {
  OpCheck<T>* check = tape.check();
  if (!check) return;
  tape.touches(h, z, weight, bias);
  for (const RelationTerm<T>& term : bank.terms)
    for (const Parameter<T>* learned : {term.weight, term.u, term.v})
      if (learned) check->adds_to(*learned);
}

/// The weight block of a term in the layer's weight (w, (1 + R)·d), and the block of its gradient.
template <class T>
struct WeightBlock {
  MatrixView<const T> value;
  MatrixView<T> gradient;  // data null: not trained

  WeightBlock(const Exec& exec, Parameter<T>& weight, T* target, Index d, int first, int relations) {
    const Index w = weight.shape[0];
    const Index width = weight.shape[1];
    value = {weight.data(exec.device) + first * d, w, relations * d, width};
    if (target) gradient = {target + first * d, w, relations * d, width};
  }
};

template <class T>
SparseRelate<T> sparse_relate(const Exec& exec, const RelationTerm<T>& term, MatrixView<const T> a) {
  return {term.sparse, term.weights(exec.device), term.clamped(), a};
}

template <class T>
DenseRelate<T> dense_relate(const Exec& exec, const RelationBank<T>& bank, const RelationTerm<T>& term,
                            MatrixView<const T> a) {
  return {bank.rows,
          bank.nodes,
          term.relations,
          term.weights(exec.device),
          term.pattern.empty() ? nullptr : term.pattern.data(),
          term.clamped(),
          a,
          nullptr,
          nullptr,
          bank.dense_product,
          term.bf16_weights(exec.device)};
}

/// Node data as a matrix (rows, B·c) or (rows·B, c).
template <class T>
MatrixView<T> by_row(NodeView<T> v) {
  return {v.data, v.rows, v.width()};
}
template <class T>
MatrixView<T> by_column(NodeView<T> v) {
  return {v.data, v.rows * v.cols, v.channels};
}

/// values *= factor.
template <class T>
void scale_all(const Exec& exec, std::span<T> values, T factor) {
  const NodeView<T> all(values.data(), 1, 1, std::ssize(values));
  scale<T>(exec, all, factor, all);
}

/// h += U (Vᵀ z) A_kᵀ / n. Keeps the state for backward in the arena. Sums over ranks travel between each
/// begin and its end.
template <class T>
struct LowRank {
  MatrixView<const T> u, v;  // (rows, k)
  DenseGradient<T> du, dv;
  WeightBlock<T> a;
  Reducer* reducer;
  T inverse_n;
  MatrixView<T> s;  // (k, B·d) = Vᵀ z / n; becomes its gradient after dA is computed
  MatrixView<T> q;  // (k, B·w) = s A_kᵀ
  MatrixView<T> dq;
  std::span<T> scratch;
  std::span<T> gradient;  // a tile of rows of dU or dV, if backward updates them

  /// Starts the sum of s over all nodes. Collective.
  static LowRank begin(Tape<T>& tape, const RelationBank<T>& bank, const RelationTerm<T>& term,
                       const WeightBlock<T>& a, NodeView<const T> z);
  /// h += U q.
  void end(const Exec& exec, NodeView<T> h) const;
  /// Computes dU, and starts the sum of dq over all nodes. Collective.
  void backward_begin(const Exec& exec, NodeView<const T> delta) const;
  /// Computes dV and dz.
  void backward_end(const Exec& exec, NodeView<const T> z, NodeView<T> dz) const;

 private:
  void weight_backward(const Exec& exec, const DenseGradient<T>& d, Index begin, Index rows,
                       MatrixView<const T> x, MatrixView<const T> y) const;
};

/// h += (clamp(s) ∘ z) A_kᵀ.
template <class T>
struct SelfTerm {
  const T* s;
  T* ds;
  WeightBlock<T> a;
  NodeView<T> context;    // (rows, B, d) = clamp(s) ∘ z
  NodeView<T> d_context;  // scratch for backward
  std::span<T> scratch;

  static SelfTerm forward(Tape<T>& tape, const RelationTerm<T>& term, const WeightBlock<T>& a, NodeView<T> h,
                          NodeView<const T> z);
  void backward(const Exec& exec, NodeView<const T> delta, NodeView<const T> z, NodeView<T> dz) const;
};

}  // namespace rossby::detail
