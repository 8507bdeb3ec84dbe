#include <algorithm>
#include <cmath>
#include <tuple>

#include "rossby/base/error.hpp"
#include "rossby/base/release.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {
namespace {

/// An entry of the transposed relations, in a message to the owner of its row.
struct Reverse {
  Index row;  // local to its owner
  Index column;
  double value;
  int relation;
  int padding;
};

GlobalEdges concatenate(const GlobalEdges& a, const GlobalEdges& b) {
  const GlobalEdges* groups[] = {&a, &b};
  return stack(groups);
}

}  // namespace

GlobalEdges transpose(const GlobalEdges& edges, const RowPartition& partition, Mailbox& mailbox) {
  require(mailbox.parts() == partition.parts(), "a mailbox for every part of the partition");
  const int part = mailbox.part();
  require(edges.rows == partition.size(part), "relation rows must be the owned rows");
  Letters letters(static_cast<std::size_t>(mailbox.parts()));
  for (Index i = 0; i < edges.rows; ++i) {
    const Index row = partition.global(Position{partition.begin(part) + i}).value;
    for (int k = 0; k < edges.relations; ++k)
      for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e) {
        const Position to = partition.position(edges.column[static_cast<std::size_t>(e)]);
        const int owner = partition.owner(to);
        const Reverse entry{to.value - partition.begin(owner), row, edges.value[static_cast<std::size_t>(e)],
                            k, 0};
        write(letters[static_cast<std::size_t>(owner)], entry);
      }
  }
  std::vector<Reverse> entries;
  for (auto& letter : mailbox.swap(std::move(letters))) {
    const std::size_t first = entries.size();
    entries.resize(first + letter.size() / sizeof(Reverse));
    LetterReader(letter).read(std::span(entries).subspan(first));
    release(letter);
  }
  std::sort(entries.begin(), entries.end(), [](const Reverse& a, const Reverse& b) {
    return std::tie(a.row, a.relation, a.column) < std::tie(b.row, b.relation, b.column);
  });
  GlobalEdges out;
  out.rows = edges.rows;
  out.relations = edges.relations;
  out.ptr.assign(static_cast<std::size_t>(out.rows * out.relations) + 1, 0);
  for (const Reverse& entry : entries) {
    out.column.push_back(GlobalRow{entry.column});
    out.value.push_back(entry.value);
    ++out.ptr[static_cast<std::size_t>(entry.row * out.relations + entry.relation) + 1];
  }
  for (std::size_t i = 1; i < out.ptr.size(); ++i) out.ptr[i] += out.ptr[i - 1];
  return out;
}

GlobalEdges normalise_symmetrically(const GlobalEdges& edges, const RowPartition& partition,
                                    Mailbox& mailbox) {
  const auto lists = static_cast<std::size_t>(edges.rows * edges.relations);
  std::vector<double> scale(lists);  // per (row, relation); also for rows of the transposed relation
  for (std::size_t list = 0; list < lists; ++list) {
    double sum = 0;
    for (Index e = edges.ptr[list]; e < edges.ptr[list + 1]; ++e)
      sum += edges.value[static_cast<std::size_t>(e)];
    scale[list] = sum > 0 ? 1 / std::sqrt(sum) : 0;
  }
  const auto scale_rows = [&](GlobalEdges& relations) {
    for (std::size_t list = 0; list < lists; ++list)
      for (Index e = relations.ptr[list]; e < relations.ptr[list + 1]; ++e)
        relations.value[static_cast<std::size_t>(e)] *= scale[list];
  };
  GlobalEdges columns = transpose(edges, partition, mailbox);
  scale_rows(columns);
  GlobalEdges out = transpose(columns, partition, mailbox);
  scale_rows(out);
  return out;
}

GlobalEdges random_walks(const GlobalEdges& edges, bool both_directions, const RowPartition& partition,
                         Mailbox& mailbox) {
  GlobalEdges out = transpose(edges, partition, mailbox);
  normalise_rows(out);
  GlobalEdges forward = transpose(out, partition, mailbox);
  if (!both_directions) return forward;
  GlobalEdges in = edges;
  normalise_rows(in);
  return concatenate(forward, transpose(in, partition, mailbox));
}

}  // namespace rossby
