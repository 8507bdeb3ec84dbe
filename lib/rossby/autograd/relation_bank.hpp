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

/// One group of relations of a model. Weights are given (`fixed`) or learned (`weight`, effective clamp(M, 0,
/// 1)).
template <class T>
struct RelationTerm {
  enum class Kind {
    sparse,    // CsrBlock; weights (entries)
    dense,     // weights (relations, owned rows, n), columns in position order
    low_rank,  // U (Vᵀ z) / n with U, V (owned rows, k); Vᵀ z is summed over ranks
    self       // diag(clamp(s, 0, 1)), s (owned rows)
  };

  Kind kind = Kind::sparse;
  int relations = 1;
  const CsrBlock* sparse = nullptr;
  Buffer<T> fixed;                    // given weights
  std::vector<std::uint8_t> pattern;  // dense refine: where a relation exists; empty: everywhere
  Parameter<T>* weight = nullptr;     // learned M (sparse, dense) or s (self)
  Parameter<T>* u = nullptr;
  Parameter<T>* v = nullptr;

  /// For kernels of `device` (null: of the host). Null where they are in bf16.
  [[nodiscard]] const T* weights(Device* device = nullptr) const {
    if (weight) return weight->data(device);
    return device ? device->on_device(fixed.span()) : fixed.data();
  }
  [[nodiscard]] const Bf16* bf16_weights(Device* device = nullptr) const {
    return weight ? weight->bf16_data(device) : nullptr;
  }
  [[nodiscard]] bool clamped() const { return weight != nullptr; }
  /// What brings the weights to kernels of `device` (null: of the host); null where they need not be brought.
  [[nodiscard]] ChunkStream* stream(const Device* device) const {
    ChunkStream* stream = weight ? weight->stream.get() : nullptr;
    return stream && stream->device() == device ? stream : nullptr;
  }
};

/// All relations of a model on one rank, and the ports that serve them. Relation 0 is the identity; those of
/// the terms follow in order. Sparse columns are owned rows, then ghosts of the exchange. Dense terms need an
/// exchange whose ghosts are all n positions, or one rank (no ghosts: the owned rows are all).
template <class T>
struct RelationBank {
  Index nodes = 0;  // n
  Index rows = 0;   // owned
  Exchange* exchange = nullptr;
  Reducer* reducer = nullptr;
  /// Between time groups, null where there is one: dense terms that are updated in backward are given the
  /// factors δ and z of all groups then, and every group makes the same update of its copy.
  GroupGather* groups = nullptr;
  std::vector<RelationTerm<T>> terms;
  std::string op = "relate";          // what a layer of these relations is called: see name_op
  std::vector<LocalColumn> interior;  // rows that no sparse term joins to a ghost
  std::vector<LocalColumn> boundary;  // the others
  DenseProduct dense_product = DenseProduct::own;
  Index dense_chunk_rows = 0;  // of a dense relation that are worked on at once; 0: all

  /// Copies on a device of all that does not change: what kernels there would otherwise ask for in every
  /// step.
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

  /// Relations of all terms, without the identity.
  [[nodiscard]] int relations() const {
    int count = 0;
    for (const auto& term : terms) count += term.relations;
    return count;
  }

  /// Names the op by the kinds of its relations, which differ in what they cost. Call once, when all terms
  /// are there.
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
  /// Fills interior and boundary from the sparse terms. Call once, when all terms are there.
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
