#include "rossby/model/learned_relations.hpp"

#include <algorithm>
#include <string>

#include "rossby/model/stnn/relations.hpp"

namespace rossby {
namespace {

template <class T>
double effective(const Parameter<T>& weight, Index i) {
  return std::clamp(static_cast<double>(weight.stored(i)), 0.0, 1.0);
}

template <class T>
LearnedRelation low_rank(const RelationTerm<T>& term, Index nodes) {
  LearnedRelation relation;
  relation.name = "low_rank";
  const auto row_of = [](const Parameter<T>* factor) {
    return [factor](Index row, std::span<float> values) {
      const auto width = std::ssize(values);
      for (Index c = 0; c < width; ++c)
        values[static_cast<std::size_t>(c)] = static_cast<float>(factor->value[row * width + c]);
    };
  };
  relation.factors.width = term.u->shape[2];
  relation.factors.scale = 1 / static_cast<double>(std::max<Index>(nodes, 1));
  relation.factors.left = row_of(term.u);
  relation.factors.right = row_of(term.v);
  return relation;
}

/// Returns relation k of a dense term.
template <class T>
LearnedRelation dense(const RelationTerm<T>& term, int k, const std::string& name) {
  const Parameter<T>& weight = *term.weight;
  const Index rows = weight.shape[1], n = weight.shape[2];
  LearnedRelation relation;
  relation.name = name;
  if (term.pattern.empty()) {
    relation.all = [&weight, first = k * rows * n, n](Index row, std::span<double> values) {
      for (Index j = 0; j < n; ++j)
        values[static_cast<std::size_t>(j)] = effective(weight, first + row * n + j);
    };
    return relation;
  }
  relation.entries = [&weight, &term, first = k * rows * n, n](Index row, const auto& visit) {
    for (Index j = 0, at = first + row * n; j < n; ++j, ++at)
      if (term.pattern[static_cast<std::size_t>(at)] != 0) visit(j, effective(weight, at));
  };
  return relation;
}

}  // namespace

template <class T>
std::vector<LearnedRelation> Relations<T>::learned() const {
  using Kind = typename RelationTerm<T>::Kind;
  std::vector<LearnedRelation> found;
  for (std::size_t i = 0; i < bank_.terms.size(); ++i) {
    const RelationTerm<T>& term = bank_.terms[i];
    if (term.kind == Kind::low_rank) found.push_back(low_rank(term, bank_.nodes));
    if (!term.weight) continue;
    term.weight->settle_stream();
    const bool refined = edges_[i] || !term.pattern.empty();
    for (int k = 0; k < term.relations; ++k) {
      const std::string name = (refined ? "refined" : "discovered") +
                               (term.relations > 1 ? "_" + std::to_string(k + 1) : std::string());
      if (term.kind == Kind::dense) {
        found.push_back(dense(term, k, name));
        continue;
      }
      LearnedRelation relation;
      if (term.kind == Kind::self) {
        relation.name = "self";
        relation.self = [&weight = *term.weight](Index row) { return effective(weight, row); };
      } else {
        relation.name = name;
        relation.entries = [&weight = *term.weight, &edges = *edges_[i], k](Index row, const auto& visit) {
          for (Index e = edges.begin(row, k); e < edges.end(row, k); ++e)
            visit(edges.column[static_cast<std::size_t>(e)].value, effective(weight, e));
        };
      }
      found.push_back(std::move(relation));
    }
  }
  return found;
}

template std::vector<LearnedRelation> Relations<float>::learned() const;
template std::vector<LearnedRelation> Relations<double>::learned() const;

}  // namespace rossby
