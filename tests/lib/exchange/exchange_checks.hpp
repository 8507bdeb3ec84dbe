#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rossby/base/random.hpp"
#include "rossby/exchange/exchange.hpp"
#include "rossby/relation/relation_block.hpp"
#include "rossby/relation/row_partition.hpp"
#include "tests/support/shuffled_rows.hpp"

// Requirements of every exchange, for one rank, pretended ranks in one process, and real ranks.
namespace rossby::test {

/// The parts that this process plays: all in a dry run, one under MPI.
struct Players {
  std::vector<int> parts;
  std::vector<Exchange*> exchanges;
  std::vector<GhostList> ghosts;  // positions of each part's ghost rows, in order
  std::function<double(double)> sum = [](double x) { return x; };  // over all ranks
};

struct Case {
  std::string name;
  RowPartition partition;
};

/// Partitions of awkward sizes over `parts` parts.
inline std::vector<Case> awkward_partitions(int parts) {
  std::vector<Case> cases;
  for (const Index n : {0, 1, 2, 5, 13, 64})
    cases.push_back({"blocks of " + std::to_string(n), RowPartition::blocks(n, parts)});
  std::vector<double> heavy_head(11, 0.0);
  heavy_head[0] = 1;
  cases.push_back({"all weight on one row", RowPartition::blocks(11, parts, heavy_head)});
  for (const Index n : {3, 17, 50}) {
    std::vector<int> owners;
    for (Index i = 0; i < n; ++i)
      owners.push_back(static_cast<int>(Random(3, "owners").bits(static_cast<std::uint64_t>(i)) %
                                        static_cast<std::uint64_t>(parts)));
    cases.push_back({"scattered owners of " + std::to_string(n), RowPartition::from_owners(owners, parts)});
    cases.push_back({"rows in a random order", test::shuffled_rows(cases.back().partition)});
  }
  std::vector<int> last(9, parts - 1);
  cases.push_back({"everything on the last part", RowPartition::from_owners(last, parts)});
  return cases;
}

/// A random third of the positions owned elsewhere; every fifth part needs no ghosts.
inline GhostList some_ghosts(const RowPartition& partition, int part) {
  GhostList ghosts;
  if (part % 5 == 4) return ghosts;
  const Random random = Random(11, "ghosts").at(static_cast<std::uint64_t>(part));
  for (Index p = 0; p < partition.rows(); ++p)
    if ((p < partition.begin(part) || p >= partition.end(part)) &&
        random.uniform(static_cast<std::uint64_t>(p)) < 0.34)
      ghosts.push_back(Position{p});
  return ghosts;
}

inline GhostList all_positions(const RowPartition& partition) {
  GhostList ghosts;
  for (Index p = 0; p < partition.rows(); ++p) ghosts.push_back(Position{p});
  return ghosts;
}

/// A small whole number: sums are exact in float, so adjoint tests may require equality.
inline double whole(std::uint64_t key, Index row, Index b, Index c) {
  const auto counter = static_cast<std::uint64_t>((row * 64 + b) * 64 + c);
  return static_cast<double>(Random(key, "values").bits(counter) % 17) - 8;
}

/// Node data of one part in memory of its own, packed or strided like Z (cols, rows + 2, channels), between
/// guards.
template <class T>
struct Data {
  std::vector<T> memory;
  NodeView<T> view;
  Data(Index rows, Index cols, Index channels, bool strided, T fill = T{}) {
    if (strided) {
      memory.assign(static_cast<std::size_t>(cols * (rows + 2) * channels), fill);
      view = {memory.data() + channels, rows, cols, channels, channels, (rows + 2) * channels};
    } else {
      memory.assign(static_cast<std::size_t>(rows * cols * channels) + 2, fill);
      view = {memory.data() + 1, rows, cols, channels};
    }
  }
  template <class F>
  void set(F&& value) {
    for (Index i = 0; i < view.rows; ++i)
      for (Index b = 0; b < view.cols; ++b)
        for (Index c = 0; c < view.channels; ++c) view.at(i, b)[c] = static_cast<T>(value(i, b, c));
  }
  template <class F>
  void each(F&& visit) const {
    for (Index i = 0; i < view.rows; ++i)
      for (Index b = 0; b < view.cols; ++b)
        for (Index c = 0; c < view.channels; ++c) visit(i, b, c, view.at(i, b)[c]);
  }
};

inline Index global_of(const RowPartition& partition, Position p) {
  return partition.global(p).value;
}
inline Index global_of(const RowPartition& partition, int part, Index local) {
  return global_of(partition, Position{partition.begin(part) + local});
}

/// ghost(g) equals the owner's row to the bit, and nothing else is written.
template <class T>
void check_gather(const Players& players, const RowPartition& partition, Index cols, Index channels,
                  bool strided) {
  const T guard = std::numeric_limits<T>::quiet_NaN();
  std::vector<Data<T>> owned;
  std::vector<Data<T>> ghost;
  for (std::size_t k = 0; k < players.parts.size(); ++k) {
    const int part = players.parts[k];
    owned.emplace_back(partition.size(part), cols, channels, strided, guard);
    ghost.emplace_back(static_cast<Index>(players.ghosts[k].size()), cols, channels, false, guard);
    owned.back().set(
        [&](Index i, Index b, Index c) { return whole(1, global_of(partition, part, i), b, c) + 0.125; });
  }
  for (std::size_t k = 0; k < owned.size(); ++k)
    players.exchanges[k]->gather_begin(NodeView<const T>(owned[k].view), ghost[k].view);
  for (std::size_t k = 0; k < owned.size(); ++k) players.exchanges[k]->gather_end();
  for (std::size_t k = 0; k < owned.size(); ++k) {
    ghost[k].each([&](Index g, Index b, Index c, T value) {
      const Position p = players.ghosts[k][static_cast<std::size_t>(g)];
      ASSERT_EQ(value, static_cast<T>(whole(1, global_of(partition, p), b, c) + 0.125)) << "ghost " << g;
    });
    EXPECT_NE(ghost[k].memory.front(), ghost[k].memory.front()) << "the guard before the ghosts is gone";
    EXPECT_NE(ghost[k].memory.back(), ghost[k].memory.back()) << "the guard behind the ghosts is gone";
  }
}

/// ⟨G x, y⟩ = ⟨x, Gᵀ y⟩ exactly, in whole numbers. The scatter adds to existing values and writes only owned
/// rows.
template <class T>
void check_adjoint(const Players& players, const RowPartition& partition, Index cols, Index channels,
                   bool strided) {
  std::vector<Data<T>> x, gx, y, gty;
  for (std::size_t k = 0; k < players.parts.size(); ++k) {
    const int part = players.parts[k];
    const auto ghosts = static_cast<Index>(players.ghosts[k].size());
    x.emplace_back(partition.size(part), cols, channels, strided);
    gx.emplace_back(ghosts, cols, channels, false);
    y.emplace_back(ghosts, cols, channels, false);
    gty.emplace_back(partition.size(part), cols, channels, strided, T{5});
    x.back().set([&](Index i, Index b, Index c) { return whole(2, global_of(partition, part, i), b, c); });
    y.back().set(
        [&](Index g, Index b, Index c) { return whole(3 + static_cast<std::uint64_t>(part), g, b, c); });
    players.exchanges[k]->gather_begin(NodeView<const T>(x.back().view), gx.back().view);
  }
  for (std::size_t k = 0; k < x.size(); ++k) players.exchanges[k]->gather_end();
  for (std::size_t k = 0; k < x.size(); ++k)
    players.exchanges[k]->scatter_add_begin(NodeView<const T>(y[k].view), gty[k].view);
  for (std::size_t k = 0; k < x.size(); ++k) players.exchanges[k]->scatter_add_end();

  double left = 0;
  double right = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    gx[k].each(
        [&](Index g, Index b, Index c, T value) { left += double{value} * double{y[k].view.at(g, b)[c]}; });
    std::size_t fives = gty[k].memory.size() - static_cast<std::size_t>(gty[k].view.size());
    gty[k].each([&](Index i, Index b, Index c, T value) {
      right += double{x[k].view.at(i, b)[c]} * (double{value} - 5);
      if (value == T{5}) ++fives;
    });
    EXPECT_EQ(static_cast<std::size_t>(std::count(gty[k].memory.begin(), gty[k].memory.end(), T{5})), fives)
        << "something beside the owned rows was written";
  }
  EXPECT_EQ(players.sum(left), players.sum(right));
}

/// Adds random reals to random reals by scatter_add. Returns all owned rows of all played parts, bit by bit.
template <class T>
std::vector<T> scatter_bits(const Players& players, const RowPartition& partition, Index cols,
                            Index channels) {
  std::vector<Data<T>> y, z;
  for (std::size_t k = 0; k < players.parts.size(); ++k) {
    const int part = players.parts[k];
    const Random random(static_cast<std::uint64_t>(part), "reals");
    const auto real = [&](Index i, Index b, Index c) {
      return random.normal(static_cast<std::uint64_t>((i * 64 + b) * 64 + c));
    };
    y.emplace_back(static_cast<Index>(players.ghosts[k].size()), cols, channels, false);
    z.emplace_back(partition.size(part), cols, channels, false);
    y.back().set(real);
    z.back().set(real);
    players.exchanges[k]->scatter_add_begin(NodeView<const T>(y.back().view), z.back().view);
  }
  for (std::size_t k = 0; k < y.size(); ++k) players.exchanges[k]->scatter_add_end();
  std::vector<T> bits;
  for (const Data<T>& data : z) data.each([&](Index, Index, Index, T value) { bits.push_back(value); });
  return bits;
}

/// All checks above, for alternating widths, both scalars, packed and strided.
inline void check_exchange(const Players& players, const RowPartition& partition) {
  for (const auto& [cols, channels] :
       std::vector<std::pair<Index, Index>>{{1, 1}, {1, 7}, {3, 5}, {4, 16}, {0, 3}, {1, 7}})
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(std::to_string(cols) + " columns of " + std::to_string(channels) +
                   (strided ? " strided" : " packed"));
      check_gather<double>(players, partition, cols, channels, strided);
      check_gather<float>(players, partition, cols, channels, strided);
      check_adjoint<float>(players, partition, cols, channels, strided);
      check_adjoint<double>(players, partition, cols, channels, strided);
    }
  const auto first = scatter_bits<float>(players, partition, 2, 3);
  const auto second = scatter_bits<float>(players, partition, 2, 3);
  ASSERT_EQ(first.size(), second.size());
  EXPECT_TRUE(first.empty() || std::memcmp(first.data(), second.data(), first.size() * sizeof(float)) == 0);
}

}  // namespace rossby::test
