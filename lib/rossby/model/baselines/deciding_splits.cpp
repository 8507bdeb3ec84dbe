#include "rossby/model/baselines/deciding_splits.hpp"

namespace rossby {

std::vector<Split> deciding_splits(const Split& split, Index folds) {
  const std::vector<Index> training = split.training_steps();
  const Index count = std::ssize(training);
  if (!split.validation.empty() || count < 2) return {split};
  std::vector<Split> splits;
  for (Index k = 0; k < folds; ++k) {
    const Index first = count * k / folds, last = count * (k + 1) / folds;
    if (first == last) continue;
    Split& fold = splits.emplace_back(split);
    fold.validation = {training[static_cast<std::size_t>(first)],
                       training[static_cast<std::size_t>(last - 1)] + 1};
    for (Index i = first; i < last; ++i)
      fold.role[static_cast<std::size_t>(training[static_cast<std::size_t>(i)])] = Role::validation;
    while (!fold.is_training(fold.train.first)) ++fold.train.first;
    while (!fold.is_training(fold.train.last - 1)) --fold.train.last;
  }
  return splits;
}

}  // namespace rossby
