#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/commands.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/plan/op_residuals.hpp"
#include "rossby/plan/what_if.hpp"
#include "rossby/run/candidates.hpp"
#include "rossby/run/planning.hpp"
#include "rossby/tensor/simulated_device.hpp"

namespace rossby::commands {
namespace {

using Json = nlohmann::ordered_json;

TrainingPlan read_plan(const std::string& run) {
  const std::string file = plan_file_of(run);
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    user_error("{}: cannot be read; a run has one that was started with rossby train --machine", file);
  const Json json = Json::parse(read_text(file), nullptr, false);
  if (json.is_discarded()) user_error("{}: not JSON", file);
  return plan_of(json, file);
}

/// That of a training that has ended.
TrainingPlan read_measured(const std::string& run) {
  TrainingPlan plan = read_plan(run);
  if (plan.measured.empty()) user_error("{}: its training has not ended", plan_file_of(run));
  return plan;
}

double error_of(double predicted, double measured) {
  return measured > 0 ? 100 * (predicted / measured - 1) : 0;
}

/// For other ranks, on the way or behind.
double waiting_of(const Prediction& p) {
  return p.messages + p.reduction + p.pipeline + p.straggler;
}

/// Messages and bytes: as they were told, epoch by epoch where that is known, or how far off.
std::string sent_text(const TrainingPlan& plan) {
  const TrainingPlan::Measured& m = plan.measured.front();
  const Prediction& p = plan.interpolated;
  if (p.sent_ranks != plan.place.ranks) return "-";
  const auto off = [](double messages, double bytes, double sent_messages, double sent_bytes) {
    return fmt::format("{:+.2f} % messages, {:+.2f} % bytes", error_of(messages, sent_messages),
                       error_of(bytes, sent_bytes));
  };
  bool equal = true, told = false;
  Traffic predicted, sent;
  for (const auto& [epoch, traffic] : m.sent_epochs)
    if (static_cast<std::size_t>(epoch) < p.sent_epochs.size()) {
      const Traffic& expected = p.sent_epochs[static_cast<std::size_t>(epoch)].sent;
      told = true;
      equal = equal && expected == traffic;
      predicted += expected;
      sent += traffic;
    }
  if (told && equal) return "exact";
  if (told)
    return off(static_cast<double>(predicted.messages), static_cast<double>(predicted.bytes),
               static_cast<double>(sent.messages), static_cast<double>(sent.bytes));
  const auto same = [](double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); };
  if (same(p.sent_messages, m.sent_messages) && same(p.sent_bytes, m.sent_bytes)) return "exact";
  return off(p.sent_messages, p.sent_bytes, m.sent_messages, m.sent_bytes);
}

/// How the times of ops that the machine was measured in are told.
void residuals(const PlanTraining& arguments) {
  const std::vector<OpResiduals> all = residuals_of(read_profile(arguments.machine));
  if (arguments.output.empty())
    fmt::print("{}", text_of(all));
  else
    atomic_write(arguments.output, Json{{"format", 1}, {"residuals", json_of(all)}}.dump(2) + "\n");
}

/// Runs with what was predicted and measured of them, and what is wrong with others.
struct CheckedRuns {
  std::vector<std::string> runs;
  std::vector<TrainingPlan> plans;
  std::vector<std::string> faults;
};

CheckedRuns read_all(const std::vector<std::string>& runs) {
  CheckedRuns all;
  for (const std::string& run : runs) try {
      all.plans.push_back(read_measured(run));
      all.runs.push_back(run);
    } catch (const UserError& error) {
      all.faults.emplace_back(error.what());
    }
  return all;
}

/// A line a run, then means and worst.
void check(const CheckedRuns& all) {
  const auto& [runs, plans, faults] = all;
  fmt::print("{:<28}{:>6}{:>8}{:>12}{:>12}{:>9}{:>13}{:>11}{:>11}{:>9}  {}\n", "run", "ranks", "threads",
             "measured ms", "predicted", "error %", "polynomials %", "waiting ms", "predicted", "memory %",
             "sent");
  double sum = 0, worst = 0, sum_model = 0, validations = 0, worst_validation = 0;
  int count = 0, validated = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& run = runs[i];
    const TrainingPlan& plan = plans[i];
    const TrainingPlan::Measured& m = plan.measured.front();
    const Prediction& p = plan.interpolated;
    const double error = error_of(p.step(), m.step), model = error_of(plan.modelled.step(), m.step);
    const std::string memory = p.device_bytes > 0 && m.device_bytes > 0
                                   ? fmt::format("{:.1f}", error_of(p.device_bytes, m.device_bytes))
                               : p.memory_bytes > 0
                                   ? fmt::format("{:.1f}", error_of(p.memory_bytes, m.memory_bytes))
                                   : "-";
    fmt::print("{:<28}{:>6}{:>8}{:>12.3f}{:>12.3f}{:>9.1f}{:>13.1f}{:>11.3f}{:>11.3f}{:>9}  {}\n", run,
               plan.place.ranks, plan.place.threads, 1e3 * m.step, 1e3 * p.step(), error, model,
               1e3 * m.waiting, 1e3 * waiting_of(p), memory, sent_text(plan));
    sum += std::abs(error);
    sum_model += std::abs(model);
    worst = std::max(worst, std::abs(error));
    ++count;
    if (p.validation == 0 || m.validation == 0) continue;
    const double off = std::abs(error_of(p.validation, m.validation));
    validations += off;
    worst_validation = std::max(worst_validation, off);
    ++validated;
  }
  fmt::print("{} run{}: mean error {:.1f} %, worst {:.1f} %; by polynomials {:.1f} %\n", count,
             count == 1 ? "" : "s", sum / count, worst, sum_model / count);
  if (validated > 0)
    fmt::print("validations of {} run{}: mean error {:.1f} %, worst {:.1f} %\n", validated,
               validated == 1 ? "" : "s", validations / validated, worst_validation);
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (const std::string text = caveats(plans[i].interpolated); !text.empty())
      fmt::print("{}:\n{}", runs[i], text);
}

/// A line a run and region of its step, then the mean errors: what a step misses, it misses there.
void check_regions(const CheckedRuns& checked) {
  const auto& [runs, plans, faults] = checked;
  struct Region {
    const char* name;
    double measured, predicted;
    double error = 0;  // sum of absolute ones
    int count = 0;
  };
  std::vector<Region> sums{
      {"computing", 0, 0}, {"chunks", 0, 0}, {"optimiser", 0, 0}, {"waiting", 0, 0}, {"other", 0, 0}};
  fmt::print("{:<28}{:<12}{:>12}{:>12}{:>9}{:>9}\n", "run", "region", "measured ms", "predicted", "error %",
             "% step");
  const auto line = [](const std::string& run, const Region& r, double error, double step) {
    fmt::print("{:<28}{:<12}{:>12.4f}{:>12.4f}{:>9}{:>9.1f}\n", run, r.name, 1e3 * r.measured,
               1e3 * r.predicted, r.measured > 0 ? fmt::format("{:.1f}", error) : "-",
               step > 0 ? 100 * r.measured / step : 0);
  };
  double steps = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& run = runs[i];
    const TrainingPlan& plan = plans[i];
    const TrainingPlan::Measured& m = plan.measured.front();
    const Prediction& p = plan.interpolated;
    // Waiting is part of the others; most of it is in forward, backward and the reduction, that for chunks in
    // forward and backward.
    const double regions = m.forward + m.backward + m.optimiser + m.reduction;
    const std::vector<Region> of_run{
        {"computing", std::max(0.0, regions - m.optimiser - m.waiting - m.transfer),
         p.forward + p.backward + p.launches},
        {"chunks", m.transfer, p.transfer},
        {"optimiser", m.optimiser, p.optimiser},
        {"waiting", m.waiting, waiting_of(p)},
        {"other", std::max(0.0, m.step - regions), 0}};
    steps += m.step;
    for (std::size_t r = 0; r < of_run.size(); ++r) {
      const double error = error_of(of_run[r].predicted, of_run[r].measured);
      line(run, of_run[r], error, m.step);
      sums[r].measured += of_run[r].measured;
      sums[r].predicted += of_run[r].predicted;
      if (of_run[r].measured <= 0) continue;
      sums[r].error += std::abs(error);
      ++sums[r].count;
    }
  }
  const std::string all = fmt::format("{} run{}, mean |error|", runs.size(), runs.size() == 1 ? "" : "s");
  for (const Region& r : sums) line(all, r, r.count > 0 ? r.error / r.count : 0, steps);
}

/// "2x" or "2": times as fast.
double factor_of(const std::string& text, const std::string& all) {
  const std::string digits = text.ends_with('x') ? text.substr(0, text.size() - 1) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value > 0) || !std::isfinite(value))
    user_error("--what-if {}: \"{}\" is no factor above 0, as 2x", all, text);
  return value;
}

/// What --what-if asks for.
struct WhatIf {
  FasterBy factors;
  std::vector<std::string> settings;
  std::string gpu;  // file of the machine whose devices take the place of these; empty: none
};

WhatIf what_if_of(const std::string& text) {
  WhatIf asked;
  std::istringstream parts(text);
  std::set<std::string> named;
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const std::string name = part.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    // bf16 is of relations, the others are of the model: two keys.
    const std::string key = name == "precision" && value == "bf16" ? "precision=bf16" : name;
    if (!named.insert(key).second) user_error("--what-if {}: {} is given twice", text, key);
    FasterBy& factors = asked.factors;
    if (name == "network")
      factors.network = factor_of(value, text);
    else if (name == "latency")
      factors.latency = factor_of(value, text);
    else if (name == "memory")
      factors.memory = factor_of(value, text);
    else if (name == "compute")
      factors.compute = factor_of(value, text);
    else if (name == "transfer")
      factors.transfer = factor_of(value, text);
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
          "--what-if {}: \"{}\" is none of network=2x, latency=2x, memory=2x, compute=2x, transfer=2x, "
          "precision=float|double|bf16, products=tf32|bf16, gpu=MACHINE.json",
          text, part);
  }
  return asked;
}

/// The machine that is asked about. `asked` then says what trainings there compute on.
MachineProfile other_machine(const MachineProfile& profile, WhatIf& asked) {
  if (asked.gpu.empty()) return what_if(profile, asked.factors);
  const MachineProfile other = read_profile(asked.gpu);
  if (other.device.name.empty()) user_error("--what-if gpu={}: it was measured without a GPU", asked.gpu);
  const bool simulated = other.device.name == simulated_device;
  asked.settings.emplace_back(simulated ? "parallel.device=simulated" : "parallel.device=cuda");
  return what_if(with_devices_of(profile, other), asked.factors);
}

/// What would change nothing is a mistake.
void check_what_if(const PlanTraining& arguments, const WhatIf& asked, const MachineProfile& there) {
  std::vector<std::string> sets = arguments.sets;
  sets.insert(sets.end(), asked.settings.begin(), asked.settings.end());
  const Config config = planned_config(Config::load(arguments.config, sets), there);
  if (config.parallel.products != "model" && config.parallel.device == "cpu" &&
      arguments.what_if.find("products=") != std::string::npos)
    user_error("--what-if {}: only GPUs round operands of products, and this training is planned on CPUs",
               arguments.what_if);
  const bool host = config.parallel.device == "cpu";
  if (asked.factors.transfer != 1 && host)
    user_error("--what-if {}: nothing travels to devices, as this training is planned on CPUs",
               arguments.what_if);
  const auto lacks = [&](const char* kind) {
    return std::none_of(there.rates.begin(), there.rates.end(),
                        [&](const RateSample& rate) { return rate.kind == kind; });
  };
  if ((asked.factors.memory != 1 && lacks(host ? "stream" : "device_stream")) ||
      (asked.factors.compute != 1 && lacks(host ? "gemm" : "device_gemm")))
    user_error(
        "--what-if {}: {} has no rates of memory and products, by which calls are split; measure them with "
        "'rossby calibrate --only {}'",
        arguments.what_if, arguments.machine, host ? "rates" : "device");
}

/// The plan as it is asked for, as text and JSON.
struct Answer {
  std::string text;
  Json json;
  double training = 0;  // seconds, of the fastest; 0: none
};

class Plans {
 public:
  Plans(const Communicator& comm, const PlanTraining& arguments) : comm_(&comm), arguments_(&arguments) {
    agree(comm, [&] {
      if (!arguments.ranks.empty()) space_.ranks = rank_counts(arguments.ranks);
      for (const std::string& text : arguments.vary) {
        auto varied = varied_key(text);
        for (const auto& [key, values] : space_.vary)
          if (key == varied.first)
            user_error("--vary {}: {} is given twice; name all values at once", text, key);
        space_.vary.push_back(std::move(varied));
      }
    });
    space_.on_host = arguments.ranks_per_host;
    space_.target_batch = arguments.target_batch;
    space_.tolerance = arguments.tolerance;
  }

  [[nodiscard]] Answer make(const MeasuredMachine& machine, const std::vector<std::string>& settings) const {
    const auto read = [&](const std::vector<std::string>& more) {
      std::vector<std::string> sets = arguments_->sets;
      sets.insert(sets.end(), settings.begin(), settings.end());
      sets.insert(sets.end(), more.begin(), more.end());
      return Config::load(arguments_->config, sets);
    };
    if (space_.ranks.empty() && !arguments_->candidates && space_.vary.empty() && space_.target_batch == 0) {
      const Config config = agree(*comm_, [&] { return read({}); });
      const TrainingPlan plan = plan_training(*comm_, config, machine);
      return {text_of(plan), json_of(plan), plan.compared_seconds()};
    }
    const std::vector<Candidate> candidates = plan_candidates(*comm_, machine, read, space_);
    const Candidate* best = fastest(candidates);
    Json json{{"format", 1}, {"candidates", json_of(candidates)}};
    return {text_of(candidates), std::move(json), best ? best->compared_seconds() : 0};
  }

 private:
  const Communicator* comm_;
  const PlanTraining* arguments_;
  CandidateSpace space_;
};

}  // namespace

int plan(const Communicator& comm, const PlanTraining& arguments) {
  if (!arguments.check.empty()) {
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      const CheckedRuns runs = read_all(arguments.check);
      if (!runs.runs.empty()) (arguments.regions ? check_regions : check)(runs);
      if (!runs.faults.empty())
        user_error("{}{}", fmt::join(runs.faults, "; "),
                   runs.runs.empty() ? "" : " (the table has the other runs)");
    });
    return 0;
  }
  if (!arguments.output.empty())
    agree(comm, [&] { refuse_to_replace(arguments.output, {arguments.config, arguments.machine}); });
  WhatIf asked = agree(comm, [&] { return what_if_of(arguments.what_if); });
  if (!arguments.output.empty() && !arguments.residuals)
    agree(comm, [&] {
      const Config config = Config::load(arguments.config, arguments.sets);
      refuse_to_replace(arguments.output, {config.data.file, config.relation.file, asked.gpu});
    });
  if (arguments.residuals) {
    agree(comm, [&] {
      if (comm.rank() == 0) residuals(arguments);
    });
    return 0;
  }
  const Plans plans(comm, arguments);
  const MeasuredMachine machine{agree(comm, [&] { return read_profile(arguments.machine); })};
  Answer answer = plans.make(machine, {});
  if (!arguments.what_if.empty()) {
    const MeasuredMachine there{agree(comm, [&] { return other_machine(machine.profile, asked); })};
    agree(comm, [&] { check_what_if(arguments, asked, there.profile); });
    const Answer other = plans.make(there, asked.settings);
    answer.text += fmt::format("\nwhat if {}:\n{}", arguments.what_if, other.text);
    if (answer.training > 0 && other.training > 0)
      answer.text += fmt::format("speed-up: {:.3f}\n", answer.training / other.training);
    answer.json["what_if"] = {{"asked", arguments.what_if},
                              {"speed_up", other.training > 0 ? answer.training / other.training : 0},
                              {"plan", other.json}};
  }
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arguments.output.empty())
      fmt::print("{}", answer.text);
    else
      atomic_write(arguments.output, answer.json.dump(2) + "\n");
  });
  return 0;
}

}  // namespace rossby::commands
