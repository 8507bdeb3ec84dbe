#include "rossby/plan/pipeline.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "rossby/base/error.hpp"

namespace rossby {

Timeline timeline_of(const StepOps& stage, const MachineProfile& profile, const OpTimes& times,
                     const Place& place) {
  const TracedStep& step = stage.in_order;
  if (step.legs.empty()) return {};
  std::vector<double> seconds;  // of one call of each op
  for (const TracedOp& op : step.ops) {
    // A hand-over counts in the leg that ends with it. Work beside the ops follows backward.
    const bool apart = op.beside || op.name == "hand_over" || op.name == "take_over";
    seconds.push_back(apart ? 0
                            : times.seconds(op).seconds + message_seconds(profile, message_round_of(op),
                                                                          place, op.cost.messages,
                                                                          op.cost.message_bytes));
  }
  Timeline timeline;
  for (const TracedLeg& leg : step.legs) {
    Leg& one = timeline.emplace_back();
    for (const auto& [op, calls] : leg.calls)
      one.seconds += static_cast<double>(calls) * seconds[static_cast<std::size_t>(op)];
    one.peer = leg.peer;
    one.sends = leg.sends;
    if (leg.sends) one.message_seconds = message_seconds(profile, "gather", place, 1, leg.bytes);
  }
  return timeline;
}

std::vector<double> pipeline_waits(const std::vector<Timeline>& stages) {
  struct Clock {
    std::size_t next = 0;  // index of the next leg
    double now = 0, busy = 0;
  };
  std::vector<Clock> clocks(stages.size());
  std::map<std::pair<int, int>, std::deque<double>> on_the_way;  // by sender and receiver: times of arrival
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < stages.size(); ++s)
      for (Clock& clock = clocks[s]; clock.next < stages[s].size(); ++clock.next, moved = true) {
        const Leg& leg = stages[s][clock.next];
        const auto self = static_cast<int>(s);
        if (leg.peer >= 0 && !leg.sends) {
          auto& letters = on_the_way[{leg.peer, self}];
          if (letters.empty()) break;
          clock.now = std::max(clock.now + leg.seconds, letters.front());
          letters.pop_front();
          clock.busy += leg.seconds;
          continue;
        }
        clock.now += leg.seconds + leg.message_seconds;
        clock.busy += leg.seconds + leg.message_seconds;
        if (leg.peer >= 0) on_the_way[{self, leg.peer}].push_back(clock.now);
      }
  }
  double end = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    require(clocks[s].next == stages[s].size(), "stages of a pipeline take turns");
    end = std::max(end, clocks[s].now);
  }
  std::vector<double> waits;
  for (const Clock& clock : clocks) waits.push_back(end - clock.busy);
  return waits;
}

}  // namespace rossby
