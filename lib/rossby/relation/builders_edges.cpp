#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>

#include "rossby/base/release.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/relation/builders.hpp"
#include "rossby/relation/letters.hpp"

namespace rossby {
namespace {

struct Entry {
  Index row;     // local to its owner
  Index column;  // global
  double weight;
  int relation;
  int unused;  // no undefined bytes in a message
};

/// Keeps sums of duplicates finite, also in single precision.
constexpr double largest_weight = 1e30;

/// Describes what is wrong with an edge; empty if it is valid.
std::string fault(const Edge& edge, int relations, Index nodes) {
  for (const auto& [name, node] :
       {std::pair{"source", edge.source}, std::pair{"destination", edge.destination}})
    if (node < 0 || node >= nodes)
      return fmt::format("has {} node {}, but the nodes are numbered from 0 and there are {}", name, node,
                         nodes);
  if (edge.relation < 0 || edge.relation >= relations)
    return fmt::format("has relation {}, but relations are numbered from 0 and there are {}", edge.relation,
                       relations);
  if (!(std::abs(edge.weight) <= largest_weight))
    return fmt::format("has weight {}, but weights have to be finite numbers of at most {}", edge.weight,
                       largest_weight);
  return {};
}

/// Throws the same message on all parts if any share contains an invalid edge. If one part threw alone, the
/// others would wait for its messages. Edges are numbered through the shares in part order, as in the file.
void check_together(std::span<const Edge> share, int relations, Index nodes, Mailbox& mailbox) {
  Index bad = -1;
  std::string message;
  for (std::size_t e = 0; e < share.size() && bad < 0; ++e) {
    message = fault(share[e], relations, nodes);
    if (!message.empty()) bad = static_cast<Index>(e);
  }
  std::vector<std::byte> letter;
  write(letter, static_cast<Index>(share.size()));
  write(letter, bad);
  write(letter, std::span<const char>(message));
  const Letters received = mailbox.swap(Letters(static_cast<std::size_t>(mailbox.parts()), letter));

  Index before = 0;
  for (const auto& from : received) {
    LetterReader reader(from);
    const auto count = reader.read<Index>();
    const auto edge = reader.read<Index>();
    if (edge >= 0) {
      std::string text;
      while (!reader.done()) text += reader.read<char>();
      user_error("edge list: edge {} {}. Correct this edge", before + edge, text);
    }
    before += count;
  }
}

/// Returns the entries of this part's rows, in list order.
std::vector<Entry> deliver(std::span<const Edge> share, const RowPartition& partition, Mailbox& mailbox) {
  Letters letters(static_cast<std::size_t>(mailbox.parts()));
  for (const Edge& edge : share) {
    const Position position = partition.position(GlobalRow{edge.destination});
    const int owner = partition.owner(position);
    const Entry entry{position.value - partition.begin(owner), edge.source, edge.weight, edge.relation, 0};
    write(letters[static_cast<std::size_t>(owner)], entry);
  }
  Letters received = mailbox.swap(std::move(letters));
  std::vector<Entry> entries;
  for (auto& letter : received) {
    const std::size_t first = entries.size();
    entries.resize(first + letter.size() / sizeof(Entry));
    LetterReader(letter).read(std::span(entries).subspan(first));
    release(letter);  // a slice can be large
  }
  return entries;
}

GlobalEdges empty_like(const GlobalEdges& edges) {
  GlobalEdges out;
  out.rows = edges.rows;
  out.relations = edges.relations;
  out.ptr.reserve(edges.ptr.size());
  out.ptr.push_back(0);
  return out;
}

}  // namespace

GlobalEdges from_edge_list(std::span<const Edge> share, int relations, const RowPartition& partition,
                           Mailbox& mailbox) {
  require(relations >= 0, "relations >= 0");
  require(mailbox.parts() == partition.parts(), "a mailbox for every part of the partition");
  check_together(share, relations, partition.rows(), mailbox);
  std::vector<Entry> entries = deliver(share, partition, mailbox);
  const auto place = [](const Entry& e) { return std::tie(e.row, e.relation, e.column); };
  // Stable: duplicates are summed in list order at any number of parts.
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const Entry& a, const Entry& b) { return place(a) < place(b); });

  GlobalEdges edges;
  edges.rows = partition.size(mailbox.part());
  edges.relations = relations;
  edges.ptr.assign(static_cast<std::size_t>(edges.rows * relations) + 1, 0);
  for (std::size_t e = 0; e < entries.size();) {
    const Entry& first = entries[e];
    double sum = 0;
    for (; e < entries.size() && place(entries[e]) == place(first); ++e) sum += entries[e].weight;
    if (sum == 0) continue;
    edges.column.push_back(GlobalRow{first.column});
    edges.value.push_back(sum);
    ++edges.ptr[static_cast<std::size_t>(first.row * relations + first.relation) + 1];
  }
  for (std::size_t i = 1; i < edges.ptr.size(); ++i) edges.ptr[i] += edges.ptr[i - 1];
  return edges;
}

GlobalEdges with_self_loops(const GlobalEdges& edges, double weight, const RowPartition& partition,
                            int part) {
  require(edges.rows == partition.size(part), "relation rows must be the owned rows");
  if (!(std::abs(weight) <= largest_weight))
    user_error("self-loops: weight {} is not a finite number of at most {}", weight, largest_weight);
  GlobalEdges out = empty_like(edges);
  for (Index i = 0; i < edges.rows; ++i) {
    const GlobalRow self = partition.global(Position{partition.begin(part) + i});
    for (int k = 0; k < edges.relations; ++k) {
      bool placed = weight == 0;
      const auto place = [&] {
        out.column.push_back(self);
        out.value.push_back(weight);
        placed = true;
      };
      for (Index e = edges.begin(i, k); e < edges.end(i, k); ++e) {
        const GlobalRow column = edges.column[static_cast<std::size_t>(e)];
        if (column == self) continue;
        if (!placed && self < column) place();
        out.column.push_back(column);
        out.value.push_back(edges.value[static_cast<std::size_t>(e)]);
      }
      if (!placed) place();
      out.ptr.push_back(out.entries());
    }
  }
  return out;
}

void normalise_rows(GlobalEdges& edges) {
  for (std::size_t list = 0; list + 1 < edges.ptr.size(); ++list) {
    const auto begin = static_cast<std::size_t>(edges.ptr[list]);
    const auto end = static_cast<std::size_t>(edges.ptr[list + 1]);
    double sum = 0, magnitude = 0;
    for (std::size_t e = begin; e < end; ++e) {
      sum += edges.value[e];
      magnitude += std::abs(edges.value[e]);
    }
    if (std::abs(sum) <= 1e-12 * magnitude) continue;
    for (std::size_t e = begin; e < end; ++e) edges.value[e] /= sum;
  }
}

GlobalEdges stack(std::span<const GlobalEdges* const> groups) {
  require(!groups.empty(), "a stack of relations needs at least one group");
  GlobalEdges out;
  out.rows = groups.front()->rows;
  std::size_t entries = 0;
  for (const GlobalEdges* group : groups) {
    require(group->rows == out.rows, "stacked relations have the same rows");
    out.relations += group->relations;
    entries += group->column.size();
  }
  out.ptr.reserve(static_cast<std::size_t>(out.rows * out.relations) + 1);
  out.column.reserve(entries);
  out.value.reserve(entries);
  out.ptr.push_back(0);
  for (Index i = 0; i < out.rows; ++i)
    for (const GlobalEdges* group : groups)
      for (int k = 0; k < group->relations; ++k) {
        const auto begin = static_cast<std::ptrdiff_t>(group->begin(i, k));
        const auto end = static_cast<std::ptrdiff_t>(group->end(i, k));
        out.column.insert(out.column.end(), group->column.begin() + begin, group->column.begin() + end);
        out.value.insert(out.value.end(), group->value.begin() + begin, group->value.begin() + end);
        out.ptr.push_back(out.entries());
      }
  return out;
}

}  // namespace rossby
