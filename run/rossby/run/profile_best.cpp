#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/agree.hpp"
#include "rossby/run/profile.hpp"
#include "rossby/run/profile_state.hpp"
#include "rossby/run/train.hpp"

namespace rossby {
namespace {

/// Reads the profile of a directory. Throws UserError if it holds none.
ProfileState read_profile_state(const std::string& directory) {
  const std::string file = profile_file_of(directory);
  if (!std::filesystem::exists(file))
    user_error("{}: contains no profile. Make a profile with 'rossby profile SERIES -o {}'", directory,
               directory);
  return profile_from_text(read_text(file), file);
}

/// Returns the candidates with the smallest expected regret, best first.
std::vector<const ProfiledCandidate*> best_of(const ProfileState& state, Index count) {
  std::vector<const ProfiledCandidate*> all;
  for (const ProfiledCandidate& one : state.candidates)
    if (one.status != ProfiledCandidate::Status::failed && one.chances.predicted > 0) all.push_back(&one);
  if (std::ssize(all) < count)
    user_error("--best {}: the profile has {} candidates that can be trained. Give a smaller number", count,
               all.size());
  std::stable_sort(all.begin(), all.end(),
                   [](const auto* a, const auto* b) { return a->chances.regret < b->chances.regret; });
  all.resize(static_cast<std::size_t>(count));
  return all;
}

}  // namespace

std::string best_config_of(const std::string& directory) {
  if (read_profile_state(directory).choice < 0)
    user_error("{}: the profile has not chosen a candidate yet. Continue this profile with 'rossby profile'",
               directory);
  return directory + "/best.toml";
}

TrainedBest train_best(const Communicator& comm, const std::string& directory, Index count, bool prints) {
  const ProfileState state = agree(comm, [&] { return read_profile_state(directory); });
  const auto best = agree(comm, [&] { return best_of(state, count); });
  TrainedBest trained;
  for (const ProfiledCandidate* one : best) {
    const std::string run = candidate_folder_of(directory, one->name);
    TrainOptions options;
    // Trainings on folds are of other data, so that this one needs its own directory.
    options.run = state.folds > 0 ? run + "/whole" : run;
    options.signals = options.prints = prints;
    const Config config = agree(comm, [&] { return Config::load(run + ".toml", {}); });
    if (prints && comm.rank() == 0) fmt::print("member    {}\n", one->name);
    trained.runs.push_back(options.run);
    if (const Trained end = train(comm, config, options);
        end.result.reason == StopReason::paused && !end.had_ended) {
      trained.paused = true;
      return trained;
    }
  }
  return trained;
}

}  // namespace rossby
