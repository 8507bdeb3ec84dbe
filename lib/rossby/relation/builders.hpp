#pragma once

#include <span>
#include <vector>

#include "rossby/relation/edges.hpp"
#include "rossby/relation/mailbox.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// One directed edge as files list it: source acts on destination, so it becomes entry W[destination,
/// source].
struct Edge {
  Index source = 0;
  Index destination = 0;
  int relation = 0;
  double weight = 1;
};

/// A (lat, lon) grid whose cells may be nodes. node_of_cell[lat·n_lon + lon] = global row, −1 on land.
struct Grid {
  Index n_lat = 0;
  Index n_lon = 0;
  std::vector<Index> node_of_cell;
  bool periodic_lon = false;
  std::vector<std::uint8_t> apart = {};  // 1: column j does not touch column j + 1; empty: all do
};

/// Which columns of a longitude axis (degrees) touch.
struct ColumnJoins {
  bool round = false;               // the last and the first
  std::vector<std::uint8_t> apart;  // as in Grid
};

/// Columns beside each other do not touch where they are more than 2.5 times as far apart as those on either
/// side: so far apart lie the ends of a region across the date line whose longitudes were sorted, −180 to
/// 180. The last touches the first where they are at most 1.5 times as far apart as a step at an end.
/// Distances are the shorter way round.
[[nodiscard]] ColumnJoins join_columns(std::span<const double> longitude);

enum class GridRelations {
  one,         // r = 1: the eight neighbours together
  directional  // r = 8: one relation a direction, in the order N, NE, E, SE, S, SW, W, NW (N = lat index + 1)
};

/// Neighbours on a grid, weight 1; cells off the grid or on land have no edges. Entry W[i, j]: j is i's
/// neighbour in that direction. The east and west edge are joined where periodic_lon is set and the grid has
/// three columns or more; columns that lie apart have no edges between them. No communication: every rank
/// builds its own rows.
GlobalEdges grid_neighbours(const Grid& grid, GridRelations kind, const RowPartition& partition, int part);

/// r = 1: for each owned node its k nearest other nodes by great-circle distance (degrees in; ties by global
/// row), weight 1. Coordinates of all n nodes are given on every rank (16 bytes a node; the search tree takes
/// another 33 while it lives). Distances that differ by less than 2⁻³² of the sphere's radius (1.5 mm on
/// Earth) count as ties, so that a regular grid's equal distances are; all n−1 others where k ≥ n. Throws
/// UserError naming the first node whose latitude is not within ±90 or whose coordinates are not finite. O(n
/// log n) to build the tree, O(owned · (k + log n)) to search.
GlobalEdges nearest_neighbours(std::span<const double> latitude, std::span<const double> longitude, int k,
                               const RowPartition& partition, int part);

/// From a list of edges: each rank passes its slice of the list (slices in rank order) and gets the rows it
/// owns. Duplicates add up in the order of the list; entries that sum to zero are no entries. Throws
/// UserError naming the first edge, by its number in the whole list, with a node outside 0…n−1, a relation
/// outside 0…relations−1 or a weight that is not finite or beyond ±1e30: the same error on all ranks.
/// Collective.
GlobalEdges from_edge_list(std::span<const Edge> share, int relations, const RowPartition& partition,
                           Mailbox& mailbox);

/// Sets W[i, i] = weight in every row of every relation, whether or not an entry is there; weight 0 takes it
/// away.
GlobalEdges with_self_loops(const GlobalEdges& edges, double weight, const RowPartition& partition, int part);

/// Divides each row of each relation by its sum; rows that sum to zero stay as they are. A sum below 1e-12 of
/// the sum of magnitudes is what rounding leaves of zero.
void normalise_rows(GlobalEdges& edges);

/// W, W², …, W^K of each relation: r·K relations ordered by power first, [W_1…W_r, W_1²…W_r², …], as the
/// reference STNN code has them. `hops` names the powers that are kept, ascending, e.g. {1, 2, 4}.
/// Collective: rows of neighbours are fetched from their owners, each once; no rank holds more than its rows
/// and those its products touch. Exact zeros of a product (cancellation, underflow) are no entries. The sums
/// run by ascending global column: the same bits at every number of ranks. Throws UserError where `hops` is
/// empty, does not ascend or holds a number below 1, and on all
/// ranks where an entry of a power is not finite.
GlobalEdges powers(const GlobalEdges& edges, std::span<const int> hops, const RowPartition& partition,
                   Mailbox& mailbox);

/// W_kᵀ of each relation. Collective: every entry goes to the owner of its column.
GlobalEdges transpose(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// Supports of diffusion convolutions (Li, Yu, Shahabi, Liu, ICLR 2018), from relations where W[i, j] says
/// that j acts on i, an edge j → i: with A = Wᵀ, D_O its row sums and D_I its column sums
///
///     S_1 = (D_O⁻¹ A)ᵀ    S_1[i, j] = W[i, j] / Σ_l W[l, j]    a node receives over its incoming edges
///     S_2 = (D_I⁻¹ Aᵀ)ᵀ   S_2[i, j] = W[j, i] / Σ_l W[j, l]    over its outgoing ones (`both_directions`)
///
/// Columns sum to 1, or to 0 where a node has no edge of that direction. r relations give r or 2 r supports,
/// all S_1 before all S_2. Collective.
GlobalEdges random_walks(const GlobalEdges& edges, bool both_directions, const RowPartition& partition,
                         Mailbox& mailbox);

/// D^{−1/2} W D^{−1/2} of each relation with D its row sums: the normalised adjacency matrix of graph
/// convolutions (Kipf, Welling, ICLR 2017) where W is symmetric and has self-loops. Rows that sum to zero or
/// less are scaled by 0. Collective.
GlobalEdges normalise_symmetrically(const GlobalEdges& edges, const RowPartition& partition,
                                    Mailbox& mailbox);

/// Both directions of every edge: W'[i, j] = max(W[i, j], W[j, i]), where an edge of one direction alone
/// counts for both. Collective.
GlobalEdges undirected(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// L̃ = 2 L / λ_max − I of each relation, made undirected, with weights that are not negative: what graph
/// convolutions take Chebyshev polynomials of (Defferrard, Bresson, Vandergheynst, NeurIPS 2016; Yu, Yin,
/// Zhu, IJCAI 2018, eq. 4). L = I − D^{−1/2} W D^{−1/2} is the normalised Laplacian; a node without edges has
/// a row of zeros in L.
///
/// λ_max is taken as 2, which no eigenvalue of L exceeds, so that L̃ = L − I. The exact value would bring
/// nothing: polynomials of one degree of two scalings of L are the same functions of the signal, the spectrum
/// of L̃ is within [−1, 1] in any case, and an iteration for λ_max would sum over ranks, so that entries would
/// depend on their number. Collective.
GlobalEdges scaled_laplacian(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// Relations of several groups as one, in order.
GlobalEdges stack(std::span<const GlobalEdges* const> groups);

}  // namespace rossby
