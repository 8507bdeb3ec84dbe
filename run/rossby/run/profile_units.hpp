#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {

/// A training to run: a candidate on a fold, up to a number of optimiser steps.
struct ProfileUnit {
  std::size_t candidate = 0;
  Index fold = 0;
  Index target = 0;
};

/// The result of a unit; the same on every rank.
struct UnitResult {
  std::string error;    // why it failed; empty: it did not
  bool paused = false;  // a signal came first
  ProfiledFold fold;    // without the points of earlier rungs
  CurvePoint reached;   // the end of the rung; error 0: the training ended before
  Index complete_steps = 0;
  double step_seconds = 0;   // of one rank
  double first_seconds = 0;  // extra time of the first step
  double validation_seconds = 0;
  double start_seconds = 0;
  double train_seconds = 0;  // of steps and validations, including that of the rung
  double wall_seconds = 0;
};

/// Trains candidates on the ranks of a communicator. Candidates with `all_ranks` train one after the other on
/// all ranks, the others side by side on one rank each. Results do not depend on who trains what.
class ProfileUnits {
 public:
  /// `comm`, `question` and `directory` must outlive this. `tell` receives lines on rank 0.
  ProfileUnits(const Communicator& comm, const ProfileQuestion& question, const std::string& directory,
               std::function<void(const std::string&)> tell);

  /// Trains units to their targets; if `anew`, from the start. Collective.
  [[nodiscard]] std::vector<UnitResult> train(const std::vector<ProfileUnit>& units,
                                              const ProfileState& state, bool anew);

 private:
  [[nodiscard]] std::vector<int> owners(const std::vector<ProfileUnit>& units,
                                        const ProfileState& state) const;
  [[nodiscard]] UnitResult train_one(const Communicator& comm, const ProfileUnit& unit,
                                     const ProfiledCandidate& candidate, bool anew) const;
  [[nodiscard]] UnitResult shared(const Communicator& comm, const UnitResult& result, int root) const;
  void report(const ProfiledCandidate& candidate, const ProfileUnit& unit, const UnitResult& result);

  const Communicator& comm_;
  const ProfileQuestion& question_;
  const std::string& directory_;
  std::function<void(const std::string&)> tell_;
  Communicator alone_;
};

/// Returns the folder of a candidate's training on a fold.
[[nodiscard]] std::string run_of(const ProfileQuestion& question, const std::string& directory,
                                 const ProfiledCandidate& candidate, Index fold);

}  // namespace rossby
