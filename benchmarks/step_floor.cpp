#include "benchmarks/step_floor.hpp"

#include <algorithm>

namespace rossby::bench {
namespace {

template <class T>
using Kind = typename RelationTerm<T>::Kind;

struct Sizes {
  double rows, nodes, d, cols;  // cols: steps per slab
  double pairs;                 // of this rank; 0: slabs
  double word;
};

/// Returns the bytes of a parameter's value.
template <class T>
double word_of(const Parameter<T>& parameter) {
  return parameter.in_bf16 ? sizeof(Bf16) : sizeof(T);
}

/// Cost of forward and backward of one term over a slab.
template <class T>
Cost term_over_slab(const RelationTerm<T>& term, const Sizes& s) {
  const double node = s.rows * s.cols * s.d;
  const double layer = 2 * node * s.d * term.relations;
  Cost cost;
  cost.flops = 3 * layer;  // h, dz, dA
  switch (term.kind) {
    case Kind<T>::sparse: {
      const auto entries = static_cast<double>(term.sparse->entries());
      cost.bytes = 2 * (4 + s.word) * entries;
      cost.flops += (term.weight ? 6 : 4) * entries * s.cols * s.d;
      break;
    }
    case Kind<T>::dense: {
      const double entries = term.relations * s.rows * s.nodes;
      cost.bytes = (term.weight ? word_of(*term.weight) : 2 * s.word) * entries;
      cost.flops += (term.weight ? 6 : 4) * entries * s.cols * s.d;
      break;
    }
    case Kind<T>::low_rank: {
      const double factors = 2 * s.rows * static_cast<double>(term.u->shape.back());
      cost.bytes = 2 * s.word * factors;
      cost.flops = 6 * factors * s.cols * s.d;
      break;
    }
    case Kind<T>::self:
      cost.bytes = 2 * s.word * s.rows;
      cost.flops += 6 * node;
      break;
  }
  return cost;
}

/// The same over sampled pairs: only their entries count.
template <class T>
Cost term_over_pairs(const RelationTerm<T>& term, const Sizes& s) {
  Cost cost;
  if (term.kind == Kind<T>::dense) {
    // The optimiser reads a learned row again.
    const double met = s.pairs * s.nodes * term.relations;
    cost.bytes = (term.weight ? 1 : 2) * s.word * met;
    cost.flops = (term.weight ? 6 : 4) * met * s.d + 6 * s.pairs * s.d * s.d * term.relations;
  }
  if (term.kind != Kind<T>::sparse) return cost;
  const double met = s.pairs * static_cast<double>(term.sparse->entries()) / std::max(s.rows, 1.0);
  cost.bytes = met * (2 * (4 + s.word) + 4 * s.word * s.d);
  cost.flops = (term.weight ? 6 : 4) * met * s.d + 6 * s.pairs * s.d * s.d * term.relations;
  return cost;
}

/// Returns the number of a parameter's values that a step of this pass must move.
template <class T>
double touched(const Parameter<T>& parameter, const StepProblem<T>& problem, Pass pass, const Sizes& s) {
  const auto size = static_cast<double>(parameter.size());
  if (!parameter.trained) return 0;
  if (parameter.name == "factors") {
    const auto steps = static_cast<double>(problem.item().steps);
    if (s.pairs > 0) {
      double neighbours = 0;
      for (const auto& term : problem.bank().terms)
        if (term.kind == Kind<T>::sparse)
          neighbours += static_cast<double>(term.sparse->entries()) / std::max(s.rows, 1.0);
        else if (term.kind == Kind<T>::dense)
          neighbours += s.nodes;
      return std::min(size, s.pairs * s.d * (pass == Pass::decoder ? 1 : 2 + neighbours));
    }
    // Targets and their predecessors are two sets of steps that may overlap.
    const double free = 1 - std::min(s.cols / steps, 1.0);
    return size * (1 - (pass == Pass::decoder ? free : free * free));
  }
  if (parameter.placement == Placement::replicated) {
    const bool decoder = parameter.name.starts_with("decoder");
    return decoder == (pass == Pass::decoder) ? size : 0;
  }
  if (pass == Pass::decoder) return 0;
  // Pairs touch only their rows of relations; L1 has a gradient everywhere.
  const bool rows = parameter.placement == Placement::entries || !problem.item().l1;
  if (s.pairs > 0 && rows) return size * std::min(s.pairs / std::max(s.rows, 1.0), 1.0);
  return size;
}

}  // namespace

template <class T>
Work step_work(const StepProblem<T>& problem, Pass pass, const Cost& ops) {
  const StepCase& item = problem.item();
  const RelationBank<T>& bank = problem.bank();
  Sizes s{};
  s.word = sizeof(T);
  s.rows = static_cast<double>(bank.rows);
  s.nodes = static_cast<double>(bank.nodes);
  s.d = static_cast<double>(item.latent);
  s.cols = static_cast<double>(item.per_batch);
  s.pairs = item.pairs ? s.cols * s.rows / s.nodes : 0;

  Cost cost = ops;
  if (pass == Pass::dynamics) {
    for (const auto& term : bank.terms)
      cost += item.pairs ? term_over_pairs(term, s) : term_over_slab(term, s);
    // Reads z and h forward; reads δ, z and dz backward and writes dz. Pairs of dense relations read z at all
    // nodes.
    const bool dense = std::any_of(bank.terms.begin(), bank.terms.end(),
                                   [](const auto& term) { return term.kind == Kind<T>::dense; });
    if (item.pairs && dense) cost.bytes += s.word * s.nodes * static_cast<double>(item.steps) * s.d * 4;
    if (!item.pairs) cost.bytes += s.word * s.rows * s.cols * s.d * (2 + 4);
  }
  Work work{cost.bytes, cost.flops, 0};
  const double arrays = item.beta1 > 0 ? 3 : 2;
  for (const Parameter<T>* parameter : problem.parameters()) {
    work.bytes += 2 * arrays * word_of(*parameter) * touched(*parameter, problem, pass, s);
    work.working_set += arrays * word_of(*parameter) * static_cast<double>(parameter->size());
  }
  return work;
}

template Work step_work(const StepProblem<float>&, Pass, const Cost&);

}  // namespace rossby::bench
