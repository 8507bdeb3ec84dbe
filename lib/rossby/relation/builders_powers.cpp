#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "rossby/base/user_error.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {
namespace {

std::vector<GlobalRow> sorted_once(std::vector<GlobalRow> rows) {
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

/// Rows of W known to this part, by global row: its own, and rows fetched from their owners when a product
/// first needs them. Each row is fetched once, for all powers.
class RowStore {
 public:
  RowStore(const GlobalEdges& own, const RowPartition& partition, Mailbox& mailbox)
      : own_(own), partition_(partition), mailbox_(mailbox) {
    fetched_.relations = own.relations;
    fetched_.ptr.push_back(0);
  }

  /// Fetches the rows that `power` has as columns. Collective.
  void fetch_columns_of(const GlobalEdges& power);

  struct Entries {
    std::span<const GlobalRow> column;
    std::span<const double> value;
  };
  /// Row `row` of relation k, owned or fetched.
  [[nodiscard]] Entries row(GlobalRow row, int relation) const {
    const Index local = own_row(row);
    if (local >= 0) return list(own_, local, relation);
    const auto it = std::lower_bound(index_.begin(), index_.end(), std::pair{row, Index{0}});
    require(it != index_.end() && it->first == row, "a row that a product needs has not been fetched");
    return list(fetched_, it->second, relation);
  }

 private:
  /// Local number of an owned row, −1 for any other.
  [[nodiscard]] Index own_row(GlobalRow row) const {
    const Index local = partition_.position(row).value - partition_.begin(mailbox_.part());
    return local >= 0 && local < own_.rows ? local : -1;
  }
  static Entries list(const GlobalEdges& edges, Index row, int relation) {
    const auto begin = static_cast<std::size_t>(edges.begin(row, relation));
    const auto count = static_cast<std::size_t>(edges.end(row, relation)) - begin;
    return {std::span(edges.column).subspan(begin, count), std::span(edges.value).subspan(begin, count)};
  }
  [[nodiscard]] std::vector<GlobalRow> unknown_columns(const GlobalEdges& power) const;
  [[nodiscard]] std::vector<std::byte> answer(std::span<const std::byte> request) const;
  void keep(std::span<const GlobalRow> rows, std::span<const std::byte> letter);

  const GlobalEdges& own_;
  const RowPartition& partition_;
  Mailbox& mailbox_;
  GlobalEdges fetched_;                             // in order of arrival
  std::vector<std::pair<GlobalRow, Index>> index_;  // each fetched row, ascending, and its row in fetched_
};

std::vector<GlobalRow> RowStore::unknown_columns(const GlobalEdges& power) const {
  std::vector<GlobalRow> rows;
  for (const GlobalRow column : power.column)
    if (own_row(column) < 0) rows.push_back(column);
  rows = sorted_once(std::move(rows));
  std::erase_if(rows, [&](GlobalRow row) {
    const auto it = std::lower_bound(index_.begin(), index_.end(), std::pair{row, Index{0}});
    return it != index_.end() && it->first == row;
  });
  return rows;
}

std::vector<std::byte> RowStore::answer(std::span<const std::byte> request) const {
  std::vector<std::byte> letter;
  LetterReader reader(request);
  while (!reader.done()) {
    const Index local = own_row(reader.read<GlobalRow>());
    require(local >= 0, "a row is asked of a part that does not own it");
    for (int k = 0; k < own_.relations; ++k) {
      const Entries entries = list(own_, local, k);
      write(letter, static_cast<Index>(entries.column.size()));
      write(letter, entries.column);
      write(letter, entries.value);
    }
  }
  return letter;
}

void RowStore::keep(std::span<const GlobalRow> rows, std::span<const std::byte> letter) {
  LetterReader reader(letter);
  for (const GlobalRow row : rows) {
    index_.emplace_back(row, fetched_.rows++);
    for (int k = 0; k < fetched_.relations; ++k) {
      const auto count = static_cast<std::size_t>(reader.read<Index>());
      const std::size_t first = fetched_.column.size();
      fetched_.column.resize(first + count);
      fetched_.value.resize(first + count);
      reader.read(std::span(fetched_.column).subspan(first));
      reader.read(std::span(fetched_.value).subspan(first));
      fetched_.ptr.push_back(fetched_.entries());
    }
  }
}

void RowStore::fetch_columns_of(const GlobalEdges& power) {
  const auto parts = static_cast<std::size_t>(mailbox_.parts());
  std::vector<std::vector<GlobalRow>> wanted(parts);
  for (const GlobalRow row : unknown_columns(power))
    wanted[static_cast<std::size_t>(partition_.owner(row))].push_back(row);
  Letters letters(parts);
  for (std::size_t p = 0; p < parts; ++p) write(letters[p], std::span<const GlobalRow>(wanted[p]));
  const Letters requests = mailbox_.swap(std::move(letters));
  Letters answers(parts);
  for (std::size_t p = 0; p < parts; ++p) answers[p] = answer(requests[p]);
  const Letters received = mailbox_.swap(std::move(answers));
  for (std::size_t p = 0; p < parts; ++p) keep(wanted[p], received[p]);
  std::sort(index_.begin(), index_.end());
}

/// The rows of W that a product's left side needs, with compact column numbers. Its size depends on the
/// product, not on n.
struct RightSide {
  std::vector<GlobalRow> rows;     // ascending
  std::vector<GlobalRow> columns;  // ascending
  int relations = 0;
  std::vector<Index> ptr;           // rows·relations + 1
  std::vector<LocalColumn> column;  // index into `columns`
  std::vector<double> value;
};

std::size_t place_in(const std::vector<GlobalRow>& ascending, GlobalRow row) {
  return static_cast<std::size_t>(std::lower_bound(ascending.begin(), ascending.end(), row) -
                                  ascending.begin());
}

RightSide right_side(const GlobalEdges& power, const RowStore& store) {
  RightSide right;
  right.rows = sorted_once(power.column);
  right.relations = power.relations;
  std::vector<GlobalRow> column;
  right.ptr.push_back(0);
  for (const GlobalRow row : right.rows)
    for (int k = 0; k < power.relations; ++k) {
      const auto entries = store.row(row, k);
      column.insert(column.end(), entries.column.begin(), entries.column.end());
      right.value.insert(right.value.end(), entries.value.begin(), entries.value.end());
      right.ptr.push_back(static_cast<Index>(column.size()));
    }
  right.columns = sorted_once(column);
  require(right.columns.size() < std::numeric_limits<LocalColumn>::max(),
          "columns of a product fit into 31 bits");
  right.column.reserve(column.size());
  for (const GlobalRow c : column)
    right.column.push_back(static_cast<LocalColumn>(place_in(right.columns, c)));
  return right;
}

/// One row of a product.
class Accumulator {
 public:
  explicit Accumulator(const RightSide& right)
      : right_(right), sum_(right.columns.size(), 0.0), in_row_(right.columns.size(), 0) {}

  /// Adds weight · (row `row` of relation k of the right side).
  void add(double weight, std::size_t row, int relation) {
    const std::size_t list =
        row * static_cast<std::size_t>(right_.relations) + static_cast<std::size_t>(relation);
    for (Index f = right_.ptr[list]; f < right_.ptr[list + 1]; ++f) {
      const LocalColumn column = right_.column[static_cast<std::size_t>(f)];
      const auto at = static_cast<std::size_t>(column);
      if (!in_row_[at]) {
        in_row_[at] = 1;
        touched_.push_back(column);
      }
      sum_[at] += weight * right_.value[static_cast<std::size_t>(f)];
    }
  }

  /// Appends the row by ascending column, without exact zeros, and clears the accumulator.
  void flush(GlobalEdges& out) {
    std::sort(touched_.begin(), touched_.end());
    for (const LocalColumn column : touched_) {
      const auto at = static_cast<std::size_t>(column);
      if (sum_[at] != 0) {
        out.column.push_back(right_.columns[at]);
        out.value.push_back(sum_[at]);
      }
      sum_[at] = 0;
      in_row_[at] = 0;
    }
    touched_.clear();
    out.ptr.push_back(out.entries());
  }

 private:
  const RightSide& right_;
  std::vector<double> sum_;
  std::vector<unsigned char> in_row_;
  std::vector<LocalColumn> touched_;
};

/// Returns W_k^h · W_k for every relation k. Row i sums over the columns j of the power in ascending global
/// order, so that sums are the same at every number of parts.
GlobalEdges times(const GlobalEdges& power, const RowStore& store) {
  GlobalEdges out;
  out.rows = power.rows;
  out.relations = power.relations;
  out.ptr.reserve(power.ptr.size());
  out.ptr.push_back(0);
  const RightSide right = right_side(power, store);
  Accumulator row(right);
  for (Index i = 0; i < power.rows; ++i)
    for (int k = 0; k < power.relations; ++k) {
      for (Index e = power.begin(i, k); e < power.end(i, k); ++e)
        row.add(power.value[static_cast<std::size_t>(e)],
                place_in(right.rows, power.column[static_cast<std::size_t>(e)]), k);
      row.flush(out);
    }
  return out;
}

/// Throws on all parts if a weight is not finite on any.
void check_finite(const std::vector<GlobalEdges>& kept, std::span<const int> hops, Mailbox& mailbox) {
  int worst = 0;
  for (std::size_t h = kept.size(); h-- > 0;)
    for (const double value : kept[h].value)
      if (!std::isfinite(value)) worst = hops[h];
  std::vector<std::byte> letter;
  write(letter, worst);
  for (const auto& from : mailbox.swap(Letters(static_cast<std::size_t>(mailbox.parts()), letter)))
    if (const int hop = LetterReader(from).read<int>(); hop > 0)
      user_error(
          "relation.hops: an entry of power {} is not finite. Set relation.normalise = true, or use lower "
          "powers",
          hop);
}

}  // namespace

GlobalEdges powers(const GlobalEdges& edges, std::span<const int> hops, const RowPartition& partition,
                   Mailbox& mailbox) {
  require(edges.rows == partition.size(mailbox.part()), "relation rows must be the owned rows");
  require(mailbox.parts() == partition.parts(), "a mailbox for every part of the partition");
  if (hops.empty())
    user_error("relation.hops is empty. Set relation.hops = [1] to use the relations unchanged");
  for (std::size_t h = 0; h < hops.size(); ++h)
    if (hops[h] < 1 || (h > 0 && hops[h] <= hops[h - 1]))
      user_error(
          "relation.hops[{1}] = {0} is not valid: hops must be at least 1, and each must be larger than the "
          "one before. Set for example relation.hops = [1, 2, 4]",
          hops[h], h);

  std::vector<GlobalEdges> kept;
  kept.reserve(hops.size());
  RowStore store(edges, partition, mailbox);
  GlobalEdges power = edges;
  int exponent = 1;
  for (const int hop : hops) {
    for (; exponent < hop; ++exponent) {
      store.fetch_columns_of(power);
      power = times(power, store);
    }
    kept.push_back(power);
  }
  check_finite(kept, hops, mailbox);
  std::vector<const GlobalEdges*> groups;
  for (const GlobalEdges& group : kept) groups.push_back(&group);
  return stack(groups);
}

}  // namespace rossby
