#include "rossby/run/calibrate.hpp"

#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {
namespace {

constexpr double busy = 0.15;  // the machine counts as busy if rounds of a training differ by more

int measure(const Communicator& comm, const CalibrateOptions& options) {
  const Calibrated made = calibrate(comm, options);
  if (comm.rank() != 0) return 0;
  const MachineProfile& profile = made.profile;
  fmt::print("measured  {} ranks x {} threads{} in {:.0f} s: {} ops, {} message rounds, {} rates\n",
             comm.size(), made.threads,
             made.device.empty() ? "" : fmt::format(", {} x {}", profile.device.count, profile.device.name),
             made.seconds, profile.ops.size(), profile.messages.size(), profile.rates.size());
  if (options.wants("ops"))
    fmt::print("rounds    of a training differ by {:.0f} % (median){}\n", 100 * made.apart,
               made.apart < busy
                   ? ""
                   : ". The machine is busy with something else, and predictions cannot be better than this "
                     "difference. Measure again with --replace when the machine is idle");
  fmt::print("written   {}\n", options.output);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<CalibrateOptions>();
  CalibrateOptions& a = *arguments;
  auto* c = app.add_subcommand("calibrate", "measure this machine, on all ranks, for 'rossby plan'");
  c->add_option("-o,--output", a.output, "JSON file to write; existing measurements of this machine are kept")
      ->required();
  auto* config = c->add_option(
      "--config", a.configs,
      "configuration (TOML) to measure in addition to the built-in trainings; may be repeated. Without this "
      "option, plans measure missing calls themselves");
  add_settings(*c, a.sets, "set a configuration key of each --config; may be repeated");
  c->get_option("--set")->needs(config);
  c->add_option("--precision", a.precision,
                "precision of the built-in trainings: float or double; on GPUs also tf32 and bf16 (operands "
                "of products are rounded); bf16 with --device none: rounded operands on CPUs")
      ->check(CLI::IsMember({"float", "double", "tf32", "bf16"}));
  c->add_option("--device", a.device,
                "devices to measure in addition to the host: cuda, simulated (for tests), none; auto: GPUs "
                "if there are any")
      ->check(CLI::IsMember({"auto", "none", "cuda", "simulated"}))
      ->capture_default_str();
  c->add_option("--only", a.only,
                "measure only one part: ops, messages or rates of the host, or devices; may be repeated")
      ->check(CLI::IsMember({"ops", "messages", "rates", "device"}));
  c->add_flag("--replace", a.replace, "replace the measurements in the file instead of adding to them");
  c->add_flag("--quick", a.quick, "measure few small cases: a trial run, too rough for predictions");
  choose(*c, chosen, arguments, measure);
}

}  // namespace rossby::commands
