#include "rossby/train/config.hpp"

#include <cstdio>

#include <fmt/core.h>

#include "apps/commands.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby::commands {

int print_config(const Communicator& comm, const PrintConfig& arguments) {
  const bool resolve = !arguments.config.empty() || !arguments.sets.empty();
  const Config config = agree(comm, [&] { return Config::load(arguments.config, arguments.sets); });
  agree(comm, [&] {
    if (comm.rank() == 0) fmt::print("{}", resolve ? config.to_toml() : describe_keys(config_keys()));
  });
  return 0;
}

}  // namespace rossby::commands
