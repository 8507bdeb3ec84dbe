#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/state_summary.hpp"

namespace rossby::commands {
namespace {

struct CheckpointArguments {
  std::string file;
  bool json = false;
};

int inspect_state(const Communicator& comm, const CheckpointArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (arguments.json)
      fmt::print("{}\n", state_summary(arguments.file).dump(2));
    else
      fmt::print("{}", state_summary_text(arguments.file));
  });
  return 0;
}

int verify(const Communicator& comm, const CheckpointArguments& arguments) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const auto arrays = list_state(arguments.file).arrays.size();
    verify_state(arguments.file);
    fmt::print("{}: {} arrays, all checksums are right\n", arguments.file, arrays);
  });
  return 0;
}

}  // namespace

void add_checkpoint(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<CheckpointArguments>();
  CheckpointArguments& a = *arguments;
  auto* k = app.add_subcommand("checkpoint", "inspect and verify checkpoints and state files")
                ->require_subcommand(1);
  auto* i = k->add_subcommand("inspect", "print the contents of a file");
  i->add_option("file", a.file, "checkpoint or state file")->required();
  i->add_flag("--json", a.json, "print JSON instead of text");
  choose(*i, chosen, arguments, inspect_state);
  auto* v = k->add_subcommand("verify", "verify all checksums of a file");
  v->add_option("file", a.file, "checkpoint or state file")->required();
  choose(*v, chosen, arguments, verify);
}

}  // namespace rossby::commands
