#pragma once

#include "rossby/base/index.hpp"
#include "rossby/tensor/view.hpp"

namespace rossby {

/// Messages that one rank sent in one direction of an exchange, or in a reduction.
struct Traffic {
  Index messages = 0;
  Index bytes = 0;
  friend bool operator==(const Traffic&, const Traffic&) = default;
  Traffic& operator+=(const Traffic& other) {
    messages += other.messages;
    bytes += other.bytes;
    return *this;
  }
  Traffic& operator-=(const Traffic& other) {
    messages -= other.messages;
    bytes -= other.bytes;
    return *this;
  }
};

/// Port: gathers rows of node data from their owners, and sends their gradients back, summed (scatter_add).
/// One object is its own adjoint: ⟨G x, y⟩ = ⟨x, Gᵀ y⟩. Collective over the ranks of the row blocks, in the
/// same order, with the same cols and channels. Each object runs at most one operation. Between begin and end
/// the caller may compute but must not touch either argument (see scatter_add_begin for an exception). Sums
/// run in a fixed order: two runs at one rank count are bitwise equal.
///
/// Shapes: owned (owned(), B, c), may be strided; ghost (ghosts(), B, c), packed.
class Exchange {
 public:
  virtual ~Exchange() = default;

  [[nodiscard]] virtual Index owned() const = 0;
  [[nodiscard]] virtual Index ghosts() const = 0;

  virtual void gather_begin(NodeView<const float> owned, NodeView<float> ghost) = 0;
  virtual void gather_begin(NodeView<const double> owned, NodeView<double> ghost) = 0;
  virtual void gather_end() = 0;

  /// owned += Gᵀ ghost. Only scatter_add_end adds to `owned`; the caller may also add to it before.
  virtual void scatter_add_begin(NodeView<const float> ghost, NodeView<float> owned) = 0;
  virtual void scatter_add_begin(NodeView<const double> ghost, NodeView<double> owned) = 0;
  virtual void scatter_add_end() = 0;

  /// Traffic sent by this rank since construction.
  [[nodiscard]] virtual Traffic sent() const = 0;
  /// Traffic of this rank in one gather or scatter_add of rows of `row_bytes` bytes, for planners.
  [[nodiscard]] virtual Traffic gather_cost(Index row_bytes) const = 0;
  [[nodiscard]] virtual Traffic scatter_cost(Index row_bytes) const = 0;

  template <class T>
  void gather(NodeView<const T> owned, NodeView<T> ghost) {
    gather_begin(owned, ghost);
    gather_end();
  }
  template <class T>
  void scatter_add(NodeView<const T> ghost, NodeView<T> owned) {
    scatter_add_begin(ghost, owned);
    scatter_add_end();
  }
};

}  // namespace rossby
