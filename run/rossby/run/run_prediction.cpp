#include "rossby/run/run_prediction.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/host.hpp"
#include "rossby/mpi/watchdog.hpp"
#include "rossby/run/asynchronous_check.hpp"
#include "rossby/run/asynchronous_plan.hpp"
#include "rossby/run/console.hpp"
#include "rossby/run/device_choice.hpp"

namespace rossby {

std::optional<TrainingPlan> predict_run(const Communicator& comm, const Config& config,
                                        const TrainOptions& options, bool resumes) {
  if (options.machine.empty()) return std::nullopt;
  std::optional<TrainingPlan> plan;
  {
    MeasuredMachine machine{agree(comm, [&] { return read_profile(options.machine); })};
    // Decides as the training itself does.
    if (config.parallel.device == "auto" && lacks_gpus(comm)) machine.profile.device = {};
    try {
      OnDemand on_demand{options.machine, seconds_for_training, options.prints};
      plan = plan_training(comm, config, machine, planned_epochs, options.measures ? &on_demand : nullptr);
      if (config.train.updates == "asynchronous")
        plan->asynchronous = plan_asynchronous(*plan, machine.profile, config);
    } catch (const UserError& error) {  // on all ranks
      if (!resumes) throw;
      if (comm.rank() == 0 && options.prints)
        fmt::print("warning   the time was not predicted: {}\n", error.what());
    }
  }
  forget_peak_resident();  // of the plan, so that the training's own is measured
  return plan;
}

void print_prediction(const TrainingPlan& plan) {
  const Prediction& p = plan.interpolated;
  const auto [low, high] = interval_of(p.step(), p.doubt);
  if (plan.asynchronous)
    fmt::print("plan      {}, {} a rank\n", text_of(*plan.asynchronous), bytes_text(p.memory_bytes));
  else
    fmt::print("plan      {:.4g} ms a step ({:.4g} to {:.4g}), {}, {} a rank\n", 1e3 * p.step(), 1e3 * low,
               1e3 * high, duration_text(plan), bytes_text(std::max(p.memory_bytes, p.device_bytes)));
  if (!plan.refused.empty()) fmt::print("warning   does not fit: {}\n", plan.refused);
}

void write_prediction(const std::string& run, const TrainingPlan& plan) {
  atomic_write(plan_file_of(run), json_of(plan).dump(2) + "\n");
}

void compare_prediction(const Communicator& comm, const TrainOptions& options, const std::string& metrics,
                        TrainingPlan plan, const std::function<bool()>& trained_here) {
  const Stage stage(comm, "writing the plan");
  agree(comm, [&] {
    if (comm.rank() != 0 || !trained_here()) return;
    plan.measured = measured_in(metrics);
    if (plan.asynchronous)
      plan.asynchronous_measured = measured_asynchronous(metrics, plan.asynchronous->windows);
    write_prediction(options.run, plan);
    if (plan.measured.empty() || !options.prints) return;
    if (plan.asynchronous) {
      if (plan.asynchronous_measured)
        fmt::print("plan      predicted {}\nplan      measured  {}\n", text_of(*plan.asynchronous),
                   text_of(*plan.asynchronous_measured));
      fmt::print("{}", caveats(plan.interpolated));
      return;
    }
    const double predicted = plan.interpolated.step(), measured = plan.measured.front().step;
    fmt::print("plan      {:.4g} ms a step predicted, {:.4g} measured ({:+.1f} %)\n", 1e3 * predicted,
               1e3 * measured, 100 * (predicted / measured - 1));
    const double validation = plan.interpolated.validation, took = plan.measured.front().validation;
    if (validation > 0 && took > 0)
      fmt::print("plan      {:.4g} ms a validation predicted, {:.4g} measured ({:+.1f} %)\n",
                 1e3 * validation, 1e3 * took, 100 * (validation / took - 1));
    fmt::print("{}", caveats(plan.interpolated));
  });
}

bool lacks_prediction(const Communicator& comm, const Config& asked, const std::string& run,
                      const std::function<bool()>& trained_here) {
  const bool lacks = agree(comm, [&] {
    const std::string settings = run + "/config.toml";
    return comm.rank() == 0 && !std::filesystem::exists(plan_file_of(run)) &&
           std::filesystem::exists(settings) && Config::load(settings, {}).to_toml() == asked.to_toml() &&
           trained_here();
  });
  return !broadcast(comm, lacks ? "yes" : "").empty();
}

}  // namespace rossby
