#pragma once

#include "rossby/base/index.hpp"
#include "rossby/kernels/cpu/simd/pick.hpp"

namespace rossby::cpu {

/// One term of sparse relations in a layer, as plain pointers. With `self`, plane 0 is the identity.
template <class T>
struct SparseLayer {
  const LocalEntry* ptr;
  const LocalColumn* column;
  const RelationNumber* relation;
  const LocalEntry* t_ptr;
  const LocalColumn* t_row;
  const LocalEntry* t_entry;
  const RelationNumber* t_relation;
  Index rows;
  Index entries;
  Index relations;
  const T* weight;
  bool clamped;
  Index cols;  // B
  Index d;
  Index w;
  const T* a;  // (w, relations·d), row stride a_stride
  Index a_stride;
  const T* self;  // (w, d), the identity's block; null: none
  Index self_stride;
  const T* bias;  // with self: null is zero

  [[nodiscard]] Index planes() const { return relations + (self ? 1 : 0); }
};

/// Rows of a forward sweep. With self: h[rows[q]] = bias + z A_0ᵀ + Σ_k (W_k z) A_kᵀ, otherwise += the sum
/// over k.
template <class T>
struct SparseRows {
  const LocalColumn* rows;
  Index count;
  const T* owned;
  Index owned_rows;
  const T* ghost;
  T* h;
};

/// Columns of a backward sweep: relation columns first + begin … first + begin + count − 1, z and dz from row
/// `begin` on. dz, dm may be null.
template <class T>
struct SparseColumns {
  Index first;
  Index begin;
  Index count;
  const T* delta;
  const T* z;
  T* dz;
  T* dm;
};

template <class T>
struct SparseKernels {
  /// Values of memory shared by all groups of one call, and values that each group has for itself.
  Index (*shared_size)(const SparseLayer<T>&);
  Index (*group_size)(const SparseLayer<T>&);
  /// Fills the shared memory with packed weights.
  void (*prepare)(const SparseLayer<T>&, T* shared);
  void (*forward)(const SparseLayer<T>&, const SparseRows<T>&, const T* shared, T* group);
  /// Clears the group's partial sums of dA, dA_0 and dbias; `backward` adds to them. `collect` adds them to
  /// da (w, relations·d), dself (w, d) and dbias (w), each of which may be null.
  void (*clear)(const SparseLayer<T>&, T* group);
  void (*backward)(const SparseLayer<T>&, const SparseColumns<T>&, const T* shared, T* group);
  void (*collect)(const SparseLayer<T>&, const T* group, T* da, Index da_stride, T* dself, Index dself_stride,
                  T* dbias);
};

}  // namespace rossby::cpu
