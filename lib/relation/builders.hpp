#pragma once

#include <span>
#include <vector>

#include "rossby/relation/edges.hpp"
#include "rossby/relation/mailbox.hpp"
#include "rossby/relation/row_partition.hpp"

namespace rossby {

/// One directed edge as files list it: source acts on destination, so it becomes entry W[destination, source].
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
};

enum class GridRelations {
  one,         // r = 1: the eight neighbours together
  directional  // r = 8: one relation a direction, in the order N, NE, E, SE, S, SW, W, NW (N = lat index + 1)
};

/// Neighbours on a grid, weight 1; cells off the grid or on land have no edges. Entry W[i, j]: j is i's neighbour in that
/// direction. No communication: every rank builds its own rows.
GlobalEdges grid_neighbours(const Grid& grid, GridRelations kind, const RowPartition& partition, int part);

/// r = 1: for each owned node its k nearest other nodes by great-circle distance (degrees in; ties by global row), weight 1.
/// Coordinates of all n nodes are given on every rank (16 bytes a node). O(owned · log n).
GlobalEdges nearest_neighbours(std::span<const double> latitude, std::span<const double> longitude, int k,
                               const RowPartition& partition, int part);

/// From a list of edges: each rank passes any share of the list (its slice of the file) and gets the rows it owns.
/// Duplicates add up. Throws UserError naming the first edge with a node outside 0…n−1, a relation outside 0…relations−1 or
/// a weight that is not finite; the caller lets all ranks agree on it. Collective.
GlobalEdges from_edge_list(std::span<const Edge> share, int relations, const RowPartition& partition, Mailbox& mailbox);

/// Adds W[i, i] = weight to every row of every relation (replacing an entry that is there).
GlobalEdges with_self_loops(const GlobalEdges& edges, double weight, const RowPartition& partition, int part);

/// Divides each row of each relation by its sum; rows that sum to zero stay as they are.
void normalise_rows(GlobalEdges& edges);

/// W, W², …, W^K of each relation: r·K relations ordered by power first, [W_1…W_r, W_1²…W_r², …], as the reference STNN
/// code has them. `hops` names the powers that are kept, ascending, e.g. {1, 2, 4}. Collective: rows of neighbours are
/// fetched from their owners; no rank holds more than its rows and those its products touch.
GlobalEdges powers(const GlobalEdges& edges, std::span<const int> hops, const RowPartition& partition, Mailbox& mailbox);

/// Relations of several groups as one, in order.
GlobalEdges stack(std::span<const GlobalEdges* const> groups);

}  // namespace rossby
