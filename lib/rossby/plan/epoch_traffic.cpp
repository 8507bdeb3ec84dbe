#include "rossby/plan/epoch_traffic.hpp"

#include <map>
#include <utility>

#include "rossby/plan/walk.hpp"

namespace rossby {
namespace {

Traffic minus(Traffic a, const Traffic& b) {
  a -= b;
  return a;
}

/// Traffic of steps without the time steps they bring, by the sizes of their batches and their random flags.
template <class T>
class StepTraffic {
 public:
  StepTraffic(Task<T>& task, Walk<T>& walk, const EpochTrafficOptions& options)
      : task_(&task), walk_(&walk), options_(&options) {}

  /// Returns the traffic of a step with batch `index` of the current epoch.
  Traffic of(Index index, const std::vector<bool>& drawn) {
    const std::vector<Index> sizes = task_->sizes(index);
    const Traffic plain = traced(index, sizes, drawn.size(), none);
    Traffic all = plain;
    for (std::size_t flag = 0; flag < drawn.size(); ++flag)
      if (drawn[flag]) all += minus(traced(index, sizes, drawn.size(), flag), plain);
    return all;
  }

 private:
  static constexpr auto none = static_cast<std::size_t>(-1);

  Traffic traced(Index index, const std::vector<Index>& sizes, std::size_t flags, std::size_t flag) {
    const auto [place, is_new] = known_.try_emplace({sizes, flag});
    if (!is_new) return place->second;
    std::vector<bool> drawn(flags, false);
    if (flag != none) drawn[flag] = true;
    task_->fix_drawn(std::move(drawn));
    if (known_.size() == 1) walk_->run(index);  // runs once what only a first step does
    const Traffic before = steps_alone();
    walk_->run(index);
    return place->second = minus(steps_alone(), before);
  }
  [[nodiscard]] Traffic steps_alone() const { return minus(options_->sent(), options_->brought()); }

  Task<T>* task_;
  Walk<T>* walk_;
  const EpochTrafficOptions* options_;
  std::map<std::pair<std::vector<Index>, std::size_t>, Traffic> known_;
};

}  // namespace

template <class T>
std::vector<EpochTraffic> trace_epochs(Task<T>& task, Optimiser<T>& optimiser, Reducer& reducer, double clip,
                                       const Exec& exec, TimeGroups groups, const StepOps& traced,
                                       const EpochTrafficOptions& options) {
  Tape<T> tape(exec);
  Step<T> step(task.parameters(), optimiser, reducer, clip, groups);
  step.allow_ahead();  // as in training
  Walk<T> walk(task, step, tape, optimiser);
  StepTraffic<T> steps(task, walk, options);
  std::vector<EpochTraffic> epochs;
  Index done = 0;
  for (Index epoch = 0; epoch < options.epochs; ++epoch) {
    const Traffic before = options.sent();
    task.start_epoch(epoch);
    EpochTraffic of{task.batches(), minus(options.sent(), before)};
    if (task.sizes(0).empty()) {
      if (traced.steps != traced.epoch_steps) return {};
      of.sent += traced.sent;
      epochs.assign(static_cast<std::size_t>(options.epochs), of);
      return epochs;
    }
    for (Index batch = 0; batch < of.steps; ++batch) {
      of.sent += steps.of(batch, task.drawn(done + batch));
      const Traffic without = options.brought();
      task.bring(batch);
      of.sent += minus(options.brought(), without);
    }
    done += of.steps;
    epochs.push_back(of);
  }
  return epochs;
}

template std::vector<EpochTraffic> trace_epochs(Task<float>&, Optimiser<float>&, Reducer&, double,
                                                const Exec&, TimeGroups, const StepOps&,
                                                const EpochTrafficOptions&);
template std::vector<EpochTraffic> trace_epochs(Task<double>&, Optimiser<double>&, Reducer&, double,
                                                const Exec&, TimeGroups, const StepOps&,
                                                const EpochTrafficOptions&);

}  // namespace rossby
