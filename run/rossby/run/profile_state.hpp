#pragma once

#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "rossby/train/choice.hpp"
#include "rossby/train/halving.hpp"
#include "rossby/train/learning_curve.hpp"

namespace rossby {

/// A candidate's training on one fold, or on the split as it is.
struct ProfiledFold {
  Index steps = 0;                                        // optimiser steps that it was trained for
  bool ended = false;                                     // its training is complete
  std::vector<CurvePoint> curve;                          // validation errors at the ends of epochs and rungs
  double best = std::numeric_limits<double>::infinity();  // of the ends of epochs
};

/// A forecaster that `rossby profile` compares.
struct ProfiledCandidate {
  enum class Status { waiting, running, dropped, failed };
  std::string name;
  std::string model;
  std::vector<std::string> settings;  // key=value, behind those of all candidates
  bool all_ranks = false;             // trained by all ranks together, not beside others
  Status status = Status::waiting;
  std::string reason;  // why it was dropped or has failed
  CandidateCost cost;  // in rank-seconds, of one fold
  Index epoch_steps = 0;
  double train_seconds = 0;  // measured: rank-seconds of steps and validations,
  double wall_seconds = 0;   // and of all that its starts took
  std::vector<ProfiledFold> folds;
  Chances chances;

  [[nodiscard]] bool in_search() const { return status == Status::running; }
  /// Steps of the fold that is furthest behind.
  [[nodiscard]] Index steps() const;
  [[nodiscard]] bool ended() const;
};

struct ProfiledBaseline {
  std::string name;
  double error = 0;  // of the validation part
  Chances chances;
};

/// Optimiser steps that each candidate is tried for, to learn what it costs; no rung is shorter.
constexpr Index trial_steps = 4;

/// What a profile knows, as DIR/profile.json holds it.
struct ProfileState {
  std::string question;  // what is asked, as text: a profile goes on if it is the same
  std::string data;      // file, as data.file names it
  std::string units;
  Index horizons = 0;
  Index folds = 0;  // 0: the validation part of the split
  Index seed = 1;
  int ranks = 1;
  bool decays = false;  // the learning rate falls towards the end of a training
  bool timed = false;   // the budget is a time: starts count
  std::string budget;   // as it was asked for
  double complete = 0;  // rank-seconds of the complete trainings of all candidates,
  double allowed = 0;   // of the budget,
  double planned = 0;   // of what was trained, by the costs that were measured at the start,
  double measured = 0;  // and as it was measured
  std::vector<ProfiledBaseline> baselines;
  std::vector<ProfiledCandidate> candidates;
  std::vector<Rung> rungs;
  Index rung = 0;     // that comes next
  std::string ended;  // why the search is over; empty: it goes on
  CurveTrust trust;
  Index choice = -1;    // candidate with the smallest expected regret among candidates
  double regret = 0;    // that regret
  Index baseline = -1;  // baseline whose expected regret among all is smaller than that of any candidate

  /// What a candidate's training costs on all folds, as the budget counts it.
  [[nodiscard]] CandidateCost counted(const ProfiledCandidate& candidate) const;
};

[[nodiscard]] std::string_view to_string(ProfiledCandidate::Status status);

[[nodiscard]] nlohmann::ordered_json to_json(const ProfileState& state);
/// Throws UserError naming `origin` if the text is not what to_json gives.
[[nodiscard]] ProfileState profile_from_text(const std::string& text, const std::string& origin);

[[nodiscard]] inline std::string profile_file_of(const std::string& directory) {
  return directory + "/profile.json";
}
[[nodiscard]] inline std::string candidate_folder_of(const std::string& directory, const std::string& name) {
  return directory + "/candidates/" + name;
}

/// Predicts the final errors of all forecasters from what their curves show, and what choosing each is worth.
/// A function of curves, rungs and seed alone.
void predict(ProfileState& state);

/// Places of the candidates that are still in the search, the smallest predicted error first.
[[nodiscard]] std::vector<Index> ranking(const ProfileState& state);

}  // namespace rossby
