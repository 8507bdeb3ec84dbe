#pragma once

#include <string>
#include <vector>

#include "rossby/mpi/domain.hpp"
#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_state.hpp"
#include "rossby/train/config.hpp"

namespace rossby {

struct ProfileOptions;

/// The candidates of `rossby profile --candidates`, which is "all", names of models and of candidates
/// ("gru,stid-small"), or a TOML file with tables [[candidate]]: a name, and settings as in a configuration.
/// Throws UserError if nothing has such a name, or the file is not like that.
[[nodiscard]] std::vector<ProfiledCandidate> candidates_named(const std::string& asked);

/// What `rossby profile` is asked, resolved: the same on every rank.
struct ProfileQuestion {
  std::vector<std::string> base;  // settings of all candidates
  std::vector<ProfiledCandidate> candidates;
  bool has_graph = false;  // base has one: candidates take it
  Index folds = 0;
  Index seed = 1;

  /// The configuration of a candidate's complete training, as `rossby train` takes it.
  [[nodiscard]] Config config_of(const ProfiledCandidate& candidate) const;
  /// The same as it is trained in a profile. `all_ranks`: by a job of several.
  [[nodiscard]] Config config_of(const ProfiledCandidate& candidate, Index fold) const;
  /// Settings of all candidates on a fold, with a model that reads no graph.
  [[nodiscard]] Config base_config(Index fold) const;
  /// All of it, to tell one question from another.
  [[nodiscard]] std::string text(int ranks) const;

 private:
  [[nodiscard]] std::vector<std::string> fold_settings(Index fold) const;
};

/// Resolves the question. Of a configuration, what is said of its model becomes a candidate, "config". Throws
/// UserError on all ranks. Collective.
[[nodiscard]] ProfileQuestion ask(const Communicator& comm, const ProfileOptions& options);

/// Whether a candidate is trained by all ranks: it is asked for, or a step works on so many values that
/// several ranks are of use.
[[nodiscard]] bool for_all_ranks(const Config& config, const Domain& domain);

}  // namespace rossby
