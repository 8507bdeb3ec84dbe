#include "rossby/data/step_store.hpp"

#include <algorithm>

namespace rossby {

StepStore::StepStore(Index steps, Index rows, Index features, StepLists held, StepExchange& exchange,
                     bool idle, Index further)
    : rows_(rows),
      features_(features),
      width_(rows * (features + further)),
      held_(std::move(held)),
      exchange_(&exchange),
      idle_(idle),
      at_(static_cast<std::size_t>(steps), nullptr) {
  require(static_cast<int>(held_.size()) == exchange.groups(), "a list of steps for every group");
  const auto count = static_cast<Index>(this->held().size());
  values_ = Buffer<float>((idle ? std::max<Index>(count, 1) : count) * width_);
  place();
}

StepStore::~StepStore() {
  if (on_the_way_) exchange_->end();
}

/// Updates everything derived from held_ and values_.
void StepStore::place() {
  std::fill(at_.begin(), at_.end(), nullptr);
  Index k = 0;
  for (const Index step : held())
    at_[static_cast<std::size_t>(step)] = values_.data() + (idle_ ? 0 : width_ * k++);
  holder_.assign(at_.size(), -1);
  for (std::size_t g = held_.size(); g-- > 0;)
    for (const Index step : held_[g]) holder_[static_cast<std::size_t>(step)] = static_cast<std::int32_t>(g);
  arrived_steps_.clear();
}

int StepStore::holder(Index step) const {
  const int group = holder_[static_cast<std::size_t>(step)];
  require(group >= 0, "a step that some group holds");
  return group;
}

std::vector<Index> StepStore::counted() const {
  std::vector<Index> steps;
  for (const Index step : held())
    if (holder(step) == group()) steps.push_back(step);
  return steps;
}

/// The steps of `wanted` that the group does not hold, by holder, then ascending.
std::vector<Index> StepStore::missing(std::span<const Index> wanted, int group) const {
  const auto& own = held_[static_cast<std::size_t>(group)];
  std::vector<Index> steps;
  for (const Index step : wanted)
    if (!std::binary_search(own.begin(), own.end(), step)) steps.push_back(step);
  std::stable_sort(steps.begin(), steps.end(), [&](Index a, Index b) { return holder(a) < holder(b); });
  return steps;
}

/// Begins the transfer of all missing steps. This group's steps arrive at `to`.
void StepStore::start(const StepLists& wanted, std::span<float> to) {
  std::vector<std::vector<const float*>> outgoing(held_.size());
  std::vector<std::span<float>> incoming(held_.size());
  for (std::size_t g = 0; g < held_.size(); ++g) {
    const auto steps = missing(wanted[g], static_cast<int>(g));
    if (static_cast<int>(g) != group()) {
      for (const Index step : steps)
        if (holder(step) == group()) outgoing[g].push_back(at_[static_cast<std::size_t>(step)]);
      continue;
    }
    std::size_t first = idle_ ? steps.size() : 0;
    while (first < steps.size()) {
      const int from = holder(steps[first]);
      std::size_t last = first;
      while (last < steps.size() && holder(steps[last]) == from) ++last;
      incoming[static_cast<std::size_t>(from)] = to.subspan(
          first * static_cast<std::size_t>(width_), (last - first) * static_cast<std::size_t>(width_));
      first = last;
    }
  }
  exchange_->begin(width_, outgoing, incoming);
}

void StepStore::prefetch(const StepLists& wanted) {
  require(!on_the_way_, "one transfer at a time");
  arriving_steps_ = missing(wanted[static_cast<std::size_t>(group())], group());
  const Index size = static_cast<Index>(arriving_steps_.size()) * width_;
  if (arriving_.size() < size && !idle_) arriving_ = Buffer<float>(size + size / 4);
  start(wanted, arriving_.span());
  on_the_way_ = true;
}

void StepStore::arrive() {
  require(on_the_way_, "something is on its way");
  exchange_->end();
  on_the_way_ = false;
  for (const Index step : arrived_steps_) at_[static_cast<std::size_t>(step)] = nullptr;
  std::swap(arriving_, arrived_);
  std::swap(arriving_steps_, arrived_steps_);
  Index k = 0;
  for (const Index step : arrived_steps_)
    at_[static_cast<std::size_t>(step)] = idle_ ? values_.data() : arrived_.data() + width_ * k++;
}

void StepStore::rearrange(StepLists held) {
  if (on_the_way_) arrive();
  if (held == held_) return;
  if (idle_) {
    start(held, {});
    exchange_->end();
    held_ = std::move(held);
    return place();
  }
  const auto& mine = held[static_cast<std::size_t>(group())];
  const auto steps = missing(mine, group());
  Buffer<float> fetched(static_cast<Index>(steps.size()) * width_);
  start(held, fetched.span());
  exchange_->end();
  for (const Index step : arrived_steps_) at_[static_cast<std::size_t>(step)] = nullptr;
  Index k = 0;
  for (const Index step : steps) at_[static_cast<std::size_t>(step)] = fetched.data() + width_ * k++;
  Buffer<float> values(static_cast<Index>(mine.size()) * width_);
  k = 0;
  for (const Index step : mine) {
    const float* from = at_[static_cast<std::size_t>(step)];
    if (width_ > 0) std::copy_n(from, width_, values.data() + width_ * k);
    ++k;
  }
  held_ = std::move(held);
  values_ = std::move(values);
  place();
}

}  // namespace rossby
