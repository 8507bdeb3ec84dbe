#include <algorithm>
#include <utility>

#include "rossby/autograd/diffusion.hpp"
#include "rossby/base/error.hpp"

namespace rossby {
namespace {

using Levels = std::vector<DiffusionPlan::Level>;

Levels make_levels(int supports, int steps, DiffusionVariant variant) {
  Levels levels;
  const auto term = [supports](int k, int s) { return k == 0 ? 0 : 1 + (k - 1) * supports + s; };
  if (variant != DiffusionVariant::legacy) {
    const bool powers = variant == DiffusionVariant::powers;
    for (int k = 1; k <= steps; ++k) {
      DiffusionPlan::Level level{k == 1 ? 0 : term(k - 1, 0), k == 1 ? 1 : supports, {}};
      for (int s = 0; s < supports; ++s)
        level.products.push_back({s, term(k - 1, s), term(k, s), powers || k == 1 ? -1 : term(k - 2, s)});
      levels.push_back(std::move(level));
    }
    return levels;
  }
  int start = 0;
  for (int s = 0; s < supports; ++s) {
    for (int k = 1; k <= steps; ++k) {
      const int from = k == 1 ? start : term(k - 1, s);
      const int minus = k == 1 ? -1 : k == 2 ? start : term(k - 2, s);
      // The next support starts from a term whose ghosts have just arrived.
      if (!levels.empty() && levels.back().first == from)
        levels.back().products.push_back({s, from, term(k, s), minus});
      else
        levels.push_back({from, 1, {{s, from, term(k, s), minus}}});
    }
    start = steps == 1 ? start : term(steps - 1, s);
  }
  return levels;
}

/// Lists each term's gradient contributions of a level: first the operands of products, then the subtracted
/// terms.
void add_gradients(DiffusionPlan::Level& level) {
  const auto share = [&level](int of, const DiffusionPlan::Share& part) {
    auto& all = level.gradients;
    auto found =
        std::find_if(all.begin(), all.end(), [of](const auto& gradient) { return gradient.of == of; });
    if (found == all.end()) found = all.insert(all.end(), {of, {}});
    found->shares.push_back(part);
  };
  for (const auto& product : level.products)
    share(product.from, {product.support, product.to, product.alpha()});
  for (const auto& product : level.products)
    if (product.minus >= 0) share(product.minus, {-1, product.to, -1.0});
}

}  // namespace

DiffusionPlan::DiffusionPlan(int supports, int orders, DiffusionVariant recursion)
    : steps(orders), variant(recursion) {
  require(supports >= 0 && steps >= 0, "a diffusion has zero or more supports and steps");
  if (supports == 0 || steps == 0) return;
  terms = 1 + supports * steps;
  levels = make_levels(supports, steps, variant);
  for (Level& level : levels) add_gradients(level);
}

}  // namespace rossby
