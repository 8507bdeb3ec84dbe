#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rossby/mpi/environment.hpp"
#include "rossby/run/profile_question.hpp"
#include "rossby/run/profile_state.hpp"

namespace rossby {

/// A training to be done: a candidate on a fold, up to so many optimiser steps.
struct ProfileUnit {
  std::size_t candidate = 0;
  Index fold = 0;
  Index target = 0;
};

/// What came of it; the same on every rank.
struct UnitResult {
  std::string error;    // why it has failed; empty: it has not
  bool paused = false;  // a signal came first
  ProfiledFold fold;    // without the points of earlier rungs
  CurvePoint reached;   // where the rung ends; error 0: the training ended before it
  Index complete_steps = 0;
  double step_seconds = 0;   // of one rank
  double first_seconds = 0;  // by which the first step took longer
  double validation_seconds = 0;
  double start_seconds = 0;
  double train_seconds = 0;  // of its steps, the validations among them and that of the rung
  double wall_seconds = 0;
};

/// Trains candidates on the ranks of a communicator: those of `all_ranks` one after the other on all of them,
/// the others side by side, each on one rank. Who trains what changes no result.
class ProfileUnits {
 public:
  /// `comm`, question and directory outlive it. `tell` gets lines of rank 0.
  ProfileUnits(const Communicator& comm, const ProfileQuestion& question, const std::string& directory,
               std::function<void(const std::string&)> tell);

  /// Trains them to their targets; with `anew` from the start. Collective.
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

/// The folder of a candidate's training on a fold.
[[nodiscard]] std::string run_of(const ProfileQuestion& question, const std::string& directory,
                                 const ProfiledCandidate& candidate, Index fold);

}  // namespace rossby
