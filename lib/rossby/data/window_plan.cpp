#include <algorithm>
#include <numeric>

#include "rossby/base/user_error.hpp"
#include "rossby/data/windows.hpp"

namespace rossby {
namespace {

/// Deals items to `parts` one by one, from the last part to the first, repeatedly. Returns how many of `size`
/// items, after `earlier` others, go to the parts before `part`. Such cuts are as even for any run of items
/// as for all items.
Index dealt_before(Index earlier, Index size, Index part, Index parts) {
  const auto others = [&](Index count) {
    return count / parts * (parts - part) + std::min(count % parts, parts - part);
  };
  return size - (others(earlier + size) - others(earlier));
}

}  // namespace

WindowPlan::WindowPlan(const WindowOptions& options, std::vector<Index> windows, Index steps)
    : options_(options), windows_(std::move(windows)), observed_(static_cast<std::size_t>(steps)) {
  const Index groups = options_.groups;
  require(options_.batch >= 1 && groups >= 1, "a batch has windows, a grid has groups");
  if (options_.micro_batches < 1 || options_.micro_batches > options_.batch)
    user_error(
        "window.micro_batches = {} is more than the windows of a batch, window.batch = {}. Lower "
        "window.micro_batches",
        options_.micro_batches, options_.batch);
  if (options_.sampling == WindowSampling::local) options_.lanes = groups;
  if (options_.sampling == WindowSampling::global) options_.lanes = 1;
  if (options_.sampling == WindowSampling::blocked && options_.lanes % groups != 0)
    user_error("window.lanes = {} must be a multiple of parallel.time_groups = {}", options_.lanes, groups);
  if (options_.batch % options_.lanes != 0)
    user_error("window.batch = {} must be a multiple of {}, the number of {}", options_.batch, options_.lanes,
               options_.sampling == WindowSampling::local ? "time groups (parallel.time_groups)"
                                                          : "lanes (window.lanes)");
  if (static_cast<Index>(windows_.size()) < options_.lanes)
    user_error(
        "{0} = {1} is too large: each lane needs a training window, but there {2} only {3}. Set "
        "window.sampling = \"global\", or lower {0}, window.inputs, window.outputs or window.stride",
        options_.sampling == WindowSampling::local ? "parallel.time_groups" : "window.lanes", options_.lanes,
        windows_.size() == 1 ? "is" : "are", windows_.size());
  lanes_a_group_ = options_.sampling == WindowSampling::global ? 1 : options_.lanes / groups;
  start_epoch(0);
}

std::vector<Index> WindowPlan::share(Index part, Index parts) const {
  const auto size = static_cast<Index>(windows_.size());
  return {windows_.begin() + size * part / parts, windows_.begin() + size * (part + 1) / parts};
}

std::vector<Index> WindowPlan::lane_windows(Index epoch, Index lane) const {
  if (options_.sampling != WindowSampling::blocked) return share(lane, options_.lanes);
  const Index blocks = options_.lanes * options_.blocks;
  const Permutation dealt(Random(options_.seed, "window blocks").at(static_cast<std::uint64_t>(epoch)),
                          blocks);
  std::vector<Index> windows;
  for (Index k = lane * options_.blocks; k < (lane + 1) * options_.blocks; ++k) {
    const auto block = share(dealt(k), blocks);
    windows.insert(windows.end(), block.begin(), block.end());
  }
  return windows;
}

Index WindowPlan::batches_in(Index epoch) const {
  const Index a_batch = options_.batch / options_.lanes;
  Index longest = 0;
  for (Index lane = 0; lane < options_.lanes; ++lane)
    longest = std::max(longest, static_cast<Index>(lane_windows(epoch, lane).size()));
  return (longest + a_batch - 1) / a_batch;
}

void WindowPlan::start_epoch(Index epoch) {
  const Random order = Random(options_.seed, "windows").at(static_cast<std::uint64_t>(epoch));
  lanes_.clear();
  for (Index lane = 0; lane < options_.lanes; ++lane) {
    std::vector<Index> windows = lane_windows(epoch, lane);
    const auto size = static_cast<Index>(windows.size());
    lanes_.push_back({std::move(windows), Permutation(order.at(static_cast<std::uint64_t>(lane)), size)});
  }
  batches_ = batches_in(epoch);
}

std::vector<Index> WindowPlan::runs() const {
  std::vector<Index> firsts;
  std::vector<Index> before, sizes(lanes_.size());
  const Index a_batch = options_.batch / options_.lanes;
  for (Index index = 0; index < batches_; ++index) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane)
      sizes[lane] = std::clamp(lanes_[lane].order.size() - index * a_batch, Index{0}, a_batch);
    if (sizes != before) firsts.push_back(index);
    before = sizes;
  }
  return firsts;
}

// Over all groups together, the windows of a micro-batch do not depend on the number of groups, as those of a
// batch do not. Counts of a micro-batch differ by at most one between groups, and counts of a group by at
// most one between micro-batches.
void WindowPlan::add_micro_batch(Index index, int group, Index micro_batch,
                                 std::vector<Index>& starts) const {
  const Index a_batch = options_.batch / options_.lanes, pieces = options_.micro_batches;
  const bool global = options_.sampling == WindowSampling::global;
  const Index end = global ? 1 : (group + 1) * lanes_a_group_;
  Index before = 0;  // windows of earlier lanes in the batch
  for (Index l = 0; l < end; ++l) {
    const Lane& lane = lanes_[static_cast<std::size_t>(l)];
    const Index begin = std::min(index * a_batch, lane.order.size());
    const Index all = std::min(begin + a_batch, lane.order.size()) - begin;
    Index first = dealt_before(before, all, micro_batch, pieces);
    Index last = dealt_before(before, all, micro_batch + 1, pieces);
    before += all;
    if (global) {
      const Index earlier = first, size = last - first;
      first = earlier + dealt_before(earlier, size, group, options_.groups);
      last = earlier + dealt_before(earlier, size, group + 1, options_.groups);
    } else if (l < group * lanes_a_group_) {
      continue;
    }
    for (Index q = first; q < last; ++q)
      starts.push_back(lane.windows[static_cast<std::size_t>(lane.order(begin + q))]);
  }
}

std::vector<Index> WindowPlan::sizes(Index index) const {
  require(index >= 0 && index < batches_, "a batch of the epoch");
  std::vector<Index> sizes, starts;
  for (int g = 0; g < options_.groups; ++g)
    for (Index piece = 0; piece < options_.micro_batches; ++piece) {
      starts.clear();
      add_micro_batch(index, g, piece, starts);
      sizes.push_back(std::ssize(starts));
    }
  return sizes;
}

void WindowPlan::starts_of(Index index, int group, std::vector<Index>& starts) const {
  require(index >= 0 && index < batches_, "a batch of the epoch");
  starts.clear();
  for (Index piece = 0; piece < options_.micro_batches; ++piece) add_micro_batch(index, group, piece, starts);
}

void WindowPlan::batch(Index index, int group, WindowBatch& batch) const {
  batch.observed = 0;
  batch.of_all.assign(static_cast<std::size_t>(options_.micro_batches), 0);
  for (int g = 0; g < options_.groups; ++g) {
    batch.starts.clear();
    for (Index piece = 0; piece < options_.micro_batches; ++piece) {
      const Index before = std::ssize(batch.starts);
      add_micro_batch(index, g, piece, batch.starts);
      batch.of_all[static_cast<std::size_t>(piece)] += std::ssize(batch.starts) - before;
    }
    batch.observed += observed(batch.starts);
  }
  batch.starts.clear();
  batch.ends.clear();
  for (Index piece = 0; piece < options_.micro_batches; ++piece) {
    add_micro_batch(index, group, piece, batch.starts);
    batch.ends.push_back(std::ssize(batch.starts));
  }
}

double WindowPlan::observed(std::span<const Index> starts) const {
  double sum = 0;
  for (const Index start : starts)
    for (Index h = 0; h < options_.shape.outputs; ++h)
      sum += observed_[static_cast<std::size_t>(start + options_.shape.inputs + h)];
  return sum;
}

std::vector<Index> WindowPlan::steps_of(std::span<const Index> starts) const {
  std::vector<Index> ascending(starts.begin(), starts.end()), steps;
  std::sort(ascending.begin(), ascending.end());
  for (const Index start : ascending)
    for (Index t = steps.empty() ? start : std::max(start, steps.back() + 1);
         t < start + options_.shape.length(); ++t)
      steps.push_back(t);
  return steps;
}

StepLists WindowPlan::steps_of_groups() const {
  StepLists lists;
  for (int g = 0; g < options_.groups; ++g) {
    std::vector<Index> starts;
    if (options_.sampling == WindowSampling::global) {
      starts = share(g, options_.groups);
    } else {
      for (Index lane = g * lanes_a_group_; lane < (g + 1) * lanes_a_group_; ++lane) {
        const auto& windows = lanes_[static_cast<std::size_t>(lane)].windows;
        starts.insert(starts.end(), windows.begin(), windows.end());
      }
    }
    lists.push_back(steps_of(starts));
  }
  return lists;
}

}  // namespace rossby
