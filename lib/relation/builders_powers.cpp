#include <algorithm>
#include <cstddef>
#include <utility>

#include "rossby/base/error.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {
namespace {

/// Rows of W known to this part, by global row: its own, and those fetched from their owners as products
/// first touch them. Each row is fetched once, however many powers need it.
class RowStore {
 public:
  RowStore(const GlobalEdges& own, const RowPartition& partition, Mailbox& mailbox)
      : own_(own), partition_(partition), mailbox_(mailbox) {
    fetched_.relations = own.relations;
    fetched_.ptr.push_back(0);
  }

  /// Collective: makes the rows that `power` names as columns available.
  void fetch_columns_of(const GlobalEdges& power);

  struct Entries {
    std::span<const GlobalRow> column;
    std::span<const double> value;
  };
  /// Row `row` of relation k, one's own or fetched.
  [[nodiscard]] Entries row(GlobalRow row, int relation) const {
    const Index local = own_row(row);
    if (local >= 0) return list(own_, local, relation);
    const auto it = std::lower_bound(index_.begin(), index_.end(), std::pair{row, Index{0}});
    require(it != index_.end() && it->first == row, "a row that a product needs has not been fetched");
    return list(fetched_, it->second, relation);
  }

 private:
  /// Local number of a row that this part owns, −1 of any other.
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
  std::vector<std::pair<GlobalRow, Index>> index_;  // of each fetched row, ascending: its row in fetched_
};

std::vector<GlobalRow> RowStore::unknown_columns(const GlobalEdges& power) const {
  std::vector<GlobalRow> rows;
  for (const GlobalRow column : power.column)
    if (own_row(column) < 0) rows.push_back(column);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
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

/// One row of a product: a dense accumulator over the columns that the part's products can reach, numbered
/// compactly, so that its size is that of the rows touched and not n.
class Accumulator {
 public:
  explicit Accumulator(std::vector<GlobalRow> columns)
      : columns_(std::move(columns)), sum_(columns_.size(), 0.0), in_row_(columns_.size(), 0) {}

  void add(GlobalRow column, double value) {
    const auto at = static_cast<std::size_t>(std::lower_bound(columns_.begin(), columns_.end(), column) -
                                             columns_.begin());
    if (!in_row_[at]) {
      in_row_[at] = 1;
      touched_.push_back(at);
    }
    sum_[at] += value;
  }

  /// Appends the row by ascending column, without exact zeros, and clears it.
  void flush(GlobalEdges& out) {
    std::sort(touched_.begin(), touched_.end());
    for (const std::size_t at : touched_) {
      if (sum_[at] != 0) {
        out.column.push_back(columns_[at]);
        out.value.push_back(sum_[at]);
      }
      sum_[at] = 0;
      in_row_[at] = 0;
    }
    touched_.clear();
    out.ptr.push_back(out.entries());
  }

 private:
  std::vector<GlobalRow> columns_;  // ascending
  std::vector<double> sum_;
  std::vector<unsigned char> in_row_;
  std::vector<std::size_t> touched_;
};

/// The columns of power·W, all relations together, ascending.
std::vector<GlobalRow> reachable_columns(const GlobalEdges& power, const RowStore& store) {
  std::vector<GlobalRow> rows(power.column);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<GlobalRow> columns;
  for (const GlobalRow row : rows)
    for (int k = 0; k < power.relations; ++k) {
      const auto entries = store.row(row, k);
      columns.insert(columns.end(), entries.column.begin(), entries.column.end());
    }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  return columns;
}

/// W_k^h · W_k for every relation k. Row i sums over the columns j of the power in ascending global order:
/// the same sums in the same order at every number of parts.
GlobalEdges times(const GlobalEdges& power, const RowStore& store) {
  GlobalEdges out;
  out.rows = power.rows;
  out.relations = power.relations;
  out.ptr.reserve(power.ptr.size());
  out.ptr.push_back(0);
  Accumulator row(reachable_columns(power, store));
  for (Index i = 0; i < power.rows; ++i)
    for (int k = 0; k < power.relations; ++k) {
      for (Index e = power.begin(i, k); e < power.end(i, k); ++e) {
        const double weight = power.value[static_cast<std::size_t>(e)];
        const auto right = store.row(power.column[static_cast<std::size_t>(e)], k);
        for (std::size_t f = 0; f < right.column.size(); ++f)
          row.add(right.column[f], weight * right.value[f]);
      }
      row.flush(out);
    }
  return out;
}

}  // namespace

GlobalEdges powers(const GlobalEdges& edges, std::span<const int> hops, const RowPartition& partition,
                   Mailbox& mailbox) {
  require(edges.rows == partition.size(mailbox.part()), "relation rows must be the owned rows");
  require(mailbox.parts() == partition.parts(), "a mailbox for every part of the partition");
  if (hops.empty()) user_error("hops: the list of powers is empty; [1] keeps the relations as they are");
  for (std::size_t h = 0; h < hops.size(); ++h)
    if (hops[h] < 1 || (h > 0 && hops[h] <= hops[h - 1]))
      user_error("hops: {} stands at place {} of the list; powers are 1 or more and ascend", hops[h], h);

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
  std::vector<const GlobalEdges*> groups;
  for (const GlobalEdges& group : kept) groups.push_back(&group);
  return stack(groups);
}

}  // namespace rossby
