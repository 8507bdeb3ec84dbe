#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/exchange/exchange.hpp"
#include "rossby/exchange/reducer.hpp"
#include "rossby/exchange/row_link.hpp"
#include "rossby/relation/relation_block.hpp"

namespace rossby {

/// One group of relations of a model. Weights are given (`fixed`), or learned (`weight`, effective value
/// clamp(M, 0, 1)).
template <class T>
struct RelationTerm {
  enum class Kind {
    sparse,    // CsrBlock; weights (entries)
    dense,     // weights (relations, owned rows, n), columns in position order
    low_rank,  // U (Vᵀ z) / n with U, V (owned rows, k); ranks sum Vᵀ z
    self       // diag(clamp(s, 0, 1)), s (owned rows)
  };

  Kind kind = Kind::sparse;
  int relations = 1;
  const CsrBlock* sparse = nullptr;
  Buffer<T> fixed;                    // given weights
  std::vector<std::uint8_t> pattern;  // dense refine: mask of existing relations; empty: all exist
  Parameter<T>* weight = nullptr;     // learned M (sparse, dense) or s (self)
  Parameter<T>* u = nullptr;
  Parameter<T>* v = nullptr;

  /// Weights for kernels of `device` (null: the host). Null if they are in bf16.
  [[nodiscard]] const T* weights(Device* device = nullptr) const {
    if (weight) return weight->data(device);
    return device ? device->on_device(fixed.span()) : fixed.data();
  }
  [[nodiscard]] const Bf16* bf16_weights(Device* device = nullptr) const {
    return weight ? weight->bf16_data(device) : nullptr;
  }
  [[nodiscard]] bool clamped() const { return weight != nullptr; }
  /// The stream that loads the weights for kernels of `device` (null: the host); null if they need no
  /// loading.
  [[nodiscard]] ChunkStream* stream(const Device* device) const {
    ChunkStream* stream = weight ? weight->stream.get() : nullptr;
    return stream && stream->device() == device ? stream : nullptr;
  }
};

/// All relations of a model on one rank, with their ports. Relation 0 is the identity; the relations of the
/// terms follow in order. Sparse columns are owned rows, then ghosts of the exchange. Dense terms need an
/// exchange whose ghosts are all n positions, or a single rank, whose owned rows are all positions.
template <class T>
struct RelationBank {
  Index nodes = 0;  // n
  Index rows = 0;   // owned
  Exchange* exchange = nullptr;
  Reducer* reducer = nullptr;
  /// Connects time groups; null if there is only one. Dense terms updated in backward gather the factors δ
  /// and z of all groups, and every group applies the same update to its copy.
  GroupGather* groups = nullptr;
  std::vector<RelationTerm<T>> terms;
  std::string op = "relate";          // name of a layer of these relations: see name_op
  std::vector<LocalColumn> interior;  // rows that no sparse term connects to a ghost
  std::vector<LocalColumn> boundary;  // the others
  DenseProduct dense_product = DenseProduct::own;
  Index dense_chunk_rows = 0;  // rows per chunk of a dense relation; 0: all

  /// Copies constant arrays to a device. Without them, kernels would request the copies in every step.
  [[nodiscard]] std::vector<Device::Copy> keep_on(Device& device) const {
    std::vector<Device::Copy> copies;
    copies.push_back(device.keep(interior));
    copies.push_back(device.keep(boundary));
    for (const RelationTerm<T>& term : terms) {
      copies.push_back(device.keep(term.fixed.span()));
      copies.push_back(device.keep(term.pattern));
      if (term.sparse) rossby::keep_on(device, *term.sparse, copies);
    }
    return copies;
  }

  /// Number of relations in all terms, without the identity.
  [[nodiscard]] int relations() const {
    int count = 0;
    for (const auto& term : terms) count += term.relations;
    return count;
  }

  /// Names the op after the kinds of its relations, because they differ in cost. Call once, after adding all
  /// terms.
  void name_op() {
    op = "relate";
    for (const auto& term : terms) {
      using Kind = typename RelationTerm<T>::Kind;
      op += term.kind == Kind::sparse     ? "_sparse"
            : term.kind == Kind::dense    ? "_dense"
            : term.kind == Kind::low_rank ? "_low_rank"
                                          : "_self";
      if (term.weight && term.kind != Kind::self) op += "_learned";
      if (!term.pattern.empty()) op += "_on_pattern";
      if (term.weight && term.weight->in_bf16) op += "_bf16";
      if (term.weight && term.weight->stream) op += "_streamed";
      if (term.weight && term.weight->updated_on_host()) op += "_updated_on_host";
    }
  }
  /// Fills interior and boundary from the sparse terms. Call once, after adding all terms.
  void classify_rows() {
    std::vector<std::uint8_t> outside(static_cast<std::size_t>(rows), 0);
    for (const auto& term : terms)
      if (term.kind == RelationTerm<T>::Kind::sparse)
        for (const LocalColumn row : term.sparse->boundary) outside[static_cast<std::size_t>(row)] = 1;
    interior.clear();
    boundary.clear();
    for (Index i = 0; i < rows; ++i)
      (outside[static_cast<std::size_t>(i)] ? boundary : interior).push_back(static_cast<LocalColumn>(i));
    interior.shrink_to_fit();
    boundary.shrink_to_fit();
  }
};

}  // namespace rossby
