#include "rossby/run/balance.hpp"

#include <algorithm>

namespace rossby {

double predict_entry_cost(const MeasuredMachine& machine, const Job& job,
                          const std::function<Config(const std::vector<std::string>& settings)>& load,
                          WholeGraph& whole) {
  const Config config = load({"parallel.partition=blocks", "parallel.time_groups=1", "parallel.stages=1",
                              "parallel.stage_layers=[]"});
  const std::vector<Index>& entries = whole.node_entries(config);
  if (entries.empty() ||
      std::all_of(entries.begin(), entries.end(), [&](Index count) { return count == entries.front(); }))
    return 0;
  std::vector<OpSample> samples;
  for (const int parts : {8, 16}) {
    const RowPartition blocks = RowPartition::blocks(std::ssize(entries), parts);
    for (int part = 0; part < parts; ++part) {
      if (blocks.size(part) == 0) continue;
      OpSample sample;
      sample.cost.flops = static_cast<double>(blocks.size(part));
      for (const GlobalRow row : blocks.rows_of(part))
        sample.cost.bytes += static_cast<double>(entries[static_cast<std::size_t>(row.value)]);
      const Prediction p = predict_rank(config, machine, {parts, job.on_host, job.threads}, part, whole);
      sample.seconds = p.forward + p.backward + p.optimiser;
      if (sample.seconds > 0) samples.push_back(sample);
    }
  }
  std::vector<const OpSample*> pointers;
  for (const OpSample& sample : samples) pointers.push_back(&sample);
  const OpModel model = fit(pointers);
  // If one of the two alone explains the times, their relative weight is unknown.
  if (model.per_flop <= 0 || model.per_byte <= 0) return 0;
  constexpr double least = 1e-6, most = 1e6;
  return std::clamp(model.per_byte / model.per_flop, least, most);
}

}  // namespace rossby
