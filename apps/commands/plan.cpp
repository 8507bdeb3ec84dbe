#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/candidates.hpp"
#include "apps/commands.hpp"
#include "apps/planning.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

using Json = nlohmann::ordered_json;

TrainingPlan read_plan(const std::string& run) {
  const std::string file = plan_file_of(run);
  std::ifstream in(file);
  if (!in) user_error("{}: cannot be read; a run has one that was started with rossby train --machine", file);
  const Json json = Json::parse(in, nullptr, false);
  if (json.is_discarded()) user_error("{}: not JSON", file);
  return plan_of(json, file);
}

double error_of(double predicted, double measured) {
  return measured > 0 ? 100 * (predicted / measured - 1) : 0;
}

/// A line a run, then means and worst.
void check(const std::vector<std::string>& runs) {
  fmt::print("{:<28}{:>6}{:>8}{:>12}{:>12}{:>9}{:>13}{:>11}{:>11}{:>9}\n", "run", "ranks", "threads",
             "measured ms", "predicted", "error %", "polynomials %", "waiting ms", "predicted", "memory %");
  double sum = 0, worst = 0, sum_model = 0;
  int count = 0;
  for (const std::string& run : runs) {
    const TrainingPlan plan = read_plan(run);
    if (plan.measured.empty()) user_error("{}: its training has not ended", plan_file_of(run));
    const TrainingPlan::Measured& m = plan.measured.front();
    const Prediction& p = plan.interpolated;
    const double error = error_of(p.step(), m.step), model = error_of(plan.modelled.step(), m.step);
    const std::string memory =
        p.memory_bytes > 0 ? fmt::format("{:.1f}", error_of(p.memory_bytes, m.memory_bytes)) : "-";
    fmt::print("{:<28}{:>6}{:>8}{:>12.3f}{:>12.3f}{:>9.1f}{:>13.1f}{:>11.3f}{:>11.3f}{:>9}\n", run,
               plan.place.ranks, plan.place.threads, 1e3 * m.step, 1e3 * p.step(), error, model,
               1e3 * m.waiting, 1e3 * (p.messages + p.reduction + p.straggler), memory);
    sum += std::abs(error);
    sum_model += std::abs(model);
    worst = std::max(worst, std::abs(error));
    ++count;
  }
  fmt::print("{} run{}: mean error {:.1f} %, worst {:.1f} %; by polynomials {:.1f} %\n", count,
             count == 1 ? "" : "s", sum / count, worst, sum_model / count);
}

}  // namespace

int plan(const Communicator& comm, const PlanTraining& arguments) {
  if (!arguments.check.empty()) {
    agree(comm, [&] {
      if (comm.rank() == 0) check(arguments.check);
    });
    return 0;
  }
  const auto load = [&](const std::vector<std::string>& more) {
    std::vector<std::string> sets = arguments.sets;
    sets.insert(sets.end(), more.begin(), more.end());
    return agree(comm, [&] { return Config::load(arguments.config, sets); });
  };
  const auto show = [&](const std::string& text, const Json& json) {
    agree(comm, [&] {
      if (comm.rank() != 0) return;
      if (arguments.output.empty())
        fmt::print("{}", text);
      else
        atomic_write(arguments.output, json.dump(2) + "\n");
    });
  };
  const Config config = load({});
  const MachineProfile profile = agree(comm, [&] { return read_profile(arguments.machine); });
  if (arguments.candidates) {
    const std::vector<Candidate> candidates = plan_candidates(comm, profile, load);
    show(text_of(candidates), {{"format", 1}, {"ranks", comm.size()}, {"candidates", json_of(candidates)}});
    return 0;
  }
  const TrainingPlan plan = plan_training(comm, config, profile);
  show(text_of(plan), json_of(plan));
  return 0;
}

}  // namespace rossby::commands
