#include "rossby/run/plan_question.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/io/series_names.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/plan/what_if.hpp"
#include "rossby/run/asynchronous_plan.hpp"
#include "rossby/run/candidates.hpp"
#include "rossby/run/planning.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;

/// Parses a speed-up factor, "2x" or "2".
double factor_of(const std::string& text, const std::string& all) {
  const std::string digits = text.ends_with('x') ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value > 0) || !std::isfinite(value))
    user_error("--what-if {}: \"{}\" is not a factor above 0. Write a factor like 2x", all, text);
  return value;
}

/// What --what-if asks for.
struct WhatIf {
  FasterBy factors;
  std::vector<std::string> settings;
  std::string gpu;  // machine file whose devices replace these; empty: none
};

WhatIf what_if_of(const std::string& text) {
  static const std::map<std::string, double FasterBy::*> factors{{"network", &FasterBy::network},
                                                                 {"latency", &FasterBy::latency},
                                                                 {"memory", &FasterBy::memory},
                                                                 {"compute", &FasterBy::compute},
                                                                 {"transfer", &FasterBy::transfer}};
  WhatIf asked;
  std::istringstream parts(text);
  std::set<std::string> named;
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    // bf16 belongs to relations, other precisions to the model: two keys.
    const std::string key = name == "precision" && value == "bf16" ? "precision=bf16" : name;
    if (!named.insert(key).second)
      user_error("--what-if {}: {} is given twice. Give each name once", text, key);
    if (const auto factor = factors.find(name); factor != factors.end())
      asked.factors.*factor->second = factor_of(value, text);
    else if (name == "gpu" && !value.empty())
      asked.gpu = value;
    else if (name == "products" && (value == "tf32" || value == "bf16"))
      asked.settings.push_back("parallel.products=" + value);
    else if (name == "precision" && value == "bf16")
      asked.settings.emplace_back("relation.precision=bf16");
    else if (name == "precision" && (value == "float" || value == "double"))
      asked.settings.push_back("model.precision=" + value);
    else
      user_error(
          "--what-if {}: \"{}\" is unknown. Use network=2x, latency=2x, memory=2x, compute=2x, transfer=2x, "
          "precision=float|double|bf16, products=tf32|bf16 or gpu=MACHINE.json",
          text, part);
  }
  return asked;
}

/// Returns the machine in question. Sets in `asked` the device of trainings there.
MachineProfile other_machine(const MachineProfile& profile, WhatIf& asked) {
  if (asked.gpu.empty()) return what_if(profile, asked.factors);
  const MachineProfile other = read_profile(asked.gpu);
  if (other.device.name.empty())
    user_error("--what-if gpu={}: this machine was measured without a GPU. Name another machine file",
               asked.gpu);
  const bool simulated = other.device.name == simulated_device;
  asked.settings.emplace_back(simulated ? "parallel.device=simulated" : "parallel.device=cuda");
  return what_if(with_devices_of(profile, other), asked.factors);
}

/// Refuses questions that change nothing: they are mistakes.
void check_what_if(const PlanQuestion& question, const WhatIf& asked, const MachineProfile& there) {
  std::vector<std::string> sets = question.sets;
  sets.insert(sets.end(), asked.settings.begin(), asked.settings.end());
  const Config config = planned_config(Config::load(question.config, sets), there);
  if (config.parallel.products == "tf32" && config.parallel.device == "cpu" &&
      question.what_if.find("products=") != std::string::npos)
    user_error(
        "--what-if {}: only GPUs round the operands of products to TF32, but this training is planned on "
        "CPUs. Leave products=tf32 out",
        question.what_if);
  const bool host = config.parallel.device == "cpu";
  if (asked.factors.transfer != 1 && host)
    user_error(
        "--what-if {}: this training is planned on CPUs, so that nothing is copied to devices. Leave "
        "transfer out",
        question.what_if);
  const auto lacks = [&](const char* kind) {
    return std::none_of(there.rates.begin(), there.rates.end(),
                        [&](const RateSample& rate) { return rate.kind == kind; });
  };
  if ((asked.factors.memory != 1 && lacks(host ? "stream" : "device_stream")) ||
      (asked.factors.compute != 1 && lacks(host ? "gemm" : "device_gemm")))
    user_error(
        "--what-if {}: {} has no rates of memory and matrix products, which the plan needs. Measure these "
        "rates with 'rossby calibrate --only {}'",
        question.what_if, question.machine, host ? "rates" : "device");
}

class Plans {
 public:
  Plans(const Communicator& comm, const PlanQuestion& question) : comm_(&comm), question_(&question) {
    agree(comm, [&] {
      if (!question.ranks.empty()) space_.ranks = rank_counts(question.ranks);
      for (const std::string& text : question.vary) {
        auto varied = varied_key(text);
        for (const auto& [key, values] : space_.vary)
          if (key == varied.first)
            user_error("--vary {}: {} is given twice. Give all values of a key in one --vary", text, key);
        space_.vary.push_back(std::move(varied));
      }
    });
    space_.on_host = question.ranks_per_host;
    space_.tolerance = question.tolerance;
  }

  /// With `measures`, measures calls that the machine file lacks, and adds them to the file.
  [[nodiscard]] PlanAnswer make(MeasuredMachine& machine, const std::vector<std::string>& settings,
                                bool measures) const {
    const auto read = [&](const std::vector<std::string>& more) {
      std::vector<std::string> sets = question_->sets;
      sets.insert(sets.end(), settings.begin(), settings.end());
      sets.insert(sets.end(), more.begin(), more.end());
      return Config::load(question_->config, sets);
    };
    const bool asynchronous = is_asynchronous(read);
    CandidateSpace space = space_;
    if (!asynchronous) space.target_batch = question_->target_batch;
    if (!asynchronous && space_.ranks.empty() && !question_->candidates && space_.vary.empty() &&
        space.target_batch == 0) {
      const Config config = agree(*comm_, [&] { return read({}); });
      OnDemand on_demand{question_->machine, seconds_for_training};
      const TrainingPlan plan = plan_training(*comm_, config, machine, 0, measures ? &on_demand : nullptr);
      return {text_of(plan), json_of(plan), plan.compared_seconds()};
    }
    OnDemand on_demand{question_->machine, seconds_for_candidates};
    if (measures) space.on_demand = &on_demand;
    const std::vector<Candidate> candidates = plan_candidates(*comm_, machine, read, space);
    if (asynchronous) return of_asynchronous(candidates, machine.profile, read);
    const Candidate* best = fastest(candidates);
    Json json{{"format", 1}, {"candidates", json_of(candidates)}};
    return {text_of(candidates), std::move(json), best ? best->compared_seconds() : 0};
  }

 private:
  [[nodiscard]] bool is_asynchronous(const LoadConfig& read) const {
    if (!question_->updates.empty()) return question_->updates == "asynchronous";
    return agree(*comm_, [&] { return read({}).train.updates == "asynchronous"; });
  }

  /// Answers for asynchronous updates, whose windows differ from those of a batch.
  [[nodiscard]] PlanAnswer of_asynchronous(const std::vector<Candidate>& candidates,
                                           const MachineProfile& profile, const LoadConfig& read) const {
    const auto found =
        agree(*comm_, [&] { return asynchronous_candidates(candidates, profile, read, *question_); });
    const int best = fastest(found);
    Json json{{"format", 1}, {"candidates", json_of(candidates, found)}};
    const double seconds = best < 0 ? 0 : found[static_cast<std::size_t>(best)].statistics.epoch_seconds;
    return {text_of(candidates, found), std::move(json), seconds};
  }

  const Communicator* comm_;
  const PlanQuestion* question_;
  CandidateSpace space_;
};

void check_output(const PlanQuestion& question, const WhatIf& asked) {
  const Config config = Config::load(question.config, question.sets);
  std::vector<std::string> inputs = series_names(config.data.file.paths);
  inputs.insert(inputs.end(), {config.relation.file, asked.gpu});
  refuse_to_replace(question.output, inputs);
}

}  // namespace

PlanAnswer answer(const Communicator& comm, const PlanQuestion& question) {
  if (!question.output.empty())
    agree(comm, [&] { refuse_to_replace(question.output, {question.config, question.machine}); });
  WhatIf asked = agree(comm, [&] { return what_if_of(question.what_if); });
  if (!question.output.empty()) agree(comm, [&] { check_output(question, asked); });
  const Plans plans(comm, question);
  MeasuredMachine machine{agree(comm, [&] { return read_profile(question.machine); })};
  PlanAnswer made = plans.make(machine, {}, question.measures);
  if (question.what_if.empty()) return made;
  MeasuredMachine there{agree(comm, [&] { return other_machine(machine.profile, asked); })};
  agree(comm, [&] { check_what_if(question, asked, there.profile); });
  const PlanAnswer other = plans.make(there, asked.settings, false);
  made.text += fmt::format("\nwhat if {}:\n{}", question.what_if, other.text);
  const double speed_up = other.training > 0 ? made.training / other.training : 0;
  if (made.training > 0 && other.training > 0) made.text += fmt::format("speed-up: {:.3f}\n", speed_up);
  made.json["what_if"] = {{"asked", question.what_if}, {"speed_up", speed_up}, {"plan", other.json}};
  return made;
}

}  // namespace rossby
