#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_state.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

struct ProfileOptions;

/// Returns the candidates of `rossby profile --candidates`: "all", names of models and of candidates
/// ("gru,stid-small"), or a TOML file. Its tables [[candidate]] have a name, and settings as in a
/// configuration. Throws UserError for an unknown name or an invalid file.
[[nodiscard]] std::vector<ProfiledCandidate> candidates_named(const std::string& asked);

/// The resolved question of `rossby profile`; the same on every rank.
struct ProfileQuestion {
  std::vector<std::string> base;  // settings of all candidates
  std::vector<ProfiledCandidate> candidates;
  bool has_graph = false;  // base has a graph, which candidates use
  Index folds = 0;
  Index seed = 1;

  /// Returns the configuration of a candidate's complete training, as `rossby train` takes it.
  [[nodiscard]] Config config_of(const ProfiledCandidate& candidate) const;
  /// Returns the same for a training in a profile; without ProfiledCandidate::all_ranks for one rank.
  [[nodiscard]] Config config_of(const ProfiledCandidate& candidate, Index fold) const;
  /// Returns settings of all candidates on a fold, with a model that reads no graph.
  [[nodiscard]] Config base_config(Index fold) const;
  /// Returns all of the question as text, to compare it with others.
  [[nodiscard]] std::string text(int ranks) const;

 private:
  [[nodiscard]] std::vector<std::string> fold_settings(Index fold) const;
};

/// Resolves the question. A configuration's settings of its model become a candidate, "config". Throws
/// UserError on all ranks. Collective.
[[nodiscard]] ProfileQuestion ask(const Communicator& comm, const ProfileOptions& options);

/// True if a step of the candidate works on so many values that several ranks are of use.
[[nodiscard]] bool for_all_ranks(const Config& config, const Domain& domain);

}  // namespace rossby
