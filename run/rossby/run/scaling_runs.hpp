#pragma once

#include <map>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// Configuration keys with their values as TOML literals.
using Settings = std::map<std::string, std::string>;

/// A training that has ended, as its own files tell of it.
struct ScalingRun {
  std::string path;
  std::string folder;  // what it lies in: the runs of a study lie together
  Settings settings;   // without keys that leave the work of a step as it is, and without the seed
  Place place;
  int row_blocks = 1;
  int stages = 1;
  int time_groups = 1;
  Index nodes = 0;
  std::string hardware;  // processor and device; empty where an earlier version wrote the run
  std::string version;   // of the program; empty likewise
  TrainingPlan::Measured measured;
  std::vector<Prediction> predicted;  // by its plan.json; one or none
};

/// A run that says nothing about scaling.
struct LeftOut {
  std::string path;
  std::string reason;
};

/// What the runs in a folder are for: its study.json (apps/schemas/study.schema.json), where it has one.
struct StudyFile {
  bool found = false;
  bool weak = false;
  std::string label;
  std::vector<std::string> scaled;  // keys that grow with the ranks
  std::vector<std::string> runs;    // that were started, by their names in the folder
};

struct ScalingRuns {
  std::string folder;            // without ".", and without a slash behind it, as the paths below it
  std::vector<ScalingRun> runs;  // by path
  std::vector<LeftOut> left_out;
  std::map<std::string, StudyFile> studies;  // by folder, of all that have one
};

/// Reads the run directories one and two levels below `folder`. Those with a damaged file are left out, with
/// file and line; so are those that a study.json beside them does not list, and those that it lists and that
/// are not there. Throws UserError where there is no run at all, or a study.json is damaged.
[[nodiscard]] ScalingRuns read_scaling_runs(const std::string& folder);

}  // namespace rossby
