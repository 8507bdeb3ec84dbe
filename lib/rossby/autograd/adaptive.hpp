#pragma once

#include <span>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// All nodes as a rank sees them where every node acts on every node: their positions, of which it owns some.
struct AllNodes {
  std::vector<Index> global;     // global row of each position
  Index first = 0;               // this rank's first position
  Index owned = 0;               // and how many follow
  Exchange* exchange = nullptr;  // whose ghosts are all positions; null: this rank owns all rows

  [[nodiscard]] Index rows() const { return static_cast<Index>(global.size()); }
  [[nodiscard]] std::span<const Index> own() const {
    return std::span(global).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(owned));
  }
};

/// A (owned, 1, n) = softmax over w of relu(s_v · t_w): this rank's rows v of a learned adjacency over all
/// positions w (Wu et al., "Graph WaveNet", IJCAI 2019, eq. 5). `source` and `target` are (n, k) in global
/// row order, replicated. `nodes` must outlive the tape's step.
template <class T>
[[nodiscard]] Var<T> adaptive_adjacency(Tape<T>& tape, const AllNodes& nodes, Parameter<T>& source,
                                        Parameter<T>& target);

/// y_w = Σ_v A[v, w] x_v, x and y (owned, B, c), A of adaptive_adjacency. Each rank multiplies the rows that
/// it owns; the sums for nodes of other ranks go to their owners, and backward brings their gradients here:
/// (n − owned)·B·c values each way. Collective over the ranks of the row blocks.
template <class T>
[[nodiscard]] Var<T> spread(Tape<T>& tape, const AllNodes& nodes, const Var<T>& adjacency, const Var<T>& x);

}  // namespace rossby
