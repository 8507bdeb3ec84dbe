#include "rossby/run/scaling_report.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "rossby/base/user_error.hpp"
#include "rossby/run/console.hpp"

namespace rossby {
namespace {

using Json = nlohmann::ordered_json;
using Runs = std::vector<const ScalingRun*>;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Returns the keys that have several values among the runs.
std::vector<std::string> differing(const Runs& runs) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : runs.front()->settings)
    if (std::any_of(runs.begin(), runs.end(),
                    [&](const ScalingRun* run) { return run->settings.at(key) != value; }))
      keys.push_back(key);
  return keys;
}

ScalingRow row_of(const Runs& runs) {
  const ScalingRun& first = *runs.front();
  ScalingRow row;
  row.place = first.place;
  row.row_blocks = first.row_blocks;
  row.stages = first.stages;
  row.time_groups = first.time_groups;
  row.nodes = first.nodes;
  row.runs = runs;
  std::vector<double> steps, predicted;
  std::array<double, 5> seconds{};
  double all = 0, waiting = 0;
  for (const ScalingRun* run : runs) {
    const TrainingPlan::Measured& m = run->measured;
    steps.push_back(m.step);
    for (const Prediction& p : run->predicted) predicted.push_back(p.step());
    const std::array<double, 4> parts{m.forward, m.backward, m.optimiser, m.reduction};
    double rest = m.step;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      seconds[i] += parts[i];
      rest -= parts[i];
    }
    // Regions are means over the ranks, the step is rank 0's: the sum of regions may be a little larger.
    seconds[4] += std::max(0.0, rest);
    all += m.step;
    waiting += m.waiting;
    row.memory_bytes = std::max(row.memory_bytes, m.memory_bytes);
  }
  row.step = median(steps);
  row.least = *std::min_element(steps.begin(), steps.end());
  row.most = *std::max_element(steps.begin(), steps.end());
  for (std::size_t i = 0; i < seconds.size(); ++i) row.shares[i] = seconds[i] / all;
  row.waiting = waiting / all;
  if (!predicted.empty()) row.predicted = median(predicted);
  return row;
}

/// Fills in the values of rows that need a comparison with other rows.
void compare(ScalingStudy& study) {
  study.baseline = 0;
  for (std::size_t i = 1; i < study.rows.size(); ++i)
    if (study.rows[i].place.ranks == study.rows[0].place.ranks &&
        study.rows[i].step < study.rows[study.baseline].step)
      study.baseline = i;
  const ScalingRow base = study.rows[study.baseline];
  double sum = 0;
  int count = 0;
  for (ScalingRow& row : study.rows) {
    const double faster = base.step / row.step;
    const double ranks = static_cast<double>(row.place.ranks) / base.place.ranks;
    row.speed_up = study.weak ? ranks * faster : faster;
    row.efficiency = row.speed_up / ranks;
    for (const ScalingRun* run : row.runs)
      for (const Prediction& predicted : run->predicted) {
        sum += std::abs(predicted.step() / run->measured.step - 1);
        ++count;
      }
  }
  if (count > 0) study.prediction_error = sum / count;
}

/// Returns notes without which the runs' times should not be compared.
std::vector<std::string> notes_of(const Runs& runs) {
  std::set<std::string> hardware, versions, unmeasured, left_out;
  Prediction all;
  for (const ScalingRun* run : runs) {
    hardware.insert(run->hardware.empty() ? "unknown" : run->hardware);
    versions.insert(run->version.empty() ? "unknown" : run->version);
    for (const Prediction& p : run->predicted) {
      all.far_share = std::max(all.far_share, p.far_share);
      unmeasured.insert(p.unmeasured.begin(), p.unmeasured.end());
      left_out.insert(p.left_out.begin(), p.left_out.end());
    }
  }
  all.unmeasured.assign(unmeasured.begin(), unmeasured.end());
  all.left_out.assign(left_out.begin(), left_out.end());
  std::vector<std::string> notes;
  if (hardware.size() > 1)
    notes.push_back(fmt::format("runs of several machines: {}", fmt::join(hardware, "; ")));
  if (versions.size() > 1)
    notes.push_back(fmt::format("runs of several versions: {}", fmt::join(versions, "; ")));
  for (const std::string& caveat : caveat_lines(all)) notes.push_back("predictions: " + caveat);
  return notes;
}

ScalingStudy study_of(const Runs& runs, bool weak) {
  // Runs of a row differ by their seeds alone: everything else is in the key.
  using Key = std::tuple<int, int, int, int, int, Index, Settings>;
  std::map<Key, Runs> rows;
  for (const ScalingRun* run : runs)
    rows[{run->place.ranks, run->place.hosts, run->stages, run->time_groups, run->place.threads, run->nodes,
          run->settings}]
        .push_back(run);
  ScalingStudy study;
  study.weak = weak;
  for (const auto& [key, members] : rows) study.rows.push_back(row_of(members));
  compare(study);
  study.notes = notes_of(runs);
  return study;
}

/// Properties that the runs of a study have in common, unlike other studies of their folder.
using Common = std::tuple<Settings, int, Index>;  // fixed settings, threads, nodes (0: they scale)

/// Removes runs with only a first epoch if others have more, because the first epoch is slower.
void leave_out_first_epochs(Runs& runs, std::vector<LeftOut>& left_out) {
  const auto first_alone = [](const ScalingRun* run) { return run->measured.first_epoch; };
  if (std::all_of(runs.begin(), runs.end(), first_alone)) return;
  for (const ScalingRun* run : runs)
    if (first_alone(run))
      left_out.push_back({run->path, "only its first epoch was measured, which other runs leave out"});
  std::erase_if(runs, first_alone);
}

/// Adds the studies in one folder.
void add_studies(const std::string& folder, const Runs& runs, const std::string& kind,
                 ScalingReport& report) {
  StudyFile file;
  if (const auto found = report.runs.studies.find(folder); found != report.runs.studies.end())
    file = found->second;
  if (!file.found) {
    file.weak = kind == "weak";
    file.label = std::filesystem::weakly_canonical(folder).filename().string();
  }
  const std::vector<std::string> keys = differing(runs);
  const std::vector<std::string> scaled = file.found || !file.weak ? file.scaled : keys;
  std::map<Common, Runs> studies;
  for (const ScalingRun* run : runs) {
    Settings fixed;
    for (const std::string& key : keys)
      if (std::find(scaled.begin(), scaled.end(), key) == scaled.end()) fixed[key] = run->settings.at(key);
    studies[{fixed, run->place.threads, file.weak ? 0 : run->nodes}].push_back(run);
  }
  for (auto& [common, members] : studies) leave_out_first_epochs(members, report.runs.left_out);
  std::set<int> threads;
  std::set<Index> nodes;
  for (const auto& [common, members] : studies) {
    threads.insert(std::get<1>(common));
    nodes.insert(std::get<2>(common));
  }
  for (const auto& [common, members] : studies) {
    ScalingStudy study = study_of(members, file.weak);
    study.scaled = scaled;
    study.label = file.label;
    if (studies.size() > 1) {
      for (const auto& [key, value] : std::get<0>(common)) study.label += fmt::format(" {}={}", key, value);
      if (threads.size() > 1) study.label += fmt::format(" {} threads", std::get<1>(common));
      if (nodes.size() > 1) study.label += fmt::format(" {} nodes", std::get<2>(common));
    }
    report.studies.push_back(std::move(study));
  }
}

std::string milliseconds(double seconds) {
  const double ms = 1e3 * seconds;
  return ms < 1     ? fmt::format("{:.4f}", ms)
         : ms < 100 ? fmt::format("{:.3f}", ms)
                    : fmt::format("{:.1f}", ms);
}

std::string row_text(const ScalingStudy& study, const ScalingRow& row) {
  std::string label = one_line(study.label);
  for (std::size_t at = 0; (at = label.find('|', at)) != std::string::npos; at += 2) label.insert(at, "\\");
  std::string text =
      fmt::format("| {} | {} | {} | {} | {} | {} x {}{} | {} | {} | {} |", label,
                  study.weak ? "weak" : "strong", row.place.ranks, row.place.hosts, row.place.threads,
                  row.row_blocks, row.stages > 1 ? fmt::format("{} stages x ", row.stages) : "",
                  row.time_groups, row.nodes, row.runs.size(), milliseconds(row.step));
  text +=
      row.runs.size() > 1 ? fmt::format(" {}–{} |", milliseconds(row.least), milliseconds(row.most)) : " – |";
  text += fmt::format(" {:.2f} | {:.1f} |", row.speed_up, 100 * row.efficiency);
  for (const double share : row.shares) text += fmt::format(" {:.1f} |", 100 * share);
  text += fmt::format(" {:.1f} | {} |", 100 * row.waiting, bytes_text(row.memory_bytes));
  text += row.predicted
              ? fmt::format(" {} | {:+.1f} |\n", milliseconds(*row.predicted), 100 * row.prediction_error())
              : " – | – |\n";
  return text;
}

std::string relative(const ScalingReport& report, const std::string& path) {
  return std::filesystem::path(path).lexically_relative(report.folder).string();
}

}  // namespace

ScalingReport make_scaling_report(const std::string& folder, const std::string& kind) {
  ScalingReport report;
  report.runs = read_scaling_runs(folder);
  report.folder = report.runs.folder;
  std::map<std::string, Runs> folders;
  for (const ScalingRun& run : report.runs.runs) folders[run.folder].push_back(&run);
  for (const auto& [name, runs] : folders) add_studies(name, runs, kind, report);
  if (report.studies.empty())
    user_error(
        "{}: none of the {} runs can be tabulated. For example {}: {}. Repeat these runs, or name another "
        "folder",
        folder, report.runs.left_out.size(), relative(report, report.runs.left_out.front().path),
        report.runs.left_out.front().reason);
  return report;
}

std::string markdown_of(const ScalingReport& report) {
  std::string text =
      "| study | kind | ranks | hosts | threads | row blocks x time groups | nodes | runs | step ms | "
      "min–max | speed-up | efficiency % | forward % | backward % | optimiser % | reduction % | other % | "
      "waiting % | peak memory | predicted ms | error % "
      "|\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
      "---:|\n";
  for (const ScalingStudy& study : report.studies)
    for (const ScalingRow& row : study.rows) text += row_text(study, row);
  text +=
      "\nThe step time is that of the epoch with the median time; the first epoch is left out if there are "
      "others. A row is the median of its runs. Speed-up and efficiency compare the step time tP of a row "
      "with t1, that of the fastest row of the fewest ranks of a study; P is the number of ranks of the row, "
      "divided by the fewest ranks. Strong: t1/tP and t1/(P tP). Weak: P t1/tP and t1/tP. Waiting for other "
      "ranks is part of the regions. Memory is that of the rank that needed most.\n";
  for (const ScalingStudy& study : report.studies)
    if (study.prediction_error)
      text += fmt::format("\n{}: the mean error of the predictions is {:.1f} %.\n", one_line(study.label),
                          100 * *study.prediction_error);
  for (const ScalingStudy& study : report.studies)
    for (const std::string& note : study.notes)
      text += fmt::format("\n{}: {}.\n", one_line(study.label), one_line(note));
  if (!report.runs.left_out.empty()) text += "\nLeft out:\n\n";
  for (const LeftOut& run : report.runs.left_out)
    text += fmt::format("- {}: {}\n", relative(report, run.path), run.reason);
  return text;
}

Json json_of(const ScalingReport& report) {
  const auto percent = [](const std::optional<double>& share) {
    return share ? Json(100 * *share) : Json(nullptr);
  };
  Json json;
  json["format"] = 1;
  json["studies"] = Json::array();
  for (const ScalingStudy& study : report.studies) {
    Json rows = Json::array();
    for (const ScalingRow& row : study.rows) {
      Json shares, runs = Json::array();
      for (std::size_t i = 0; i < row.shares.size(); ++i) shares[scaling_regions[i]] = row.shares[i];
      for (const ScalingRun* run : row.runs)
        runs.push_back({{"run", relative(report, run->path)},
                        {"step_seconds", run->measured.step},
                        {"predicted_step_seconds",
                         run->predicted.empty() ? Json(nullptr) : Json(run->predicted.front().step())}});
      rows.push_back(
          {{"ranks", row.place.ranks},
           {"hosts", row.place.hosts},
           {"threads", row.place.threads},
           {"row_blocks", row.row_blocks},
           {"stages", row.stages},
           {"time_groups", row.time_groups},
           {"nodes", row.nodes},
           {"runs", std::move(runs)},
           {"step_seconds", row.step},
           {"step_seconds_min", row.least},
           {"step_seconds_max", row.most},
           {"speed_up", row.speed_up},
           {"efficiency", row.efficiency},
           {"shares", std::move(shares)},
           {"waiting_share", row.waiting},
           {"peak_rss_bytes", row.memory_bytes},
           {"predicted_step_seconds", row.predicted ? Json(*row.predicted) : Json(nullptr)},
           {"prediction_error_percent", row.predicted ? Json(100 * row.prediction_error()) : Json(nullptr)}});
    }
    json["studies"].push_back({{"label", study.label},
                               {"kind", study.weak ? "weak" : "strong"},
                               {"scaled", study.scaled},
                               {"baseline", study.baseline},
                               {"prediction_error_percent", percent(study.prediction_error)},
                               {"notes", study.notes},
                               {"rows", std::move(rows)}});
  }
  json["left_out"] = Json::array();
  for (const LeftOut& run : report.runs.left_out)
    json["left_out"].push_back({{"run", relative(report, run.path)}, {"reason", run.reason}});
  return json;
}

}  // namespace rossby
