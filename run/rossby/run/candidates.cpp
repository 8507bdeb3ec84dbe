#include "rossby/run/candidates.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "rossby/base/stopwatch.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/mpi_reducer.hpp"
#include "rossby/run/balance.hpp"
#include "rossby/run/device_choice.hpp"
#include "rossby/run/stages.hpp"
#include "rossby/run/stnn_settings.hpp"

namespace rossby {
namespace {

/// Splits at commas outside lists and strings.
std::vector<std::string> separate_values(const std::string& text) {
  std::vector<std::string> values(1);
  int depth = 0;
  bool quoted = false;
  for (const char c : text) {
    quoted ^= c == '"';
    if (!quoted) depth += (c == '[') - (c == ']');
    if (c == ',' && depth <= 0 && !quoted)
      values.emplace_back();
    else
      values.back() += c;
  }
  return values;
}

int rank_count(const std::string& text, const std::string& all) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  constexpr int most = 1 << 20;
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
    user_error("--ranks {} is not a list of whole numbers from 1 to {}. Write a list like 1,2,6 or 1..1024",
               all, most);
  return value;
}

/// Returns the largest batch, over all time groups; 0 means all training steps.
Index batch_of(const Config& config) {
  if (config.windows()) return config.window.batch;
  return config.train.sampling == "pairs" ? config.train.pairs : config.train.slab_steps;
}

/// Plans candidates on the ranks of this job; rank 0 plans for rank counts that the job does not have.
class Planner {
 public:
  Planner(const Communicator& comm, MeasuredMachine& machine, const LoadConfig& load,
          const CandidateSpace& space)
      : comm_(&comm), machine_(&machine), load_(&load), space_(&space) {}

  [[nodiscard]] std::vector<Candidate> all() {
    std::vector<int> counts = space_->ranks;
    if (counts.empty()) counts = {comm_->size()};
    balance(counts);
    for (const int ranks : counts)
      for (int groups = 1; groups <= ranks; ++groups)
        if (ranks % groups == 0)
          for (const auto& stages : stage_settings(ranks / groups)) vary(ranks, groups, stages, 0, {});
    return std::move(candidates_);
  }

 private:
  [[nodiscard]] Config load(const std::vector<std::string>& settings) const {
    if (!space_->ranks.empty()) return (*load_)(settings);
    return agree(*comm_, [&] { return (*load_)(settings); });
  }

  /// Tries all combinations of the values of keys from `key` on.
  void vary(int ranks, int groups, const std::vector<std::string>& stages, std::size_t key,
            const std::vector<std::string>& settings) {
    if (key == keys().size()) return plan(ranks, groups, stages, settings);
    for (const std::string& value : keys()[key].second) {
      // Layers on different stages cannot recompute a time step together.
      if (!stages.empty() && keys()[key].first == "train.recompute" && value == "step") continue;
      std::vector<std::string> more = settings;
      more.push_back(keys()[key].first + "=" + value);
      vary(ranks, groups, stages, key + 1, more);
    }
  }

  /// Keys of the space; also train.recompute and the place of a dense relation, unless the user chose them.
  const std::vector<std::pair<std::string, std::vector<std::string>>>& keys() {
    if (!keys_.empty() || known_) return keys_;
    known_ = true;
    keys_ = space_->vary;
    const Config& config = base();
    const WindowArchitecture* windows = config.windows();
    if (windows && !asked("train.recompute")) {
      auto& modes = keys_.emplace_back("train.recompute", std::vector<std::string>{}).second;
      for (const std::string_view mode : windows->recompute_modes())
        if (mode != "step" || config.parallel.stages <= 1) modes.emplace_back(mode);
    }
    if (!windows && streamable(config) && !asked("relation.memory"))
      keys_.emplace_back("relation.memory", std::vector<std::string>{"resident", "streamed"});
    return keys_;
  }

  void plan(int ranks, int groups, const std::vector<std::string>& stage_settings,
            const std::vector<std::string>& settings) {
    const std::vector<std::string> stages = with_micro_batches(stage_settings, settings);
    Candidate candidate;
    candidate.ranks = ranks;
    candidate.time_groups = groups;
    candidate.settings = {fmt::format("parallel.time_groups={}", groups)};
    candidate.settings.insert(candidate.settings.end(), stages.begin(), stages.end());
    candidate.settings.insert(candidate.settings.end(), settings.begin(), settings.end());
    candidate.varied = fmt::format("{}{}{}", fmt::join(stages, " "),
                                   stages.empty() || settings.empty() ? "" : " ", fmt::join(settings, " "));
    candidates_.push_back(planned(candidate, settings));
    if (balance_.empty() || candidates_.back().row_blocks == 1) return;
    // Equal times of rows and entries may cost more ghosts than they save.
    candidate.settings.push_back(balance_);
    Candidate balanced = planned(candidate, settings);
    if (balanced.fits() &&
        (!candidates_.back().fits() || balanced.compared_seconds() < candidates_.back().compared_seconds()))
      candidates_.back() = std::move(balanced);
  }

  [[nodiscard]] Candidate planned(Candidate candidate, const std::vector<std::string>& settings) {
    const int ranks = candidate.ranks, groups = candidate.time_groups;
    tell_progress(ranks);
    const Config config = load(candidate.settings);
    candidate.stages = static_cast<int>(std::min<Index>(config.parallel.stages, ranks / groups));
    candidate.row_blocks = ranks / groups / candidate.stages;
    candidate.batch = batch_of(config);
    try {
      // The planned batch is at most this large: refuse one that is too small before planning.
      if (static_cast<double>(candidate.batch) < space_->target_batch && candidate.batch > 0)
        check_batch(candidate.batch);
      candidate.plan = space_->ranks.empty()
                           ? plan_training(*comm_, config, *machine_, 0, space_->on_demand)
                           : plan_job(config, *machine_, job_of(config, ranks), whole(settings));
      candidate.batch = candidate.plan->batch;
      check_batch(candidate.batch);
    } catch (const UserError& error) {
      candidate.refused = error.what();  // the same on all ranks
      candidate.plan.reset();
      return candidate;
    }
    candidate.refused = candidate.plan->refused;
    const auto& left_out = candidate.plan->interpolated.left_out;
    // The job may have more ranks than nodes; no user asks for such a plan.
    if (!space_->ranks.empty() && candidate.row_blocks > candidate.plan->nodes)
      candidate.refused =
          fmt::format("{} row blocks for only {} nodes", candidate.row_blocks, candidate.plan->nodes);
    if (!left_out.empty())
      candidate.refused =
          fmt::format("never measured: {}. Run 'rossby calibrate' without --only, on at least two ranks",
                      fmt::join(left_out, ", "));
    return candidate;
  }

  /// Prints a progress line now and then.
  void tell_progress(int ranks) {
    constexpr double now_and_then = 10;
    if (comm_->rank() != 0 || told_.seconds() < now_and_then) return;
    told_.restart();
    fmt::print(stderr, "planning  {} candidates so far, now those of {} rank{}\n", candidates_.size(), ranks,
               ranks == 1 ? "" : "s");
  }

  /// The configuration without further settings.
  const Config& base() {
    if (!base_) base_ = load({});
    return *base_;
  }

  /// True if the user chose it.
  bool asked(const char* name) {
    return base().given(name) ||
           std::any_of(keys().begin(), keys().end(), [&](const auto& key) { return key.first == name; });
  }

  /// Returns no settings, and for layered models the stages that these ranks can form. Layers are balanced by
  /// predicted time. Returns only no settings if the user chose stages.
  std::vector<std::vector<std::string>> stage_settings(int ranks) {
    std::vector<std::vector<std::string>> all{{}};
    if (asked("parallel.stages") || asked("parallel.stage_layers")) return all;
    const Config& config = base();
    const Index layers = layers_for_stages(config);
    for (Index stages = 2; stages <= std::min<Index>(layers, ranks); ++stages)
      for (const auto& layout : ranks % stages == 0 ? stage_layouts(config, layer_seconds(), stages)
                                                    : std::vector<std::vector<Index>>{})
        all.push_back({fmt::format("parallel.stages={}", stages),
                       fmt::format("parallel.stage_layers=[{}]", fmt::join(layout, ","))});
    return all;
  }

  /// Adds micro-batches for four rounds of all stages, unless the user chose them. Skipped with batch
  /// normalisation, which normalises each micro-batch and so changes the model.
  std::vector<std::string> with_micro_batches(std::vector<std::string> stages,
                                              const std::vector<std::string>& settings) {
    constexpr Index rounds = 4;
    if (stages.empty() || asked("window.micro_batches")) return stages;
    if (base().windows() && base().windows()->normalises_batches()) return stages;
    std::vector<std::string> all = stages;
    all.insert(all.end(), settings.begin(), settings.end());
    const Config config = load(all);
    stages.push_back(fmt::format("window.micro_batches={}",
                                 std::min(rounds * config.parallel.stages, config.window.batch)));
    return stages;
  }

  /// Returns the predicted seconds of layers on this machine. Rank 0 computes them for all.
  const std::vector<double>& layer_seconds() {
    if (!layer_seconds_.empty()) return layer_seconds_;
    const Config& config = base();
    layer_seconds_.resize(static_cast<std::size_t>(layers_for_stages(config)));
    const auto predict = [&] {
      if (comm_->rank() == 0)
        layer_seconds_ =
            predict_layers(*machine_, job_of(config, std::max(1, comm_->size())), *load_, whole({}));
    };
    if (!space_->ranks.empty()) {
      predict();
    } else {
      agree(*comm_, predict);
      MpiReducer(*comm_).sum(layer_seconds_);
    }
    return layer_seconds_;
  }

  /// Predicts the costs of rows and entries of the graph on this machine, if the user gave none and there is
  /// something to balance. Rank 0 computes them for all.
  void balance(const std::vector<int>& counts) {
    const Config& config = base();
    if (counts.back() == 1 || asked("parallel.entry_cost") || config.parallel.partition == "blocks") return;
    const auto of_machine = [&]() -> std::string {
      const double cost = predict_entry_cost(*machine_, job_of(config, counts.back()), *load_, whole({}));
      return cost > 0 ? fmt::format("parallel.entry_cost={:.6g}", cost) : "";
    };
    balance_ = !space_->ranks.empty()
                   ? of_machine()
                   : broadcast(*comm_, agree(*comm_, [&] { return comm_->rank() == 0 ? of_machine() : ""; }));
  }

  void check_batch(Index batch) const {
    const double target = space_->target_batch;
    if (target > 0 && std::abs(static_cast<double>(batch) / target - 1) > space_->tolerance)
      user_error("a batch of {} is not within {:.0f} % of --target-batch {:.0f}", batch,
                 100 * space_->tolerance, target);
  }

  [[nodiscard]] Job job_of(const Config& config, int ranks) const {
    Job job;
    job.ranks = ranks;
    job.on_host = space_->on_host;
    if (job.on_host == 0)
      for (const OpSample& sample : machine_->profile.ops) job.on_host = std::max(job.on_host, sample.ranks);
    job.on_host = std::clamp(job.on_host, 1, ranks);
    job.threads = threads_of_job(config, *machine_, job.on_host);
    return job;
  }

  /// The graph of the settings that change it, read and built once.
  WholeGraph& whole(const std::vector<std::string>& settings) {
    std::vector<std::string> of_graph;
    for (const std::string& setting : settings)
      for (const char* table : {"data.", "relation.", "split.", "model."})
        if (setting.starts_with(table)) of_graph.push_back(setting);
    auto& graph = graphs_[of_graph];
    if (!graph) graph = std::make_unique<WholeGraph>((*load_)(of_graph));
    return *graph;
  }

  const Communicator* comm_;
  MeasuredMachine* machine_;
  const LoadConfig* load_;
  const CandidateSpace* space_;
  Stopwatch told_;
  bool known_ = false;
  std::vector<std::pair<std::string, std::vector<std::string>>> keys_;
  std::map<std::vector<std::string>, std::unique_ptr<WholeGraph>> graphs_;
  std::optional<Config> base_;
  std::string balance_;  // a setting, or empty
  std::vector<double> layer_seconds_;
  std::vector<Candidate> candidates_;
};

}  // namespace

double Candidate::epoch_seconds() const {
  return plan ? plan->interpolated.step() * static_cast<double>(plan->interpolated.epoch_steps) : 0;
}

double Candidate::compared_seconds() const {
  return plan ? plan->compared_seconds() : 0;
}

std::pair<std::string, std::vector<std::string>> varied_key(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    user_error("--vary {} is not a key with values. Write KEY=VALUES like window.batch=32,64,128", text);
  const std::string key = text.substr(0, equals);
  if (key == "parallel.time_groups" || key == "parallel.stages")
    user_error("--vary {}: all process grids are compared anyway. Leave this --vary out", text);
  std::vector<std::string> values = separate_values(text.substr(equals + 1));
  const std::set<std::string> unique(values.begin(), values.end());
  if (unique.size() != values.size() || unique.contains(""))
    user_error("--vary {}: a value is empty or given twice. Give each value once", text);
  return {key, std::move(values)};
}

std::vector<int> rank_counts(const std::string& text) {
  std::set<int> counts;
  for (const std::string& part : separate_values(text)) {
    const std::size_t dots = part.find("..");
    if (dots == std::string::npos) {
      counts.insert(rank_count(part, text));
      continue;
    }
    const int first = rank_count(part.substr(0, dots), text), last = rank_count(part.substr(dots + 2), text);
    if (first > last)
      user_error("--ranks {}: {} is above {}. Write the smaller number first", text, first, last);
    for (int power = 1; power <= last; power *= 2)
      if (power >= first) counts.insert(power);
    counts.insert({first, last});
  }
  return {counts.begin(), counts.end()};
}

std::vector<Candidate> plan_candidates(const Communicator& comm, MeasuredMachine& machine,
                                       const LoadConfig& load, const CandidateSpace& space) {
  Planner planner(comm, machine, load, space);
  if (space.ranks.empty()) return planner.all();
  return agree(comm, [&] { return comm.rank() == 0 ? planner.all() : std::vector<Candidate>{}; });
}

const Candidate* fastest(const std::vector<Candidate>& candidates) {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates)
    if (candidate.fits() && (!best || candidate.compared_seconds() < best->compared_seconds()))
      best = &candidate;
  return best;
}

}  // namespace rossby
