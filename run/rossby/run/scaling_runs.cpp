#include "rossby/run/scaling_runs.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <regex>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "rossby/base/plain_text.hpp"
#include "rossby/base/user_error.hpp"
#include "rossby/io/files.hpp"
#include "rossby/mpi/state_file.hpp"
#include "rossby/run/run_files.hpp"
#include "rossby/train/config.hpp"

namespace rossby {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// True for keys that do not change what a step computes. Ranks, threads and groups belong to the place.
bool leaves_the_step(const std::string& key) {
  for (const char* name : {"train.seed", "train.stop_after", "train.epochs", "train.early_stop",
                           "train.max_seconds", "train.keep", "validation.every", "parallel.time_groups",
                           "parallel.stages", "parallel.threads", "parallel.watchdog_seconds"})
    if (key == name) return true;
  for (const char* table : {"checkpoint.", "evaluate.", "log."})
    if (key.starts_with(table)) return true;
  return false;
}

/// Every key of a run's configuration, resolved anew.
Settings settings_of(const std::string& file) {
  Settings settings;
  std::istringstream text(Config::load(file, {}).to_toml());
  std::string table;
  for (std::string line; std::getline(text, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[')
      table = line.substr(1, line.size() - 2) + ".";
    else if (const auto at = line.find(" = "); at != std::string::npos)
      if (const std::string key = table + line.substr(0, at); !leaves_the_step(key))
        settings[key] = line.substr(at + 3);
  }
  return settings;
}

/// Contents of metrics.jsonl about the whole training.
struct Metrics {
  Index steps = 0;
  bool whole = true;          // its last line is complete
  std::optional<Json> place;  // of all lines
  bool moved = false;         // lines of several places
};

int count_of(const Json& json, const char* name) {
  const Json& value = json.at(name);
  if (!value.is_number_integer() || value < 1 || value > 1'000'000'000)
    user_error("{} is {}", name, value.dump());
  return value.get<int>();
}

/// Returns 1 if a version without stages wrote the line.
int stages_at(const Json& place) {
  return place.contains("stages") ? count_of(place, "stages") : 1;
}

/// True if epochs were trained in the same place, whatever the version: the last one is measured
/// (measured_in).
bool same_place(Json a, Json b) {
  for (Json* place : {&a, &b})
    if (place->is_object()) place->erase("rossby");
  return a == b;
}

/// Checks the fields of a line that measured_in reads.
void check_line(const Json& line) {
  const auto check = [](const Json& json, const char* name) {
    if (!json.at(name).is_number() || !(json.at(name).get<double>() >= 0))
      user_error("{} is {}", name, json.at(name).dump());
  };
  check(line, "steps");
  if (!line.at("steps").is_number_integer()) user_error("steps is {}", line.at("steps").dump());
  if (!line.contains("step_seconds") || !line.contains("sent")) return;  // of an earlier version
  for (const char* name : {"epoch_seconds", "peak_rss_bytes"}) check(line, name);
  if (line.contains("validation_seconds")) check(line, "validation_seconds");
  for (const char* name : {"forward", "backward", "reduction", "optimiser", "waiting"})
    check(line.at("step_seconds"), name);
  for (const char* name : {"messages", "bytes"}) check(line.at("sent"), name);
  if (!line.contains("place")) return;
  const Json& place = line.at("place");
  for (const char* name : {"ranks", "hosts", "threads", "row_blocks", "time_groups"})
    (void)count_of(place, name);
  if (place.at("row_blocks").get<Index>() * stages_at(place) * place.at("time_groups").get<Index>() !=
      place.at("ranks").get<Index>())
    throw UserError("row_blocks x stages x time_groups is not ranks");
  for (const char* name : {"processor", "device", "rossby"})
    if (place.contains(name) && !place.at(name).is_string())
      user_error("{} is {}", name, place.at(name).dump());
}

Metrics read_metrics(const std::string& file) {
  const std::string text = read_text(file);
  Metrics metrics;
  metrics.whole = text.empty() || text.back() == '\n';
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    // A killed run left an incomplete last line; the next start drops it.
    if (in.eof() && !metrics.whole) break;
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object())
      user_error("{}: line {} is not a JSON object. Repeat the run, or remove its folder", file, number);
    try {
      check_line(json);
      metrics.steps = json.at("steps").get<Index>();
      const Json place = json.contains("place") ? json.at("place") : Json();
      metrics.moved = metrics.moved || (metrics.place && !same_place(*metrics.place, place));
      metrics.place = place;
    } catch (const std::exception& error) {
      user_error("{}: 'rossby train' did not write line {}: {}. Repeat the run, or remove its folder", file,
                 number, plain_text(error));
    }
  }
  return metrics;
}

/// Optimiser steps of a training's final state; −1 if it has none.
Index final_steps(const std::string& path, Index& nodes) {
  const std::string file = state_file_of(path);
  if (!fs::exists(file)) return -1;
  const Json json = Json::parse(read_state_metadata(file), nullptr, false);
  const auto number = [&](const char* name) {
    if (!json.is_object() || !json.contains(name) || !json.at(name).is_number_integer())
      user_error("{}: the metadata of this state have no {}. Repeat the run", file, name);
    return json.at(name).get<Index>();
  };
  nodes = number("nodes");
  return number("optimiser_steps");
}

/// Adds the prediction of a run's plan.json, and its place if the metrics do not name it.
void read_plan(ScalingRun& run, bool place_known) {
  const std::string file = plan_file_of(run.path);
  const Json json = Json::parse(read_text(file), nullptr, false);
  if (json.is_discarded()) user_error("{}: the file is damaged: not JSON. Repeat the run", file);
  const TrainingPlan plan = plan_of(json, file);
  if (plan.place.ranks < 1 || plan.place.hosts < 1 || plan.place.time_groups < 1 || plan.place.stages < 1 ||
      plan.place.ranks % (plan.place.time_groups * plan.place.stages) != 0)
    user_error(
        "{}: this process grid is impossible: {} ranks, {} hosts, {} stages, {} time groups. All must be at "
        "least "
        "1, and stages x time groups must divide the ranks. Repeat the run",
        file, plan.place.ranks, plan.place.hosts, plan.place.stages, plan.place.time_groups);
  if (!place_known) {
    run.place = plan.place;
    run.time_groups = plan.place.time_groups;
    run.stages = plan.place.stages;
    run.row_blocks = run.place.ranks / run.time_groups / run.stages;
  }
  // A run that resumed on other ranks without --machine still has its first plan.
  if (plan.place.ranks == run.place.ranks && plan.place.hosts == run.place.hosts &&
      plan.place.threads == run.place.threads && plan.place.time_groups == run.time_groups &&
      plan.place.stages == run.stages)
    run.predicted.push_back(plan.interpolated);
}

/// Returns the path without "." and without a trailing slash.
std::string plain(const fs::path& path) {
  const fs::path normal = path.lexically_normal();
  return (normal.has_filename()        ? normal
          : normal.has_relative_path() ? normal.parent_path()
                                       : normal)
      .string();
}

/// Adds the run in `path`, or the reason for leaving it out.
void read_run(const std::string& path, ScalingRuns& all) {
  const auto leave_out = [&](const char* reason) { all.left_out.push_back({path, reason}); };
  ScalingRun run;
  run.path = path;
  run.folder = plain(fs::path(path) / "..");
  run.settings = settings_of(path + "/config.toml");
  const std::string file = path + "/metrics.jsonl";
  if (!fs::exists(file)) return leave_out("has not ended");
  const Metrics metrics = read_metrics(file);
  if (!metrics.whole || final_steps(path, run.nodes) != metrics.steps) return leave_out("has not ended");
  if (metrics.moved) return leave_out("its epochs were trained on different ranks or machines");
  const bool place_known = metrics.place && !metrics.place->is_null();
  if (place_known) {
    const Json& place = *metrics.place;
    run.place = {count_of(place, "ranks"), count_of(place, "hosts"), count_of(place, "threads")};
    run.row_blocks = count_of(place, "row_blocks");
    run.stages = stages_at(place);
    run.time_groups = count_of(place, "time_groups");
    run.hardware = place.value("processor", "");
    if (place.contains("device")) run.hardware += fmt::format(" with {}", place.value("device", ""));
    run.version = place.value("rossby", "");
  }
  if (fs::exists(plan_file_of(path)))
    read_plan(run, place_known);
  else if (!place_known)
    return leave_out("does not say on how many ranks it was trained: an earlier version wrote it");
  const auto measured = measured_in(file);
  if (measured.empty()) return leave_out("has no epoch with the times of its steps");
  run.measured = measured.front();
  if (!(run.measured.step > 0)) return leave_out("its steps took no time");
  all.runs.push_back(std::move(run));
}

/// Runs and studies below a folder.
struct Found {
  std::vector<std::string> runs;     // by path
  std::vector<std::string> studies;  // folders with a study.json
  std::vector<LeftOut> unreadable;
};

/// Returns why a folder cannot be read; empty if it can.
std::string no_look_into(const fs::path& folder) {
  std::error_code code;
  (void)fs::exists(folder / "config.toml", code);
  if (!code) fs::directory_iterator(folder, code);
  return code ? "cannot be read: " + code.message() : "";
}

/// Finds the run directories up to `levels` below a folder, by name. An unreadable folder is no error: file
/// systems have folders that only root can read.
void find_runs(const std::string& folder, int levels, Found& found) {
  std::error_code code;
  std::vector<fs::path> below;
  if (fs::exists(fs::path(folder) / "study.json", code)) found.studies.push_back(folder);
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    std::error_code of_entry;
    if (entry->is_directory(of_entry)) below.push_back(entry->path());
  }
  std::sort(below.begin(), below.end());
  for (const fs::path& path : below) {
    if (const std::string why = no_look_into(path); !why.empty())
      found.unreadable.push_back({plain(path), why});
    else if (fs::exists(path / "config.toml", code) &&
             (fs::exists(path / "metrics.jsonl", code) || fs::exists(path / "checkpoints", code)))
      found.runs.push_back(plain(path));
    else if (levels > 1)
      find_runs(plain(path), levels - 1, found);
  }
}

/// Compares the runs of a folder with the list in its study.json, if there is one.
void compare_with_list(const std::string& folder, const StudyFile& study, const Found& found,
                       ScalingRuns& all) {
  if (study.runs.empty()) return;
  std::set<std::string> listed;
  for (const std::string& name : study.runs) listed.insert(plain(fs::path(folder) / name));
  // A copy of a run would count as another run. A run with a name that jobs or a driver would use belongs to
  // the study, whoever started it.
  const std::regex usual("ranks-[0-9]+_groups-[0-9]+(_stages-[0-9]+)?_seed-[0-9]+(_repeat-[0-9]+)?");
  const auto foreign = [&](const ScalingRun& run) {
    return run.folder == folder && !listed.contains(run.path) &&
           !std::regex_match(fs::path(run.path).filename().string(), usual);
  };
  for (const ScalingRun& run : all.runs)
    if (foreign(run))
      all.left_out.push_back(
          {run.path, "is not among the runs that study.json lists, and has no name of such a run"});
  std::erase_if(all.runs, foreign);
  std::set<std::string> there(found.runs.begin(), found.runs.end());
  for (const LeftOut& folder_found : found.unreadable) there.insert(folder_found.path);
  std::error_code code;
  for (const std::string& path : listed)
    if (!there.contains(path))
      all.left_out.push_back({path, fs::is_directory(path, code)
                                        ? "has not ended: it has neither metrics.jsonl nor checkpoints"
                                        : "is in study.json, but has left no run directory"});
}

/// Reads a folder's study.json; the result says if there is none.
StudyFile read_study_file(const std::string& folder) {
  const std::string file = folder + "/study.json";
  StudyFile study;
  if (!fs::exists(file)) return study;
  const Json json = Json::parse(read_text(file), nullptr, false);
  try {
    if (!json.is_object()) user_error("not a JSON object");
    if (json.at("format") != 1)
      user_error("the file has format {}, but this version of Rossby reads format 1",
                 json.at("format").dump());
    const std::string kind = json.at("kind");
    if (kind != "strong" && kind != "weak")
      user_error("kind is {}, but must be \"strong\" or \"weak\"", json.at("kind").dump());
    study.weak = kind == "weak";
    study.label = json.at("label").get<std::string>();
    study.scaled = json.at("scaled").get<std::vector<std::string>>();
    for (const Json& run : json.value("runs", Json::array())) study.runs.push_back(run.at("run"));
  } catch (const std::exception& error) {
    user_error("{}: not a study of jobscripts/scaling: {}. Restore this file, or remove it and give --kind",
               file, plain_text(error));
  }
  study.found = true;
  return study;
}

}  // namespace

ScalingRuns read_scaling_runs(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code))
    user_error("{}: no such folder. Give the folder that contains the run directories", folder);
  if (const std::string why = no_look_into(folder); !why.empty()) user_error("{}: {}", folder, why);
  if (fs::exists(folder + "/metrics.jsonl", code))
    user_error("{} is a run directory itself. Give the folder that contains the runs of a study", folder);
  ScalingRuns all;
  all.folder = plain(folder);
  Found found;
  find_runs(all.folder, 2, found);
  for (const std::string& study : found.studies) try {
      all.studies[study] = read_study_file(study);
    } catch (const UserError& error) {
      const bool any = std::any_of(found.runs.begin(), found.runs.end(), [&](const std::string& run) {
        return plain(fs::path(run) / "..") == study;
      });
      if (any) throw;  // the purpose of its runs is unknown
      found.unreadable.push_back({study, error.what()});
    }
  for (const std::string& path : found.runs) try {
      read_run(path, all);
    } catch (const std::exception& error) {  // one of many runs
      all.left_out.push_back({path, error.what()});
    }
  all.left_out.insert(all.left_out.end(), found.unreadable.begin(), found.unreadable.end());
  for (const auto& [path, study] : all.studies) compare_with_list(path, study, found, all);
  if (all.runs.empty() && all.left_out.size() == found.unreadable.size())
    user_error(
        "{}: this folder has no run directory of 'rossby train' (config.toml, metrics.jsonl) one or two "
        "levels down. Give a folder that contains run directories{}",
        folder,
        found.unreadable.empty()
            ? ""
            : fmt::format("; {} {}", found.unreadable.front().path, found.unreadable.front().reason));
  return all;
}

}  // namespace rossby
