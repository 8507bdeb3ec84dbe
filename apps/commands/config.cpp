#include "rossby/train/config.hpp"

#include <fmt/core.h>

#include "apps/command_line.hpp"
#include "apps/commands.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {
namespace {

struct ConfigArguments {
  std::string config;  // empty: print the table of keys; a file: print its resolved configuration
  std::vector<std::string> sets;
};

int print(const Communicator& comm, const ConfigArguments& arguments) {
  const bool resolve = !arguments.config.empty() || !arguments.sets.empty();
  const Config config = agree(comm, [&] { return Config::load(arguments.config, arguments.sets); });
  agree(comm, [&] {
    if (comm.rank() == 0) fmt::print("{}", resolve ? config.to_toml() : describe_keys(config_keys()));
  });
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Chosen& chosen) {
  const auto arguments = std::make_shared<ConfigArguments>();
  ConfigArguments& a = *arguments;
  auto* c = app.add_subcommand("config", "print every configuration key with default, unit and meaning");
  c->add_option("config", a.config, "print this file with all defaults instead");
  add_settings(*c, a.sets, set_help);
  choose(*c, chosen, arguments, print);
}

}  // namespace rossby::commands
