#include "apps/run_files.hpp"

#include <filesystem>

#include "rossby/base/error.hpp"
#include "rossby/mpi/agree.hpp"

namespace rossby {

std::string state_file_of(const std::string& run) {
  return run + "/checkpoints/state.h5";
}

OpenRun open_run(const Communicator& comm, const std::string& path, std::span<const std::string> sets) {
  OpenRun run;
  run.state = state_file_of(path);
  run.config = agree(comm, [&] {
    if (comm.rank() == 0) {
      run.directory = RunDirectory::open(path);
      if (!std::filesystem::exists(run.state))
        user_error("{} has no trained state ({} is missing): train it first", path, run.state);
    }
    const std::string file = path + "/config.toml";
    Config trained = Config::load(file, {});
    Config changed = Config::load(file, sets);
    if (const auto differences = trained.differences(changed); !differences.empty())
      user_error("--set would make another model than the one in {}: {}", path, differences.front());
    return changed;
  });
  agree_same(comm, run.config.to_toml(), "the configuration in " + path);
  return run;
}

}  // namespace rossby
