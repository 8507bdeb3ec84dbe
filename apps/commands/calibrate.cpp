#include "rossby/run/calibrate.hpp"

#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"

namespace rossby::commands {
namespace {

constexpr double busy = 0.15;  // by which rounds of a training differ

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
                   : ": the machine does something else besides, and predictions can be no better; "
                     "measure again with --replace when it is quiet");
  fmt::print("written   {}\n", options.output);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<CalibrateOptions>();
  CalibrateOptions& a = *arguments;
  auto* c = app.add_subcommand("calibrate", "measure this machine, under all ranks, for 'rossby plan'");
  c->add_option("-o,--output", a.output, "file (JSON) to write, or to add to")->required();
  c->add_option("--config", a.configs,
                "a training of yours (TOML) to measure beside the built-in ones; may be repeated");
  c->add_option(
       "--precision", a.precision,
       "of the built-in trainings: float or double; tf32, bf16: float on GPUs whose products are of operands "
       "rounded to that")
      ->check(CLI::IsMember({"float", "double", "tf32", "bf16"}));
  c->add_option(
       "--device", a.device,
       "measured beside the host: cuda, simulated (for tests), none; auto: GPUs, where there are some")
      ->check(CLI::IsMember({"auto", "none", "cuda", "simulated"}))
      ->capture_default_str();
  c->add_option("--only", a.only,
                "measure ops, messages or rates of the host alone, or all of its devices, for example "
                "messages over the "
                "hosts of a network; may be repeated")
      ->check(CLI::IsMember({"ops", "messages", "rates", "device"}));
  c->add_flag("--replace", a.replace, "forget what the file holds, instead of adding to it");
  c->add_flag("--quick", a.quick, "a few small cases for a moment each: to try it out");
  choose(*c, chosen, arguments, measure);
}

}  // namespace rossby::commands
