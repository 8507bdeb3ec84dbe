#pragma once

#include <map>
#include <string>
#include <vector>

#include "rossby/run/planning.hpp"

namespace rossby {

/// Configuration keys with their values as TOML literals.
using Settings = std::map<std::string, std::string>;

/// A finished training, as its files describe it.
struct ScalingRun {
  std::string path;
  std::string folder;  // parent folder: the runs of a study lie together
  Settings settings;   // without the seed, and without keys that leave the work of a step as it is
  Place place;
  int row_blocks = 1;
  int stages = 1;
  int time_groups = 1;
  Index nodes = 0;
  std::string hardware;  // processor and device; empty: written by an earlier version
  std::string version;   // of the program; empty: written by an earlier version
  TrainingPlan::Measured measured;
  std::vector<Prediction> predicted;  // by its plan.json; one or none
};

/// A run that says nothing about scaling.
struct LeftOut {
  std::string path;
  std::string reason;
};

/// The purpose of the runs in a folder: its study.json (apps/schemas/study.schema.json), if there is one.
struct StudyFile {
  bool found = false;
  bool weak = false;
  std::string label;
  std::vector<std::string> scaled;  // keys that grow with the ranks
  std::vector<std::string> runs;    // names in the folder of the runs that were started
};

struct ScalingRuns {
  std::string folder;            // without "." and without a slash at the end, as in the paths below
  std::vector<ScalingRun> runs;  // by path
  std::vector<LeftOut> left_out;
  std::map<std::string, StudyFile> studies;  // by folder, of all that have one
};

/// Reads the run directories one and two levels below `folder`. Leaves out runs with a damaged file, with
/// file and line. Also leaves out runs that a study.json beside them does not list, and listed runs that do
/// not exist. Throws UserError if there is no run at all, or if a study.json is damaged.
[[nodiscard]] ScalingRuns read_scaling_runs(const std::string& folder);

}  // namespace rossby
