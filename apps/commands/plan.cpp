#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/plan_check.hpp"
#include "rossby/run/plan_question.hpp"

namespace rossby::commands {
namespace {

struct PlanArguments : PlanQuestion {
  std::vector<std::string> check;  // run directories to compare with their predictions
  bool regions = false;            // show this comparison by region of the step
};

void check_runs(const Communicator& comm, const PlanArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const CheckedRuns runs = read_checked_runs(arguments.check);
    if (!runs.runs.empty()) fmt::print("{}", arguments.regions ? region_table(runs) : check_table(runs));
    if (!runs.faults.empty())
      user_error("{}{}", fmt::join(runs.faults, "; "),
                 runs.runs.empty() ? "" : " (the table has the other runs)");
  });
}

int make_plan(const Communicator& comm, const PlanArguments& arguments) {
  if (!arguments.check.empty()) {
    check_runs(comm, arguments);
    return 0;
  }
  const PlanAnswer found = answer(comm, arguments);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arguments.output.empty())
      fmt::print("{}", found.text);
    else
      atomic_write(arguments.output, found.json.dump(2) + "\n");
  });
  return 0;
}

}  // namespace

void add_plan(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<PlanArguments>();
  PlanArguments& a = *arguments;
  auto* p = app.add_subcommand("plan", "predict time and memory of a training on a measured machine");
  auto* config = p->add_option("config", a.config, "configuration (TOML)");
  auto* machine = p->add_option("--machine", a.machine, "machine file of 'rossby calibrate'");
  auto* output = p->add_option("-o,--output", a.output, "file (JSON) to write");
  auto* candidates = p->add_flag("--candidates", a.candidates,
                                 "compare all process grids, partitions and places of dense relations; for "
                                 "window models also train.recompute and pipeline stages");
  auto* ranks = p->add_option("--ranks", a.ranks,
                              "compare candidates for jobs with these numbers of ranks, which need not run "
                              "now: 1,2,6 or 1..1024 (powers of two)");
  p->add_option("--ranks-per-host", a.ranks_per_host,
                "ranks on each host; default: the most that were measured")
      ->check(CLI::Range(1, 1 << 16))
      ->needs(ranks);
  p->add_option("--vary", a.vary,
                "compare these values of a key, for example window.batch=32,64,128; may be repeated");
  auto* target =
      p->add_option(
           "--target-batch", a.target_batch,
           "exclude candidates whose batch size is far from this number of windows, pairs or slab steps")
          ->check(positive_number());
  p->add_option("--tolerance", a.tolerance, "allowed deviation from --target-batch, as a share of it")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->needs(target);
  p->add_option("--updates", a.updates,
                "updates of the candidates: synchronous or asynchronous (--target-batch then counts the "
                "windows of an update); default: as configured")
      ->check(CLI::IsMember({"synchronous", "asynchronous"}));
  p->add_option("--max-staleness", a.max_staleness,
                "exclude asynchronous candidates whose mean staleness is above this number")
      ->check(positive_number());
  auto* what_if = p->add_option("--what-if", a.what_if,
                                "also plan for a changed machine: factors of network, latency, memory, "
                                "compute or transfer, another precision, or the GPUs of another machine "
                                "file; for example network=2x,memory=2x,precision=bf16,gpu=h200.json");
  auto* check = p->add_option("--check", a.check,
                              "compare the predictions of these run directories with their measurements");
  p->add_flag("--regions", a.regions, "with --check: show the difference of each region of the step")
      ->needs(check);
  add_no_measure(*p, a.measures);
  add_settings(*p, a.sets, "set a configuration key, for example --set model.latent=8; may be repeated");
  check->excludes(config)
      ->excludes(output)
      ->excludes(machine)
      ->excludes(ranks)
      ->excludes(candidates)
      ->excludes(what_if);
  p->callback([&chosen, arguments, config, machine, check, ranks] {
    const PlanArguments& given = *arguments;
    if (!*check && !*config) throw CLI::RequiredError("config or --check");
    if (*ranks && given.ranks.empty())
      throw CLI::ValidationError("--ranks", "write whole numbers like 1,2,6 or 1..1024");
    if (!*check && !*machine) throw CLI::RequiredError("--machine");
    chosen = [arguments](const Communicator& comm) { return make_plan(comm, *arguments); };
  });
}

}  // namespace rossby::commands
