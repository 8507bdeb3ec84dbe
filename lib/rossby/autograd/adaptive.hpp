#pragma once

#include <span>
#include <vector>

#include "rossby/autograd/parameter.hpp"
#include "rossby/autograd/tape.hpp"
#include "rossby/exchange/exchange.hpp"

namespace rossby {

/// The positions of all nodes on a rank, for relations in which every node acts on every node. The rank owns
/// some of them.
struct AllNodes {
  std::vector<Index> global;     // global row of each position
  Index first = 0;               // this rank's first position
  Index owned = 0;               // number of owned positions
  Exchange* exchange = nullptr;  // its ghosts are all positions; null: this rank owns all rows

  [[nodiscard]] Index rows() const { return static_cast<Index>(global.size()); }
  [[nodiscard]] std::span<const Index> own() const {
    return std::span(global).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(owned));
  }
};

/// Returns A (owned, 1, n) = softmax over w of relu(s_v · t_w): this rank's rows v of a learned adjacency
/// over all positions w (Wu et al., "Graph WaveNet", IJCAI 2019, eq. 5). `source` and `target` are (n, k) in
/// global row order, replicated. `nodes` must outlive the tape's step.
template <class T>
[[nodiscard]] Var<T> adaptive_adjacency(Tape<T>& tape, const AllNodes& nodes, Parameter<T>& source,
                                        Parameter<T>& target);

/// Returns y_w = Σ_v A[v, w] x_v, with x and y (owned, B, c) and A from adaptive_adjacency. Each rank
/// multiplies its owned rows and sends the sums for other nodes to their owners. Backward fetches the
/// gradients of those sums. Both directions move (n − owned)·B·c values. Collective over the ranks of the row
/// blocks.
template <class T>
[[nodiscard]] Var<T> spread(Tape<T>& tape, const AllNodes& nodes, const Var<T>& adjacency, const Var<T>& x);

}  // namespace rossby
