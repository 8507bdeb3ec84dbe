#include "rossby/relation/row_partition.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rossby/base/user_error.hpp"

namespace rossby {

RowPartition RowPartition::blocks(Index rows, int parts, std::span<const double> weights) {
  require(rows >= 0 && parts >= 1, "a partition needs rows >= 0 and parts >= 1");
  require(weights.empty() || static_cast<Index>(weights.size()) == rows, "one weight a row");
  RowPartition partition;
  partition.rows_ = rows;
  partition.begin_.assign(static_cast<std::size_t>(parts) + 1, 0);
  for (const double weight : weights)
    require(std::isfinite(weight) && weight >= 0, "weights are finite and not negative");
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (total == 0) {
    for (int p = 0; p < parts; ++p)
      partition.begin_[static_cast<std::size_t>(p) + 1] =
          partition.begin_[static_cast<std::size_t>(p)] + rows / parts + (p < rows % parts ? 1 : 0);
    return partition;
  }
  double before = 0;
  Index row = 0;
  for (int p = 1; p < parts; ++p) {
    // No part stays empty while another one has two rows.
    const Index low = rows >= parts ? row + 1 : std::max(row, rows - (parts - p));
    const Index high = rows >= parts ? rows - (parts - p) : std::min(row + 1, rows);
    const double target = total * p / parts;
    while (row < low || (row < high && before + weights[static_cast<std::size_t>(row)] / 2 < target))
      before += weights[static_cast<std::size_t>(row++)];
    partition.begin_[static_cast<std::size_t>(p)] = row;
  }
  partition.begin_.back() = rows;
  return partition;
}

RowPartition RowPartition::from_owners(std::span<const int> owners, int parts) {
  require(parts >= 1, "a partition needs at least one part");
  require(owners.size() < (std::size_t{1} << 31), "positions are stored in 32 bits");
  RowPartition partition;
  partition.rows_ = static_cast<Index>(owners.size());
  partition.begin_.assign(static_cast<std::size_t>(parts) + 1, 0);
  for (std::size_t i = 0; i < owners.size(); ++i) {
    if (owners[i] < 0 || owners[i] >= parts)
      user_error("partition: node {} is given to part {}, but parts are 0…{}", i, owners[i], parts - 1);
    ++partition.begin_[static_cast<std::size_t>(owners[i]) + 1];
  }
  std::partial_sum(partition.begin_.begin(), partition.begin_.end(), partition.begin_.begin());
  if (std::is_sorted(owners.begin(), owners.end())) return partition;  // contiguous already

  std::vector<Index> next(partition.begin_.begin(), partition.begin_.end() - 1);
  partition.position_.resize(owners.size());
  partition.global_.resize(owners.size());
  for (std::size_t i = 0; i < owners.size(); ++i) {
    const Index position = next[static_cast<std::size_t>(owners[i])]++;
    partition.position_[i] = static_cast<std::int32_t>(position);
    partition.global_[static_cast<std::size_t>(position)] = static_cast<Index>(i);
  }
  return partition;
}

RowPartition RowPartition::reordered(std::span<const Index> rows) const {
  require(static_cast<Index>(rows.size()) == rows_, "one row for each position");
  require(rows.size() < (std::size_t{1} << 31), "positions are stored in 32 bits");
  RowPartition partition;
  partition.rows_ = rows_;
  partition.begin_ = begin_;
  partition.position_.assign(rows.size(), -1);
  partition.global_.assign(rows.begin(), rows.end());
  int part = 0;
  for (std::size_t p = 0; p < rows.size(); ++p) {
    const auto at = static_cast<Index>(p);
    while (at >= end(part)) ++part;
    require(rows[p] >= 0 && rows[p] < rows_ && owner(GlobalRow{rows[p]}) == part &&
                partition.position_[static_cast<std::size_t>(rows[p])] < 0,
            "every position of a part names a row of its own, once");
    partition.position_[static_cast<std::size_t>(rows[p])] = static_cast<std::int32_t>(at);
  }
  if (std::is_sorted(rows.begin(), rows.end())) {
    partition.position_.clear();
    partition.global_.clear();
  }
  return partition;
}

Position RowPartition::position(GlobalRow row) const {
  return Position{identity() ? row.value : position_[static_cast<std::size_t>(row.value)]};
}

GlobalRow RowPartition::global(Position position) const {
  return GlobalRow{identity() ? position.value : global_[static_cast<std::size_t>(position.value)]};
}

int RowPartition::owner(Position position) const {
  const auto it = std::upper_bound(begin_.begin(), begin_.end(), position.value);
  return static_cast<int>(it - begin_.begin()) - 1;
}

std::vector<GlobalRow> RowPartition::rows_of(int part) const {
  std::vector<GlobalRow> rows;
  rows.reserve(static_cast<std::size_t>(size(part)));
  for (Index p = begin(part); p < end(part); ++p) rows.push_back(global(Position{p}));
  return rows;
}

std::vector<Index> RowPartition::by_global_row(int part) const {
  std::vector<Index> local(static_cast<std::size_t>(size(part)));
  std::iota(local.begin(), local.end(), Index{0});
  const Index first = begin(part);
  const auto row = [&](Index i) { return global(Position{first + i}).value; };
  if (!identity()) std::sort(local.begin(), local.end(), [&](Index a, Index b) { return row(a) < row(b); });
  return local;
}

}  // namespace rossby
