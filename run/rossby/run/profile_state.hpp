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
  Index steps = 0;                                        // trained optimiser steps
  bool ended = false;                                     // its training is complete
  std::vector<CurvePoint> curve;                          // validation errors at the ends of epochs and rungs
  double best = std::numeric_limits<double>::infinity();  // smallest at the end of an epoch
};

/// A forecaster that `rossby profile` compares.
struct ProfiledCandidate {
  enum class Status { waiting, running, dropped, failed };
  std::string name;
  std::string model;
  std::vector<std::string> settings;  // key=value, after those of all candidates
  bool all_ranks = false;             // trained by all ranks together, not beside others
  double expected = 1;                // its final error divided by that of the best, as on other data sets
  Status status = Status::waiting;
  std::string reason;  // why it was dropped or has failed
  CandidateCost cost;  // of one fold, in rank-seconds
  Index epoch_steps = 0;
  double train_seconds = 0;  // measured rank-seconds of steps and validations
  double wall_seconds = 0;   // measured rank-seconds of its starts as a whole
  std::vector<ProfiledFold> folds;
  Chances chances;
  double likely = 0;  // probability that it is the best candidate, baselines aside

  [[nodiscard]] bool in_search() const { return status == Status::running; }
  /// Returns the steps of the fold that is furthest behind.
  [[nodiscard]] Index steps() const;
  [[nodiscard]] bool ended() const;
};

struct ProfiledBaseline {
  std::string name;
  double error = 0;  // in the validation part
  Chances chances;
};

/// Optimiser steps for which each candidate is tried, to find its cost; no rung is shorter.
constexpr Index trial_steps = 4;

/// The state of a profile, as DIR/profile.json holds it.
struct ProfileState {
  std::string question;  // as text: a profile goes on if its question is the same
  std::string data;      // file, as data.file names it
  std::string units;
  Index horizons = 0;
  Index folds = 0;  // 0: the validation part of the split
  Index seed = 1;
  int ranks = 1;
  bool decays = false;  // the learning rate falls towards the end of a training
  bool timed = false;   // the budget is a time: starts count
  std::string budget;   // as given
  double complete = 0;  // rank-seconds of the complete trainings of all candidates,
  double allowed = 0;   // of the budget,
  double planned = 0;   // of the training so far, by the costs measured at the start,
  double measured = 0;  // and as measured
  std::vector<ProfiledBaseline> baselines;
  std::vector<ProfiledCandidate> candidates;
  std::vector<Rung> rungs;
  Index rung = 0;     // the next one
  std::string ended;  // why the search is over; empty: it goes on
  CurveTrust trust;
  Index choice = -1;    // candidate with the smallest expected regret among candidates
  double regret = 0;    // that regret
  Index baseline = -1;  // baseline, if its expected regret among all is smaller than that of any candidate
};

[[nodiscard]] std::string_view to_string(ProfiledCandidate::Status status);

[[nodiscard]] nlohmann::ordered_json to_json(const ProfileState& state);
/// Throws UserError naming `origin` if to_json did not write the text.
[[nodiscard]] ProfileState profile_from_text(const std::string& text, const std::string& origin);

[[nodiscard]] inline std::string profile_file_of(const std::string& directory) {
  return directory + "/profile.json";
}
[[nodiscard]] inline std::string candidate_folder_of(const std::string& directory, const std::string& name) {
  return directory + "/candidates/" + name;
}

/// Predicts the final errors of all forecasters from their curves, and the value of choosing each. Depends on
/// curves, rungs and seed alone.
void predict(ProfileState& state);

/// Returns indices of the candidates that are still in the search, the most likely best one first. A late
/// bloomer with an uncertain error therefore stays before one that is surely worse than the best.
[[nodiscard]] std::vector<Index> ranking(const ProfileState& state);

}  // namespace rossby
