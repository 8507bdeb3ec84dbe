#pragma once

#include <span>
#include <vector>

#include "rossby/relation/edges.hpp"
#include "rossby/relation/mailbox.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// A directed edge as listed in files: source acts on destination. It becomes entry W[destination, source].
struct Edge {
  Index source = 0;
  Index destination = 0;
  int relation = 0;
  double weight = 1;
};

/// A (lat, lon) grid whose cells may be nodes. node_of_cell[lat·n_lon + lon] = global row, or −1 on land.
struct Grid {
  Index n_lat = 0;
  Index n_lon = 0;
  std::vector<Index> node_of_cell;
  bool periodic_lon = false;
  std::vector<std::uint8_t> apart = {};  // 1: columns j and j + 1 are not adjacent; empty: all adjacent
};

/// Adjacency of columns on a longitude axis (degrees).
struct ColumnJoins {
  bool round = false;               // the last and first columns are adjacent
  std::vector<std::uint8_t> apart;  // as in Grid
};

/// Decides which columns are adjacent. Neighbouring columns are not adjacent if their distance exceeds 2.5
/// times the distances on either side. Such a gap separates the ends of a region across the date line, sorted
/// from −180 to 180. The last column is adjacent to the first if their distance is at most 1.5 times a step
/// at an end. Distances are the shorter way round.
[[nodiscard]] ColumnJoins join_columns(std::span<const double> longitude);

enum class GridRelations {
  one,         // r = 1: all eight neighbours in one relation
  directional  // r = 8: one relation per direction: N, NE, E, SE, S, SW, W, NW (N = lat index + 1)
};

/// Neighbours on a grid, weight 1. Cells off the grid or on land have no edges. Entry W[i, j]: j is i's
/// neighbour in that direction. If periodic_lon is set and the grid has at least three columns, the east and
/// west edges are joined. Columns that are not adjacent have no edges between them. No communication: every
/// rank builds its own rows.
GlobalEdges grid_neighbours(const Grid& grid, GridRelations kind, const RowPartition& partition, int part);

/// r = 1: for each owned node, its k nearest other nodes by great-circle distance (degrees in; ties by global
/// row), weight 1; all n−1 others if k ≥ n. Every rank passes the coordinates of all n nodes (16 bytes per
/// node; the search tree temporarily needs another 33). Distances that differ by less than 2⁻³² of the
/// sphere's radius (1.5 mm on Earth) count as ties, so that equal distances on a regular grid are ties.
/// Throws UserError with the first node whose latitude is outside ±90 or whose coordinates are not finite.
/// O(n log n) to build the tree, O(owned · (k + log n)) to search.
GlobalEdges nearest_neighbours(std::span<const double> latitude, std::span<const double> longitude, int k,
                               const RowPartition& partition, int part);

/// Builds relations from a list of edges. Each rank passes its slice of the list (slices in rank order) and
/// gets its owned rows. Duplicates are summed in list order; sums of zero make no entry. Throws the same
/// UserError on all ranks for the first edge, by its number in the whole list, with a node outside 0…n−1, a
/// relation outside 0…relations−1, or a weight that is not finite or beyond ±1e30. Collective.
GlobalEdges from_edge_list(std::span<const Edge> share, int relations, const RowPartition& partition,
                           Mailbox& mailbox);

/// Sets W[i, i] = weight in every row of every relation, present or not. Weight 0 removes the entry.
GlobalEdges with_self_loops(const GlobalEdges& edges, double weight, const RowPartition& partition, int part);

/// Divides each row of each relation by its sum. Rows that sum to zero are unchanged. A sum below 1e-12 of
/// the sum of magnitudes counts as zero up to rounding.
void normalise_rows(GlobalEdges& edges);

/// Returns W, W², …, W^K of each relation: r·K relations ordered by power first, [W_1…W_r, W_1²…W_r², …], as
/// in the reference STNN code. `hops` lists the powers to keep, ascending, e.g. {1, 2, 4}. Collective: each
/// row of a neighbour is fetched once from its owner. No rank holds more than its own rows and the rows that
/// its products need. Exact zeros of a product (cancellation, underflow) make no entry. Sums run by ascending
/// global column, so that results are bitwise equal at every number of ranks. Throws UserError if `hops` is
/// empty, does not ascend or contains a number below 1, and on all ranks if an entry of a power is not
/// finite.
GlobalEdges powers(const GlobalEdges& edges, std::span<const int> hops, const RowPartition& partition,
                   Mailbox& mailbox);

/// Returns W_kᵀ of each relation. Collective: every entry goes to the owner of its column.
GlobalEdges transpose(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// Supports of diffusion convolutions (Li, Yu, Shahabi, Liu, ICLR 2018), from relations whose W[i, j] means
/// that j acts on i, an edge j → i. With A = Wᵀ, D_O its row sums and D_I its column sums:
///
///     S_1 = (D_O⁻¹ A)ᵀ    S_1[i, j] = W[i, j] / Σ_l W[l, j]    a node receives over its incoming edges
///     S_2 = (D_I⁻¹ Aᵀ)ᵀ   S_2[i, j] = W[j, i] / Σ_l W[j, l]    over its outgoing ones (`both_directions`)
///
/// Columns sum to 1, or to 0 if a node has no edge in that direction. r relations give r or 2 r supports, all
/// S_1 before all S_2. Collective.
GlobalEdges random_walks(const GlobalEdges& edges, bool both_directions, const RowPartition& partition,
                         Mailbox& mailbox);

/// Returns D^{−1/2} W D^{−1/2} of each relation, with D its row sums. If W is symmetric and has self-loops,
/// this is the normalised adjacency matrix of graph convolutions (Kipf, Welling, ICLR 2017). Rows that sum to
/// zero or less are scaled by 0. Collective.
GlobalEdges normalise_symmetrically(const GlobalEdges& edges, const RowPartition& partition,
                                    Mailbox& mailbox);

/// Makes every edge bidirectional: W'[i, j] = max(W[i, j], W[j, i]). An edge in only one direction counts for
/// both. Collective.
GlobalEdges undirected(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// Returns L̃ = 2 L / λ_max − I of each relation, made undirected, with non-negative weights. Graph
/// convolutions use Chebyshev polynomials of L̃ (Defferrard, Bresson, Vandergheynst, NeurIPS 2016; Yu, Yin,
/// Zhu, IJCAI 2018, eq. 4). L = I − D^{−1/2} W D^{−1/2} is the normalised Laplacian. A node without edges has
/// a row of zeros in L.
///
/// λ_max is set to 2, an upper bound of the eigenvalues of L, so that L̃ = L − I. The exact value would gain
/// nothing: polynomials of one degree in two scalings of L are the same functions of the signal, and the
/// spectrum of L̃ is within [−1, 1] anyway. An iteration for λ_max would sum over ranks, and entries would
/// depend on their number. Collective.
GlobalEdges scaled_laplacian(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox);

/// Concatenates the relations of several groups, in order.
GlobalEdges stack(std::span<const GlobalEdges* const> groups);

}  // namespace rossby
